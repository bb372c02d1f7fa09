package list

import (
	"bytes"

	"kevy/internal/command"
	"kevy/shard"
)

func lMove() *command.Spec {
	return &command.Spec{
		Name: "lmove", Arity: 5, Flags: command.Write | command.DenyOOM, Category: command.CatList,
		Keys: []command.KeySpec{
			command.Range(1, 0, 1, command.RW|command.Access|command.Delete),
			command.Range(2, 0, 1, command.RW|command.Insert),
		},
		Group: "list", Since: "6.2.0", Complexity: "O(1)",
		Syntax:  "source destination <LEFT | RIGHT> <LEFT | RIGHT>",
		Summary: "Moves an element from an end of a list to an end of another, or of the same; answers it.",
		Run:     runLMove,
	}
}

func rPopLPush() *command.Spec {
	return &command.Spec{
		Name: "rpoplpush", Arity: 3, Flags: command.Write | command.DenyOOM, Category: command.CatList,
		Keys: []command.KeySpec{
			command.Range(1, 0, 1, command.RW|command.Access|command.Delete),
			command.Range(2, 0, 1, command.RW|command.Insert),
		},
		Group: "list", Since: "1.2.0", Complexity: "O(1)",
		Syntax:  "source destination",
		Summary: "Moves the last element of a list before the first of another, or of the same; answers it.",
		Run:     func(c *command.Ctx) { moveIfAny(c, right, left) },
	}
}

func runLMove(c *command.Ctx) {
	a := c.Scan(3)
	from, to := parseSide(&a), parseSide(&a)
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	moveIfAny(c, from, to)
}

func moveIfAny(c *command.Ctx, from, to side) {
	l, ok := view(c)
	switch {
	case !ok:
	case l.Exists():
		move(c, l, from, to)
	default:
		c.W.Null()
	}
}

// move moves an element of l, which the first argument names and which is there.
func move(c *command.Ctx, l shard.ListView, from, to side) {
	src, dst := c.Key(1), c.Key(2)
	elem, _ := from.end(l)
	// The push comes first: a list that gives its only element to itself is
	// never empty, and so it stays, with its expiry. Where both lists are one
	// and both ends too, what the pop takes is the copy, which is as good.
	if _, err := to.push(c.Tx, dst, bytes.Clone(elem)); err != nil {
		c.W.Err(err)
		return
	}
	if _, err := from.pop(c.Tx, src, 1, c.W.Bulk); err != nil {
		c.W.Err(err)
	}
}
