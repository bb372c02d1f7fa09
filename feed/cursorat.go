package feed

import "errors"

// Oldest returns the oldest cursor of a stream that is still served, in
// whichever generation it lies.
func (s *Source) Oldest(stream int) (Cursor, error) {
	return s.cursorOf(stream, func() (uint64, error) { return s.archive.OldestLSN(), nil })
}

// At returns the first cursor of a stream, in the order of the log, whose frame
// was stamped at or after a time in unix milliseconds: the oldest one that is
// served if all were, the tail if none was.
func (s *Source) At(stream int, unixMs int64) (Cursor, error) {
	return s.cursorOf(stream, func() (uint64, error) { return s.archive.FirstAt(unixMs) })
}

// cursorOf returns the cursor at the LSN that find returns, which is asked again
// if the log is shortened meanwhile.
func (s *Source) cursorOf(stream int, find func() (uint64, error)) (Cursor, error) {
	for attempt := 1; ; attempt++ {
		lsn, err := find()
		var at Cursor
		if err == nil {
			at, err = s.CursorAt(stream, lsn)
		}
		if errors.Is(err, ErrTruncated) && attempt < seekAttempts {
			continue
		}
		return at, err
	}
}

// seekAttempts is how often a place is searched again because the log was
// shortened meanwhile.
const seekAttempts = 4

// CursorAt returns the cursor of a stream's first frame at or after the op lsn,
// which begins a commit or lies right behind the last one. Before all that the
// stream remembers it is the oldest cursor remembered. The error matches
// ErrTruncated if the log no longer tells.
func (s *Source) CursorAt(stream int, lsn uint64) (Cursor, error) {
	v := s.view.Load()
	g := v.holding(stream, lsn)
	offset, err := s.offsetAt(stream, &g, lsn)
	return Cursor{g.number, offset}, err
}

// CursorsAfter returns, for each of the streams, the cursor after the op lsn, the
// last one of a commit. Where the log no longer tells it is the tail, which
// comes later: who waits for it has waited for the op.
func (s *Source) CursorsAfter(lsn uint64, streams []int) ([]Cursor, error) {
	cursors := make([]Cursor, len(streams))
	for i, stream := range streams {
		at, err := s.CursorAt(stream, lsn+1)
		if errors.Is(err, ErrTruncated) {
			at, err = s.Tail(stream), nil
		}
		if err != nil {
			return nil, err
		}
		cursors[i] = at
	}
	return cursors, nil
}
