package commandtest

import (
	"testing"
	"time"

	"kevy/internal/command"
	"kevy/resp"
)

// Runner runs commands of families one after the other on a keyspace of its
// own, without a connection. It starts in RESP2.
type Runner struct{ s *session }

// NewRunner returns a Runner on an empty keyspace.
func NewRunner(families ...[]*command.Spec) *Runner {
	st := newStore(families...)
	return &Runner{&session{st: st, tx: st.set.NewTx(&st.pos), w: resp.NewWriter(2)}}
}

// Do runs a command and returns its reply as it goes over the wire.
func (r *Runner) Do(args ...string) string {
	words := make([][]byte, len(args))
	for i, a := range args {
		words[i] = []byte(a)
	}
	r.s.w.Reset()
	r.s.do(words)
	return string(r.s.w.Bytes())
}

// Allocs returns how often one run of a command allocates once its memory is
// warm: the handler, the change of the keyspace, the recorded op and the reply.
func (r *Runner) Allocs(args ...string) float64 {
	s, st := r.s, r.s.st
	c := &command.Ctx{Tx: s.tx, W: s.w, Session: s}
	for _, a := range args {
		c.Args = append(c.Args, []byte(a))
	}
	c.Spec = st.table.Lookup(c.Args)
	nowMs := time.Now().UnixMilli()
	return testing.AllocsPerRun(200, func() {
		s.w.Reset()
		s.tx.Begin(st.all, s.db, nowMs)
		c.Spec.Run(c)
		s.tx.End()
	})
}

// CheckReplay fails the test unless the ops recorded so far rebuild the
// keyspace.
func (r *Runner) CheckReplay(t testing.TB) {
	t.Helper()
	r.s.st.checkReplay(t)
}
