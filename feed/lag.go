package feed

import "time"

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
// The error says that the cursor cannot be served.
func (s *Source) Lag(stream int, at Cursor) (Lag, error) {
	lag := Lag{Frames: s.LagFrames(stream, at)}
	if _, ok := s.caughtUp(stream, at); ok {
		return lag, nil
	}
	lsn, unixMs, err := s.firstBehind(stream, at)
	if err != nil || unixMs == 0 {
		return lag, err
	}
	lag.Ms = max(0, time.Now().UnixMilli()-unixMs)
	lag.Bytes = s.archive.BytesFrom(lsn)
	return lag, nil
}
