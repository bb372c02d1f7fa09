package exec

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"kevy/aof"
	"kevy/internal/command"
	"kevy/internal/command/all"
)

// readLog is a Reader that notes what it is told, and who could have come between.
type readLog struct {
	r     *rig
	lines []string
}

func (l *readLog) Read(key []byte, changes int) {
	l.lines = append(l.lines, fmt.Sprintf("%s %d", key, changes))
	l.held(string(key))
}

func (l *readLog) Committed() {
	l.lines = append(l.lines, "committed")
}

// held fails unless the key's shard is locked.
func (l *readLog) held(key string) {
	set := l.r.store.Set()
	if i := set.ShardOf([]byte(key)); set.TryLock(i) {
		set.Unlock([]int{i})
		l.r.t.Errorf("the shard of %s is not locked", key)
	}
}

func (l *readLog) take() (lines []string) {
	lines, l.lines = l.lines, nil
	return lines
}

// lastHeld is a readLog whose Committed, too, must find a key's shard locked.
type lastHeld struct {
	readLog
	key string
}

func (l *lastHeld) Committed() {
	l.readLog.Committed()
	l.held(l.key)
}

// TestReads: a Reader is told of the keys of commands that only read, where they stand among the changes, and all of it
// under the locks.
func TestReads(t *testing.T) {
	r := newRig(t, aof.PolicyNo)
	r.store.Set().SetTracked(true)
	c := r.conn()
	l := &lastHeld{readLog: readLog{r: r}, key: "k"}
	c.es.TellReads(l)
	for _, step := range []struct {
		line string
		want []string
	}{
		{"GET k", []string{"k 0", "committed"}},
		{"SET k 1", []string{"committed"}},
		{"GETDEL k", []string{"committed"}},
		{"GET", nil},
		{"OBJECT ENCODING k", []string{"k 0", "committed"}},
		{"XREAD STREAMS k 0", []string{"k 0", "committed"}},
	} {
		c.do(step.line)
		if got := l.take(); !slices.Equal(got, step.want) {
			t.Errorf("%s: %q, want %q", step.line, got, step.want)
		}
	}
	for _, line := range []string{"MULTI", "GET k", "SET k 1", "GET k", "SET k 2", "SET k 3", "MGET k j", "EXEC"} {
		c.do(line)
	}
	// The third SET is noted with the second, as they follow each other at once.
	if got, want := l.take(), []string{"k 0", "k 1", "k 2", "j 2", "committed"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	c.do("SET k 1 PX 100")
	l.take()
	r.pass(200)
	c.do("GET k") // which ends it, before it is read
	if got, want := l.take(), []string{"k 1", "committed"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	c.es.TellReads(nil)
	c.do("GET k")
	if got := l.take(); len(got) > 0 {
		t.Errorf("%q", got)
	}
}

// TestScriptReads: a script reads its own keys, whatever the commands in it name, and again only behind a change.
func TestScriptReads(t *testing.T) {
	r := newRig(t, aof.PolicyNo)
	r.store.Set().SetTracked(true)
	looper := &command.Spec{
		Name: "looper", Arity: -3, Flags: command.NoScript | command.AllShards | command.MayReplicate, Category: command.CatScripting,
		Keys: []command.KeySpec{command.Count(2, command.RW)},
		Run: func(c *command.Ctx) {
			n := Nested(c, command.NestedOptions{Name: "looper"})
			defer n.End()
			for range 3 {
				for range 1000 {
					n.Call([][]byte{[]byte("GET"), []byte("other")}, 2)
				}
				n.Call([][]byte{[]byte("INCR"), []byte("other")}, 2)
			}
			c.W.OK()
		},
	}
	r.x = New(command.NewTable(all.Data(), Commands(), []*command.Spec{looper}), r.store, slog.New(slog.DiscardHandler), Refusals{})
	c := r.conn()
	l := &readLog{r: r}
	c.es.TellReads(l)
	c.do("looper x 2 k j")
	if got, want := l.take(), []string{"k 0", "j 0", "k 1", "j 1", "k 2", "j 2", "committed"}; !slices.Equal(got, want) {
		t.Errorf("%.20q, want %q", got, want)
	}
	for _, line := range []string{"MULTI", "looper x 1 k", "looper x 1 k", "EXEC"} {
		c.do(line)
	}
	if got, want := l.take(), []string{"k 0", "k 1", "k 2", "k 3", "k 4", "k 5", "committed"}; !slices.Equal(got, want) {
		t.Errorf("%.20q, want %q", got, want)
	}
}
