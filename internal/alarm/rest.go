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
}

// NewRest returns a rest for work that begins now. writes, if it is not nil, is a
// number that every write changes: while it does, as much time is rested as worked.
func NewRest(writes func() uint64) *Rest {
	r := &Rest{sleeper: NewSleeper(), writes: writes, since: time.Now(), slice: restSlice}
	if writes != nil {
		r.seen = writes()
	}
	return r
}

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
	worked = min(worked, restSliceMost)
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
