package hyperloglog

import (
	"encoding/binary"

	"kevy/internal/command"
)

func pfCount() *command.Spec {
	return &command.Spec{
		Name: "pfcount", Arity: -2, Flags: command.ReadOnly | command.MayReplicate, Category: command.CatHyperLogLog,
		Keys: []command.KeySpec{{
			Flags: command.RW | command.Access, Index: 1, Last: -1, Step: 1,
			Notes: "RW because it may change the internal representation of the key, and propagate to replicas",
		}},
		Group: "hyperloglog", Since: "2.8.9", Complexity: "O(1) with one key, O(N) with N",
		Syntax:  "key [key ...]",
		Summary: "Answers about how many different elements were added to an estimate, or to all of several together.",
		Run:     runPFCount,
	}
}

func runPFCount(c *command.Ctx) {
	if len(c.Args) > 2 {
		countUnion(c)
		return
	}
	key := c.Key(1)
	value, err := valueToChange(c.Tx, key)
	switch {
	case err != nil:
		c.W.Err(err)
		return
	case value == nil:
		c.W.Int(0)
		return
	}
	if n, ok := counted(value); ok {
		c.W.Int(int64(n))
		return
	}
	h, ok := histogramOf(value)
	if !ok {
		c.W.Error(errCorrupt)
		return
	}
	// The count is kept in the value, as in Redis: it is a change of what GET
	// answers, and so an op, once after each change by PFADD.
	var count [8]byte
	n := h.estimate()
	binary.LittleEndian.PutUint64(count[:], n)
	setRange(c.Tx, key, countAt, count[:])
	c.W.Int(int64(n))
}

func countUnion(c *command.Ctx) {
	var m maxima
	for _, key := range c.Args[1:] {
		value, err := valueOf(c.Tx, key)
		if err != nil {
			c.W.Err(err)
			return
		}
		if value != nil && !m.take(value) {
			c.W.Error(errCorrupt)
			return
		}
	}
	h := m.histogram()
	c.W.Int(int64(h.estimate()))
}
