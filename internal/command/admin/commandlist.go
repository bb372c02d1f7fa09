package admin

import (
	"kevy/internal/command"
	"kevy/internal/glob"
)

func commandList(table func() *command.Table) *command.Spec {
	return &command.Spec{
		Name: "list", Arity: -2, Flags: commandFlags, Category: command.CatConnection, Since: "7.0.0", Complexity: "O(N) for N commands",
		Tips:    []string{"nondeterministic_output_order"},
		Syntax:  "[FILTERBY <MODULE module-name | ACLCAT category | PATTERN pattern>]",
		Summary: "Answers the names of commands and subcommands.",
		Run: func(c *command.Ctx) {
			keep, ok := parseListFilter(c)
			if !ok {
				c.W.Error(command.ErrSyntax)
				return
			}
			m := c.W.Begin()
			n := 0
			add := func(s *command.Spec) {
				if keep(s) {
					n++
					c.W.BulkString(s.FullName())
				}
			}
			for _, s := range table().All() {
				add(s)
				for _, sub := range s.Sub {
					add(sub)
				}
			}
			c.W.EndArray(m, n)
		},
	}
}

func parseListFilter(c *command.Ctx) (keep func(*command.Spec) bool, ok bool) {
	if len(c.Args) == 2 {
		return func(*command.Spec) bool { return true }, true
	}
	if len(c.Args) != 5 || !command.EqualFold(c.Args[2], "FILTERBY") {
		return nil, false
	}
	value := c.Args[4]
	switch by := c.Args[3]; {
	case command.EqualFold(by, "MODULE"):
		return func(*command.Spec) bool { return false }, true
	case command.EqualFold(by, "ACLCAT"):
		category := command.CategoryNamed(string(value))
		return func(s *command.Spec) bool { return s.Categories()&category != 0 }, true
	case command.EqualFold(by, "PATTERN"):
		return func(s *command.Spec) bool { return glob.MatchFold(value, []byte(s.FullName())) }, true
	}
	return nil, false
}
