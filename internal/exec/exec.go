// Package exec takes a command from its arguments to its reply: it resolves the
// name, refuses what must be refused, locks the shards of the keys, runs the
// handler, and commits what the handler changed.
package exec

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync/atomic"

	"kevy/internal/command"
	"kevy/internal/engine"
	"kevy/resp"
	"kevy/shard"
)

// Executor runs the commands of a table on a store. It is safe for use by many
// sessions at once.
type Executor struct {
	table  *command.Table
	store  *engine.Engine
	log    *slog.Logger
	all    []int
	admit  []Refusal
	stats  Stats
	panics atomic.Int64
}

// Stats counts what went through an Executor.
type Stats struct {
	Commands       atomic.Int64
	Errors         atomic.Int64
	KeyspaceHits   atomic.Int64
	KeyspaceMisses atomic.Int64
}

// Reset sets the counters to zero.
func (st *Stats) Reset() {
	st.Commands.Store(0)
	st.Errors.Store(0)
	st.KeyspaceHits.Store(0)
	st.KeyspaceMisses.Store(0)
}

// Refusal is one reason not to run a command: nil if it may go on. Refusals are
// asked in order before a command is queued or run.
type Refusal func(s *Session, spec *command.Spec, args [][]byte) *resp.Error

// New returns an executor. The refusals come before its own, which are last:
// commands that a transaction must not hold, and a log that cannot advance.
func New(table *command.Table, store *engine.Engine, log *slog.Logger, refusals ...Refusal) *Executor {
	x := &Executor{table: table, store: store, log: log}
	for i := range store.Set().Shards() {
		x.all = append(x.all, i)
	}
	x.admit = append(refusals, refuseInMulti, x.refuseUnlogged)
	return x
}

// Table returns the commands.
func (x *Executor) Table() *command.Table { return x.table }

// Store returns the store.
func (x *Executor) Store() *engine.Engine { return x.store }

// Panics returns how many handlers panicked.
func (x *Executor) Panics() int64 { return x.panics.Load() }

// Stats returns the counters.
func (x *Executor) Stats() *Stats { return &x.stats }

// Do runs one command and writes exactly one reply, or several where the
// command's contract says so. args are valid until it returns.
func (x *Executor) Do(s *Session, args [][]byte) {
	spec, err := x.resolve(s, args)
	if err == nil {
		err = x.refused(s, spec, args)
	}
	if err != nil {
		x.stats.Errors.Add(1)
		s.abortTransaction()
		s.W.Error(err)
		return
	}
	if s.multi.open && !spec.runsInsideMulti() {
		s.queue(spec.Spec, args)
		return
	}
	s.counted++
	x.run(s, spec.Spec, args)
}

// resolved is a command of the table; it exists to keep the questions that only
// exec asks of a Spec in this package.
type resolved struct{ *command.Spec }

// runsInsideMulti reports whether the command acts on the open transaction
// rather than being queued in it.
func (r resolved) runsInsideMulti() bool {
	switch r.Name {
	case "exec", "discard", "multi", "watch", "quit", "reset":
		return true
	}
	return false
}

// resolve finds the command and checks the number of arguments.
func (x *Executor) resolve(s *Session, args [][]byte) (resolved, *resp.Error) {
	spec := s.last.spec
	if !s.last.is(args[0]) {
		spec = x.table.Lookup(args)
		if spec == nil {
			return resolved{}, unknownCommand(args)
		}
		if spec.Run == nil {
			if len(args) < 2 {
				return resolved{}, spec.ArityError()
			}
			return resolved{}, resp.Errorf("ERR", "unknown subcommand '%.128s'. Try %s HELP.", args[1], strings.ToUpper(spec.Name))
		}
		if spec.Parent() == nil && len(spec.Sub) == 0 {
			s.last.set(args[0], spec)
		}
	}
	if !spec.ArityFits(len(args)) {
		return resolved{}, spec.ArityError()
	}
	return resolved{spec}, nil
}

// maxEchoedBytes bounds what an error repeats of the arguments.
const maxEchoedBytes = 128

func unknownCommand(args [][]byte) *resp.Error {
	var b strings.Builder
	for _, a := range args[1:] {
		if b.Len() >= maxEchoedBytes {
			break
		}
		fmt.Fprintf(&b, "'%.*s' ", maxEchoedBytes-b.Len(), a)
	}
	return resp.Errorf("ERR", "unknown command '%.128s', with args beginning with: %s", args[0], b.String())
}

// refused asks every reason not to run the command, in order.
func (x *Executor) refused(s *Session, spec resolved, args [][]byte) *resp.Error {
	for _, r := range x.admit {
		if err := r(s, spec.Spec, args); err != nil {
			return err
		}
	}
	return nil
}

func refuseInMulti(s *Session, spec *command.Spec, _ [][]byte) *resp.Error {
	if s.multi.open && spec.Flags&command.NoMulti != 0 {
		return resp.Errorf("ERR", "Command not allowed inside a transaction")
	}
	return nil
}

// refuseUnlogged makes writers wait while the log's buffer is over its bound
// and refuses them while the log cannot advance.
func (x *Executor) refuseUnlogged(s *Session, spec *command.Spec, _ [][]byte) *resp.Error {
	if spec.Flags&command.Write == 0 && !(spec.Name == "exec" && s.multi.writes) {
		return nil
	}
	if err := x.store.Admit(); err != nil {
		return misconf(err)
	}
	return nil
}

func misconf(err error) *resp.Error {
	return resp.Errorf("MISCONF", "Errors writing to the AOF file: %v", err)
}

// run runs one command on its own: lock, handler, commit, unlock.
func (x *Executor) run(s *Session, spec *command.Spec, args [][]byte) {
	if spec.Flags&command.Unlocked != 0 {
		x.invoke(s, spec, args, nil)
		s.staleClock()
		return
	}
	shards := x.shardsOf(s, spec, args)
	set := x.store.Set()
	start := s.W.Len()
	set.Lock(shards)
	s.tx.Begin(shards, s.db, s.now())
	x.invoke(s, spec, args, s.tx)
	lsn := x.commit(s, shards)
	set.Unlock(shards)
	s.tx.End()
	if lsn != 0 {
		s.wrote(start, lsn)
	}
}

// commit hands what the Tx recorded to the log and notes how far this session
// has seen.
func (x *Executor) commit(s *Session, shards []int) (lsn uint64) {
	if s.tx.Commit().Ops() > 0 {
		lsn = x.store.Commit(s.tx)
		s.seen = max(s.seen, lsn)
		s.noteWrite(lsn, s.tx.Commit())
		return lsn
	}
	s.seen = max(s.seen, x.store.Set().LastLSN(shards))
	return 0
}

// invoke calls the handler. A panic in it is a bug, which costs its caller an
// error and nobody else anything: what it had changed is recorded op by op and
// is committed like any other change, so memory and log stay the same.
func (x *Executor) invoke(s *Session, spec *command.Spec, args [][]byte, tx *shard.Tx) {
	start := s.W.Len()
	defer func() {
		if p := recover(); p != nil {
			x.panics.Add(1)
			x.log.Error("a command handler panicked", "command", spec.FullName(), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			s.W.Truncate(start)
			if tx != nil {
				tx.Commit().Abandon()
			}
			s.W.Error(resp.Errorf("ERR", "internal error in '%s' command, see the server's log", spec.FullName()))
		}
	}()
	c := &s.ctx
	c.Spec, c.Args, c.Tx, c.W, c.Session = spec, args, tx, s.W, s.self
	spec.Run(c)
	c.Tx = nil
	if tx != nil {
		if hits, misses := tx.TakeLookups(); spec.Flags&command.ReadOnly != 0 {
			s.hits += hits
			s.misses += misses
		}
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
		if k := &spec.Keys[0]; !k.NumKeys && k.Keyword == "" && k.Last == 0 {
			return append(s.shards, x.store.Set().ShardOf(args[k.Index]))
		}
	}
	s.addShards(spec, args)
	return s.shards
}

// addShards adds the shards of a command's keys to s.shards.
func (s *Session) addShards(spec *command.Spec, args [][]byte) {
	set := s.x.store.Set()
	_ = spec.EachKey(args, func(i int, _ command.KeyFlags) { // the handler finds the fault again
		s.shards = insertSorted(s.shards, set.ShardOf(args[i]))
	})
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
