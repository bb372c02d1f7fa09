package command

import (
	"math"
	"math/rand/v2"

	"kevy/resp"
)

// Rand makes the random choices of commands. Any goroutine may use it.
var Rand = rand.New(processSource{})

// processSource draws from the process-wide generator, which takes no lock.
type processSource struct{}

func (processSource) Uint64() uint64 { return rand.Uint64() }

// ErrRange answers a count that is an integer and too large.
var ErrRange = &resp.Error{Code: "ERR", Text: "value is out of range"}

var errCountRange = resp.Errorf("ERR", "value is out of range, value must between %d and %d", -math.MaxInt64, math.MaxInt64)

// RandomCount returns the next argument as the count of HRANDFIELD, SRANDMEMBER
// or ZRANDMEMBER: n distinct elements, or so many as there are; or, from a
// negative count, n elements of which each is drawn from all (repeat).
func (a *Args) RandomCount() (n int64, repeat bool) {
	n = a.Int()
	if n == math.MinInt64 {
		a.Fail(errCountRange)
	}
	return max(n, -n), n < 0
}

// RandomCountWith reads the count and the option of HRANDFIELD or ZRANDMEMBER,
// which are all that is left.
func (a *Args) RandomCountWith(option string) (n int64, repeat, with bool) {
	n, repeat = a.RandomCount()
	if a.Len() > 0 {
		with = a.Is(option)
		if !with || a.Len() > 0 {
			a.Fail(ErrSyntax)
		}
	}
	if with && n > math.MaxInt64/2 {
		a.Fail(ErrRange)
	}
	return n, repeat, with
}

// MaxRepeatedBytes bounds the reply of a command that answers the same elements
// as often as it is told to. Redis has no bound but its memory.
const MaxRepeatedBytes = 256 << 20

// minReplyBytes is what the shortest element of such a reply takes.
const minReplyBytes = len("$0\r\n\r\n")

// outputLimited is a session whose connection has a limit for replies that wait.
type outputLimited interface {
	// EndOverLimit ends the connection if so many bytes are over its limit.
	EndOverLimit(bytes int)
}

// tooLong replies in place of more than MaxRepeatedBytes. As in Redis who may not have so
// much wait for him is cut off.
func (c *Ctx) tooLong() {
	if s, ok := c.Session.(outputLimited); ok {
		s.EndOverLimit(MaxRepeatedBytes)
	}
	c.W.Error(ErrRange)
}

// Repeat replies with n elements: it calls head, which begins the aggregate, and
// n times elem. A reply beyond MaxRepeatedBytes becomes ErrRange.
func (c *Ctx) Repeat(n int64, head func(n int), elem func()) {
	if n > int64(MaxRepeatedBytes/minReplyBytes) {
		c.tooLong()
		return
	}
	start := c.W.Len()
	head(int(n))
	for range n {
		elem()
		if c.W.Len()-start > MaxRepeatedBytes {
			c.W.Truncate(start)
			c.tooLong()
			return
		}
	}
}

// Sample chooses a number of the elements of a walk, each choice of so many as
// likely as any other.
type Sample struct{ left, wanted int }

// NewSample chooses wanted out of n elements, 0 <= wanted <= n.
func NewSample(wanted, n int) Sample { return Sample{left: n, wanted: wanted} }

// Take reports whether the next of the n elements is chosen.
func (s *Sample) Take() bool {
	if rand.IntN(s.left) >= s.wanted {
		s.left--
		return false
	}
	s.left--
	s.wanted--
	return true
}

// Done reports whether all that were wanted are chosen.
func (s *Sample) Done() bool { return s.wanted == 0 }
