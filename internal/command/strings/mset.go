package strings

import "kevy/internal/command"

func mSet() *command.Spec {
	return &command.Spec{
		Name: "mset", Arity: -3, Flags: command.Write | command.DenyOOM, Category: command.CatString,
		Keys:  []command.KeySpec{command.Range(1, -1, 2, command.OW|command.Update)},
		Tips:  []string{"request_policy:multi_shard", "response_policy:all_succeeded"},
		Group: "string", Since: "1.0.1", Complexity: "O(N) with N keys",
		Syntax:  "key value [key value ...]",
		Summary: "Makes several keys hold strings, all in one commit.",
		Run:     runMSet,
	}
}

func mSetNX() *command.Spec {
	return &command.Spec{
		Name: "msetnx", Arity: -3, Flags: command.Write | command.DenyOOM, Category: command.CatString,
		Keys:  []command.KeySpec{command.Range(1, -1, 2, command.OW|command.Insert)},
		Tips:  []string{"request_policy:multi_shard", "response_policy:agg_min"},
		Group: "string", Since: "1.0.1", Complexity: "O(N) with N keys",
		Syntax:  "key value [key value ...]",
		Summary: "Makes several keys hold strings unless one of them exists.",
		Run:     runMSetNX,
	}
}

func runMSet(c *command.Ctx) {
	if len(c.Args)%2 == 0 {
		c.W.Error(c.Spec.ArityError())
		return
	}
	setPairs(c)
	c.W.OK()
}

func runMSetNX(c *command.Ctx) {
	if len(c.Args)%2 == 0 {
		c.W.Error(c.Spec.ArityError())
		return
	}
	for i := 1; i < len(c.Args); i += 2 {
		if c.Tx.Exists(c.Args[i]) {
			c.W.Int(0)
			return
		}
	}
	setPairs(c)
	c.W.Int(1)
}

func setPairs(c *command.Ctx) {
	for i := 1; i < len(c.Args); i += 2 {
		setUntil(c, c.Args[i], c.Args[i+1], 0)
	}
}
