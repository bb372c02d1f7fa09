package feed

import (
	"fmt"

	"kevy/internal/op"
	"kevy/persist"
)

// Recovery counts the frames of every stream while the log is read at open: it
// finds the generation and the offsets at the tail, and sets marks on the way.
// One goroutine uses it, in the order of the log.
type Recovery struct {
	n      int // shards
	starts []persist.Start
	marks  *marks

	lsn   uint64 // of the last op read
	began bool   // lsn is known

	draw    uint64
	first   uint64 // LSN at which the generation begins
	next    []uint64
	counted bool // next is right
	fault   string

	changes []persist.Change
	pending []Position // of the file that begins

	sinceOps, sinceBytes int
}

// NewRecovery returns a Recovery for a store of n shards. starts are the
// generations that the sidecars know: the log itself does not say where a crash
// ended one.
func NewRecovery(n int, starts []persist.Start) *Recovery {
	r := &Recovery{n: n, starts: starts, next: make([]uint64, n+1), marks: &marks{}}
	r.marks.init(n)
	return r
}

// Position takes a line from the beginning of a file, before its blocks. Lines
// come in the order of the streams.
func (r *Recovery) Position(stream int, generation, next uint64) error {
	if _, ok := persist.DrawOf(generation, stream); !ok || stream < 0 || stream > r.n {
		return fmt.Errorf("stream %d of %d shards cannot be in generation %d", stream, r.n, generation)
	}
	if n := len(r.pending); n > 0 && r.pending[n-1].Stream >= stream {
		r.pending = r.pending[:0] // those of a file in which nothing follows
	}
	r.pending = append(r.pending, Position{stream, generation, next})
	return nil
}

// Generation takes the number of the generation that begins after the op lsn.
func (r *Recovery) Generation(draw, lsn uint64) error {
	if draw == 0 || draw+uint64(r.n) > persist.MaxGeneration {
		return fmt.Errorf("%d is no generation", draw)
	}
	r.reach(lsn + 1)
	r.begin(persist.Start{Draw: draw, FirstLSN: lsn + 1})
	return nil
}

// Block takes the beginning of a block: its first LSN and the size of its
// payload. Op follows for each of its ops.
func (r *Recovery) Block(firstLSN uint64, payloadBytes int) {
	r.reach(firstLSN)
	if r.counted && r.marks.due(r.sinceOps, r.sinceBytes) {
		r.marks.add(firstLSN, r.draw, func(i int) uint64 { return r.next[i] })
		r.sinceOps, r.sinceBytes = 0, 0
	}
	r.sinceBytes += payloadBytes
}

// Op counts an op of a shard's stream, or of op.EveryStream.
func (r *Recovery) Op(stream int) {
	r.lsn++
	r.sinceOps++
	r.next[r.n]++
	if stream != op.EveryStream {
		r.next[stream]++
	} else {
		for i := range r.n {
			r.next[i]++
		}
	}
	if len(r.starts) > 0 && r.starts[0].FirstLSN <= r.lsn+1 {
		r.passStarts()
	}
}

// reach says that lsn is the next op. Blocks follow each other without a gap
// unless a damaged one was skipped.
func (r *Recovery) reach(lsn uint64) {
	if !r.began {
		r.began = true
		r.lsn = lsn - 1
		// Of what began before the log does, the newest is the one that goes on. One
		// that begins right here comes after it.
		for len(r.starts) > 1 && r.starts[1].FirstLSN < lsn {
			r.starts = r.starts[1:]
		}
		if len(r.starts) > 0 && r.starts[0].FirstLSN < lsn {
			r.draw, r.first = r.starts[0].Draw, r.starts[0].FirstLSN
			r.starts = r.starts[1:]
			r.changes = append(r.changes, persist.Change{Start: persist.Start{Draw: r.draw, FirstLSN: r.first}})
		}
	}
	if lsn != r.lsn+1 {
		r.fault = fmt.Sprintf("the log lacks the ops from LSN %d to %d", r.lsn+1, lsn-1)
		r.lsn = lsn - 1
	}
	// A file says where the generation stood that ended at its beginning, unless the
	// one that began there was known by then.
	r.adoptPositions()
	r.passStarts()
}

// passStarts begins the generations that begin after the op r.lsn.
func (r *Recovery) passStarts() {
	for len(r.starts) > 0 && r.starts[0].FirstLSN <= r.lsn+1 {
		s := r.starts[0]
		r.starts = r.starts[1:]
		if s.FirstLSN == r.lsn+1 {
			r.begin(s)
		}
	}
}

func (r *Recovery) begin(s persist.Start) {
	if s.Draw <= r.draw {
		return
	}
	c := persist.Change{Start: s, From: r.draw}
	if r.counted {
		c.Ends = append([]uint64(nil), r.next...)
	}
	r.changes = append(r.changes, c)
	r.draw, r.first, r.counted = s.Draw, s.FirstLSN, true
	clear(r.next)
	r.sinceOps, r.sinceBytes = 0, 0
}

// adoptPositions compares the positions of a file's beginning with what was
// counted, or begins to count with them.
func (r *Recovery) adoptPositions() {
	pending := r.pending
	r.pending = r.pending[:0]
	if len(pending) == 0 {
		return
	}
	next := make([]uint64, r.n+1)
	draw := pending[0].Generation - uint64(pending[0].Stream)
	for _, p := range pending {
		if p.Generation-uint64(p.Stream) != draw {
			r.fault = "a segment contradicts itself about where its streams begin"
			return
		}
		next[p.Stream] = p.Next
	}
	if len(pending) != r.n+1 || next[r.n] > r.lsn {
		r.fault = "a segment does not say where each stream begins"
		return
	}
	first := r.lsn + 1 - next[r.n]
	switch {
	case draw < r.draw:
		// Written before the generation that begins here was known.
	case draw > r.draw:
		if r.counted && first == r.lsn+1 {
			r.begin(persist.Start{Draw: draw, FirstLSN: first})
			return
		}
		// The line that announced it is in a segment that is no longer read.
		r.changes = append(r.changes, persist.Change{Start: persist.Start{Draw: draw, FirstLSN: first}, From: r.draw})
		r.draw, r.first = draw, first
		copy(r.next, next)
		r.counted = true
	case !r.counted && first == r.first:
		copy(r.next, next)
		r.counted = true
	default:
		for i := range next {
			if next[i] != r.next[i] {
				r.fault = "a segment's positions differ from the frames before it"
			}
		}
	}
}

// Finish ends the reading: the log ends with the op tailLSN. It fills in what
// persist.OpenContract wants to know beside the tail.
func (r *Recovery) Finish(tailLSN uint64) persist.Recovered {
	r.reach(tailLSN + 1)
	facts := persist.Recovered{Draw: r.draw, Next: append([]uint64(nil), r.next...), Changes: r.changes, NewHistory: r.fault}
	if r.draw != 0 && !r.counted && facts.NewHistory == "" {
		facts.NewHistory = "the log does not say where its streams begin"
	}
	return facts
}
