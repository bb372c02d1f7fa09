package list

import (
	"kevy/internal/command"
	"kevy/resp"
	"kevy/shard"
)

func blMove() *command.Spec {
	return &command.Spec{
		Name: "blmove", Arity: 6, Flags: command.Write | command.DenyOOM | command.Blocking, Category: command.CatList,
		Keys: []command.KeySpec{
			command.Range(1, 0, 1, command.RW|command.Access|command.Delete),
			command.Range(2, 0, 1, command.RW|command.Insert),
		},
		Group: "list", Since: "6.2.0", Complexity: "O(1)",
		Syntax:      "source destination <LEFT | RIGHT> <LEFT | RIGHT> timeout",
		Summary:     "LMOVE that waits for the source if there is none.",
		Differences: differsWhenReady,
		Run:         runBLMove,
	}
}

func brPopLPush() *command.Spec {
	return &command.Spec{
		Name: "brpoplpush", Arity: 4, Flags: command.Write | command.DenyOOM | command.Blocking, Category: command.CatList,
		Keys: []command.KeySpec{
			command.Range(1, 0, 1, command.RW|command.Access|command.Delete),
			command.Range(2, 0, 1, command.RW|command.Insert),
		},
		Group: "list", Since: "2.2.0", Complexity: "O(1)",
		Syntax:      "source destination timeout",
		Summary:     "RPOPLPUSH that waits for the source if there is none.",
		Differences: differsWhenReady,
		Run: func(c *command.Ctx) {
			a := c.Scan(3)
			timeoutMs := a.TimeoutSeconds()
			if err := a.Err(); err != nil {
				c.W.Error(err)
				return
			}
			moveOrWait(c, right, left, timeoutMs)
		},
	}
}

func runBLMove(c *command.Ctx) {
	a := c.Scan(3)
	from, to := parseSide(&a), parseSide(&a)
	timeoutMs := a.TimeoutSeconds()
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	moveOrWait(c, from, to, timeoutMs)
}

func moveOrWait(c *command.Ctx, from, to side, timeoutMs int64) {
	l, ok := view(c)
	switch {
	case !ok:
	case l.Exists():
		move(c, l, from, to)
	default:
		c.Block(command.Wait{
			Keys: c.Args[1:2], Also: c.Args[2:3], Kind: shard.KindList, TimeoutMs: timeoutMs,
			Try: func(c *command.Ctx, _ []byte) bool {
				if l, ok := view(c); ok {
					move(c, l, from, to)
				}
				return true
			},
			Refused: (*resp.Writer).Null,
		})
	}
}
