package feed

// lsnOf returns the LSN of an op before which nothing is needed to serve what
// follows a cursor. The errors are those of Since.
func (s *Source) lsnOf(stream int, at Cursor) (lsn uint64, err error) {
	if lsn, ok := s.caughtUp(stream, at); ok {
		return lsn, nil
	}
	if lsn, _, err = s.firstBehind(stream, at); err != nil {
		return 0, s.completeError(stream, false, err)
	}
	return lsn, nil
}

// caughtUp returns, for a cursor behind which there is no frame, an LSN before
// which there is none either.
func (s *Source) caughtUp(stream int, at Cursor) (lsn uint64, ok bool) {
	v := s.view.Load()
	for {
		g, ok := v.find(stream, at.Generation)
		switch {
		case !ok:
			return 0, false
		case g.ended && at.Offset == g.end:
			at = Cursor{g.next, 0}
		case g.ended:
			return 0, false
		default:
			// The end was read after the LSN, so it covers no less.
			return g.endLSN + 1, at.Offset == g.end
		}
	}
}

// firstBehind returns the LSN of the commit that holds the first frame behind a
// cursor, and its time; the LSN behind the last op and 0 if there is none. The
// errors are those of Since, before completeError, and ErrTruncated.
func (s *Source) firstBehind(stream int, at Cursor) (lsn uint64, unixMs int64, err error) {
	for {
		g, err := s.view.Load().locate(stream, at)
		switch {
		case err != nil:
			return 0, 0, err
		case at.Offset > g.end:
			return 0, 0, ErrAhead
		case g.ended && at.Offset == g.end:
			at = Cursor{g.next, 0}
			continue
		}
		sc, err := s.seek(stream, &g, at.Offset, g.endLSN)
		if err != nil {
			return 0, 0, err
		}
		defer sc.close()
		there, err := sc.fill()
		if err != nil {
			return 0, 0, err
		}
		if there {
			unixMs = sc.unixMs
		}
		return sc.pos.lsn, unixMs, nil
	}
}
