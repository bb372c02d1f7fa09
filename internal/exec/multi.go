package exec

import (
	"kevy/internal/command"
	"kevy/resp"
)

// transaction is the state between MULTI and EXEC.
type transaction struct {
	open    bool          // commands are queued
	running bool          // EXEC runs them
	aborted bool          // one was refused: EXEC will be
	flags   command.Flags // of all queued
	tells   bool          // one of them writes, or tells others of something
	queued  []queuedCommand
	bytes   int
}

type queuedCommand struct {
	spec *command.Spec
	args [][]byte
}

// runsInsideMulti reports whether the command acts on an open transaction rather
// than being queued in it.
func runsInsideMulti(spec *command.Spec) bool {
	switch spec.FullName() {
	case "exec", "discard", "multi", "watch", "quit", "reset":
		return true
	}
	return false
}

// queue copies a command for EXEC, which needs none if it is going to fail.
func (s *Session) queue(spec *command.Spec, args [][]byte) {
	s.W.Simple("QUEUED")
	if s.multi.aborted || s.watch.Touched() {
		return
	}
	size := 0
	for _, a := range args {
		size += len(a)
	}
	flat := make([]byte, 0, size)
	kept := make([][]byte, len(args))
	for i, a := range args {
		flat = append(flat, a...)
		kept[i] = flat[len(flat)-len(a) : len(flat) : len(flat)]
	}
	s.multi.queued = append(s.multi.queued, queuedCommand{spec, kept})
	s.multi.flags |= spec.Flags
	s.multi.tells = s.multi.tells || s.MayWrite(spec, args)
	s.multi.bytes += size + len(args)*pointerBytes
}

// Writes reports whether a command, or the transaction that it ends, changes keys by
// itself: a script's command does not, what the script calls does.
func (s *Session) Writes(spec *command.Spec) bool {
	return spec.Flags&command.Write != 0 || spec.Name == "exec" && s.multi.flags&command.Write != 0
}

// MayWrite reports whether a command, or the transaction that it ends, may change
// something, or tell others of something.
func (s *Session) MayWrite(spec *command.Spec, args [][]byte) bool {
	if spec.Name == "exec" && spec.Parent() == nil {
		return s.multi.tells
	}
	return spec.Flags&(command.Write|command.MayReplicate) != 0 && (spec.WritesNothing == nil || !spec.WritesNothing(args))
}

// pointerBytes is what Redis counts for each queued argument beyond its bytes.
const pointerBytes = 8

// discard ends the open transaction, if any, and the watches.
func (s *Session) discard() {
	s.multi = transaction{}
	s.watch.Clear()
}

// QueuedCommands returns how many commands the transaction has, -1 outside
// MULTI.
func (s *Session) QueuedCommands() int {
	if !s.multi.open && !s.multi.running {
		return -1
	}
	return len(s.multi.queued)
}

// QueuedBytes returns what the queued commands occupy.
func (s *Session) QueuedBytes() int { return s.multi.bytes }

// WatchedKeys returns how many keys are watched.
func (s *Session) WatchedKeys() int { return s.watch.Len() }

// WatchedBytes returns what the watched keys occupy.
func (s *Session) WatchedBytes() int { return s.watch.MemBytes() }

// WatchTouched reports whether a watched key has changed, so that EXEC will
// answer null. Any goroutine may ask.
func (s *Session) WatchTouched() bool { return s.watch.Touched() }

// execer is what the transaction commands need of a handler's session.
type execer interface{ Exec() *Session }

func sessionOf(c *command.Ctx) *Session { return c.Session.(execer).Exec() }

// Commands returns the transaction commands.
func Commands() []*command.Spec {
	const flags = command.NoScript | command.Loading | command.Stale | command.Fast | command.AllowBusy
	return []*command.Spec{
		{
			Name: "multi", Arity: 1, Flags: flags | command.Unlocked, Category: command.CatTransaction,
			Group: "transactions", Since: "1.2.0", Complexity: "O(1)",
			Summary: "Starts a transaction: what follows is queued for EXEC.", Run: runMulti,
		},
		{
			Name: "exec", Arity: 1, Flags: command.NoScript | command.Loading | command.Stale | command.SkipSlowlog | command.Unlocked,
			Category: command.CatTransaction, Group: "transactions", Since: "1.2.0", Complexity: "That of the queued commands.",
			Summary: "Runs the queued commands as one commit.", Run: runExec,
		},
		{
			Name: "discard", Arity: 1, Flags: flags | command.Unlocked, Category: command.CatTransaction,
			Group: "transactions", Since: "2.0.0", Complexity: "O(N) for N queued commands",
			Summary: "Drops the queued commands and the watches.", Run: runDiscard,
		},
		{
			Name: "watch", Arity: -2, Flags: flags, Category: command.CatTransaction,
			Keys:  []command.KeySpec{command.Range(1, -1, 1, command.RO)},
			Group: "transactions", Since: "2.2.0", Complexity: "O(1) for every key", Syntax: "key [key ...]",
			Summary: "Makes the next EXEC fail if one of the keys changes before it.", Run: runWatch,
		},
		{
			Name: "unwatch", Arity: 1, Flags: flags | command.Unlocked, Category: command.CatTransaction,
			Group: "transactions", Since: "2.2.0", Complexity: "O(1)",
			Summary: "Forgets the watched keys.", Run: runUnwatch,
		},
	}
}

func runMulti(c *command.Ctx) {
	s := sessionOf(c)
	if s.multi.open {
		c.W.Error(resp.Errorf("ERR", "MULTI calls can not be nested"))
		return
	}
	s.multi = transaction{open: true}
	c.W.OK()
}

func runDiscard(c *command.Ctx) {
	s := sessionOf(c)
	if !s.multi.open {
		c.W.Error(resp.Errorf("ERR", "DISCARD without MULTI"))
		return
	}
	s.discard()
	c.W.OK()
}

func runWatch(c *command.Ctx) {
	s := sessionOf(c)
	if s.multi.open {
		c.W.Error(resp.Errorf("ERR", "WATCH inside MULTI is not allowed"))
		return
	}
	for _, key := range c.Args[1:] {
		if c.Tx != nil {
			c.Tx.Watch(s.watch, key)
		} else if !s.watch.AddLater(s.db, key) {
			c.W.Error(s.x.busy())
			return
		}
	}
	c.W.OK()
}

func runUnwatch(c *command.Ctx) {
	// Inside EXEC the watches are over already, and the shards are locked.
	if s := sessionOf(c); !s.multi.running {
		s.watch.Clear()
	}
	c.W.OK()
}

func runExec(c *command.Ctx) {
	s := sessionOf(c)
	if !s.multi.open {
		s.Show(c.Args)
		c.W.Error(resp.Errorf("ERR", "EXEC without MULTI"))
		return
	}
	if s.multi.aborted {
		s.Show(c.Args)
		s.discard()
		c.W.Error(resp.Errorf("EXECABORT", "Transaction discarded because of previous errors."))
		return
	}
	s.multi.open, s.multi.running = false, true
	if !s.x.runQueued(s, s.multi.queued, c.Args) {
		s.x.reject(s, c.Spec, c.Args, s.x.busy())
		c.ErrorCounted = true
		return
	}
	s.discard()
}

// runQueued runs a transaction under the locks of all its keys and of the
// watched ones, as one commit. args are those of EXEC. It reports false where a
// script has them for long.
func (x *Executor) runQueued(s *Session, queued []queuedCommand, args [][]byte) bool {
	s.shards = s.shards[:0]
	s.watch.EachShard(func(i int) { s.shards = insertSorted(s.shards, i) })
	for _, q := range queued {
		if len(s.shards) == len(x.all) {
			break
		}
		if q.spec.Flags&command.Unlocked == 0 {
			s.addShards(q.spec, q.args)
		}
	}
	start := s.W.Len()
	if !x.hold(s, s.shards, s.multi.tells) {
		return false
	}
	if s.tx.Dirty(s.watch) {
		s.W.NullArray()
	} else {
		s.W.Array(len(queued))
		for _, q := range queued {
			tx := s.tx
			if q.spec.Flags&command.Unlocked != 0 {
				tx = nil
			}
			if err := x.refusedNested(s, q.spec, q.args); err != nil {
				s.replyError(err)
				continue
			}
			x.invoke(s, q.spec, q.args, tx)
		}
	}
	s.show(args, false)
	if lsn, _ := x.end(s); lsn != 0 {
		s.wrote(start, lsn)
	}
	return true
}
