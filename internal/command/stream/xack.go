package stream

import (
	"kevy/internal/command"
	"kevy/shard"
)

func xAck() *command.Spec {
	return &command.Spec{
		Name: "xack", Arity: -4, Flags: command.Write | command.TellsMisses | command.Fast, Category: command.CatStream,
		Keys:  command.One(1, command.RW|command.Update),
		Group: "stream", Since: "5.0.0", Complexity: "O(log N) for each id, of N pending entries",
		Syntax:  "key group id [id ...]",
		Summary: "Makes entries no longer pending; answers how many were.",
		Run:     runXAck,
	}
}

func runXAck(c *command.Ctx) {
	s, ok := view(c)
	if !ok {
		return
	}
	if _, ok := s.Group(c.Args[2]); !ok {
		c.W.Int(0)
		return
	}
	var few [fewIDs]shard.StreamID
	ids, ok := parseIDs(c, few[:0], c.Args[3:])
	if !ok {
		return
	}
	n, err := c.Tx.XAck(c.Key(1), c.Args[2], ids)
	if err != nil {
		c.W.Err(err)
		return
	}
	c.W.Int(int64(n))
}
