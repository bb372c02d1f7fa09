// Package commandtest runs a family's scripts in process, without a network, and
// holds what a script cannot say: after each case the keyspace equals what a
// recovery from the log makes of it.
package commandtest

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"kevy/internal/command"
	"kevy/internal/op"
	"kevy/resp"
	"kevy/shard"
)

const (
	shards = 4
	dbs    = 16
)

// store is a bare keyspace, the ops that made it, and the commands to run on it,
// one at a time.
type store struct {
	mu    sync.Mutex // one command at a time
	table *command.Table
	set   *shard.Set
	all   []int
	pos   op.LogPosition
	log   []byte
}

func newStore(families ...[]*command.Spec) *store {
	st := &store{set: shard.NewSet(shards, dbs), table: command.NewTable(families...)}
	for i := range shards {
		st.all = append(st.all, i)
	}
	return st
}

// checkReplay fails the test unless the recorded ops rebuild the keyspace.
func (st *store) checkReplay(t testing.TB) {
	st.mu.Lock()
	defer st.mu.Unlock()
	replica := shard.NewSet(shards, dbs)
	replica.SetLimits(st.set.Limits())
	tx := replica.NewTx(&op.LogPosition{})
	var s op.Scanner
	s.Reset(st.log, 0)
	for {
		f, err := s.Next()
		if err != nil {
			t.Fatalf("the recorded ops cannot be read: %v", err)
		}
		if f == nil {
			break
		}
		tx.BeginReplay(st.all, 0)
		if err := tx.Apply(f); err != nil {
			t.Fatalf("replay: %v", err)
		}
		tx.End()
	}
	if live, again := st.set.Digest(), replica.Digest(); live != again {
		t.Errorf("the keyspace differs from a replay of its ops:\n%s", st.log[max(0, len(st.log)-4000):])
	}
}

// session runs commands on a store.
type session struct {
	st *store
	id uint64
	db int
	tx *shard.Tx
	w  *resp.Writer
}

func (s *session) ID() uint64 { return s.id }
func (s *session) DB() int    { return s.db }

func (s *session) do(args [][]byte) {
	st := s.st
	st.mu.Lock()
	defer st.mu.Unlock()
	spec := st.table.Lookup(args)
	if spec == nil || spec.Run == nil {
		s.w.Error(resp.Errorf("ERR", "unknown command '%s'", args[0]))
		return
	}
	if !spec.ArityFits(len(args)) {
		s.w.Error(spec.ArityError())
		return
	}
	st.set.Lock(st.all)
	s.tx.Begin(st.all, s.db, time.Now().UnixMilli())
	c := &command.Ctx{Spec: spec, Args: args, Tx: s.tx, W: s.w, Session: s}
	spec.Run(c)
	if c.Waits() != nil {
		c.Refuse()
	}
	s.commit()
	s.tx.End()
	st.set.Unlock(st.all)
}

func (s *session) commit() {
	if c := s.tx.Commit(); c.Ops() > 0 {
		s.st.log = c.AppendTo(s.st.log, len(s.st.log) == 0)
	}
}

// Ops runs the command lines of given, then cmd, on an empty keyspace and
// returns the ops that cmd recorded, their arguments quoted where needed.
func Ops(given []string, cmd string, families ...[]*command.Spec) ([]string, error) {
	st := newStore(families...)
	s := &session{st: st, tx: st.set.NewTx(&st.pos), w: resp.NewWriter(2)}
	for _, line := range append(given[:len(given):len(given)], cmd) {
		args, err := resp.SplitInline([]byte(line))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", line, err)
		}
		st.log = st.log[:0]
		s.w.Reset()
		s.do(args)
		if line != cmd && bytes.HasPrefix(s.w.Bytes(), []byte("-")) {
			return nil, fmt.Errorf("%s: %s", line, s.w.Bytes())
		}
	}
	var out []string
	var scanner op.Scanner
	scanner.Reset(st.log, 0)
	for {
		f, err := scanner.Next()
		if err != nil || f == nil {
			return out, err
		}
		words := make([]string, len(f.Args))
		for i, a := range f.Args {
			words[i] = string(a)
			if q := strconv.Quote(words[i]); len(a) == 0 || q[1:len(q)-1] != words[i] {
				words[i] = q
			}
		}
		out = append(out, strings.Join(words, " "))
	}
}
