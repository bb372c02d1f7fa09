package exec

import (
	"kevy/internal/command"
	"kevy/resp"
)

// Atomically locks the whole store, lets fn run commands through do, and
// commits what they changed as one commit. If fn returns an error or panics,
// everything they changed is as it was, in memory and in the log. The replies
// are in s.W; Settle says when the commit is safe.
func (x *Executor) Atomically(s *Session, fn func(do func(args [][]byte)) error) (err error) {
	s.oom = !x.store.MakeRoom()
	if err := x.store.Admit(); err != nil {
		return misconf(err)
	}
	for !x.hold(s, x.all, true) {
		x.store.Set().AwaitReturn()
	}
	s.tx.KeepUndo()
	s.multi.running = true
	start := s.W.Len()
	committed := false
	defer func() {
		s.multi.running = false
		if !committed {
			s.tx.Rollback()
		}
		if lsn, _ := x.end(s); lsn != 0 {
			s.wrote(start, lsn)
		}
	}()
	if err := fn(func(args [][]byte) { x.runHeld(s, args) }); err != nil {
		return err
	}
	committed = true
	return nil
}

// runHeld runs one command on the Tx that is open.
func (x *Executor) runHeld(s *Session, args [][]byte) {
	spec, err := x.resolve(s, args)
	if err == nil && spec.Flags&(command.Unlocked|command.NoMulti) != 0 {
		err = resp.Errorf("ERR", "command '%s' is not allowed inside an update", spec.FullName())
	}
	if err == nil && s.oom && spec.Flags&command.DenyOOM != 0 {
		err = ErrOOM
	}
	if err != nil {
		x.reject(s, spec, args, err)
		return
	}
	x.invoke(s, spec, args, s.tx)
}
