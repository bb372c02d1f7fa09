package exec

import (
	"kevy/internal/command"
)

// Reader is told which keys a session's commands have named that only read. It is
// called under the locks of their shards and must not wait for anything.
type Reader interface {
	// Read is told of a key, which is valid as long as the command that the client has
	// sent. The session's transaction had noted so many changes by then: a key may have
	// changed before it was read, and not since.
	Read(key []byte, changes int)
	// Committed is called once what was changed is in the log and others were told,
	// before anybody else can change what was read.
	Committed()
}

// TellReads says who is told what is read from now on, nil for nobody.
func (s *Session) TellReads(r Reader) { s.reader = r }

// tellRead tells of a command that has run. As in Redis a script reads the keys that it
// was given, with each command in it that only reads: again only if something has
// changed since, or a script that loops would be told of without end.
func (s *Session) tellRead(spec *command.Spec, args [][]byte) {
	if spec.Category == command.CatScripting {
		return
	}
	changes := s.tx.CountChanges()
	if n := s.nested; s.scripting {
		if n.readAt == changes {
			return
		}
		n.readAt = changes
		spec, args = n.ctx.Spec, n.ctx.Args
	}
	// What is no valid list of keys, its handler has answered.
	_ = spec.EachKey(args, func(i int, _ command.KeyFlags) { s.reader.Read(args[i], changes) })
}
