package script

import (
	"errors"
	"slices"

	"kevy/internal/command"
	"kevy/internal/glob"
	"kevy/internal/rdb"
	"kevy/resp"
	"kevy/shard"
)

// function is FUNCTION. What is changed is an op of the log: see shard.Library.
func (f *Family) function() *command.Spec {
	sub := func(name string, arity int, flags command.Flags, syntax, complexity, summary string, tips []string, run command.Handler) *command.Spec {
		return &command.Spec{
			Name: name, Arity: arity, Flags: command.NoScript | flags, Category: command.CatScripting, Tips: tips,
			Since: "7.0.0", Syntax: syntax, Complexity: complexity, Summary: summary, Run: run,
		}
	}
	everywhere := []string{"request_policy:all_shards", "response_policy:all_succeeded"}
	const writes = command.Write | command.AllShards
	return &command.Spec{
		Name: "function", Arity: -2, Group: "scripting", Since: "7.0.0", Complexity: "Depends on subcommand.",
		Summary: "Commands about libraries of functions.",
		Sub: []*command.Spec{
			sub("delete", 3, writes, "library-name", "O(1)", "Removes a library.", everywhere, f.runFunctionDelete),
			sub("dump", 2, command.AllShards, "", "O(N) for N libraries", "Answers all libraries as one payload.", nil, f.runFunctionDump),
			sub("flush", -2, writes, "[ASYNC | SYNC]", "O(N) for N libraries", "Removes all libraries.", everywhere, f.runFunctionFlush),
			helpSub("7.0.0", functionHelp),
			sub("kill", 2, command.AllowBusy|command.Unlocked, "", "O(1)", "Ends the function that runs unless it has written.",
				[]string{"request_policy:all_shards", "response_policy:one_succeeded"}, f.runFunctionKill),
			sub("list", -2, command.AllShards, "[LIBRARYNAME library-name-pattern] [WITHCODE]", "O(N) for N functions",
				"Lists libraries and their functions.", []string{"nondeterministic_output_order"}, f.runFunctionList),
			sub("load", -3, writes|command.DenyOOM, "[REPLACE] function-code", "O(1)", "Loads a library.", everywhere, f.runFunctionLoad),
			sub("restore", -3, writes|command.DenyOOM, "serialized-value [FLUSH | APPEND | REPLACE]", "O(N) for N libraries",
				"Loads the libraries of a payload.", everywhere, f.runFunctionRestore),
			sub("stats", 2, command.AllowBusy|command.Unlocked, "", "O(1)", "Answers which function runs, and how many there are.",
				[]string{"nondeterministic_output", "request_policy:all_shards", "response_policy:special"}, f.runFunctionStats),
		},
	}
}

var functionHelp = []string{
	"LOAD [REPLACE] <FUNCTION CODE>",
	"    Create a new library with the given library name and code.",
	"DELETE <LIBRARY NAME>",
	"    Delete the given library.",
	"LIST [LIBRARYNAME PATTERN] [WITHCODE]",
	"    Return general information on all the libraries:",
	"    * Library name",
	"    * The engine used to run the Library",
	"    * Library description",
	"    * Functions list",
	"    * Library code (if WITHCODE is given)",
	"    It also possible to get only function that matches a pattern using LIBRARYNAME argument.",
	"STATS",
	"    Return information about the current function running:",
	"    * Function name",
	"    * Command used to run the function",
	"    * Duration in MS that the function is running",
	"    If no function is running, return nil",
	"    In addition, returns a list of available engines.",
	"KILL",
	"    Kill the current running function.",
	"FLUSH [ASYNC|SYNC]",
	"    Delete all the libraries.",
	"    When called without the optional mode argument, the behavior is determined by the",
	"    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
	"    * ASYNC: Asynchronously flush the libraries.",
	"    * SYNC: Synchronously flush the libraries.",
	"DUMP",
	"    Return a serialized payload representing the current libraries, can be restored using FUNCTION RESTORE command",
	"RESTORE <PAYLOAD> [FLUSH|APPEND|REPLACE]",
	"    Restore the libraries represented by the given payload, it is possible to give a restore policy to",
	"    control how to handle existing libraries (default APPEND):",
	"    * FLUSH: delete all existing libraries.",
	"    * APPEND: appends the restored libraries to the existing libraries. On collision, abort.",
	"    * REPLACE: appends the restored libraries to the existing libraries, On collision, replace the old",
	"      libraries with the new libraries (notice that even on this option there is a chance of failure",
	"      in case of functions name collision with another library).",
}

func (f *Family) runFunctionLoad(c *command.Ctx) {
	replace := false
	options := c.Args[2 : len(c.Args)-1]
	for _, o := range options {
		if !command.EqualFold(o, "REPLACE") {
			c.W.Error(resp.Errorf("ERR", "Unknown option given: %s", command.CText(o)))
			return
		}
		replace = true
	}
	code := c.Args[len(c.Args)-1]
	l := f.sync(c.Tx)
	name, _, err := libraryHead(code)
	if err == nil && !replace && l.byName[name] != nil {
		err = resp.Errorf("ERR", "Library '%s' already exists", name)
	}
	var lib *library
	if err == nil {
		lib, err = f.build(l, code)
	}
	if err == nil {
		if clash := l.clash(lib); clash != "" {
			err = resp.Errorf("ERR", "Function %s already exists", clash)
		}
	}
	if err != nil {
		c.W.Error(err)
		return
	}
	f.keep(c.Tx, lib)
	c.W.BulkString(lib.name)
}

// keep puts a library that was built into the store.
func (f *Family) keep(tx *shard.Tx, lib *library) {
	if err := tx.LoadLibrary(lib.code); err != nil {
		panic(err) // its first line has been read
	}
	f.libraries.put(lib)
	_, f.libraries.version = tx.Libraries()
	f.count()
}

func (f *Family) runFunctionDelete(c *command.Ctx) {
	l := f.sync(c.Tx)
	if !c.Tx.DeleteLibrary(string(c.Args[2])) {
		c.W.Error(resp.Errorf("ERR", "Library not found"))
		return
	}
	l.remove(string(c.Args[2]))
	_, l.version = c.Tx.Libraries()
	f.count()
	c.W.OK()
}

func (f *Family) runFunctionFlush(c *command.Ctx) {
	switch {
	case len(c.Args) > 3:
		c.W.Error(command.SubcommandError(c))
		return
	case len(c.Args) == 2:
	case command.EqualFold(c.Args[2], "SYNC") || command.EqualFold(c.Args[2], "ASYNC"):
	default:
		c.W.Error(resp.Errorf("ERR", "FUNCTION FLUSH only supports SYNC|ASYNC option"))
		return
	}
	f.flush(c.Tx)
	c.W.OK()
}

// flush removes all libraries, and the state with what they have left in it.
func (f *Family) flush(tx *shard.Tx) {
	tx.FlushLibraries()
	l := &f.libraries
	l.close()
	*l = noLibraries()
	_, l.version = tx.Libraries()
	f.count()
}

func (f *Family) runFunctionKill(c *command.Ctx) {
	if err := f.runner.KillScript(true); err != nil {
		c.W.Error(err)
		return
	}
	c.W.OK()
}

func (f *Family) runFunctionList(c *command.Ctx) {
	var pattern []byte
	named, withCode := false, false
	for a := c.Scan(2); a.More(); {
		switch {
		case !withCode && a.Is("WITHCODE"):
			withCode = true
		case !named && a.Is("LIBRARYNAME"):
			if !a.More() {
				c.W.Error(resp.Errorf("ERR", "library name argument was not given"))
				return
			}
			pattern, named = a.Bytes(), true
		default:
			c.W.Error(resp.Errorf("ERR", "Unknown argument %s", command.CText(a.Bytes())))
			return
		}
	}
	l := f.sync(c.Tx)
	kept, _ := c.Tx.Libraries()
	m := c.W.Begin()
	n := 0
	for _, k := range kept {
		if named && !glob.MatchFold(string(pattern), k.Name) {
			continue
		}
		n++
		writeLibrary(c.W, l.byName[k.Name], withCode)
	}
	c.W.EndArray(m, n)
}

func writeLibrary(w *resp.Writer, lib *library, withCode bool) {
	if withCode {
		w.Map(4)
	} else {
		w.Map(3)
	}
	w.BulkString("library_name")
	w.BulkString(lib.name)
	w.BulkString("engine")
	w.BulkString("LUA")
	w.BulkString("functions")
	w.Array(len(lib.functions))
	for _, fn := range lib.functions {
		w.Map(3)
		w.BulkString("name")
		w.BulkString(fn.Name)
		w.BulkString("description")
		if fn.Descs {
			w.BulkString(fn.Desc)
		} else {
			w.Null()
		}
		w.BulkString("flags")
		names := fn.flags.Names()
		w.Set(len(names))
		for _, name := range names {
			w.Simple(name)
		}
	}
	if withCode {
		w.BulkString("library_code")
		w.Bulk(lib.code)
	}
}

func (f *Family) runFunctionStats(c *command.Ctx) {
	c.W.Map(2)
	c.W.BulkString("running_script")
	if running, ok := f.runner.RunningScript(); !ok {
		c.W.Null()
	} else {
		c.W.Map(3)
		c.W.BulkString("name")
		c.W.BulkString(running.Name)
		c.W.BulkString("command")
		c.W.Array(len(running.Args))
		for _, a := range running.Args {
			c.W.Bulk(a)
		}
		c.W.BulkString("duration_ms")
		c.W.Int(running.For.Milliseconds())
	}
	libs, functions := f.Counts()
	c.W.BulkString("engines")
	c.W.Map(1)
	c.W.BulkString("LUA")
	c.W.Map(2)
	c.W.BulkString("libraries_count")
	c.W.Int(libs)
	c.W.BulkString("functions_count")
	c.W.Int(functions)
}

func (f *Family) runFunctionDump(c *command.Ctx) {
	kept, _ := c.Tx.Libraries()
	var codes [][]byte
	for _, k := range kept {
		codes = append(codes, k.Code)
	}
	c.W.Bulk(rdb.AppendFunctions(nil, codes))
}

// The policies of FUNCTION RESTORE.
type restorePolicy int

const (
	restoreAppend restorePolicy = iota
	restoreReplace
	restoreFlush
)

func (f *Family) runFunctionRestore(c *command.Ctx) {
	if len(c.Args) > 4 {
		c.W.Error(command.SubcommandError(c))
		return
	}
	policy := restoreAppend
	if len(c.Args) == 4 {
		switch {
		case command.EqualFold(c.Args[3], "APPEND"):
		case command.EqualFold(c.Args[3], "REPLACE"):
			policy = restoreReplace
		case command.EqualFold(c.Args[3], "FLUSH"):
			policy = restoreFlush
		default:
			c.W.Error(resp.Errorf("ERR", "Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE."))
			return
		}
	}
	if err := f.restore(c.Tx, c.Args[2], policy); err != nil {
		c.W.Error(err)
		return
	}
	c.W.OK()
}

// join builds libraries, of which none may clash with another or with what l has;
// they may take the place of those of the same name in l if replace is set. at is
// the place of the one that was refused. l has the same libraries as before.
func (f *Family) join(l *libraries, codes [][]byte, replace bool) (fresh []*library, at int, _ *resp.Error) {
	joined := noLibraries()
	for _, lib := range l.byName {
		joined.put(lib)
	}
	for i, code := range codes {
		lib, err := f.build(l, code)
		if err != nil {
			return nil, i, err
		}
		isNew := !slices.ContainsFunc(fresh, func(other *library) bool { return other.name == lib.name })
		if joined.byName[lib.name] != nil && (!replace || !isNew) {
			return nil, i, resp.Errorf("ERR", "Library %s already exists", lib.name)
		}
		joined.remove(lib.name)
		if clash := joined.clash(lib); clash != "" {
			return nil, i, resp.Errorf("ERR", "Function %s already exists", clash)
		}
		joined.put(lib)
		fresh = append(fresh, lib)
	}
	return fresh, 0, nil
}

// restore loads the libraries of a payload, all or none.
func (f *Family) restore(tx *shard.Tx, payload []byte, policy restorePolicy) *resp.Error {
	codes, err := rdb.ParseFunctions(payload)
	switch {
	case errors.Is(err, rdb.ErrPayload):
		return resp.Errorf("ERR", "DUMP payload version or checksum are wrong")
	case errors.Is(err, rdb.ErrNotFunctions):
		return resp.Errorf("ERR", "given type is not a function")
	case err != nil:
		return resp.Errorf("ERR", "failed loading the given functions payload")
	}
	l := f.sync(tx)
	if policy == restoreFlush {
		none := noLibraries()
		l = &none
	}
	fresh, _, refused := f.join(l, codes, policy == restoreReplace)
	if refused != nil {
		if policy == restoreFlush {
			l.close()
		}
		return refused
	}
	if policy == restoreFlush {
		f.flush(tx)
		f.libraries.state = l.state
	}
	for _, lib := range fresh {
		f.keep(tx, lib)
	}
	_, f.libraries.version = tx.Libraries()
	f.count()
	return nil
}
