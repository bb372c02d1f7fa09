package engine

import (
	"errors"
	"fmt"
	"math"

	"kevy/aof"
	"kevy/feed"
)

// archive shows the log to the feed, which is not to know the log's other side.
type archive struct{ log *aof.Log }

func (a archive) OpenAt(lsn uint64) (feed.ArchiveReader, error) {
	r, err := a.log.NewReader(lsn)
	if err != nil {
		return nil, truncated(err)
	}
	return archiveReader{r}, nil
}

func (a archive) OldestLSN() uint64          { return a.log.OldestLSN() }
func (a archive) Last() uint64               { return a.log.Last() }
func (a archive) Durable() uint64            { return a.log.Durable() }
func (a archive) MemoryBytes() int64         { return a.log.Status().MemoryBytes }
func (a archive) BytesFrom(lsn uint64) int64 { return a.log.BytesFrom(lsn) }
func (a archive) SetFloor(lsn uint64)        { a.log.SetFloor(lsn) }
func (a archive) RemoveDropped()             { a.log.RemoveDropped() }
func (a archive) Keep(lsn uint64)            { a.log.Keep(lsn) }

func (a archive) FirstAt(unixMs int64) (uint64, error) {
	lsn, err := a.log.FirstAt(unixMs)
	return lsn, truncated(err)
}

func (a archive) BlockCRC(lsn uint64) (uint32, error) {
	crc, err := a.log.BlockCRC(lsn)
	return crc, truncated(err)
}

func (a archive) Segments() []feed.Segment {
	segs := a.log.Segments()
	out := make([]feed.Segment, len(segs))
	for i, s := range segs {
		// The ops of a segment are not younger than the segment behind it.
		lastMs := int64(math.MaxInt64)
		if i+1 < len(segs) {
			lastMs = segs[i+1].UnixMs
		}
		out[i] = feed.Segment{FirstLSN: s.FirstLSN, Bytes: s.Bytes, LastMs: lastMs, Spare: s.Spare, Positions: func() ([]feed.Position, error) {
			if s.Positions != nil {
				return positions(s.Positions), nil
			}
			p, err := a.log.PositionsAt(s.FirstLSN)
			return positions(p), truncated(err)
		}}
	}
	return out
}

func positions(in []aof.Position) []feed.Position {
	out := make([]feed.Position, len(in))
	for i, p := range in {
		out[i] = feed.Position{Stream: p.Stream, Generation: p.Generation, Next: p.Next}
	}
	return out
}

// truncated makes the log's error the feed's.
func truncated(err error) error {
	if errors.Is(err, aof.ErrTruncated) {
		return fmt.Errorf("%w: %w", feed.ErrTruncated, err)
	}
	return err
}

type archiveReader struct{ r *aof.Reader }

func (a archiveReader) Next() (feed.Span, bool, error) {
	s, ok, err := a.r.Next()
	span := feed.Span{FirstLSN: s.FirstLSN, Ops: s.Ops, UnixMs: s.UnixMs, BlockStart: s.BlockStart, Payload: s.Payload}
	if s.Large != nil {
		span.Large = largePayload{s.Large}
	}
	return span, ok, truncated(err)
}

type largePayload struct{ *aof.LargePayload }

func (p largePayload) Ahead(at, n int64) ([]byte, error) {
	b, err := p.LargePayload.Ahead(at, n)
	return b, truncated(err)
}

func (a archiveReader) Close() { a.r.Close() }
