package bitmap

import (
	"encoding/binary"
	"math"
	"math/bits"

	"kevy/internal/command"
	"kevy/resp"
)

func bitPos() *command.Spec {
	return &command.Spec{
		Name: "bitpos", Arity: -3, Flags: command.ReadOnly, Category: command.CatBitmap,
		Keys:  command.One(1, command.RO|command.Access),
		Group: "bitmap", Since: "2.8.7", Complexity: "O(N) with N bytes looked at",
		Syntax: "key bit [start [end [BYTE | BIT]]]",
		Summary: "Answers the position of the first set or clear bit, -1 if there is none. Without an end the " +
			"string counts as followed by clear bits.",
		Run: runBitPos,
	}
}

var errBitArgument = &resp.Error{Code: "ERR", Text: "The bit argument must be 1 or 0."}

func runBitPos(c *command.Ctx) {
	bit, ok := command.ParseInt(c.Args[2])
	if !ok {
		c.W.Error(command.ErrNotInt)
		return
	}
	if bit != bit&1 {
		c.W.Error(errBitArgument)
		return
	}
	value, found, wrong := c.Tx.String(c.Args[1])
	if wrong != nil {
		c.W.Err(wrong)
		return
	}
	if !found {
		c.W.Int(-bit) // clear bits without end; the range is not looked at
		return
	}
	s, open, err := posRange(c, int64(len(value)))
	if err != nil {
		c.W.Err(err)
		return
	}
	if s.empty() {
		c.W.Int(-1)
		return
	}
	pos := firstBit(value, s, bit == 1)
	if pos < 0 && bit == 0 && open {
		pos = s.last + 1
	}
	c.W.Int(pos)
}

// posRange reads the range of BITPOS in a string of n bytes; open means that
// its end was not given.
func posRange(c *command.Ctx, n int64) (s span, open bool, err error) {
	if len(c.Args) > 6 {
		return s, false, command.ErrSyntax
	}
	a := c.Scan(3)
	if !a.More() {
		return spanOf(n, 0, -1, false), true, nil
	}
	start := a.Int()
	if err := a.Err(); err != nil {
		return s, false, err
	}
	if !a.More() {
		return spanOf(n, start, n-1, false), true, nil
	}
	inBits := false
	if a.Len() == 2 {
		if inBits, err = unitOf(c.Args[5]); err != nil {
			return s, false, err
		}
	}
	end := a.Int()
	if err := a.Err(); err != nil {
		return s, false, err
	}
	return spanOf(n, start, end, inBits), false, nil
}

// firstBit returns the first bit of a range within the value that is set or, if
// set is false, clear; -1 if there is none.
func firstBit(value []byte, s span, set bool) int64 {
	var flip byte
	var passed uint64 // eight bytes without such a bit
	if !set {
		flip, passed = 0xff, math.MaxUint64
	}
	first, last := s.first>>3, s.last>>3
	for i := first; i <= last; i++ {
		for i > first && i+8 <= last && binary.LittleEndian.Uint64(value[i:]) == passed {
			i += 8
		}
		b := value[i] ^ flip
		if i == first {
			b &= 0xff >> (s.first & 7)
		}
		if i == last {
			b &= 0xff << (7 - s.last&7)
		}
		if b != 0 {
			return i*8 + int64(bits.LeadingZeros8(b))
		}
	}
	return -1
}
