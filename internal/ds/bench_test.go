package ds

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
)

const benchKeys = 1_000_000

func benchKeyList(n int) [][]byte {
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "key:%012d", i)
	}
	return keys
}

func heapBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func BenchmarkTable(b *testing.B) {
	keys := benchKeyList(benchKeys)
	order := rand.New(rand.NewPCG(1, 1)).Perm(benchKeys)
	value := make([]byte, 64)
	before := heapBytes()
	tab := NewTable()
	for _, k := range keys {
		tab.Put(k, value)
	}
	perKey := float64(heapBytes()-before) / benchKeys
	b.Run("get-1M-random", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if tab.Get(keys[order[i%benchKeys]]) == nil {
				b.Fatal("missing")
			}
		}
		b.ReportMetric(perKey, "B/key")
	})
	b.Run("get-1M-hot1k", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if tab.Get(keys[order[i%1000]]) == nil {
				b.Fatal("missing")
			}
		}
	})
	b.Run("get-1M-missing", func(b *testing.B) {
		k := []byte("missing:0123456789")
		for i := 0; b.Loop(); i++ {
			k[8], k[9], k[10] = byte(i), byte(i>>8), byte(i>>16)
			if tab.Get(k) != nil {
				b.Fatal("found")
			}
		}
	})
	b.Run("overwrite-1M-random", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			tab.Put(keys[order[i%benchKeys]], value)
		}
	})
	b.Run("overwrite-1M-hot1k", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			tab.Put(keys[order[i%1000]], value)
		}
	})
	b.Run("new-to-1M", func(b *testing.B) {
		b.ReportAllocs()
		tab := NewTable()
		for i := 0; b.Loop(); i++ {
			if i%benchKeys == 0 {
				tab = NewTable()
			}
			tab.Put(keys[order[i%benchKeys]], value)
		}
	})
	b.Run("delete-put", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			k := keys[order[i%benchKeys]]
			tab.Delete(k)
			tab.Put(k, value)
		}
	})
	b.Run("scan-10", func(b *testing.B) {
		b.ReportAllocs()
		cursor := uint64(0)
		for b.Loop() {
			cursor = tab.Scan(cursor, 10, func(*Entry) {})
		}
	})
	b.Run("random", func(b *testing.B) {
		rng := rand.New(rand.NewPCG(1, 1))
		for b.Loop() {
			tab.Random(rng)
		}
	})
	b.Run("freeze-write-release", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			f := tab.Freeze()
			tab.Put(keys[order[i%benchKeys]], value)
			f.Release()
		}
	})
}

func BenchmarkZSet(b *testing.B) {
	const n = 100_000
	members := benchKeyList(n)
	rng := rand.New(rand.NewPCG(1, 1))
	lim := DefaultLimits()
	before := heapBytes()
	z := NewZSet()
	for _, m := range members {
		z.Set(m, rng.Float64(), &lim)
	}
	perMember := float64(heapBytes()-before) / n
	b.Run("set-new-score", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			z.Set(members[i*7919%n], rng.Float64(), &lim)
		}
		b.ReportMetric(perMember, "B/member")
	})
	b.Run("rank", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			z.Rank(members[i*7919%n])
		}
	})
	b.Run("seek-score", func(b *testing.B) {
		for b.Loop() {
			z.SeekScore(rng.Float64(), false)
		}
	})
	b.Run("at", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			z.At(rng.IntN(n))
		}
	})
	b.Run("range-100", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			z.EachRank(rng.IntN(n), 100, false, func([]byte, float64) bool { return true })
		}
	})
	b.Run("add-remove", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			m := members[i*7919%n]
			z.Remove(m)
			z.Set(m, rng.Float64(), &lim)
		}
	})
	b.Run("packed-128-set", func(b *testing.B) {
		b.ReportAllocs()
		z := NewZSet()
		for i := 0; b.Loop(); i++ {
			z.Set(members[i%128], rng.Float64(), &lim)
		}
	})
}

func BenchmarkList(b *testing.B) {
	elem := make([]byte, 64)
	b.Run("push-back", func(b *testing.B) {
		b.ReportAllocs()
		l := NewList()
		for i := 0; b.Loop(); i++ {
			if i%benchKeys == 0 {
				l = NewList()
			}
			l.PushBack(elem)
		}
		b.ReportMetric(float64(l.MemBytes())/float64(l.Len()), "B/elem")
	})
	b.Run("push-front", func(b *testing.B) {
		b.ReportAllocs()
		l := NewList()
		for i := 0; b.Loop(); i++ {
			if i%benchKeys == 0 {
				l = NewList()
			}
			l.PushFront(elem)
		}
	})
	for _, depth := range []int{0, 1000} {
		b.Run(fmt.Sprintf("queue-of-%d", depth), func(b *testing.B) {
			b.ReportAllocs()
			l := NewList()
			for range depth {
				l.PushBack(elem)
			}
			for b.Loop() {
				l.PushBack(elem)
				pop(l, 0)
			}
		})
	}
	b.Run("index-middle-of-1M", func(b *testing.B) {
		l := NewList()
		for range benchKeys {
			l.PushBack(elem)
		}
		for b.Loop() {
			l.Index(benchKeys / 2)
		}
	})
}

func BenchmarkHash(b *testing.B) {
	lim := DefaultLimits()
	for _, n := range []int{10, 100, 10_000} {
		fields := benchKeyList(n)
		value := make([]byte, 32)
		h := NewHash()
		for _, f := range fields {
			h.Set(f, value, &lim)
		}
		b.Run(fmt.Sprintf("get-%d-%s", n, h.Encoding()), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				h.Get(fields[i*7919%n])
			}
		})
		b.Run(fmt.Sprintf("set-%d-%s", n, h.Encoding()), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				h.Set(fields[i*7919%n], value, &lim)
			}
		})
	}
}

func BenchmarkDeadlineIndex(b *testing.B) {
	const n = 100_000
	keys := benchKeyList(n)
	x := NewDeadlineIndex()
	at := make([]int64, n)
	rng := rand.New(rand.NewPCG(1, 1))
	before := heapBytes()
	for i, k := range keys {
		at[i] = 1 + rng.Int64N(1<<40)
		x.Set(k, 0, at[i])
	}
	perKey := float64(heapBytes()-before) / n
	b.Run("move-100k", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			j := i * 7919 % n
			to := 1 + rng.Int64N(1<<40)
			x.Set(keys[j], at[j], to)
			at[j] = to
		}
		b.ReportMetric(perKey, "B/key")
	})
}
