package exec

import (
	"kevy/internal/command"
	"kevy/resp"
)

// ErrOOM answers a command that may need memory when there is none left and none can
// be made.
var ErrOOM = &resp.Error{Code: "OOM", Text: "command not allowed when used memory > 'maxmemory'."}

// RefuseOOM makes room where there is more in memory than maxmemory allows, and
// refuses commands that may need more of it if there is none to be made. Commands that
// only read do not wait for it, but for those of a client that is told which keys go: it
// is told before the reply, as in Redis. Inside EXEC, an update and a script nothing is evicted,
// and nothing refused by this: it is asked before.
func RefuseOOM(s *Session, spec *command.Spec, _ [][]byte) *resp.Error {
	store := s.x.store
	if !store.OverMemory() {
		s.oom = false
		return nil
	}
	if spec.Flags&command.ReadOnly != 0 && !s.multi.open && s.reader == nil {
		store.Relieve()
		return nil
	}
	s.oom = !store.MakeRoom()
	if s.oom && s.mayNeedMemory(spec) {
		return ErrOOM
	}
	return nil
}

// mayNeedMemory reports whether the command may need memory that others have to give:
// by itself, because EXEC runs such a one, or because a transaction is open: what is
// queued in it is as much as a client likes to send.
func (s *Session) mayNeedMemory(spec *command.Spec) bool {
	if !s.multi.open {
		return spec.Flags&command.DenyOOM != 0
	}
	switch spec.Name {
	case "exec":
		return s.multi.flags&command.DenyOOM != 0
	case "discard", "reset", "quit":
		return false
	}
	return true
}

// RefuseOOMInScript refuses what a script calls where its own command was admitted
// although nothing could be evicted: not once the script has written, since it cannot be
// stopped half way then.
func RefuseOOMInScript(s *Session, spec *command.Spec, _ [][]byte) *resp.Error {
	if !s.oom || spec.Flags&command.DenyOOM == 0 {
		return nil
	}
	if o, wrote, ok := s.ScriptOptions(); !ok || wrote || o.AllowOOM {
		return nil
	}
	return ErrOOM
}

// OutOfMemory reports whether there was too much in memory, and nothing could be
// evicted, when the client's command that c is, or is part of, was admitted.
func OutOfMemory(c *command.Ctx) bool { return sessionOf(c).oom }
