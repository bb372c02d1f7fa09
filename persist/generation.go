package persist

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
)

// The layout of a generation number: Unix seconds above, random bits below.
//
//	bit 52                     21 20                  0
//	 |      32 bits: seconds     |   21 bits: random   |
//
// It has 53 bits because a JavaScript number keeps no more. 32 bits of seconds
// last until 2106, and since each draw goes at least one second beyond the one
// before, 2.5 thousand million FLUSHALLs fit between now and the end. A draw
// names n+1 streams, draw + i for shard i and draw + n for ALL, so the random
// part stays n+1 below its limit: the sum never carries into the seconds, and
// with at most 16,384 shards it still has over two million values.
//
// Within one directory no number is drawn twice, as the seconds rise with each
// draw that the directory remembers. Where a crash made it forget one, or two
// copies of a directory draw in the same second, the random part decides: for
// 16 shards two such draws overlap with a chance of 33 in 2,097,135.
const (
	randomBits = 21
	maxSeconds = 1<<32 - 1

	// MaxGeneration is the largest generation number.
	MaxGeneration = 1<<53 - 1
)

// ErrGenerationsUsedUp is returned when no number is left above the last one.
var ErrGenerationsUsedUp = errors.New("no generation number is left: the clock stands beyond 2106, or a sidecar or the log holds a number from there")

// Draw returns a new generation number for n shard streams (1 to MaxShards) and
// ALL. nowUnixSec
// is the time in seconds; last is the highest number known so far, 0 if none.
// The result is above last, and so is each of the n+1 numbers that it stands for.
func Draw(nowUnixSec int64, last uint64, n int) (uint64, error) {
	seconds := uint64(max(nowUnixSec, 0))
	if last != 0 {
		seconds = max(seconds, last>>randomBits+1)
	}
	if seconds > maxSeconds {
		return 0, ErrGenerationsUsedUp
	}
	// The remainder of 64 random bits favours no value by more than 2^-43.
	return seconds<<randomBits | random64()%(1<<randomBits-uint64(n+1)), nil
}

// random64 is a variable so that a test can rule out chance.
var random64 = func() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the process instead
	return binary.LittleEndian.Uint64(b[:])
}

// DrawOf returns the draw behind the generation number of stream, and whether
// there is such a draw.
func DrawOf(generation uint64, stream int) (uint64, bool) {
	if generation <= uint64(stream) || generation > MaxGeneration {
		return 0, false
	}
	return generation - uint64(stream), true
}
