package script

import (
	"kevy/internal/command"
	"kevy/resp"
)

// script is SCRIPT. Its subcommands touch no key.
func (f *Family) script() *command.Spec {
	sub := func(name string, arity int, flags command.Flags, since, syntax, complexity, summary string, tips []string, run command.Handler) *command.Spec {
		return &command.Spec{
			Name: name, Arity: arity, Flags: command.NoScript | command.Unlocked | flags, Category: command.CatScripting, Tips: tips,
			Since: since, Syntax: syntax, Complexity: complexity, Summary: summary, Run: run,
		}
	}
	debug := sub("debug", 3, 0, "3.2.0", "<YES | SYNC | NO>", "O(1)", "Has no debugger to turn on.", nil, runScriptDebug)
	debug.Differences = "There is no debugger: YES and SYNC are refused."
	return &command.Spec{
		Name: "script", Arity: -2, Group: "scripting", Since: "2.6.0", Complexity: "Depends on subcommand.",
		Summary: "Commands about the scripts that the server knows.",
		Sub: []*command.Spec{
			debug,
			sub("exists", -3, 0, "2.6.0", "sha1 [sha1 ...]", "O(N) for N scripts",
				"Answers which scripts the server knows.", []string{"request_policy:all_shards", "response_policy:agg_logical_and"}, f.runScriptExists),
			sub("flush", -2, 0, "2.6.0", "[ASYNC | SYNC]", "O(N) for N scripts",
				"Forgets all scripts.", []string{"request_policy:all_nodes", "response_policy:all_succeeded"}, f.runScriptFlush),
			helpSub("5.0.0", scriptHelp),
			sub("kill", 2, command.AllowBusy, "2.6.0", "", "O(1)",
				"Ends the script that runs unless it has written.", []string{"request_policy:all_shards", "response_policy:one_succeeded"}, f.runScriptKill),
			sub("load", 3, command.Stale, "2.6.0", "script", "O(N) for a script of N bytes",
				"Makes a script known and answers its SHA1.", []string{"request_policy:all_nodes", "response_policy:all_succeeded"}, f.runScriptLoad),
		},
	}
}

var scriptHelp = []string{
	"DEBUG (YES|SYNC|NO)",
	"    Set the debug mode for subsequent scripts executed.",
	"EXISTS <sha1> [<sha1> ...]",
	"    Return information about the existence of the scripts in the script cache.",
	"FLUSH [ASYNC|SYNC]",
	"    Flush the Lua scripts cache. Very dangerous on replicas.",
	"    When called without the optional mode argument, the behavior is determined by the",
	"    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
	"    * ASYNC: Asynchronously flush the scripts cache.",
	"    * SYNC: Synchronously flush the scripts cache.",
	"KILL",
	"    Kill the currently executing Lua script.",
	"LOAD <script>",
	"    Load a script into the scripts cache without executing it.",
}

func runScriptDebug(c *command.Ctx) {
	switch mode := c.Args[2]; {
	case command.EqualFold(mode, "NO"):
		c.W.OK()
	case command.EqualFold(mode, "YES"), command.EqualFold(mode, "SYNC"):
		c.W.Error(resp.Errorf("ERR", "there is no debugger for scripts: only SCRIPT DEBUG NO is accepted"))
	default:
		c.W.Error(resp.Errorf("ERR", "Use SCRIPT DEBUG YES/SYNC/NO"))
	}
}

func (f *Family) runScriptExists(c *command.Ctx) {
	c.W.Array(len(c.Args) - 2)
	for _, text := range c.Args[2:] {
		n := int64(0)
		if d, ok := parseDigest(text); ok && f.cache.get(d) != nil {
			n = 1
		}
		c.W.Int(n)
	}
}

func (f *Family) runScriptFlush(c *command.Ctx) {
	if err := syncOrAsync(c); err != nil {
		c.W.Error(err)
		return
	}
	f.cache.flush()
	f.forget.Store(true)
	c.W.OK()
}

func (f *Family) runScriptKill(c *command.Ctx) {
	if err := f.runner.KillScript(false); err != nil {
		c.W.Error(err)
		return
	}
	c.W.OK()
}

func (f *Family) runScriptLoad(c *command.Ctx) {
	s, err := f.load(c.Args[2], true)
	if err != nil {
		c.W.Error(err)
		return
	}
	c.W.BulkString(s.name)
}
