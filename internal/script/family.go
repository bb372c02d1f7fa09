// Package script has the commands of scripts and functions: EVAL and its kin,
// SCRIPT, FUNCTION and FCALL. Lua itself is package lualib's; the commands that a
// script calls are run by whoever runs its own.
package script

import (
	"strings"
	"sync/atomic"

	"kevy/internal/command"
	"kevy/internal/script/lualib"
	"kevy/resp"
)

// Runner is what the family needs of what runs its commands.
type Runner interface {
	// Nested begins to run commands on behalf of c's.
	Nested(c *command.Ctx, o command.NestedOptions) command.Nested
	// KillScript ends the script that runs, or, if function is set, the function.
	KillScript(function bool) *resp.Error
	// RunningScript describes the script that has run for long; ok is false if none
	// has.
	RunningScript() (running command.RunningScript, ok bool)
	// LogScript writes a line to the server's log. level is one of lualib's.
	LogScript(level int, text string)
	// LogErr returns why the log cannot be written, nil if it can.
	LogErr() error
	// LacksReplicas returns why nothing may be written without replicas, nil if it may.
	LacksReplicas() *resp.Error
	// OutOfMemory reports whether memory is over maxmemory, and nothing could be
	// evicted, as of when c's command was admitted.
	OutOfMemory(c *command.Ctx) bool
}

// Family is the commands and what they share.
type Family struct {
	runner Runner
	cache  cache
	// eval runs scripts. It is used with every shard locked, so by one at a time;
	// nil before the first one.
	eval *lualib.State
	// forget says that the next script runs in a new state.
	forget    atomic.Bool
	libraries libraries
	// What of them is told without a lock.
	libraryCount, functionCount, libraryBytes atomic.Int64
	// evalBytes and functionsBytes are what the states for scripts and for functions
	// take.
	evalBytes, functionsBytes atomic.Int64
	// readers are the functions that are flagged no-writes, by their names in lower
	// case; nobody changes the map.
	readers atomic.Pointer[map[string]bool]
}

// New returns the family on a runner.
func New(r Runner) *Family {
	return &Family{runner: r, cache: newCache(), libraries: noLibraries()}
}

// Commands returns the commands.
func (f *Family) Commands() []*command.Spec {
	return []*command.Spec{f.evalCommand(), f.evalSHA(), f.evalRO(), f.evalSHARO(), f.script(), f.function(), f.fcall(), f.fcallRO()}
}

// Close frees the states. No command of the family runs any more.
func (f *Family) Close() {
	if f.eval != nil {
		f.eval.Close()
	}
	f.libraries.close()
}

// state returns the state for scripts. Every shard is locked.
func (f *Family) state() *lualib.State {
	if f.forget.Swap(false) && f.eval != nil {
		f.eval.Close()
		f.eval = nil
	}
	if f.eval == nil {
		f.eval = lualib.New()
		f.evalBytes.Store(lualib.StateBytes)
	}
	return f.eval
}

// host is what lualib calls: a nested run, and the server's log.
type host struct {
	command.Nested
	runner Runner
}

func (h host) Log(level int, text string) { h.runner.LogScript(level, text) }

// start asks what has to hold before a script with these flags runs, and begins to
// run its commands. readOnly says that its command is one of the _RO. The reply is
// written if it is not to run.
func (f *Family) start(c *command.Ctx, name string, function bool, flags Flags, readOnly bool) (n command.Nested, ok bool) {
	if flags&compat == 0 && flags&NoWrites == 0 {
		if err := f.runner.LogErr(); err != nil {
			c.W.Error(resp.Errorf("MISCONF", "Redis is configured to persist data to AOF, but it's currently unable to persist to disk. "+
				"Writable scripts are blocked. Use 'no-writes' flag for read only scripts. AOF error: %s", err))
			return nil, false
		}
		if readOnly {
			c.W.Error(resp.Errorf("ERR", "Can not execute a script with write flag using *_ro command."))
			return nil, false
		}
		if err := f.runner.LacksReplicas(); err != nil {
			c.W.Error(err)
			return nil, false
		}
		if flags&AllowOOM == 0 && f.runner.OutOfMemory(c) {
			c.W.Error(resp.Errorf("OOM", "allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'"))
			return nil, false
		}
	}
	return f.runner.Nested(c, command.NestedOptions{
		Name: name, Function: function,
		ReadOnly: readOnly || flags&(compat|NoWrites) == NoWrites,
		AllowOOM: flags&(compat|AllowOOM) == AllowOOM,
	}), true
}

// keysAndArgs splits the arguments behind numkeys, which is argument 2.
func keysAndArgs(c *command.Ctx, notInt *resp.Error) (keys, args [][]byte, _ *resp.Error) {
	n, ok := command.ParseInt(c.Args[2])
	rest := c.Args[3:]
	switch {
	case !ok:
		return nil, nil, notInt
	case n > int64(len(rest)):
		return nil, nil, errTooManyKeys
	case n < 0:
		return nil, nil, errNegativeKeys
	}
	return rest[:n], rest[n:], nil
}

var (
	errTooManyKeys  = &resp.Error{Code: "ERR", Text: "Number of keys can't be greater than number of args"}
	errNegativeKeys = &resp.Error{Code: "ERR", Text: "Number of keys can't be negative"}
)

// helpSub is the subcommand HELP of a container.
func helpSub(since string, lines []string) *command.Spec {
	return &command.Spec{
		Name: "help", Arity: 2, Flags: command.Loading | command.Stale | command.Unlocked, Category: command.CatScripting,
		Since: since, Complexity: "O(1)", Summary: "Lists the subcommands.",
		Run: func(c *command.Ctx) { command.Help(c, lines) },
	}
}

// syncOrAsync reads the one argument that a flush may have.
func syncOrAsync(c *command.Ctx) *resp.Error {
	switch {
	case len(c.Args) == 2:
	case len(c.Args) == 3 && (command.EqualFold(c.Args[2], "SYNC") || command.EqualFold(c.Args[2], "ASYNC")):
	default:
		return resp.Errorf("ERR", "%s FLUSH only support SYNC|ASYNC option", strings.ToUpper(c.Spec.Parent().Name))
	}
	return nil
}
