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
	l.blockBytes, l.lasting = 64<<10, true
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

// BenchmarkFilter is what a filter adds to a frame that it lets pass, and to one
// that it leaves out.
func BenchmarkFilter(b *testing.B) {
	frames := map[string]*op.Frame{
		"passed":   frameOf(b, 0, "SET", "user:000000012345a1", strings.Repeat("v", 60)+"paid"),
		"left out": frameOf(b, 0, "SET", "order:000000012345", strings.Repeat("v", 64)),
	}
	for _, kind := range []struct {
		name string
		ref  refFilter
	}{
		{"none", refFilter{allDBs: true}},
		{"DB", refFilter{}},
		{"PREFIX", refFilter{prefixes: []string{"user:"}}},
		{"MATCH prefix", refFilter{matches: []string{"user:*"}}},
		{"MATCH", refFilter{matches: []string{"*ser:*1"}}},
		{"REGEX", refFilter{regexes: [][2]string{{"user:", `[a-f]\d+$`}}}},
		{"REGEX BYTEMODE", refFilter{regexes: [][2]string{{"user:", `[a-f]\d+$`}}, byteMode: true}},
		{"VALUE PREFIX", refFilter{valuePrefixes: []string{"vvv"}}},
		{"VALUE REGEX", refFilter{valueRegexes: []string{`paid`}}},
		{"VALUE REGEX slow", refFilter{valueRegexes: []string{`[a-z]+paid$`}}},
		{"PREFIX and VALUE REGEX", refFilter{prefixes: []string{"user:"}, valueRegexes: []string{`paid`}}},
	} {
		f := kind.ref.filter(b)
		for _, name := range []string{"passed", "left out"} {
			frame := frames[name]
			b.Run(kind.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					f.passes(frame)
				}
			})
		}
	}
}

// BenchmarkRareFilter reads what a filter leaves out, all of it: the time is that
// of a frame.
func BenchmarkRareFilter(b *testing.B) {
	const commits = 100_000
	s, l := openFake(b, 16)
	l.blockBytes, l.lasting = 64<<10, true
	for i := range commits {
		l.append(commitOf(16, fmt.Sprintf("SET key:%012d %s", i, strings.Repeat("v", 64))))
	}
	for _, bc := range []struct {
		name   string
		stream int
		ref    refFilter
	}{
		{"PREFIX", 16, refFilter{prefixes: []string{"wanted"}}},
		{"MATCH", 16, refFilter{matches: []string{"*wanted"}}},
		{"REGEX", 16, refFilter{regexes: [][2]string{{"", "wanted$"}}}},
		{"VALUE EXACT", 16, refFilter{valueExact: []string{"wanted"}}},
		{"VALUE REGEX", 16, refFilter{valueRegexes: []string{"wanted$"}}},
		{"PREFIX/shard", 3, refFilter{prefixes: []string{"wanted"}}},
	} {
		f := bc.ref.filter(b)
		b.Run(bc.name, func(b *testing.B) {
			var batch Batch
			at := Cursor{s.Tail(bc.stream).Generation, 0}
			scanned := 0
			b.ReportAllocs()
			for b.Loop() {
				if err := s.Since(ctx, &Request{Stream: bc.stream, Cursor: at, Filter: f}, &batch); err != nil {
					b.Fatal(err)
				}
				if batch.Len() > 0 || batch.Next == at.Offset {
					b.Fatal("it is found")
				}
				scanned += commits // of the log, whatever the stream
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(scanned), "ns/frame")
			b.ReportMetric(float64(scanned)/b.Elapsed().Seconds(), "frames/s")
		})
	}
}
