package list

import (
	"kevy/internal/command"
	"kevy/shard"
)

func blPop() *command.Spec {
	return &command.Spec{
		Name: "blpop", Arity: -3, Flags: command.Write | command.Blocking, Category: command.CatList,
		Keys:  []command.KeySpec{command.Range(1, -2, 1, command.RW|command.Access|command.Delete)},
		Group: "list", Since: "2.0.0", Complexity: "O(N) for N keys",
		Syntax:      "key [key ...] timeout",
		Summary:     "Removes the first element of the first list that there is, waiting for one if need be; answers its key and the element.",
		Differences: differsWhenReady,
		Run:         func(c *command.Ctx) { runBPop(c, left) },
	}
}

func brPop() *command.Spec {
	return &command.Spec{
		Name: "brpop", Arity: -3, Flags: command.Write | command.Blocking, Category: command.CatList,
		Keys:  []command.KeySpec{command.Range(1, -2, 1, command.RW|command.Access|command.Delete)},
		Group: "list", Since: "2.0.0", Complexity: "O(N) for N keys",
		Syntax:      "key [key ...] timeout",
		Summary:     "Removes the last element of the first list that there is, waiting for one if need be; answers its key and the element.",
		Differences: differsWhenReady,
		Run:         func(c *command.Ctx) { runBPop(c, right) },
	}
}

func blMPop() *command.Spec {
	return &command.Spec{
		Name: "blmpop", Arity: -5, Flags: command.Write | command.Blocking, Category: command.CatList,
		Keys:  []command.KeySpec{command.Count(2, command.RW|command.Access|command.Delete)},
		Group: "list", Since: "7.0.0", Complexity: "O(K + N) for K keys and N elements",
		Syntax:      "timeout numkeys key [key ...] <LEFT | RIGHT> [COUNT count]",
		Summary:     "LMPOP that waits for a list if there is none.",
		Differences: differsWhenReady,
		Run:         runBLMPop,
	}
}

// differsWhenReady is said of all commands that wait for a list.
const differsWhenReady = "A list that takes the place of another value, as by SORT with STORE, serves those who wait for it; Redis 7.0 forgets them then."

// popping is what is popped of a list once there is one.
type popping struct {
	from  side
	count int64 // at most; 0: one element, which is not replied as an array
}

func runBPop(c *command.Ctx, from side) {
	last := len(c.Args) - 1
	command.PopOrWait(c, c.Args[1:last], popping{from: from}, last)
}

func runBLMPop(c *command.Ctx) {
	a := c.Scan(2)
	keys, p := parseMPop(&a)
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	command.PopOrWait(c, keys, p, 1)
}

// Kind implements command.Popper.
func (p popping) Kind() shard.Kind { return shard.KindList }

// Pop pops of a list that there is and replies with its key and what went.
func (p popping) Pop(c *command.Ctx, key []byte) bool {
	c.W.Array(2)
	c.W.Bulk(key)
	if p.count > 0 {
		popArray(c, p.from, key, p.count)
	} else if _, err := p.from.pop(c.Tx, key, 1, c.W.Bulk); err != nil {
		panic(err) // the key holds a list
	}
	return true
}
