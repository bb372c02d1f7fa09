package list

import (
	"math"

	"kevy/internal/command"
)

func lPop() *command.Spec {
	return &command.Spec{
		Name: "lpop", Arity: -2, Flags: command.Write | command.Fast, Category: command.CatList,
		Keys:  command.One(1, command.RW|command.Access|command.Delete),
		Group: "list", Since: "1.0.0", Complexity: "O(N) for N elements",
		Syntax:  "key [count]",
		Summary: "Removes the first element, or so many, and answers what went.",
		Run:     func(c *command.Ctx) { pop(c, left) },
	}
}

func rPop() *command.Spec {
	return &command.Spec{
		Name: "rpop", Arity: -2, Flags: command.Write | command.Fast, Category: command.CatList,
		Keys:  command.One(1, command.RW|command.Access|command.Delete),
		Group: "list", Since: "1.0.0", Complexity: "O(N) for N elements",
		Syntax:  "key [count]",
		Summary: "Removes the last element, or so many, and answers what went, the last first.",
		Run:     func(c *command.Ctx) { pop(c, right) },
	}
}

func pop(c *command.Ctx, from side) {
	switch len(c.Args) {
	case 2:
		popOne(c, from)
	case 3:
		popCount(c, from)
	default:
		c.W.Error(c.Spec.ArityError())
	}
}

func popOne(c *command.Ctx, from side) {
	n, err := from.pop(c.Tx, c.Key(1), 1, c.W.Bulk)
	switch {
	case err != nil:
		c.W.Err(err)
	case n == 0:
		c.W.Null()
	}
}

func popCount(c *command.Ctx, from side) {
	a := c.Scan(2)
	count := a.AtLeast(0, command.ErrNotPositive)
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	l, ok := view(c)
	switch {
	case !ok:
	case !l.Exists():
		c.W.NullArray()
	default:
		popArray(c, from, c.Key(1), count)
	}
}

// popArray removes up to count elements and replies with them.
func popArray(c *command.Ctx, from side, key []byte, count int64) {
	m := c.W.Begin()
	n, err := from.pop(c.Tx, key, int(min(count, math.MaxInt)), c.W.Bulk)
	if err != nil {
		c.W.Err(err)
		return
	}
	c.W.EndArray(m, n)
}

func lMPop() *command.Spec {
	return &command.Spec{
		Name: "lmpop", Arity: -4, Flags: command.Write, Category: command.CatList,
		Keys:  []command.KeySpec{command.Count(1, command.RW|command.Access|command.Delete)},
		Group: "list", Since: "7.0.0", Complexity: "O(K + N) for K keys and N elements",
		Syntax:  "numkeys key [key ...] <LEFT | RIGHT> [COUNT count]",
		Summary: "Removes elements from an end of the first list that there is; answers its key and what went.",
		Run:     runLMPop,
	}
}

func runLMPop(c *command.Ctx) {
	a := c.Scan(1)
	keys, p := parseMPop(&a)
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	if !command.PopFirst(c, keys, p) {
		c.W.NullArray()
	}
}

// parseMPop reads what LMPOP and BLMPOP share: the keys, the side and how many.
func parseMPop(a *command.Args) (keys [][]byte, p popping) {
	keys = a.CountedKeys(command.ErrSyntax)
	p.from = parseSide(a)
	p.count = a.PopCount()
	return keys, p
}
