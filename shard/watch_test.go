package shard

import (
	"fmt"
	"testing"
	"time"

	"kevy/internal/op"
)

// TestWatchingManyKeys holds WATCH and what flushes a database to work in
// proportion to the keys that are watched.
func TestWatchingManyKeys(t *testing.T) {
	const keys = 100_000
	set := NewSet(4, 2)
	all := []int{0, 1, 2, 3}
	tx := set.NewTx(&op.LogPosition{})
	w := set.NewWatch()
	began := time.Now()
	set.Lock(all)
	tx.Begin(all, 0, 1)
	for i := range keys {
		tx.Watch(w, fmt.Appendf(nil, "key:%d", i))
		tx.Watch(w, fmt.Appendf(nil, "key:%d", i))
	}
	if w.Len() != keys {
		t.Errorf("%d keys are watched, want %d", w.Len(), keys)
	}
	tx.FlushDB(1)
	if w.Touched() {
		t.Error("another database's end dirties the watch")
	}
	tx.FlushDB(0)
	tx.SwapDB(0, 1)
	if w.Touched() {
		t.Error("keys that do not exist dirty the watch when their database ends")
	}
	tx.Set([]byte("key:7"), []byte("v"), 0)
	if !w.Touched() {
		t.Error("a change of a watched key does not dirty the watch")
	}
	tx.End()
	set.Unlock(all)
	w.Clear()
	if w.Touched() || w.Len() != 0 {
		t.Error("a cleared watch is not empty")
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("watching %d keys took %v", keys, took)
	}
}

// TestDirtyOfOverdueKey: a watched key that is overdue dirties the watch and stays.
func TestDirtyOfOverdueKey(t *testing.T) {
	set := NewSet(1, 1)
	all := []int{0}
	tx := set.NewTx(&op.LogPosition{})
	w := set.NewWatch()
	set.Lock(all)
	defer set.Unlock(all)
	tx.Begin(all, 0, 1)
	tx.Set([]byte("k"), []byte("v"), 10)
	tx.Watch(w, []byte("k"))
	if tx.Dirty(w) {
		t.Error("a key that lives dirties the watch")
	}
	tx.End()
	tx.Begin(all, 0, 11)
	if !tx.Dirty(w) {
		t.Error("an overdue key does not dirty the watch")
	}
	if n := tx.Commit().Ops(); n != 0 {
		t.Errorf("looking at a watch made %d ops", n)
	}
	tx.End()
}

// TestWatchWhileYielded: a watch that began, and one that ended, while somebody uses the
// yielded shards is known to his next change, whatever that is.
func TestWatchWhileYielded(t *testing.T) {
	for name, change := range map[string]func(tx *Tx){
		"set":      func(tx *Tx) { tx.Set([]byte("k"), []byte("w"), 0) },
		"del":      func(tx *Tx) { tx.Del([]byte("k")) },
		"flush":    func(tx *Tx) { tx.FlushDB(0) },
		"flushall": func(tx *Tx) { tx.FlushAll() },
		"swap":     func(tx *Tx) { tx.SwapDB(0, 1) },
		"signal":   func(tx *Tx) { tx.Signal([]byte("k")) },
	} {
		t.Run(name, func(t *testing.T) {
			set := NewSet(2, 2)
			all := []int{0, 1}
			tx := set.NewTx(&op.LogPosition{})
			set.Lock(all)
			defer set.Unlock(all)
			tx.Begin(all, 0, 1)
			defer tx.End()
			tx.Set([]byte("k"), []byte("v"), 0)
			begun, ended := set.NewWatch(), set.NewWatch()
			tx.Watch(ended, []byte("k"))
			mark := ended.mark
			set.Yield()
			defer set.Retake()
			ended.Clear()
			if !begun.AddLater(0, []byte("k")) {
				t.Fatal("not taken")
			}
			change(tx)
			if !begun.Touched() {
				t.Error("a watch of before the change is not told of it")
			}
			if mark.dirty.Load() {
				t.Error("a watch that has ended is told of it")
			}
		})
	}
}
