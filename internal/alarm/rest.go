package alarm

import "time"

const (
	// Work goes on for restSlice and then rests; it goes on for longer, up to
	// restSliceMost, where others had the processor for longer meanwhile, so that it
	// comes to its end under any load.
	restSlice     = 200 * time.Microsecond
	restSliceMost = time.Millisecond
	// restIdlePart is the part of the time worked that is rested while nobody
	// writes: readers and those who come are served all the same.
	restIdlePart = 8
	// restWorkMost is how long at most is rested of work that never waits.
	restWorkMost = 50 * time.Millisecond
)

// Rest makes work that goes on beside the clients' leave the processor to them.
// To hand it over (runtime.Gosched) is not enough: as long as there is something to
// run, the runtime looks at connections every 10 ms only, and where it has one
// processor every client would wait for that. A goroutine that sleeps makes it look.
//
// One goroutine may use it; Close must end it.
type Rest struct {
	sleeper *Sleeper
	writes  func() uint64
	seen    uint64 // of writes
	since   time.Time
	slice   time.Duration
	worked  time.Duration // when it was suspended
	most    time.Duration // that is taken for work
}

// NewRest returns a rest for work that begins now. writes, if it is not nil, is a
// number that every write changes: while it does, as much time is rested as worked.
func NewRest(writes func() uint64) *Rest {
	r := &Rest{sleeper: NewSleeper(), writes: writes, since: time.Now(), slice: restSlice, most: restSliceMost}
	if writes != nil {
		r.seen = writes()
	}
	return r
}

// NewWorkRest is NewRest for work that never waits for others but in Look, so
// that all of its time counts.
func NewWorkRest(writes func() uint64) *Rest {
	r := NewRest(writes)
	r.most = restWorkMost
	return r
}

// Suspend says that the work stops until Resume.
func (r *Rest) Suspend() { r.worked = time.Since(r.since) }

// Resume goes on where Suspend stopped. Another goroutine may do so.
func (r *Rest) Resume() { r.since = time.Now().Add(-r.worked) }

// Look rests if it is time to. It costs as much as a look at the clock.
func (r *Rest) Look() {
	worked := time.Since(r.since)
	if worked < r.slice {
		return
	}
	pause := r.pause(worked)
	began := time.Now()
	r.sleeper.Sleep(pause)
	r.since = time.Now()
	r.slice = min(max(r.since.Sub(began), restSlice), restSliceMost)
}

// pause returns how long to rest.
func (r *Rest) pause(worked time.Duration) time.Duration {
	// What took longer was waiting, for the disk or a peer, and no work.
	worked = min(worked, r.most)
	if r.writes != nil {
		if seen := r.writes(); seen != r.seen {
			r.seen = seen
			return worked
		}
	}
	return worked / restIdlePart
}

// Close ends the use of r.
func (r *Rest) Close() { r.sleeper.Close() }
