package bitmap

import (
	"encoding/binary"

	"kevy/internal/command"
	"kevy/resp"
	"kevy/shard"
)

func bitOp() *command.Spec {
	return &command.Spec{
		Name: "bitop", Arity: -4, Flags: command.Write | command.TellsMisses | command.DenyOOM, Category: command.CatBitmap,
		Keys: []command.KeySpec{
			command.Range(2, 0, 1, command.OW|command.Update),
			command.Range(3, -1, 1, command.RO|command.Access),
		},
		Group: "bitmap", Since: "2.6.0", Complexity: "O(N) with N bytes in all strings together",
		Syntax: "<AND | OR | XOR | NOT | DIFF | DIFF1 | ANDOR | ONE> destkey key [key ...]",
		Summary: "Combines strings bit by bit, short ones as if zeros followed, stores the result and answers its " +
			"length; an empty result deletes the destination.",
		Differences: "DIFF, DIFF1, ANDOR and ONE are those of Redis 8.2.",
		Run:         runBitOp,
	}
}

var errNotOne = &resp.Error{Code: "ERR", Text: "BITOP NOT must be called with a single source key."}

// An operation combines eight bytes at a time.
type operation func(a, b uint64) uint64

var (
	and    operation = func(a, b uint64) uint64 { return a & b }
	or     operation = func(a, b uint64) uint64 { return a | b }
	xor    operation = func(a, b uint64) uint64 { return a ^ b }
	andNot operation = func(a, b uint64) uint64 { return a &^ b }
	notAnd operation = func(a, b uint64) uint64 { return b &^ a }
)

// bitOperation is what BITOP does to the strings of its keys, of which there is
// at least one; the result is as long as the longest, n bytes.
type bitOperation struct {
	name    string
	minKeys int
	run     func(values [][]byte, n int) []byte
}

var bitOperations = []bitOperation{
	{"AND", 1, fold(and)}, {"OR", 1, fold(or)}, {"XOR", 1, fold(xor)}, {"NOT", 1, not}, {"ONE", 1, one},
	// Of the first key, what no other has; what only others have; what others have too.
	{"DIFF", 2, againstOthers(notAnd)}, {"DIFF1", 2, againstOthers(andNot)}, {"ANDOR", 2, againstOthers(and)},
}

// operationNamed returns the operation with that name, nil if there is none.
func operationNamed(name []byte) *bitOperation {
	for i := range bitOperations {
		if command.EqualFold(name, bitOperations[i].name) {
			return &bitOperations[i]
		}
	}
	return nil
}

func runBitOp(c *command.Ctx) {
	op := operationNamed(c.Args[1])
	dst, keys := c.Args[2], c.Args[3:]
	switch {
	case op == nil:
		c.W.Error(command.ErrSyntax)
		return
	case op.name == "NOT" && len(keys) != 1:
		c.W.Error(errNotOne)
		return
	case len(keys) < op.minKeys:
		c.W.Error(resp.Errorf("ERR", "BITOP %s must be called with at least two source keys.", op.name))
		return
	}
	values := make([][]byte, len(keys))
	n := 0
	for i, key := range keys {
		value, _, err := c.Tx.String(key)
		if err != nil {
			c.W.Err(err)
			return
		}
		values[i] = value
		n = max(n, len(value))
	}
	if n == 0 {
		if c.Tx.DelOverdue(dst) || c.Tx.Del(dst) {
			c.Tx.Notify(shard.OfGeneric, "del", dst)
		}
		c.W.Int(0)
		return
	}
	c.Tx.Set(dst, op.run(values, n), 0)
	c.Tx.MarkRaw(dst)
	c.Tx.Notify(shard.OfStrings, "set", dst)
	c.W.Int(int64(n))
}

// fold combines the strings one after the other.
func fold(op operation) func(values [][]byte, n int) []byte {
	return func(values [][]byte, n int) []byte {
		result := padded(values[0], n)
		for _, v := range values[1:] {
			op.apply(result, v)
		}
		return result
	}
}

// againstOthers combines the union of all strings but the first with the first.
func againstOthers(op operation) func(values [][]byte, n int) []byte {
	return func(values [][]byte, n int) []byte {
		result := fold(or)(values[1:], n)
		op.apply(result, values[0])
		return result
	}
}

func not(values [][]byte, n int) []byte {
	result := padded(values[0], n)
	for i, b := range result {
		result[i] = ^b
	}
	return result
}

// one keeps the bits that are set in exactly one of the strings.
func one(values [][]byte, n int) []byte {
	some, again, several := padded(values[0], n), make([]byte, n), make([]byte, n)
	for _, v := range values[1:] {
		copy(again, some)
		and.apply(again, v)
		or.apply(several, again)
		or.apply(some, v)
	}
	andNot.apply(some, several)
	return some
}

// padded returns a copy of value with zeros behind it, n bytes in all.
func padded(value []byte, n int) []byte { return append(make([]byte, 0, n), value...)[:n] }

// apply combines b into a, which is at least as long; b counts as followed by
// zeros.
func (op operation) apply(a, b []byte) {
	const word = 8
	i := 0
	for ; i+word <= len(b); i += word {
		binary.LittleEndian.PutUint64(a[i:], op(binary.LittleEndian.Uint64(a[i:]), binary.LittleEndian.Uint64(b[i:])))
	}
	for ; i < len(a); i++ {
		var bits uint64
		if i < len(b) {
			bits = uint64(b[i])
		}
		a[i] = byte(op(uint64(a[i]), bits))
	}
}
