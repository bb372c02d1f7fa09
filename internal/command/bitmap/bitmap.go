// Package bitmap has the commands on the bits of string values. Bit 0 is the
// highest of the first byte.
package bitmap

import (
	"kevy/internal/command"
	"kevy/resp"
)

// Commands returns the family.
func Commands() []*command.Spec {
	return []*command.Spec{
		setBit(), getBit(), bitCount(), bitPos(), bitOp(), bitField(), bitFieldRO(),
	}
}

var errBitOffset = &resp.Error{Code: "ERR", Text: "bit offset is not an integer or out of range"}

// checkOffset refuses a bit that no string may be long enough for.
func checkOffset(bit int64) *resp.Error {
	if bit < 0 || bit>>3 >= command.StringLimit() {
		return errBitOffset
	}
	return nil
}

// parseOffset reads the number of a bit.
func parseOffset(b []byte) (bit int64, err *resp.Error) {
	bit, ok := command.ParseInt(b)
	if !ok {
		return 0, errBitOffset
	}
	return bit, checkOffset(bit)
}

// bitAt returns bit i, 0 beyond the end.
func bitAt(value []byte, i int64) int64 {
	if i>>3 >= int64(len(value)) {
		return 0
	}
	return int64(value[i>>3]>>(7-i&7)) & 1
}

// span is a range of bits, both ends included; it is empty if first > last.
type span struct{ first, last int64 }

// spanOf turns a range of bytes or bits of a string of n bytes, counted from
// the end where negative, into one of bits within it.
func spanOf(n int64, start, end int64, inBits bool) span {
	total := n
	if inBits {
		total *= 8
	}
	if start < 0 {
		start = max(start+total, 0)
	}
	if end < 0 {
		end = max(end+total, 0)
	}
	end = min(end, total-1)
	if inBits {
		return span{start, end}
	}
	if start > end {
		return span{0, -1}
	}
	return span{start * 8, end*8 + 7}
}

func (s span) empty() bool { return s.first > s.last }

// unitOf reads BIT or BYTE; anything else is a syntax error.
func unitOf(b []byte) (inBits bool, err error) {
	switch {
	case command.EqualFold(b, "BIT"):
		return true, nil
	case command.EqualFold(b, "BYTE"):
		return false, nil
	}
	return false, command.ErrSyntax
}
