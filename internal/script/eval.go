package script

import (
	"crypto/sha1"

	"kevy/internal/command"
	"kevy/internal/script/lualib"
	"kevy/resp"
)

const (
	evalFlags = command.NoScript | command.SkipMonitor | command.MayReplicate | command.NoMandatoryKeys | command.Stale | command.AllShards
	// readOnlyFlags are those of the commands whose scripts do not write.
	readOnlyFlags = command.NoScript | command.SkipMonitor | command.NoMandatoryKeys | command.Stale | command.ReadOnly | command.AllShards

	evalSyntax     = "script numkeys [key [key ...]] [arg [arg ...]]"
	evalSHASyntax  = "sha1 numkeys [key [key ...]] [arg [arg ...]]"
	evalComplexity = "Depends on the script that is executed."
	allShardsNote  = "A script holds the whole store while it runs; it may use keys that are not among KEYS. Commands that wait may be called and do not wait, as since Redis 7.2."
)

// writerKeys and readerKeys are the key specs of what may write and what does not.
func writerKeys(notes string) []command.KeySpec {
	ks := command.Count(2, command.RW|command.Access|command.Update)
	ks.Notes = notes
	return []command.KeySpec{ks}
}

func readerKeys() []command.KeySpec {
	ks := command.Count(2, command.RO|command.Access)
	ks.Notes = "We cannot tell how the keys will be used so we assume the worst, RO and ACCESS"
	return []command.KeySpec{ks}
}

const worstRW = "We cannot tell how the keys will be used so we assume the worst, RW and UPDATE"

func (f *Family) evalCommand() *command.Spec {
	return &command.Spec{
		Name: "eval", Arity: -3, Flags: evalFlags, Category: command.CatScripting, Keys: writerKeys(worstRW),
		Group: "scripting", Since: "2.6.0", Complexity: evalComplexity, Syntax: evalSyntax,
		Summary: "Runs a script.", Differences: allShardsNote,
		WritesNothing: func(args [][]byte) bool {
			flags, _, err := shebang(args[1])
			return err == nil && flags&(compat|NoWrites) == NoWrites
		},
		Run: func(c *command.Ctx) { f.runEval(c, false) },
	}
}

func (f *Family) evalRO() *command.Spec {
	return &command.Spec{
		Name: "eval_ro", Arity: -3, Flags: readOnlyFlags, Category: command.CatScripting, Keys: readerKeys(),
		Group: "scripting", Since: "7.0.0", Complexity: evalComplexity, Syntax: evalSyntax,
		Summary: "Runs a script that does not write.", Differences: allShardsNote,
		Run: func(c *command.Ctx) { f.runEval(c, true) },
	}
}

func (f *Family) evalSHA() *command.Spec {
	return &command.Spec{
		Name: "evalsha", Arity: -3, Flags: evalFlags, Category: command.CatScripting, Keys: writerKeys(""),
		Group: "scripting", Since: "2.6.0", Complexity: evalComplexity, Syntax: evalSHASyntax,
		Summary: "Runs a script that the server knows, by its SHA1.", Differences: allShardsNote,
		WritesNothing: func(args [][]byte) bool {
			d, ok := parseDigest(args[1])
			s := f.cache.get(d)
			return ok && s != nil && s.flags&(compat|NoWrites) == NoWrites
		},
		Run: func(c *command.Ctx) { f.runEvalSHA(c, false) },
	}
}

func (f *Family) evalSHARO() *command.Spec {
	ks := readerKeys()
	ks[0].Notes = ""
	return &command.Spec{
		Name: "evalsha_ro", Arity: -3, Flags: readOnlyFlags, Category: command.CatScripting, Keys: ks,
		Group: "scripting", Since: "7.0.0", Complexity: evalComplexity, Syntax: evalSHASyntax,
		Summary: "Runs a script that the server knows and that does not write, by its SHA1.", Differences: allShardsNote,
		Run: func(c *command.Ctx) { f.runEvalSHA(c, true) },
	}
}

var errNoScript = &resp.Error{Code: "NOSCRIPT", Text: "No matching script. Please use EVAL."}

func (f *Family) runEval(c *command.Ctx, readOnly bool) {
	keys, args, err := keysAndArgs(c, command.ErrNotInt)
	if err != nil {
		c.W.Error(err)
		return
	}
	s, err := f.load(c.Args[1], false)
	if err != nil {
		c.W.Error(err)
		return
	}
	f.run(c, s, keys, args, readOnly)
}

func (f *Family) runEvalSHA(c *command.Ctx, readOnly bool) {
	if len(c.Args[1]) != 2*sha1.Size {
		c.W.Error(errNoScript)
		return
	}
	keys, args, err := keysAndArgs(c, command.ErrNotInt)
	if err != nil {
		c.W.Error(err)
		return
	}
	var s *cached
	if d, ok := parseDigest(c.Args[1]); ok {
		s = f.cache.get(d)
	}
	if s == nil {
		c.W.Error(errNoScript)
		return
	}
	f.run(c, s, keys, args, readOnly)
}

// load returns a script, compiled and in the cache, and says whether SCRIPT LOAD did it.
func (f *Family) load(source []byte, keep bool) (*cached, *resp.Error) {
	d := digest(sha1.Sum(source))
	if s := f.cache.get(d); s != nil {
		if keep {
			s.loaded.Store(true)
		}
		return s, nil
	}
	flags, body, err := shebang(source)
	if err != nil {
		return nil, err
	}
	program, failed := lualib.Compile("user_script", body)
	if failed != nil {
		return nil, resp.Errorf("ERR", "Error compiling script (new function): %v", failed)
	}
	s := &cached{digest: d, name: d.String(), flags: flags, program: program, bytes: scriptBytes + program.Bytes()}
	s.loaded.Store(keep)
	f.cache.add(s)
	return s, nil
}

// run runs a script, which holds every shard.
func (f *Family) run(c *command.Ctx, s *cached, keys, args [][]byte, readOnly bool) {
	w := c.W
	n, ok := f.start(c, s.name, false, s.flags, readOnly)
	if !ok {
		return
	}
	defer n.End()
	out := f.state().Eval(s.program, s.name, keys, args, host{n, f.runner}, w)
	n.Counted(out.Counted)
}
