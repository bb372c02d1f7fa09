package shard

import (
	"fmt"
	"slices"
	"testing"

	"kevy/internal/op"
)

// TestChanges: what is noted for who tracks keys, and what is not.
func TestChanges(t *testing.T) {
	set := NewSet(2, 2)
	all := []int{0, 1}
	tx := set.NewTx(&op.LogPosition{})
	set.Lock(all)
	defer set.Unlock(all)
	tx.Begin(all, 0, 1000)
	tx.Set([]byte("a"), []byte("v"), 0)
	if tx.Noted() || len(tx.Changes()) > 0 {
		t.Error("changes are noted that nobody asked for")
	}
	set.SetTracked(true)
	noted := func() (out []string) {
		for _, c := range tx.Changes() {
			switch {
			case c.Key == nil:
				out = append(out, "all")
			case c.ByStore:
				out = append(out, fmt.Sprintf("%q by store", c.Key))
			default:
				out = append(out, fmt.Sprintf("%q", c.Key))
			}
		}
		tx.TakeNoted()
		return out
	}
	is := func(what string, want ...string) {
		t.Helper()
		if got := noted(); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	tx.Set([]byte("a"), []byte("w"), 2000)
	tx.Persist([]byte("a"))
	tx.Set([]byte("b"), []byte("w"), 0)
	tx.Del([]byte("nosuch"))
	is("changes", `"a"`, `"b"`)
	tx.Set([]byte{}, []byte("w"), 0)
	tx.Del([]byte{})
	is("the empty key", `""`)
	if n := tx.CountChanges(); n != 0 {
		t.Errorf("%d changes", n)
	}
	tx.Set([]byte("a"), []byte("x"), 0)
	if n := tx.CountChanges(); n != 1 {
		t.Errorf("%d changes", n)
	}
	tx.Set([]byte("a"), []byte("y"), 0)
	tx.Set([]byte("a"), []byte("z"), 1500)
	is("behind a count", `"a"`, `"a"`)
	tx.Proceed(3000)
	tx.Exists([]byte("a"))
	is("an overdue key", `"a" by store`)
	tx.Set([]byte("a"), []byte("x"), 3001)
	tx.Proceed(4000)
	tx.Exists([]byte("a"))
	is("one that was changed before", `"a"`, `"a" by store`)
	tx.FlushDB(1)
	tx.FlushAll()
	tx.SwapDB(0, 1)
	is("databases", "all")
	tx.Copy([]byte("nosuch"), 1, []byte("b"))
	tx.Set([]byte("s"), []byte("x"), 0)
	tx.Move([]byte("s"), 1, []byte("d"))
	is("a move", `"s"`, `"d"`, `"s"`)
	tx.KeepUndo()
	tx.Set([]byte("a"), []byte("x"), 0)
	tx.Rollback()
	is("what was taken back")
	tx.End()
	tx.BeginReplay(all, 5000)
	tx.Set([]byte("a"), []byte("x"), 0)
	is("a replay")
	tx.End()
}
