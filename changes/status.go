package changes

import "time"

// State says what a stream of a Consumer is doing.
type State string

// The states of a stream.
const (
	// Connecting: there is no connection; one is being made.
	Connecting State = "connecting"
	// TakingSnapshot: the state of the store is coming.
	TakingSnapshot State = "snapshot"
	// Reading: commits come.
	Reading State = "reading"
	// Waiting: the server, a replica, is not there yet.
	Waiting State = "waiting"
	// Rebuilding: the application rebuilds what it made of the stream.
	Rebuilding State = "rebuilding"
	// Stopped: Run has not begun, or has ended.
	Stopped State = "stopped"
)

// Status is what a Consumer knows of itself.
type Status struct{ Streams []StreamStatus }

// StreamStatus is what a Consumer knows of one stream.
type StreamStatus struct {
	Stream string
	State  State
	// Cursor is behind what was handled, Saved is what the Store has; zero while
	// there is none.
	Cursor, Saved Cursor
	// Tail is where the stream ended at TailTime, when the server was last asked;
	// zero while it was not.
	Tail     Cursor
	TailTime time.Time
	// LagFrames is how many frames of the stream are behind Cursor, those that a
	// filter leaves out included; -1 if that is not known, as between two
	// generations.
	LagFrames int64
	// Lag is how old the last commit was when it was handled, by the two clocks;
	// 0 if the cursor has reached Tail since.
	Lag time.Duration
	// Commits and Frames were handled, Duplicates left out because they came twice.
	Commits, Frames, Duplicates uint64
	// Reconnects counts lost connections, Resyncs cursors that could not be served.
	Reconnects, Resyncs uint64
	// LastError is why the last connection was lost.
	LastError error
}

// Status returns what is known now. Any goroutine may ask.
func (c *Consumer) Status() Status {
	var all Status
	for _, s := range c.all() {
		all.Streams = append(all.Streams, s.report())
	}
	return all
}

// report fills in what follows from the rest.
func (s *stream) report() StreamStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.status
	st.LagFrames = -1
	if !st.Tail.IsZero() && st.Tail.Generation == st.Cursor.Generation {
		st.LagFrames = int64(st.Tail.Offset) - int64(st.Cursor.Offset)
		if st.LagFrames <= 0 {
			st.LagFrames, st.Lag = 0, 0
		}
	}
	return st
}

// say changes what is told of the stream.
func (s *stream) say(change func(*StreamStatus)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.status)
}
