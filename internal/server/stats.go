package server

import (
	"sync/atomic"
	"time"
)

// stats are the server's own counters, beside the executor's.
type stats struct {
	input, output traffic
	connections   atomic.Int64
	rejected      atomic.Int64
	blocked       atomic.Int64
	peakMemory    atomic.Int64
	evicted       atomic.Int64 // clients

	commandRate, inputRate, outputRate rate
}

// traffic counts what every connection reads, or writes. It fills a cache line.
type traffic struct {
	bytes, calls atomic.Int64
	_            [48]byte
}

func (t *traffic) add(bytes int) {
	t.bytes.Add(int64(bytes))
	t.calls.Add(1)
}

func (t *traffic) reset() {
	t.bytes.Store(0)
	t.calls.Store(0)
}

// reset sets the counters to zero; what is now stays.
func (st *stats) reset() {
	st.connections.Store(0)
	st.rejected.Store(0)
	st.evicted.Store(0)
	st.input.reset()
	st.output.reset()
}

// sample takes the figures per second; for the housekeeping.
func (st *stats) sample(now time.Duration, commands int64) {
	st.commandRate.sample(now, commands)
	st.inputRate.sample(now, st.input.bytes.Load())
	st.outputRate.sample(now, st.output.bytes.Load())
}

// sawMemory notes how much memory is used and returns the most so far.
func (st *stats) sawMemory(used int64) (peak int64) {
	for {
		peak = st.peakMemory.Load()
		if used <= peak {
			return peak
		}
		if st.peakMemory.CompareAndSwap(peak, used) {
			return used
		}
	}
}

// rateSamples is how many samples make up a figure per second.
const rateSamples = 16

// rate is how fast a counter grows: the mean of its last samples.
type rate struct {
	perSecond atomic.Int64

	// For the housekeeping alone.
	samples [rateSamples]int64
	next    int
	count   int64
	at      time.Duration
}

func (r *rate) sample(now time.Duration, count int64) {
	grown, took := count-r.count, now-r.at
	r.count, r.at = count, now
	if took <= 0 {
		return
	}
	// A counter that was reset has not shrunk.
	r.samples[r.next] = int64(float64(max(0, grown)) / took.Seconds())
	r.next = (r.next + 1) % rateSamples
	sum := int64(0)
	for _, s := range r.samples {
		sum += s
	}
	r.perSecond.Store(sum / rateSamples)
}
