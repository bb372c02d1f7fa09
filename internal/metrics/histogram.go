package metrics

import (
	"math/bits"
	"sync/atomic"
	"time"
)

const (
	// halfBits: a duration is kept with two digits, as the upper seven or eight bits
	// of its nanoseconds.
	halfBits = 7
	half     = 1 << halfBits
	// maxDuration is what longer durations are counted as.
	maxDuration = time.Second
	// exponents is how many times a bucket doubles in width until maxDuration.
	exponents = 23
	buckets   = (exponents + 1) * half
)

// Histogram counts durations in buckets whose width grows with the duration: from
// 1 ns, each is known to better than one percent. It occupies 24 KiB.
type Histogram struct {
	counts [buckets]atomic.Int64
	total  atomic.Int64
}

// bucketOf returns the bucket of a duration in nanoseconds.
func bucketOf(ns int64) int {
	e := max(bits.Len64(uint64(ns))-halfBits-1, 0)
	return e<<halfBits + int(ns>>e)
}

// lowest and highest are the bounds of a bucket in nanoseconds, both within it.
func lowest(bucket int) int64 {
	e := max(bucket>>halfBits-1, 0)
	return int64(bucket-e<<halfBits) << e
}

func highest(bucket int) int64 {
	return lowest(bucket) + 1<<max(bucket>>halfBits-1, 0) - 1
}

// Record counts n calls that took d each.
func (h *Histogram) Record(d time.Duration, n int64) {
	ns := int64(min(max(d, 1), maxDuration))
	h.counts[bucketOf(ns)].Add(n)
	h.total.Add(n)
}

// Count returns how many calls were counted.
func (h *Histogram) Count() int64 { return h.total.Load() }

// Step is a point of a cumulative distribution: so many calls took so long or less.
type Step struct{ Microseconds, Calls int64 }

// firstStepNs is the first duration at which Steps looks; it doubles from there.
const firstStepNs = 1024

// Steps returns the distribution at durations that double, those only at which there
// are more calls than at the one before. The last has them all.
func (h *Histogram) Steps() (steps []Step) {
	counts, total := h.snapshot()
	seen, before, bucket := int64(0), int64(0), 0
	for level := int64(firstStepNs); before < total; level *= 2 {
		end := min(bucketOf(level), buckets-1)
		for ; bucket <= end; bucket++ {
			seen += counts[bucket]
		}
		if seen > before {
			steps = append(steps, Step{Microseconds: (highest(bucketOf(level))) / 1000, Calls: seen})
			before = seen
		}
	}
	return steps
}

// Percentile returns the duration, in nanoseconds, that so many percent of the calls
// took at most; 0 if there are none.
func (h *Histogram) Percentile(percent float64) (ns int64) {
	counts, total := h.snapshot()
	rank := max(int64(percent/100*float64(total)+0.5), 1)
	seen := int64(0)
	for i, n := range counts {
		if seen += n; seen >= rank {
			if percent == 0 {
				return lowest(i)
			}
			return highest(i)
		}
	}
	return 0
}

// snapshot returns the counts and their sum, which go together.
func (h *Histogram) snapshot() (counts *[buckets]int64, total int64) {
	counts = new([buckets]int64)
	for i := range h.counts {
		counts[i] = h.counts[i].Load()
		total += counts[i]
	}
	return counts, total
}
