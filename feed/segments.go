package feed

import (
	"fmt"
	"runtime"
	"sort"
	"sync"

	"kevy/persist"
)

// segmentOffsets remembers where the shard streams stand at the beginnings of
// segments, which never changes.
type segmentOffsets struct {
	mu    sync.Mutex
	known map[uint64]*segmentStart // by first LSN; guarded by mu
}

// maxKnownSegments bounds segmentOffsets; past it everything is forgotten.
const maxKnownSegments = 4096

// segmentStart is where the streams stand at a segment's beginning.
type segmentStart struct {
	draw uint64   // 0 if the segment does not say
	next []uint64 // one for each stream
}

// segmentStart returns where the streams stand at the beginning of a segment.
func (s *Source) segmentStart(seg *Segment) (*segmentStart, error) {
	so := &s.segments
	so.mu.Lock()
	st := so.known[seg.FirstLSN]
	so.mu.Unlock()
	if st != nil {
		return st, nil
	}
	positions, err := seg.Positions()
	if err != nil {
		return nil, err
	}
	st = startOf(positions, s.shards)
	so.mu.Lock()
	defer so.mu.Unlock()
	if so.known == nil || len(so.known) >= maxKnownSegments {
		so.known = map[uint64]*segmentStart{}
	}
	so.known[seg.FirstLSN] = st
	return st, nil
}

// startOf puts the positions of one segment together. Lines that do not fit
// together say nothing.
func startOf(positions []Position, shards int) *segmentStart {
	st := &segmentStart{next: make([]uint64, shards+1)}
	var draw uint64
	seen := 0
	for _, p := range positions {
		if p.Stream < 0 || p.Stream > shards {
			return st
		}
		d, ok := persist.DrawOf(p.Generation, p.Stream)
		if !ok || draw != 0 && d != draw {
			return st
		}
		draw = d
		st.next[p.Stream] = p.Next
		seen++
	}
	if seen == shards+1 {
		st.draw = draw
	}
	return st
}

// segmentsOf returns the segments that begin inside a generation, after its
// first op.
func (s *Source) segmentsOf(g *generation) []Segment {
	segs := s.archive.Segments()
	from := sort.Search(len(segs), func(i int) bool { return segs[i].FirstLSN > g.firstLSN })
	to := sort.Search(len(segs), func(i int) bool { return segs[i].FirstLSN > g.endLSN })
	return segs[from:max(from, to)]
}

// segmentBefore returns the last segment beginning at or before an offset of a
// shard stream.
func (s *Source) segmentBefore(stream int, g *generation, offset uint64) (m mark, ok bool, err error) {
	segs := s.segmentsOf(g)
	for len(segs) > 0 {
		mid := len(segs) / 2
		st, err := s.segmentStart(&segs[mid])
		if err != nil {
			return mark{}, false, err
		}
		switch {
		case st.draw != g.draw:
			segs = append(segs[:mid:mid], segs[mid+1:]...)
		case st.next[stream] > offset:
			segs = segs[:mid]
		default:
			m, ok = mark{lsn: segs[mid].FirstLSN, draw: g.draw, offset: st.next[stream]}, true
			segs = segs[mid+1:]
		}
	}
	return m, ok, nil
}

// segmentAt returns the last segment beginning at or before an LSN.
func (s *Source) segmentAt(stream int, g *generation, lsn uint64) (m mark, ok bool, err error) {
	segs := s.segmentsOf(g)
	n := sort.Search(len(segs), func(i int) bool { return segs[i].FirstLSN > lsn })
	for i := n - 1; i >= 0; i-- {
		st, err := s.segmentStart(&segs[i])
		if err != nil {
			return mark{}, false, err
		}
		if st.draw == g.draw {
			return mark{lsn: segs[i].FirstLSN, draw: g.draw, offset: st.next[stream]}, true, nil
		}
	}
	return mark{}, false, nil
}

// spare reports whether recovery does not need the file that holds an op.
func (s *Source) spare(lsn uint64) bool {
	segs := s.archive.Segments()
	i := sort.Search(len(segs), func(i int) bool { return segs[i].FirstLSN > lsn })
	return i > 0 && segs[i-1].Spare
}

// endOf returns the end of a generation as a mark: for the live one, where it
// stood at some moment just now.
func (s *Source) endOf(stream int, g *generation) (mark, error) {
	const most = 10000 // a commit is counted within microseconds
	for range most {
		v := s.view.Load()
		if v.live.draw != g.draw {
			ended, ok := v.find(stream, g.number)
			if !ok {
				break
			}
			return mark{lsn: ended.endLSN + 1, draw: g.draw, offset: ended.end}, nil
		}
		if m, ok := v.live.moment(stream); ok {
			return m, nil
		}
		runtime.Gosched()
	}
	return mark{}, fmt.Errorf("%w: the offsets of generation %d do not add up", errLog, g.number)
}

// moment returns the end of the generation if no commit is being counted right
// now. The counters only grow, and none is below what belongs to last; so they
// belong to it exactly if together they have as many frames as it has ops, an op
// without a key being a frame of every shard stream.
func (l *live) moment(stream int) (mark, bool) {
	keyless := l.keyless.Load()
	last := l.last.Load()
	var sum, offset uint64
	for i := range l.next {
		n := l.next[i].Load()
		sum += n
		if i == stream {
			offset = n
		}
	}
	if stream == len(l.next) {
		offset = last + 1 - l.firstLSN
	}
	if keyless%2 != 0 || l.keyless.Load() != keyless {
		return mark{}, false
	}
	if sum-uint64(len(l.next)-1)*(keyless/2) != last+1-l.firstLSN {
		return mark{}, false
	}
	return mark{lsn: last + 1, draw: l.draw, offset: offset}, true
}
