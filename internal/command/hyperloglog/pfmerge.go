package hyperloglog

import (
	"kevy/internal/command"
	"kevy/shard"
)

func pfMerge() *command.Spec {
	return &command.Spec{
		Name: "pfmerge", Arity: -2, Flags: command.Write | command.TellsMisses | command.DenyOOM, Category: command.CatHyperLogLog,
		Keys: []command.KeySpec{
			command.Range(1, 0, 1, command.RW|command.Access|command.Insert),
			command.Range(2, -1, 1, command.RO|command.Access),
		},
		Group: "hyperloglog", Since: "2.8.9", Complexity: "O(N) for N keys",
		Syntax:  "destkey [sourcekey [sourcekey ...]]",
		Summary: "Adds what was added to other estimates.",
		Run:     runPFMerge,
	}
}

func runPFMerge(c *command.Ctx) {
	var m maxima
	full := false
	var old []byte
	for i, key := range c.Args[1:] {
		value, err := valueOf(c.Tx, key)
		if err != nil {
			c.W.Err(err)
			return
		}
		if i == 0 {
			old = value
		}
		if value == nil {
			continue
		}
		full = full || value[encodingAt] == dense
		if !m.take(value) {
			c.W.Error(errCorrupt)
			return
		}
	}
	key := c.Key(1)
	s := scratch.Get().(*sketch)
	defer scratch.Put(s)
	if old == nil {
		s.reset()
	} else {
		old, _ = valueToChange(c.Tx, key) // it was right before
		s.load(old)
	}
	if full {
		s.toDense() // it is sound: its registers were read
	}
	for i, run := range m {
		if run > 0 {
			s.raise(i, run)
		}
	}
	s.outdate()
	s.store(c.Tx, key, old)
	c.Tx.Signal(key) // also where it has written nothing
	c.Tx.Notify(shard.OfStrings, "pfadd", key)
	c.W.OK()
}
