package feed

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"kevy/internal/op"
	"kevy/persist"
)

// counted is what a Recovery has found, as text.
func counted(f persist.Recovered) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %v", f.Draw, f.Next)
	for _, c := range f.Changes {
		fmt.Fprintf(&b, "; %d@%d from %d %v", c.Draw, c.FirstLSN, c.From, c.Ends)
	}
	if f.NewHistory != "" {
		fmt.Fprintf(&b, "; %s", f.NewHistory)
	}
	return b.String()
}

func TestRecoveryCounts(t *testing.T) {
	start := func(draw, lsn uint64) persist.Start { return persist.Start{Draw: draw, FirstLSN: lsn} }
	block := func(r *Recovery, lsn uint64, streams ...int) {
		r.Block(lsn, 10)
		for _, s := range streams {
			r.Op(s)
		}
	}
	positions := func(t *testing.T, r *Recovery, draw uint64, next ...uint64) {
		for i, n := range next {
			must(t, r.Position(i, draw+uint64(i), n))
		}
	}
	const every = op.EveryStream
	for name, tc := range map[string]struct {
		starts []persist.Start
		read   func(t *testing.T, r *Recovery)
		tail   uint64
		want   string
	}{
		"nothing at all":           {nil, func(*testing.T, *Recovery) {}, 0, "0 [0 0 0]"},
		"an empty log":             {[]persist.Start{start(100, 1)}, func(*testing.T, *Recovery) {}, 0, "100 [0 0 0]; 100@1 from 0 []"},
		"counted from LSN 1":       {[]persist.Start{start(100, 1)}, func(t *testing.T, r *Recovery) { block(r, 1, 0, 1, 0, every) }, 4, "100 [3 2 4]; 100@1 from 0 []"},
		"a crash ended one":        {[]persist.Start{start(100, 1), start(200, 3)}, func(t *testing.T, r *Recovery) { block(r, 1, 0, 1); block(r, 3, 1) }, 3, "200 [0 1 1]; 100@1 from 0 []; 200@3 from 100 [1 1 2]"},
		"a crash ended it at tail": {[]persist.Start{start(100, 1), start(200, 3)}, func(t *testing.T, r *Recovery) { block(r, 1, 0, 1) }, 2, "200 [0 0 0]; 100@1 from 0 []; 200@3 from 100 [1 1 2]"},
		"a lost beginning":         {[]persist.Start{start(100, 1), start(200, 9)}, func(t *testing.T, r *Recovery) { block(r, 1, 0, 1) }, 2, "100 [1 1 2]; 100@1 from 0 []"},
		"flushall in the log": {[]persist.Start{start(100, 1)}, func(t *testing.T, r *Recovery) {
			block(r, 1, 0, every)
			must(t, r.Generation(300, 2))
			block(r, 3, 1)
		}, 3, "300 [0 1 1]; 100@1 from 0 []; 300@3 from 100 [2 1 2]"},
		"flushall in both": {[]persist.Start{start(100, 1), start(300, 3)}, func(t *testing.T, r *Recovery) {
			block(r, 1, 0, every)
			must(t, r.Generation(300, 2))
			block(r, 3, 1)
		}, 3, "300 [0 1 1]; 100@1 from 0 []; 300@3 from 100 [2 1 2]"},
		"two in a row": {[]persist.Start{start(100, 1)}, func(t *testing.T, r *Recovery) {
			block(r, 1, every)
			must(t, r.Generation(300, 1))
			must(t, r.Generation(400, 1))
		}, 1, "400 [0 0 0]; 100@1 from 0 []; 300@2 from 100 [1 1 1]; 400@2 from 300 [0 0 0]"},
		"a base in between": {[]persist.Start{start(100, 1)}, func(t *testing.T, r *Recovery) {
			positions(t, r, 100, 7, 5, 10)
			block(r, 11, 0)
		}, 11, "100 [8 5 11]; 100@1 from 0 []"},
		"a base and nothing after": {[]persist.Start{start(100, 1)}, func(t *testing.T, r *Recovery) { positions(t, r, 100, 7, 5, 10) }, 10, "100 [7 5 10]; 100@1 from 0 []"},
		"positions alone":          {nil, func(t *testing.T, r *Recovery) { positions(t, r, 100, 7, 5, 10); block(r, 31, 0) }, 31, "100 [8 5 11]; 100@21 from 0 []"},
		"a newer one in positions": {[]persist.Start{start(100, 1)}, func(t *testing.T, r *Recovery) { positions(t, r, 300, 2, 1, 3); block(r, 31, 0) }, 31, "300 [3 1 4]; 100@1 from 0 []; 300@28 from 100 []"},
		"older positions":          {[]persist.Start{start(100, 1), start(200, 31)}, func(t *testing.T, r *Recovery) { positions(t, r, 100, 12, 18, 30); block(r, 31, 0) }, 31, "200 [1 0 1]; 100@1 from 0 []; 200@31 from 100 [12 18 30]"},
		"older positions and nothing after": {[]persist.Start{start(50, 1), start(100, 9), start(200, 31)}, func(t *testing.T, r *Recovery) {
			positions(t, r, 100, 12, 10, 22)
		}, 30, "200 [0 0 0]; 100@9 from 0 []; 200@31 from 100 [12 10 22]"},
		"two that begin behind older positions": {[]persist.Start{start(100, 1), start(200, 31), start(300, 31)}, func(t *testing.T, r *Recovery) {
			positions(t, r, 100, 12, 18, 30)
			block(r, 31, 0)
		}, 31, "300 [1 0 1]; 100@1 from 0 []; 200@31 from 100 [12 18 30]; 300@31 from 200 [0 0 0]"},
		"a second file": {[]persist.Start{start(100, 1)}, func(t *testing.T, r *Recovery) {
			block(r, 1, 0, 1)
			positions(t, r, 100, 1, 1, 2)
			block(r, 3, 1)
		}, 3, "100 [1 2 3]; 100@1 from 0 []"},
		"a file in which nothing follows": {[]persist.Start{start(100, 1)}, func(t *testing.T, r *Recovery) {
			positions(t, r, 100, 0, 0, 0)
			positions(t, r, 100, 0, 0, 0)
			block(r, 1, 0)
		}, 1, "100 [1 0 1]; 100@1 from 0 []"},
		"a file that contradicts the count": {[]persist.Start{start(100, 1)}, func(t *testing.T, r *Recovery) {
			block(r, 1, 0, 1)
			positions(t, r, 100, 2, 0, 2)
		}, 2, "100 [1 1 2]; 100@1 from 0 []; a segment's positions differ from the frames before it"},
		"a file that contradicts itself": {[]persist.Start{start(100, 1)}, func(t *testing.T, r *Recovery) {
			must(t, r.Position(0, 100, 0))
			must(t, r.Position(1, 102, 0))
		}, 0, "100 [0 0 0]; 100@1 from 0 []; a segment contradicts itself about where its streams begin"},
		"a file that is short of a stream": {[]persist.Start{start(100, 1)}, func(t *testing.T, r *Recovery) {
			must(t, r.Position(0, 100, 0))
		}, 0, "100 [0 0 0]; 100@1 from 0 []; a segment does not say where each stream begins"},
		"no place to begin at": {[]persist.Start{start(100, 1)}, func(t *testing.T, r *Recovery) { block(r, 11, 0) }, 11, "100 [1 0 1]; 100@1 from 0 []; the log does not say where its streams begin"},
		"a gap":                {[]persist.Start{start(100, 1)}, func(t *testing.T, r *Recovery) { block(r, 1, 0); block(r, 5, 1) }, 5, "100 [1 1 2]; 100@1 from 0 []; the log lacks the ops from LSN 2 to 4"},
		"a gap at the end":     {[]persist.Start{start(100, 1)}, func(t *testing.T, r *Recovery) { block(r, 1, 0) }, 5, "100 [1 0 1]; 100@1 from 0 []; the log lacks the ops from LSN 2 to 5"},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewRecovery(2, slices.Clone(tc.starts))
			tc.read(t, r)
			if got := counted(r.Finish(tc.tail)); got != tc.want {
				t.Fatalf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
	r := NewRecovery(2, nil)
	for name, err := range map[string]error{
		"stream 3": r.Position(3, 100, 0), "stream -1": r.Position(-1, 100, 0), "a small generation": r.Position(1, 1, 0),
		"no draw": r.Generation(0, 1), "a huge draw": r.Generation(persist.MaxGeneration-1, 1),
	} {
		if err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func TestOpenRefusesOffsetsThatDoNotAddUp(t *testing.T) {
	for _, shards := range []int{1, 3} {
		h, err := persist.FreshHistory(1_790_000_000, shards)
		must(t, err)
		h.Streams[0].Next = 1
		s := New(Options{Shards: shards})
		if err := s.Open(newFakeLog(s), h, nil); err == nil {
			t.Errorf("%d shards: a frame without an op was accepted", shards)
		}
		if err := New(Options{Shards: shards + 1}).Open(newFakeLog(s), h, nil); err == nil {
			t.Error("the history of another number of shards was accepted")
		}
	}
}

// TestMarks compares the rings with a plain list.
func TestMarks(t *testing.T) {
	const shards = 2
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var m marks
	m.size(shards, 1, 1, 8)
	var all []mark // of stream 1
	next := []uint64{0, 0}
	draw, lsn := uint64(10), uint64(1)
	for range 400 {
		if rng.IntN(20) == 0 {
			draw += 10
			next = []uint64{0, 0}
		}
		for range 1 + rng.IntN(5) {
			next[rng.IntN(shards)]++
			lsn++
		}
		m.add(lsn, draw, func(i int) uint64 { return next[i] })
		all = append(all, mark{lsn, draw, next[1]})
	}
	if m.dense.n != 8 || m.sparse.n != 8 {
		t.Fatalf("%d dense marks and %d sparse ones", m.dense.n, m.sparse.n)
	}
	// What is left: the newest, and of those before one in sixteen.
	var left []mark
	for i := range m.sparse.n {
		left = append(left, m.sparse.get(i, 1, shards))
	}
	for i := 1; i < len(left); i++ {
		a := slices.Index(all, left[i-1])
		if b := slices.Index(all, left[i]); a < 0 || b != a+sparseInterval {
			t.Fatalf("sparse marks %d and %d of all", a, b)
		}
	}
	left = append(left, all[len(all)-8:]...)
	for range 2000 {
		at := all[rng.IntN(len(all))]
		at.lsn += uint64(rng.IntN(3))
		at.offset += uint64(rng.IntN(3))
		var byLSN, byOffset, after mark
		var okLSN, okOffset, okAfter bool
		for _, k := range left {
			if k.lsn <= at.lsn {
				byLSN, okLSN = k, true
			} else if !okAfter {
				after, okAfter = k, true
			}
			if k.draw == at.draw && k.offset <= at.offset {
				byOffset, okOffset = k, true
			}
		}
		if got, ok := m.atLSN(1, at.lsn); ok != okLSN || got != byLSN {
			t.Fatalf("at LSN %d: %+v %v, want %+v %v", at.lsn, got, ok, byLSN, okLSN)
		}
		if got, ok := m.afterLSN(1, at.lsn); ok != okAfter || got != after {
			t.Fatalf("after LSN %d: %+v %v, want %+v %v", at.lsn, got, ok, after, okAfter)
		}
		if got, ok := m.atOffset(1, at.draw, at.offset); ok != okOffset || ok && got != byOffset {
			t.Fatalf("at offset %d of %d: %+v %v, want %+v %v", at.offset, at.draw, got, ok, byOffset, okOffset)
		}
	}
}

func TestMarksAreBounded(t *testing.T) {
	for _, shards := range []int{1, 16, 1024, 16384} {
		var m marks
		m.init(shards)
		if n := len(m.dense.lsns); n < minMarks || n > maxMarks || n > minMarks && n*8*(shards+2) > maxMarksBytes {
			t.Errorf("%d shards: %d marks", shards, n)
		}
	}
}
