package stream

import "kevy/internal/command"

func xLen() *command.Spec {
	return &command.Spec{
		Name: "xlen", Arity: 2, Flags: command.ReadOnly | command.Fast, Category: command.CatStream,
		Keys:  command.One(1, command.RO),
		Group: "stream", Since: "5.0.0", Complexity: "O(1)",
		Syntax:  "key",
		Summary: "Answers the number of entries.",
		Run: func(c *command.Ctx) {
			if s, ok := view(c); ok {
				c.W.Int(int64(s.Len()))
			}
		},
	}
}
