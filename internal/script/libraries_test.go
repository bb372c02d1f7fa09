package script

import (
	"testing"

	"kevy/internal/op"
	"kevy/internal/rdb"
	"kevy/shard"
)

// TestRestoreFlushState: FUNCTION RESTORE with FLUSH leaves nothing of the state that the
// libraries before it were loaded in, as FUNCTION FLUSH; one that is refused leaves the state.
func TestRestoreFlushState(t *testing.T) {
	f := New(checker{})
	defer f.Close()
	tx := shard.NewSet(1, 1).NewTx(&op.LogPosition{})
	tx.Begin([]int{0}, 0, 0)
	defer tx.End()
	restore := func(policy restorePolicy, name, body string, ok bool) {
		t.Helper()
		code := "#!lua name=" + name + "\n" + body
		if err := f.restore(tx, rdb.AppendFunctions(nil, [][]byte{[]byte(code)}), policy); (err == nil) != ok {
			t.Fatal(err)
		}
		if _, bytes := f.StateBytes(); (bytes > 0) != (f.libraries.state != nil) {
			t.Errorf("the state takes %d bytes", bytes)
		}
	}
	const register = "redis.register_function('f', function() return 1 end)"
	restore(restoreAppend, "first", "error('no')", false)
	restore(restoreFlush, "first", register, true)
	old := f.libraries.state
	restore(restoreFlush, "second", "error('no')", false)
	restore(restoreReplace, "first", register, true)
	if f.libraries.state != old || f.libraries.byName["first"] == nil {
		t.Error("a library that was refused has changed the state")
	}
	restore(restoreFlush, "second", register, true)
	if f.libraries.state == old || f.libraries.byName["first"] != nil || f.libraries.byName["second"] == nil {
		t.Error("the state of the libraries before is kept")
	}
	f.flush(tx)
	if _, bytes := f.StateBytes(); f.libraries.state != nil || bytes != 0 {
		t.Errorf("after a flush the state takes %d bytes", bytes)
	}
}
