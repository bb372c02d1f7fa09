package admin

import "kevy/internal/command"

func module() *command.Spec {
	return &command.Spec{
		Name: "module", Arity: -2, Group: "server", Since: "4.0.0",
		Summary:     "Commands about modules, of which there are none.",
		Differences: "LOAD, LOADEX and UNLOAD are not there.",
		Sub: []*command.Spec{
			helpSub("5.0.0", []string{"LIST", "    Return a list of loaded modules."}),
			{
				Name: "list", Arity: 2, Flags: command.Admin | command.NoScript | command.Unlocked, Since: "4.0.0", Complexity: "O(1)",
				Tips:    []string{"nondeterministic_output_order"},
				Summary: "Answers an empty list.",
				Run:     func(c *command.Ctx) { c.W.Array(0) },
			},
		},
	}
}
