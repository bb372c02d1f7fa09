package admin

import "kevy/internal/command"

// commandFlags are those of COMMAND and its subcommands.
const commandFlags = serverFlags | command.Unlocked

func commandCommand(table func() *command.Table) *command.Spec {
	return &command.Spec{
		Name: "command", Arity: -1, Flags: commandFlags, Category: command.CatConnection,
		Group: "server", Since: "2.8.13", Complexity: "O(N) for N commands", Tips: []string{"nondeterministic_output_order"},
		Summary: "Describes every command.",
		Run:     func(c *command.Ctx) { writeAllInfo(c, table()) },
		Sub: []*command.Spec{
			commandCount(table), commandDocs(table), commandGetKeys(table), commandGetKeysAndFlags(table), commandHelp(), commandInfo(table),
			commandList(table),
		},
	}
}

func commandCount(table func() *command.Table) *command.Spec {
	return &command.Spec{
		Name: "count", Arity: 2, Flags: commandFlags, Category: command.CatConnection, Since: "2.8.13", Complexity: "O(1)",
		Summary: "Answers how many commands there are.",
		Run:     func(c *command.Ctx) { c.W.Int(int64(len(table().All()))) },
	}
}

func commandHelp() *command.Spec {
	s := helpSub("5.0.0", []string{
		"(no subcommand)",
		"    Return details about all Redis commands.",
		"COUNT",
		"    Return the total number of commands in this Redis server.",
		"LIST",
		"    Return a list of all commands in this Redis server.",
		"INFO [<command-name> ...]",
		"    Return details about multiple Redis commands.",
		"    If no command names are given, documentation details for all",
		"    commands are returned.",
		"DOCS [<command-name> ...]",
		"    Return documentation details about multiple Redis commands.",
		"    If no command names are given, documentation details for all",
		"    commands are returned.",
		"GETKEYS <full-command>",
		"    Return the keys from a full Redis command.",
		"GETKEYSANDFLAGS <full-command>",
		"    Return the keys and the access flags from a full Redis command.",
	})
	s.Category = command.CatConnection
	return s
}
