// Package exec takes a command from its arguments to its reply: it resolves the
// name, refuses what must be refused, locks the shards of the keys, runs the
// handler, and commits what the handler changed.
package exec

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"kevy/internal/command"
	"kevy/internal/engine"
	"kevy/resp"
	"kevy/shard"
)

// Executor runs the commands of a table on a store. It is safe for use by many
// sessions at once.
type Executor struct {
	table *command.Table
	store *engine.Engine
	log   *slog.Logger
	all   []int
	// refusals are those of New, complete.
	refusals  Refusals
	stats     *Stats
	quick     []bool // by command.Spec.Number: see quickCommands
	observing atomic.Pointer[observing]
	scripts   scripts
	hangUps   HangUps // nil: sessions have no connections
}

// New returns an executor. Where refusals name none to admit by, those of this
// package are asked: RefuseInMulti, RefuseOOM and RefuseUnlogged.
func New(table *command.Table, store *engine.Engine, log *slog.Logger, refusals Refusals) *Executor {
	if refusals.Admit == nil {
		refusals.Admit = []Refusal{RefuseInMulti, RefuseOOM, RefuseUnlogged}
	}
	x := &Executor{table: table, store: store, log: log, refusals: refusals, stats: newStats(table), quick: quickCommands(table)}
	x.Observe(Observation{SlowFrom: -1})
	for i := range store.Set().Shards() {
		x.all = append(x.all, i)
	}
	x.SetBusyAfter(defaultBusyAfter)
	store.ServeWith(x.serveEngine)
	return x
}

// Table returns the commands.
func (x *Executor) Table() *command.Table { return x.table }

// Store returns the store.
func (x *Executor) Store() *engine.Engine { return x.store }

// Stats returns the counters.
func (x *Executor) Stats() *Stats { return x.stats }

// Do runs one command and writes exactly one reply, or several where the
// command's contract says so. args are valid until it returns.
func (x *Executor) Do(s *Session, args [][]byte) {
	s.tallies.begin()
	spec, err := x.resolve(s, args)
	s.latest = spec
	if err == nil {
		err = x.refused(s, spec, args)
	}
	switch {
	case err != nil:
		x.reject(s, spec, args, err)
	case s.multi.open && !runsInsideMulti(spec):
		s.queue(spec, args)
	default:
		if s.tallies.calls > 0 && x.alone(x.observing.Load(), spec, args) {
			s.tallies.split(x, sinceStart())
		}
		x.run(s, spec, args)
	}
}

// resolve finds the command, nil if there is none, and checks the number of
// arguments.
func (x *Executor) resolve(s *Session, args [][]byte) (*command.Spec, *resp.Error) {
	spec := s.cached.spec
	if !s.cached.is(args[0]) {
		spec = x.table.Lookup(args)
		switch {
		case spec == nil:
			return nil, unknownCommand(args)
		case len(spec.Sub) > 0 && len(args) > 1:
			return nil, unknownSubcommand(spec, args[1])
		case len(spec.Sub) == 0 && spec.Parent() == nil:
			s.cached.set(args[0], spec)
		}
	}
	if !spec.ArityFits(len(args)) {
		return spec, spec.ArityError()
	}
	return spec, nil
}

// run runs one command on its own: lock, handler, commit, unlock.
func (x *Executor) run(s *Session, spec *command.Spec, args [][]byte) {
	if spec.Flags&command.Unlocked != 0 {
		start := s.W.Len()
		x.invoke(s, spec, args, nil)
		s.staleClock()
		if s.lockedLSN != 0 {
			s.wrote(start, s.lockedLSN)
			s.lockedLSN = 0
		}
		return
	}
	if x.hangUps != nil && spec.Flags&command.Blocking != 0 && s.parker != nil {
		x.hangUps.Follow(s.self)
	}
	start := s.W.Len()
	if !x.hold(s, x.shardsOf(s, spec, args), spec.Flags&(command.Write|command.MayReplicate) != 0) {
		if spec.Flags&command.AllowBusy != 0 {
			x.invoke(s, spec, args, nil) // WATCH
			return
		}
		x.reject(s, spec, args, x.busy())
		return
	}
	x.invoke(s, spec, args, s.tx)
	lsn, p := x.end(s)
	if spec.Flags&command.Admin != 0 {
		s.staleClock() // it may have taken long
	}
	// A read may have let an overdue key go; its reply stands all the same. Who
	// waits has no reply yet.
	if lsn != 0 && spec.Flags&command.ReadOnly == 0 && p == nil {
		s.wrote(start, lsn)
	}
	if p != nil {
		x.park(s, p)
	}
}

// hold locks shards and begins the session's Tx on them. What they owe to those
// who wait comes first. It reports false where a script has them for long.
//
// Before something may be pushed for those who wait, it is noticed who of them has
// hung up: what is popped for a dead connection is lost. That is asked of the system,
// so not under the locks, and once for all commands of a batch: who hung up before the
// batch was sent has done so by then.
func (x *Executor) hold(s *Session, shards []int, pushes bool) bool {
	set := x.store.Set()
	if !set.LockUnlessYielded(shards) {
		return false
	}
	if pushes && !s.noticed && x.hangUps != nil && set.Awaited(shards) {
		set.Unlock(shards)
		x.hangUps.Notice()
		s.noticed = true
		if !set.LockUnlessYielded(shards) {
			return false
		}
	}
	if x.scripts.halted.Load() {
		set.Unlock(shards)
		return false
	}
	s.holding = true
	for i, owes := set.Debtor(shards); owes; i, owes = set.Debtor(shards) {
		set.Unlock(shards)
		x.pay(s.tx, i)
		if !set.LockUnlessYielded(shards) {
			s.holding = false
			return false
		}
	}
	s.tx.Begin(shards, s.db, s.now())
	return true
}

// release ends what hold began.
func (x *Executor) release(s *Session) {
	s.holding = false
	x.store.Set().Unlock(s.tx.Held())
	s.tx.End()
}

// end commits what the Tx recorded, serves the clients that waited for it and
// unlocks. lsn is 0 if nothing was recorded. If the command waits, p is its place
// among those who do.
func (x *Executor) end(s *Session) (lsn uint64, p *parked) {
	lsn = x.commit(s)
	if s.reader != nil {
		s.reader.Committed()
	}
	var debtors []int
	if s.tx.Ready() && x.serve(s.tx) {
		debtors = slices.Clone(s.tx.Held())
	}
	if w := s.ctx.Waits(); w != nil {
		p = x.enqueue(s, w)
	}
	x.release(s)
	if debtors != nil {
		s.holding = true
		x.payAll(s.tx, debtors)
		s.holding = false
	}
	return lsn, p
}

// commit hands what the Tx recorded to the log and notes how far this session
// has seen. lsn is 0 if nothing was recorded.
func (x *Executor) commit(s *Session) (lsn uint64) {
	if s.tx.Commit().Ops() > 0 {
		lsn = x.store.Commit(s.tx)
		s.seen = max(s.seen, lsn)
		s.lastLSN, s.lastStreams = lsn, x.streamsOf(s.lastStreams[:0], s.tx.Commit())
		return lsn
	}
	s.seen = max(s.seen, x.store.Set().LastLSN(s.tx.Held()))
	if s.tx.Noted() {
		x.store.Tell(s.tx, s.seen)
	}
	return 0
}

// invoke calls the handler, on tx unless that is nil.
func (x *Executor) invoke(s *Session, spec *command.Spec, args [][]byte, tx *shard.Tx) {
	start, sent, held := s.W.Len(), s.settled, s.holding
	defer func() {
		p := recover()
		switch {
		case p == nil:
		case s.holding && !held:
			// EXEC's own work, under its own locks: what it leaves behind is no state.
			panic(p)
		default:
			x.survive(s, spec, tx, p, start, sent)
		}
	}()
	c := &s.ctx
	c.Spec, c.Args, c.Tx, c.W, c.Session, c.ErrorCounted, c.Scripted = spec, args, tx, s.W, s.self, false, s.scripting
	c.Unblock()
	if tx != nil {
		tx.TellMisses(spec.Flags&(command.ReadOnly|command.TellsMisses) != 0)
	}
	o := x.observing.Load()
	began, alone := time.Duration(0), x.alone(o, spec, args)
	if o.KeepOverdue && tx != nil {
		tx.KeepOverdue(spec.Flags&command.Write == 0)
		defer tx.KeepOverdue(false)
	}
	if alone {
		s.tallies.waited = 0
		began = sinceStart()
	}
	spec.Run(c)
	if s.reader != nil && tx != nil && spec.Flags&command.ReadOnly != 0 {
		s.tellRead(spec, args)
	}
	if c.Waits() != nil && (s.parker == nil || s.InMulti()) {
		c.Refuse()
	}
	c.Tx = nil
	if tx != nil {
		if hits, misses := tx.TakeLookups(); spec.Flags&command.ReadOnly != 0 {
			s.tallies.hits += hits
			s.tallies.misses += misses
		}
	}
	if alone {
		now := sinceStart()
		d := now - began - s.tallies.waited
		x.stats.commands[spec.Number()].nanoseconds.Add(int64(d))
		if s.tallies.last = d; c.Waits() == nil {
			// As it is by now: a CONFIG SET that changes what is observed counts for itself.
			x.took(x.observing.Load(), s, spec, args, d)
		}
		s.tallies.split(x, now)
	}
	x.count(s, spec, start, sent, alone)
	if o.Ran != nil {
		o.ran(s, spec, args)
	}
}

// survive ends a handler that panicked. That is a bug, which costs its caller an
// error and nobody else anything: what the handler had changed is recorded op by
// op and is committed like any other change, so memory and log stay the same.
func (x *Executor) survive(s *Session, spec *command.Spec, tx *shard.Tx, p any, start, sent int) {
	x.stats.panics.Add(1)
	x.log.Error("a command handler panicked", "command", spec.FullName(), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	s.ctx.Unblock()
	if tx != nil {
		tx.Commit().Abandon()
	}
	if s.settled != sent {
		// Part of the reply may be with the client already.
		start = 0
		s.hangUp()
	}
	s.W.Truncate(start)
	s.W.Error(internalError(spec))
	x.count(s, spec, start, sent, false)
}

func internalError(spec *command.Spec) *resp.Error {
	return resp.Errorf("ERR", "internal error in '%s' command, see the server's log", spec.FullName())
}

// count counts a call whose reply begins at start of what is gathered, or, if
// the session has sent replies since sent, at the beginning. timed says that its time
// was counted.
func (x *Executor) count(s *Session, spec *command.Spec, start, sent int, timed bool) {
	reply := s.W.Bytes()
	if s.settled == sent {
		reply = reply[start:]
	}
	failed := len(reply) > 0 && reply[0] == '-'
	if failed && !s.ctx.ErrorCounted {
		x.stats.CountError(errorCode(reply))
	}
	if timed {
		c := &x.stats.commands[spec.Number()]
		c.calls.Add(1)
		if failed {
			c.failed.Add(1)
		}
		return
	}
	if s.tallies.count(spec, failed) {
		s.MergeStats()
	}
}

// shardsOf returns the shards that the command's keys live in, ascending. A
// command whose arguments do not say where its keys are gets the shards of
// those found; its handler replies with the reason.
func (x *Executor) shardsOf(s *Session, spec *command.Spec, args [][]byte) []int {
	if spec.Flags&command.AllShards != 0 {
		return x.all
	}
	s.shards = s.shards[:0]
	if len(spec.Keys) == 1 {
		if k := &spec.Keys[0]; !k.NumKeys && k.Keyword == "" && !k.Unknown && k.Last == 0 && spec.Reach == nil {
			s.shards = append(s.shards, x.store.Set().ShardOf(args[k.Index]))
			return s.shards
		}
	}
	s.addShards(spec, args)
	return s.shards
}

// addShards adds the shards that a command works on to s.shards.
func (s *Session) addShards(spec *command.Spec, args [][]byte) {
	if spec.Flags&command.AllShards != 0 {
		s.shards = append(s.shards[:0], s.x.all...)
		return
	}
	set := s.x.store.Set()
	_ = spec.EachKey(args, func(i int, _ command.KeyFlags) { // the handler finds the fault again
		s.shards = insertSorted(s.shards, set.ShardOf(args[i]))
	})
	if spec.Reach == nil {
		return
	}
	keys, all := spec.Reach(args)
	if all {
		s.shards = append(s.shards[:0], s.x.all...)
		return
	}
	for _, key := range keys {
		s.shards = insertSorted(s.shards, set.ShardOf(key))
	}
}

// insertSorted adds n to an ascending slice of distinct numbers.
func insertSorted(list []int, n int) []int {
	i := len(list)
	for i > 0 && list[i-1] >= n {
		if list[i-1] == n {
			return list
		}
		i--
	}
	list = append(list, 0)
	copy(list[i+1:], list[i:])
	list[i] = n
	return list
}
