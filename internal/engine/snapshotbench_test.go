package engine

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"kevy/internal/vfs"
)

// BenchmarkSnapshot takes the cut of a store with a million keys, and writes it
// to memory.
func BenchmarkSnapshot(b *testing.B) {
	e, err := Open(Options{FS: vfs.NewMem(), Dir: "/data", Shards: 16, DBs: 16, NoFile: true})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	tx := e.NewTx()
	for i := range 1_000_000 {
		key := fmt.Appendf(nil, "user:%08d", i)
		held := []int{e.set.ShardOf(key)}
		e.set.Lock(held)
		tx.Begin(held, i%2, e.NowMs())
		tx.Set(key, key, 0)
		e.Commit(tx)
		tx.End()
		e.set.Unlock(held)
	}
	var cut, write time.Duration
	var bytes int64
	b.ResetTimer()
	for range b.N {
		runtime.GC()
		began := time.Now()
		frozen, err := freezer{e}.Freeze(func() { e.source.NextOffsets() })
		cut += time.Since(began)
		if err != nil {
			b.Fatal(err)
		}
		began = time.Now()
		if err := frozen.Write(func(_, _, _ int, payload []byte) error { bytes += int64(len(payload)); return nil }); err != nil {
			b.Fatal(err)
		}
		write += time.Since(began)
	}
	b.ReportMetric(float64(cut.Nanoseconds())/float64(b.N), "ns/cut")
	b.ReportMetric(float64(bytes)/1e6/write.Seconds(), "MB/s")
}
