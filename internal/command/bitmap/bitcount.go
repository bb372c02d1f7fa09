package bitmap

import (
	"encoding/binary"
	"math/bits"

	"kevy/internal/command"
)

func bitCount() *command.Spec {
	return &command.Spec{
		Name: "bitcount", Arity: -2, Flags: command.ReadOnly, Category: command.CatBitmap,
		Keys:  command.One(1, command.RO|command.Access),
		Group: "bitmap", Since: "2.6.0", Complexity: "O(N) with N bytes looked at",
		Syntax:  "key [start end [BYTE | BIT]]",
		Summary: "Counts the set bits of the key's string or of a part of it.",
		Run:     runBitCount,
	}
}

func runBitCount(c *command.Ctx) {
	value, found, wrong := c.Tx.String(c.Args[1])
	if wrong != nil {
		c.W.Err(wrong)
		return
	}
	if !found {
		c.W.Int(0) // before the range is looked at, as in Redis 7.0
		return
	}
	if len(c.Args) == 2 {
		c.W.Int(countOnes(value))
		return
	}
	if len(c.Args) != 4 && len(c.Args) != 5 {
		c.W.Error(command.ErrSyntax)
		return
	}
	a := c.Scan(2)
	start, end := a.Int(), a.Int()
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	if start < 0 && end < 0 && start > end {
		c.W.Int(0)
		return
	}
	inBits := false
	if a.More() {
		var err error
		if inBits, err = unitOf(a.Bytes()); err != nil {
			c.W.Err(err)
			return
		}
	}
	c.W.Int(countIn(value, spanOf(int64(len(value)), start, end, inBits)))
}

// countIn counts the set bits of a range that lies within the value.
func countIn(value []byte, s span) int64 {
	if s.empty() {
		return 0
	}
	first, last := s.first>>3, s.last>>3
	n := countOnes(value[first : last+1])
	// Take back those of the first and last byte that are outside.
	n -= int64(bits.OnesCount8(value[first] &^ (0xff >> (s.first & 7))))
	n -= int64(bits.OnesCount8(value[last] &^ (0xff << (7 - s.last&7))))
	return n
}

func countOnes(b []byte) int64 {
	n := 0
	for ; len(b) >= 8; b = b[8:] {
		n += bits.OnesCount64(binary.LittleEndian.Uint64(b))
	}
	for _, c := range b {
		n += bits.OnesCount8(c)
	}
	return int64(n)
}
