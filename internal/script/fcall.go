package script

import (
	"kevy/internal/command"
	"kevy/resp"
)

const fcallSyntax = "function numkeys [key [key ...]] [arg [arg ...]]"

func (f *Family) fcall() *command.Spec {
	return &command.Spec{
		Name: "fcall", Arity: -3, Flags: evalFlags, Category: command.CatScripting, Keys: writerKeys(worstRW),
		Group: "scripting", Since: "7.0.0", Complexity: "Depends on the function that is executed.", Syntax: fcallSyntax,
		Summary: "Runs a function of a library.", Differences: allShardsNote, WritesNothing: f.writesNothing,
		Run: func(c *command.Ctx) { f.runFCall(c, false) },
	}
}

func (f *Family) fcallRO() *command.Spec {
	return &command.Spec{
		Name: "fcall_ro", Arity: -3, Flags: readOnlyFlags, Category: command.CatScripting, Keys: readerKeys(),
		Group: "scripting", Since: "7.0.0", Complexity: "Depends on the function that is executed.", Syntax: fcallSyntax,
		Summary: "Runs a function that does not write.", Differences: allShardsNote,
		Run: func(c *command.Ctx) { f.runFCall(c, true) },
	}
}

func (f *Family) runFCall(c *command.Ctx, readOnly bool) {
	fn := f.sync(c.Tx).find(c.Args[1])
	if fn == nil {
		c.W.Error(resp.Errorf("ERR", "Function not found"))
		return
	}
	keys, args, err := keysAndArgs(c, errBadNumKeys)
	if err != nil {
		c.W.Error(err)
		return
	}
	w := c.W
	n, ok := f.start(c, fn.Name, true, fn.flags, readOnly)
	if !ok {
		return
	}
	defer n.End()
	out := f.libraries.state.Call(fn.Function, keys, args, host{n, f.runner}, w)
	n.Counted(out.Counted)
}

var errBadNumKeys = &resp.Error{Code: "ERR", Text: "Bad number of keys provided"}
