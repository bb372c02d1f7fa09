// Package admin has the operator's commands: what the server is, how it is
// configured, what it can do, and how to stop it.
package admin

import (
	"time"

	"kevy/internal/command"
	"kevy/internal/config"
	"kevy/resp"
)

// Server is what these commands need of the server.
type Server interface {
	Config() *config.Config
	// Info returns the sections of INFO in order. tx holds every shard.
	Info(tx InfoTx) []Section
	// ResetStats sets the counters of INFO to zero.
	ResetStats()
	// Shutdown begins a clean close. Without save the log is closed all the
	// same: there is nothing else to leave out.
	Shutdown()
	// Rewrite starts a rewrite of the log in the background.
	Rewrite() error
	// PauseExpiry stops or resumes the active removal of overdue keys.
	PauseExpiry(pause bool)
	// LastSaveUnix is when the data were last written as a whole.
	LastSaveUnix() int64
}

// Commands returns the family. table yields the table that the family itself
// belongs to.
func Commands(srv Server, table func() *command.Table) []*command.Spec {
	return []*command.Spec{
		commandCommand(table), info(srv), configCommand(srv), timeCommand(), shutdown(srv), debug(srv), memory(),
		bgRewriteAOF(srv), lastSave(srv), cluster(), module(),
	}
}

const serverFlags = command.Loading | command.Stale

func timeCommand() *command.Spec {
	return &command.Spec{
		Name: "time", Arity: 1, Flags: serverFlags | command.Fast | command.Unlocked,
		Group: "server", Since: "2.6.0", Complexity: "O(1)", Tips: []string{"nondeterministic_output"},
		Summary: "Answers the server's clock: seconds and microseconds since 1970.",
		Run: func(c *command.Ctx) {
			us := time.Now().UnixMicro()
			c.W.Array(2)
			c.W.BulkInt(us / 1e6)
			c.W.BulkInt(us % 1e6)
		},
	}
}

func shutdown(srv Server) *command.Spec {
	return &command.Spec{
		Name: "shutdown", Arity: -1, Group: "server", Since: "1.0.0", Complexity: "O(1)", Syntax: "[NOSAVE | SAVE] [NOW] [FORCE] [ABORT]",
		Flags:       command.Admin | command.NoScript | command.Loading | command.Stale | command.NoMulti | command.AllowBusy | command.Unlocked,
		Summary:     "Stops the server after everything is on disk.",
		Differences: "SAVE and NOSAVE are accepted and make no difference: the log is always closed whole. There is no shutdown to ABORT, as none waits.",
		Run: func(c *command.Ctx) {
			save, noSave, abort, other := false, false, false, false
			for _, arg := range c.Args[1:] {
				switch {
				case command.EqualFold(arg, "SAVE"):
					save = true
				case command.EqualFold(arg, "NOSAVE"):
					noSave = true
				case command.EqualFold(arg, "NOW"), command.EqualFold(arg, "FORCE"):
					other = true
				case command.EqualFold(arg, "ABORT"):
					abort = true
				default:
					c.W.Error(command.ErrSyntax)
					return
				}
			}
			if (save && noSave) || (abort && (save || noSave || other)) {
				c.W.Error(command.ErrSyntax)
				return
			}
			if abort {
				c.W.Error(resp.Errorf("ERR", "No shutdown in progress."))
				return
			}
			srv.Shutdown()
		},
	}
}

func bgRewriteAOF(srv Server) *command.Spec {
	return &command.Spec{
		Name: "bgrewriteaof", Arity: 1, Flags: command.Admin | command.NoScript | command.NoAsyncLoading | command.Unlocked,
		Group: "server", Since: "1.0.0", Complexity: "O(1)",
		Summary: "Starts to rewrite the log in the background.",
		Run: func(c *command.Ctx) {
			if err := srv.Rewrite(); err != nil {
				c.W.Error(resp.Errorf("ERR", "%v", err))
				return
			}
			c.W.Simple("Background append only file rewriting started")
		},
	}
}

func lastSave(srv Server) *command.Spec {
	return &command.Spec{
		Name: "lastsave", Arity: 1, Flags: serverFlags | command.Fast | command.Unlocked, Category: command.CatAdmin | command.CatDangerous,
		Group: "server", Since: "1.0.0", Complexity: "O(1)", Tips: []string{"nondeterministic_output"},
		Summary: "Answers when the data were last written as a whole.",
		Run:     func(c *command.Ctx) { c.W.Int(srv.LastSaveUnix()) },
	}
}

// cluster answers what clients ask when they connect: this is no cluster.
func cluster() *command.Spec {
	disabled := func(c *command.Ctx) {
		c.W.Error(resp.Errorf("ERR", "This instance has cluster support disabled"))
	}
	sub := func(name string, arity int, since string) *command.Spec {
		return &command.Spec{
			Name: name, Arity: arity, Flags: command.Stale | command.Unlocked, Since: since,
			Complexity: "O(1)", Summary: "Answers that there is no cluster.", Run: disabled,
		}
	}
	return &command.Spec{
		Name: "cluster", Arity: -2, Group: "cluster", Since: "3.0.0", Complexity: "Depends on the subcommand.",
		Summary:     "Commands about a cluster, of which this server is never a part.",
		Differences: "Only SLOTS, SHARDS, INFO, NODES and MYID exist; all answer that cluster support is disabled.",
		Sub:         []*command.Spec{sub("info", 2, "3.0.0"), sub("myid", 2, "3.0.0"), sub("nodes", 2, "3.0.0"), sub("shards", 2, "7.0.0"), sub("slots", 2, "3.0.0")},
	}
}

func module() *command.Spec {
	return &command.Spec{
		Name: "module", Arity: -2, Group: "server", Since: "4.0.0", Complexity: "Depends on the subcommand.",
		Summary: "Commands about modules, of which there are none.", Differences: "Only LIST and HELP exist.",
		Sub: []*command.Spec{
			{
				Name: "list", Arity: 2, Flags: command.Admin | command.NoScript | command.Unlocked, Since: "4.0.0", Complexity: "O(1)",
				Summary: "Answers an empty list.", Tips: []string{"nondeterministic_output_order"},
				Run: func(c *command.Ctx) { c.W.Array(0) },
			},
			{
				Name: "help", Arity: 2, Flags: serverFlags | command.Unlocked, Since: "5.0.0", Complexity: "O(1)", Summary: "Lists the subcommands.",
				Run: func(c *command.Ctx) {
					command.Help(c, []string{"LIST", "    Return a list of loaded modules, which is empty."})
				},
			},
		},
	}
}

func memory() *command.Spec {
	return &command.Spec{
		Name: "memory", Arity: -2, Group: "server", Since: "4.0.0", Complexity: "Depends on the subcommand.",
		Summary: "Commands about memory.", Differences: "Only USAGE, PURGE and HELP exist.",
		Sub: []*command.Spec{
			{
				Name: "help", Arity: 2, Flags: serverFlags | command.Unlocked, Since: "4.0.0", Complexity: "O(1)", Summary: "Lists the subcommands.",
				Run: func(c *command.Ctx) {
					command.Help(c, []string{
						"USAGE <key> [SAMPLES <count>]",
						"    Return memory in bytes used by <key> and its value. Nested values are",
						"    always counted whole; <count> is checked and has no effect.",
					})
				},
			},
			{
				Name: "usage", Arity: -3, Flags: command.ReadOnly, Keys: command.One(2, command.RO), Since: "4.0.0", Complexity: "O(1)",
				Syntax: "key [SAMPLES count]", Summary: "Estimates what a key and its value occupy.", Run: runUsage,
			},
		},
	}
}

func runUsage(c *command.Ctx) {
	a := c.Scan(3)
	for a.More() {
		if !a.Is("SAMPLES") {
			a.Fail(command.ErrSyntax)
			break
		}
		if !a.More() {
			a.Fail(command.ErrSyntax)
			break
		}
		if a.Int() < 0 {
			a.Fail(command.ErrSyntax)
		}
	}
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	if info, ok := c.Tx.Info(c.Key(2)); ok {
		c.W.Int(info.Bytes)
	} else {
		c.W.Null()
	}
}
