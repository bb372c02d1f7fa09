package admin

import (
	"strings"

	"kevy/internal/command"
	"kevy/resp"
)

func commandDocs(table func() *command.Table) *command.Spec {
	return &command.Spec{
		Name: "docs", Arity: -2, Flags: commandFlags, Category: command.CatConnection, Since: "7.0.0", Complexity: "O(N) for N commands",
		Tips: []string{"nondeterministic_output_order"}, Syntax: "[command-name [command-name ...]]",
		Summary:     "Answers the documentation of commands.",
		Differences: "Neither commands nor arguments have a history. The words are our own; the tokens are those of Redis.",
		Run: func(c *command.Ctx) {
			if len(c.Args) == 2 {
				writeDocs(c.W, table().All())
				return
			}
			var found []*command.Spec
			for _, name := range c.Args[2:] {
				if s := table().Named(string(name)); s != nil {
					found = append(found, s)
				}
			}
			writeDocs(c.W, found)
		},
	}
}

func writeDocs(w *resp.Writer, specs []*command.Spec) {
	w.Map(len(specs))
	for _, s := range specs {
		w.BulkString(s.FullName())
		writeDoc(w, s)
	}
}

func writeDoc(w *resp.Writer, s *command.Spec) {
	m := w.Begin()
	n := 0
	for _, f := range [][2]string{{"summary", s.Summary}, {"since", s.Since}, {"group", s.Group}, {"complexity", s.Complexity}} {
		if f[1] != "" {
			w.BulkString(f[0])
			w.BulkString(f[1])
			n++
		}
	}
	if args := s.Arguments(); len(args) > 0 {
		w.BulkString("arguments")
		writeArguments(w, args)
		n++
	}
	if len(s.Sub) > 0 {
		w.BulkString("subcommands")
		writeDocs(w, s.Sub)
		n++
	}
	w.EndMap(m, n)
}

func writeArguments(w *resp.Writer, args []command.Argument) {
	w.Array(len(args))
	for i := range args {
		a := &args[i]
		m := w.Begin()
		n := 2
		w.BulkString("name")
		w.BulkString(a.Name)
		w.BulkString("type")
		w.BulkString(string(a.Type))
		if a.KeySpec >= 0 {
			w.BulkString("key_spec_index")
			w.Int(int64(a.KeySpec))
			n++
		}
		if a.Token != "" {
			w.BulkString("token")
			w.BulkString(strings.Trim(a.Token, `"`)) // MIGRATE's is empty
			n++
		}
		if flags := argumentFlags(a); len(flags) > 0 {
			w.BulkString("flags")
			writeStatuses(w, flags)
			n++
		}
		if a.Type == command.OneOf || a.Type == command.Block {
			w.BulkString("arguments")
			writeArguments(w, a.Arguments)
			n++
		}
		w.EndMap(m, n)
	}
}

func argumentFlags(a *command.Argument) (names []string) {
	if a.Optional {
		names = append(names, "optional")
	}
	if a.Multiple {
		names = append(names, "multiple")
	}
	if a.MultipleToken {
		names = append(names, "multiple_token")
	}
	return names
}
