package exec

import (
	"testing"

	"kevy/aof"
	"kevy/internal/engine"
)

// TestOutOfMemory: what redis-server 7.0.15 answers where nothing may be evicted.
func TestOutOfMemory(t *testing.T) {
	const oom = "-OOM command not allowed when used memory > 'maxmemory'."
	r := newRig(t, aof.PolicyEverySec)
	c := r.conn()
	for _, step := range []struct {
		bound int64
		line  string
		want  string
	}{
		{0, "SET k v", "+OK"},
		{1, "SET k w", oom},
		{1, "APPEND k w", oom},
		{1, "GET k", "$1 v"},
		{1, "DEL nothing", ":0"},
		{1, "EXPIRE k 100", ":1"},
		{1, "PERSIST k", ":1"},
		// Queueing needs memory, whatever is queued; an end of it does not.
		{1, "MULTI", "+OK"},
		{1, "GET k", oom},
		{1, "UNWATCH", oom},
		{1, "WATCH k", oom},
		{1, "MULTI", oom},
		{1, "EXEC", "-EXECABORT Transaction discarded because of previous errors."},
		{1, "MULTI", "+OK"},
		{1, "SET k w", oom},
		{1, "DISCARD", "+OK"},
		{0, "MULTI", "+OK"},
		{0, "SET k w", "+QUEUED"},
		{1, "EXEC", "-EXECABORT Transaction discarded because of: OOM command not allowed when used memory > 'maxmemory'."},
		{0, "MULTI", "+OK"},
		{0, "DEL k", "+QUEUED"},
		{1, "EXEC", "*1 :1"},
		{1, "SET k v", oom},
		{1 << 30, "SET k v", "+OK"},
	} {
		r.store.SetMaxMemory(engine.MaxMemory{Bytes: step.bound})
		// One that has nothing in it is over a bound of one byte all the same.
		r.store.Outside().Store(2)
		if got := c.do(step.line); got != step.want {
			t.Errorf("%s with a bound of %d: %q, want %q", step.line, step.bound, got, step.want)
		}
	}
}
