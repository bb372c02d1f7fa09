package feed

import (
	"errors"
	"time"
)

// Lag is how far a cursor is behind its stream's tail.
type Lag struct {
	// Frames are those at or after the cursor, whatever a filter thinks of them.
	Frames uint64
	// Bytes is about what the log has from there on, of all streams.
	Bytes int64
	// Ms is how long ago the first of the frames was written, in milliseconds; 0
	// if there is none.
	Ms int64
}

// LagFrames returns how many frames of a stream lie at or after a cursor; 0 for
// one that is not of this stream's history.
func (s *Source) LagFrames(stream int, at Cursor) (frames uint64) {
	v := s.view.Load()
	g := v.current(stream)
	if g.number == at.Generation {
		return g.end - min(g.end, at.Offset)
	}
	frames = g.end
	for k := len(v.past) - 1; k >= 0 && v.past[k].ends[stream] != unknownEnd; k-- {
		g = v.ended(stream, k)
		if g.number == at.Generation {
			return frames + g.end - min(g.end, at.Offset)
		}
		frames += g.end
	}
	return 0
}

// Lag returns how far a cursor is behind. It looks into the log at the cursor.
// The errors are those of Since for a cursor that cannot be served.
func (s *Source) Lag(stream int, at Cursor) (Lag, error) {
	lag := Lag{Frames: s.LagFrames(stream, at)}
	g, ok := s.view.Load().find(stream, at.Generation)
	if !ok {
		return lag, &ResyncError{Reason: ReasonGeneration}
	}
	for g.ended && at.Offset >= g.end {
		at = Cursor{Generation: g.next}
		if g, ok = s.view.Load().find(stream, g.next); !ok {
			return lag, &ResyncError{Reason: ReasonGeneration}
		}
	}
	if lag.Frames == 0 {
		return lag, nil
	}
	sc, err := s.seek(stream, &g, at.Offset, g.endLSN)
	if errors.Is(err, ErrTruncated) {
		return lag, &ResyncError{Reason: ReasonEvicted}
	}
	if err != nil {
		return lag, err
	}
	defer sc.close()
	there, err := sc.fill()
	if err != nil || !there {
		return lag, err
	}
	lag.Ms = max(0, time.Now().UnixMilli()-sc.unixMs)
	lag.Bytes = s.archive.BytesFrom(sc.pos.lsn)
	return lag, nil
}
