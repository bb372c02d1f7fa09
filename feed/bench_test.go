package feed

import (
	"fmt"
	"strings"
	"testing"

	"kevy/internal/op"
)

// BenchmarkPublish is what the feed adds to a commit.
func BenchmarkPublish(b *testing.B) {
	for _, bc := range []struct{ shards, ops int }{{16, 1}, {16, 10}, {1, 1}} {
		b.Run(fmt.Sprintf("shards=%d/ops=%d", bc.shards, bc.ops), func(b *testing.B) {
			s, _ := openFake(b, bc.shards)
			var commits []*op.Commit
			for i := range 64 {
				var lines []string
				for j := range bc.ops {
					lines = append(lines, fmt.Sprintf("SET key:%d:%d %s", i, j, strings.Repeat("v", 64)))
				}
				commits = append(commits, commitOf(bc.shards, lines...))
			}
			lsn := uint64(1)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				s.Publish(lsn, commits[i&63])
				lsn += uint64(bc.ops)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*bc.ops), "ns/op-published")
		})
	}
}

// BenchmarkSince reads a stream from one end to the other, as a consumer that
// passes back each cursor.
func BenchmarkSince(b *testing.B) {
	const commits = 100_000
	s, l := openFake(b, 16)
	l.blockBytes = 64 << 10
	for i := range commits {
		l.append(commitOf(16, fmt.Sprintf("SET key:%012d %s", i, strings.Repeat("v", 64))))
	}
	for _, bc := range []struct {
		name   string
		stream int
		filter *Filter
		count  int
	}{
		{"all", 16, nil, 256},
		{"all/count=10", 16, nil, 10},
		{"all/filtered", 16, &Filter{DB: 1}, 256},
		{"shard", 3, nil, 256},
	} {
		b.Run(bc.name, func(b *testing.B) {
			var batch Batch
			at := Cursor{s.Tail(bc.stream).Generation, 0}
			frames, scanned := 0, 0
			b.ReportAllocs()
			for b.Loop() {
				if err := s.Since(ctx, &Request{Stream: bc.stream, Cursor: at, Filter: bc.filter, Count: bc.count}, &batch); err != nil {
					b.Fatal(err)
				}
				frames += batch.Len()
				next := Cursor{batch.Generation, batch.Next}
				scanned += int(next.Offset - at.Offset)
				if next == at {
					next.Offset = 0
				}
				at = next
			}
			b.ReportMetric(float64(scanned)/b.Elapsed().Seconds(), "frames/s")
		})
	}
}
