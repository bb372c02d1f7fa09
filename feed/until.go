package feed

import (
	"context"
	"time"
)

// WaitUntil waits until the stream serves up to a cursor or, if hold is not
// empty, until the hold of that name has passed it. It returns false at the
// timeout, of MaxBlock at most, and ctx.Err() if ctx ends.
//
// The errors are *ResyncError for a cursor that is not of the stream's history,
// *NoHoldError, *HoldBrokenError and ErrClosed.
func (s *Source) WaitUntil(ctx context.Context, stream int, at Cursor, hold string, timeout time.Duration) (bool, error) {
	var token, all <-chan struct{}
	list := &s.waiting[stream]
	if hold == "" {
		token, all = list.token, list.join()
		defer list.leave()
	}
	// A frame or a move that comes after the look closes all.
	reached, moved, err := s.reached(stream, at, hold)
	if err != nil || reached || timeout <= 0 {
		return reached, err
	}
	s.untils.Add(1)
	defer s.untils.Add(-1)
	timer := time.NewTimer(min(timeout, MaxBlock))
	defer timer.Stop()
	looked := time.Now()
	for over := false; !over; {
		if hold != "" {
			all = moved
		}
		select {
		case <-token:
			list.wakeOthers()
		case <-all:
		case <-timer.C:
			over = true
		case <-ctx.Done():
			return false, ctx.Err()
		case <-s.closed:
			return false, ErrClosed
		}
		if pause := time.Until(looked.Add(lookPause(s.untils.Load()))); pause > 0 && !over {
			select {
			case <-time.After(pause):
			case <-timer.C:
				over = true
			case <-ctx.Done():
				return false, ctx.Err()
			case <-s.closed:
				return false, ErrClosed
			}
		}
		all = list.current()
		looked = time.Now()
		if reached, moved, err = s.reached(stream, at, hold); err != nil || reached {
			return reached, err
		}
	}
	return false, nil
}

const (
	// promptUntils is how many may wait and each look at every commit.
	promptUntils = 32
	// Of more, each looks after so long for every one of them, up to maxLookPause:
	// what all of them cost is then the same however many they are.
	lookPausePerUntil = 20 * time.Microsecond
	maxLookPause      = 100 * time.Millisecond
)

// lookPause returns how long one of so many that wait lets pass between two
// looks: thousands that look at every commit would leave the writers no
// processor.
func lookPause(waiting int32) time.Duration {
	if waiting <= promptUntils {
		return 0
	}
	return min(time.Duration(waiting)*lookPausePerUntil, maxLookPause)
}

// reached reports whether what WaitUntil waits for is the case. If not, and a
// hold is awaited, moved is closed when it may have moved.
func (s *Source) reached(stream int, at Cursor, hold string) (_ bool, moved <-chan struct{}, err error) {
	g, err := s.view.Load().locate(stream, at)
	switch {
	case err != nil:
		return false, nil, s.completeError(stream, false, err)
	case hold == "":
		return at.Offset <= g.end, nil, nil
	}
	h := s.holds.Load()
	if h == nil {
		return false, nil, ErrHoldNeedsLog
	}
	stands, moved, err := h.Position(hold, stream)
	if err != nil {
		return false, nil, err
	}
	return !stands.before(at), moved, nil
}
