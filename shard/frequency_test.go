package shard

import (
	"testing"

	"kevy/internal/ds"
)

func TestUsesAreCounted(t *testing.T) {
	s := newTestSet(1)
	key, other := []byte("k"), []byte("other")
	info := func(k []byte) Info {
		t.Helper()
		s.Lock(s.all)
		defer s.Unlock(s.all)
		s.tx.Begin(s.all, 0, s.now)
		defer s.tx.End()
		i, ok := s.tx.Info(k)
		if !ok {
			t.Fatal("the key is gone")
		}
		return i
	}
	s.update(0, func(tx *Tx) { tx.Set(key, []byte("1"), 0) })
	if i := info(key); i.Uses != 0 || s.tx.CountsUses() {
		t.Errorf("uses are counted without being asked for: %+v", i)
	}
	s.SetLFU(&LFU{LogFactor: 10, DecayMinutes: 1})
	s.update(0, func(tx *Tx) { tx.Del(key); tx.Set(key, []byte("1"), 0) })
	if i := info(key); i.Uses != newCounter || i.Encoding != "int" {
		t.Errorf("a new key: %+v", i)
	}
	use := func(n int) {
		s.update(0, func(tx *Tx) {
			for range n {
				_, _, _ = tx.String(key)
			}
		})
	}
	// With the factor of 10 the counter passes 10 after some hundred uses, and is
	// about 140 after a hundred thousand.
	use(1)
	if i := info(key); i.Uses != newCounter+1 {
		t.Errorf("one use: %+v", i)
	}
	use(100_000)
	many := info(key).Uses
	if many < 100 || many > 180 {
		t.Errorf("100,000 uses make %d", many)
	}
	s.update(0, func(tx *Tx) { tx.MarkNotInt(key) })
	if i := info(key); i.Uses != many || i.Encoding != "embstr" {
		t.Errorf("the mark of another kind: %+v, was %d", i, many)
	}
	// To overwrite a key is to use it.
	s.update(0, func(tx *Tx) { tx.Set(key, []byte("2"), 0) })
	if i := info(key); i.Uses < many || i.Encoding != "int" {
		t.Errorf("overwritten: %+v, was %d", i, many)
	}
	s.now += 10 * 60_000
	if i := info(key); i.Uses+11 < many || i.Uses > many-9 {
		t.Errorf("ten minutes later: %+v, was %d", i, many)
	}
	s.now += 65536 * 60_000
	if i := info(key); i.Uses+11 < many {
		t.Errorf("the minutes have come round: %+v", i)
	}
	s.now += 300 * 60_000
	if i := info(key); i.Uses != 0 {
		t.Errorf("long after: %+v", i)
	}
	s.update(0, func(tx *Tx) {
		l := ds.NewList()
		l.PushBack(key)
		tx.Put(other, Value{Object: l}, 0)
		tx.SetFrequency(other, 200)
		tx.SetIdle(other, 1000)
	})
	if i := info(other); i.Uses != 200 {
		t.Errorf("set to 200: %+v", i)
	}
	s.SetLFU(&LFU{LogFactor: 0, DecayMinutes: 0})
	s.now += 300 * 60_000
	use(300)
	if i := info(key); i.Uses != 255 {
		t.Errorf("without a factor each use counts: %+v", i)
	}
	s.SetLFU(nil)
	s.update(0, func(tx *Tx) { tx.Touch(key); tx.SetFrequency(key, 9) })
	if i := info(key); i.IdleSec != 0 {
		t.Errorf("idle times again: %+v", i)
	}
}

// What a client with NO-TOUCH does leaves the records of keys that are there as they are,
// but for TOUCH; a new key has one all the same.
func TestUntouch(t *testing.T) {
	for _, lfu := range []*LFU{nil, {LogFactor: 0, DecayMinutes: 1}} {
		s := newTestSet(1)
		s.SetLFU(lfu)
		key, fresh := []byte("k"), []byte("fresh")
		word := func(k []byte) uint32 { return s.shards[0].dbs[0].keys.Get(k).LRU() }
		s.update(0, func(tx *Tx) { tx.Set(key, []byte("v"), 0) })
		before := word(key)
		s.now += 120_000
		s.tx.Untouch(true)
		s.update(0, func(tx *Tx) {
			_, _, _ = tx.String(key)
			_ = tx.SetRange(key, 0, []byte("w"))
			tx.Set(fresh, []byte("v"), 0)
			_, _ = tx.HSet([]byte("hash"), []byte("f"), []byte("v"))
		})
		if word(key) != before {
			t.Errorf("%v: read and changed: %x, was %x", lfu, word(key), before)
		}
		if word(fresh) == 0 || word([]byte("hash")) == 0 {
			t.Errorf("%v: new keys have no record", lfu)
		}
		s.update(0, func(tx *Tx) { tx.Touch(key) })
		if word(key) == before {
			t.Errorf("%v: TOUCH has left it", lfu)
		}
		before = word(key)
		s.now += 120_000
		s.tx.Untouch(false)
		s.update(0, func(tx *Tx) { _, _, _ = tx.String(key) })
		if word(key) == before {
			t.Errorf("%v: used, and not on record", lfu)
		}
	}
}
