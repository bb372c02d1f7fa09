package admin

import (
	"kevy/internal/command"
	"kevy/resp"
)

func commandInfo(table func() *command.Table) *command.Spec {
	return &command.Spec{
		Name: "info", Arity: -2, Flags: commandFlags, Category: command.CatConnection, Since: "2.8.13", Complexity: "O(N) for N commands",
		Tips: []string{"nondeterministic_output_order"}, Syntax: "[command-name [command-name ...]]",
		Summary: "Describes commands.",
		Run: func(c *command.Ctx) {
			if len(c.Args) == 2 {
				writeAllInfo(c, table())
				return
			}
			c.W.Array(len(c.Args) - 2)
			for _, name := range c.Args[2:] {
				if s := table().Named(string(name)); s != nil {
					writeInfo(c.W, s)
				} else {
					c.W.Null()
				}
			}
		},
	}
}

func writeAllInfo(c *command.Ctx, t *command.Table) {
	c.W.Array(len(t.All()))
	for _, s := range t.All() {
		writeInfo(c.W, s)
	}
}

func writeInfo(w *resp.Writer, s *command.Spec) {
	first, last, step := s.FirstLastStep()
	w.Array(10)
	w.BulkString(s.FullName())
	w.Int(int64(s.Arity))
	writeStatuses(w, s.FlagNames())
	w.Int(int64(first))
	w.Int(int64(last))
	w.Int(int64(step))
	writeStatuses(w, s.Categories().Names())
	w.Set(len(s.Tips))
	for _, tip := range s.Tips {
		w.BulkString(tip)
	}
	w.Set(len(s.Keys))
	for i := range s.Keys {
		writeKeySpec(w, &s.Keys[i])
	}
	// In Redis the subcommands are an array, their absence an empty set.
	if len(s.Sub) == 0 {
		w.Set(0)
		return
	}
	w.Array(len(s.Sub))
	for _, sub := range s.Sub {
		writeInfo(w, sub)
	}
}

func writeStatuses(w *resp.Writer, names []string) {
	w.Set(len(names))
	for _, n := range names {
		w.Simple(n)
	}
}

func writeKeySpec(w *resp.Writer, k *command.KeySpec) {
	text := func(name, value string) {
		w.BulkString(name)
		w.BulkString(value)
	}
	num := func(name string, n int) {
		w.BulkString(name)
		w.Int(int64(n))
	}
	if k.Notes != "" {
		w.Map(4)
		text("notes", k.Notes)
	} else {
		w.Map(3)
	}
	w.BulkString("flags")
	writeStatuses(w, k.Flags.Names())
	if k.Unknown {
		for _, part := range []string{"begin_search", "find_keys"} {
			w.BulkString(part)
			w.Map(2)
			text("type", "unknown")
			w.BulkString("spec")
			w.Map(0)
		}
		return
	}
	w.BulkString("begin_search")
	w.Map(2)
	if k.Keyword != "" {
		text("type", "keyword")
		w.BulkString("spec")
		w.Map(2)
		text("keyword", k.Keyword)
		num("startfrom", k.StartFrom)
	} else {
		text("type", "index")
		w.BulkString("spec")
		w.Map(1)
		num("index", k.Index)
	}
	w.BulkString("find_keys")
	w.Map(2)
	if k.NumKeys {
		text("type", "keynum")
		w.BulkString("spec")
		w.Map(3)
		num("keynumidx", k.CountAt)
		num("firstkey", k.FirstKey)
		num("keystep", k.Step)
	} else {
		text("type", "range")
		w.BulkString("spec")
		w.Map(3)
		num("lastkey", k.Last)
		num("keystep", k.Step)
		num("limit", k.Limit)
	}
}
