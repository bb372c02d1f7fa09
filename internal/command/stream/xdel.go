package stream

import (
	"kevy/internal/command"
	"kevy/shard"
)

func xDel() *command.Spec {
	return &command.Spec{
		Name: "xdel", Arity: -3, Flags: command.Write | command.Fast, Category: command.CatStream,
		Keys:  command.One(1, command.RW|command.Delete),
		Group: "stream", Since: "5.0.0", Complexity: "O(log N) for each id",
		Syntax:  "key id [id ...]",
		Summary: "Removes entries by id; answers how many went.",
		Run:     runXDel,
	}
}

func runXDel(c *command.Ctx) {
	s, ok := view(c)
	if !ok {
		return
	}
	if !s.Exists() {
		c.W.Int(0)
		return
	}
	var few [fewIDs]shard.StreamID
	ids, ok := parseIDs(c, few[:0], c.Args[2:])
	if !ok {
		return
	}
	n, err := c.Tx.XDel(c.Key(1), ids)
	if err != nil {
		c.W.Err(err)
		return
	}
	if n > 0 {
		c.Tx.Notify(shard.OfStreams, "xdel", c.Key(1))
	}
	c.W.Int(int64(n))
}
