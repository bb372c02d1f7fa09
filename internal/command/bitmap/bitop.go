package bitmap

import (
	"encoding/binary"

	"kevy/internal/command"
	"kevy/resp"
)

func bitOp() *command.Spec {
	return &command.Spec{
		Name: "bitop", Arity: -4, Flags: command.Write | command.DenyOOM, Category: command.CatBitmap,
		Keys: []command.KeySpec{
			command.Range(2, 0, 1, command.OW|command.Update),
			command.Range(3, -1, 1, command.RO|command.Access),
		},
		Group: "bitmap", Since: "2.6.0", Complexity: "O(N) with N bytes in all strings together",
		Syntax: "<AND | OR | XOR | NOT> destkey key [key ...]",
		Summary: "Combines strings bit by bit, short ones as if zeros followed, stores the result and answers its " +
			"length; an empty result deletes the destination.",
		Run: runBitOp,
	}
}

var errNotOne = &resp.Error{Code: "ERR", Text: "BITOP NOT must be called with a single source key."}

// An operation combines eight bytes at a time.
type operation func(a, b uint64) uint64

// operationNamed returns the operation of several strings with that name, nil
// if there is none.
func operationNamed(name []byte) operation {
	switch {
	case command.EqualFold(name, "AND"):
		return func(a, b uint64) uint64 { return a & b }
	case command.EqualFold(name, "OR"):
		return func(a, b uint64) uint64 { return a | b }
	case command.EqualFold(name, "XOR"):
		return func(a, b uint64) uint64 { return a ^ b }
	}
	return nil
}

func runBitOp(c *command.Ctx) {
	op, not := operationNamed(c.Args[1]), command.EqualFold(c.Args[1], "NOT")
	dst, keys := c.Args[2], c.Args[3:]
	switch {
	case op == nil && !not:
		c.W.Error(command.ErrSyntax)
		return
	case not && len(keys) != 1:
		c.W.Error(errNotOne)
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
		c.Tx.Del(dst)
		c.W.Int(0)
		return
	}
	result := append(make([]byte, 0, n), values[0]...)[:n]
	if not {
		for i, b := range result {
			result[i] = ^b
		}
	}
	for _, v := range values[1:] {
		op.apply(result, v)
	}
	c.Tx.Set(dst, result, 0)
	c.Tx.MarkRaw(dst)
	c.W.Int(int64(n))
}

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
