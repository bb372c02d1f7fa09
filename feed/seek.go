package feed

import (
	"errors"
	"fmt"
)

// seek returns a scan that stands at the cursor's offset, or at the commit that
// holds it, or where the log ends if limit, the last LSN to look at, comes
// before. The error matches ErrTruncated if the log no longer reaches back to
// it.
func (s *Source) seek(stream int, g *generation, offset, limit uint64) (*scan, error) {
	for {
		oldest := s.archive.OldestLSN()
		sc, err := s.search(stream, g, offset, limit)
		// Where the log was shortened meanwhile, there may be a place further on.
		if err == nil || !errors.Is(err, ErrTruncated) || s.archive.OldestLSN() == oldest {
			return sc, err
		}
	}
}

func (s *Source) search(stream int, g *generation, offset, limit uint64) (sc *scan, err error) {
	if stream == s.shards {
		sc, err = s.startAll(g, g.firstLSN+offset)
	} else {
		sc, err = s.seekShard(stream, g, offset)
	}
	if err != nil {
		return nil, err
	}
	if err := sc.advance(offset, limit); err != nil {
		sc.close()
		return nil, err
	}
	return sc, nil
}

// seekShard starts a scan at the best place known before an offset of a shard
// stream.
func (s *Source) seekShard(stream int, g *generation, offset uint64) (*scan, error) {
	oldest := s.archive.OldestLSN()
	at, err := s.placeBefore(stream, g, offset)
	if err != nil {
		return nil, err
	}
	if g.ended && oldest > g.endLSN {
		return nil, fmt.Errorf("generation %d of stream %d: %w", g.number, stream, ErrTruncated)
	}
	if at.lsn < oldest {
		// What lies below is gone, but the frame is there if the stream's offset at
		// the oldest LSN is not beyond it.
		next, err := s.offsetAt(stream, g, oldest)
		if err != nil {
			return nil, err
		}
		if next > offset {
			return nil, fmt.Errorf("offset %d of stream %d: %w", offset, stream, ErrTruncated)
		}
		at = mark{lsn: oldest, offset: next}
	}
	return s.startScan(stream, g.number, at.lsn, at.offset)
}

// placeBefore returns the last place known at or before an offset of a shard
// stream.
func (s *Source) placeBefore(stream int, g *generation, offset uint64) (mark, error) {
	if m, ok := s.marks.atOffset(stream, g.draw, offset); ok {
		return m, nil
	}
	if m, ok, err := s.segmentBefore(stream, g, offset); ok || err != nil {
		return m, err
	}
	return mark{lsn: g.firstLSN, draw: g.draw}, nil
}

// offsetAt returns the offset of the first frame of a stream at or after the op
// lsn, which lies in generation g, or right after it, and begins a commit. The
// error matches ErrTruncated if that cannot be told any more.
func (s *Source) offsetAt(stream int, g *generation, lsn uint64) (uint64, error) {
	if lsn <= g.firstLSN {
		return 0, nil
	}
	if stream == s.shards {
		return lsn - g.firstLSN, nil
	}
	before := mark{lsn: g.firstLSN, draw: g.draw}
	if m, ok := s.marks.atLSN(stream, lsn); ok && m.draw == g.draw {
		before = m
	} else if m, ok, err := s.segmentAt(stream, g, lsn); err != nil {
		return 0, err
	} else if ok {
		before = m
	}
	if before.lsn == lsn {
		return before.offset, nil
	}
	if before.lsn >= s.archive.OldestLSN() {
		n, err := s.framesBetween(stream, g, before.lsn, lsn)
		return before.offset + n, err
	}
	// Nothing known before it can be read from: count back from what comes after.
	after, ok := s.marks.afterLSN(stream, lsn)
	if !ok || after.draw != g.draw {
		var err error
		if after, err = s.endOf(stream, g); err != nil {
			return 0, err
		}
	}
	n, err := s.framesBetween(stream, g, lsn, after.lsn)
	return after.offset - n, err
}

// framesBetween counts the frames of a stream from one op up to before another,
// both of which begin commits.
func (s *Source) framesBetween(stream int, g *generation, from, to uint64) (uint64, error) {
	if from >= to {
		return 0, nil
	}
	sc, err := s.startScan(stream, g.number, from, 0)
	if err != nil {
		return 0, err
	}
	defer sc.close()
	return sc.count(to)
}
