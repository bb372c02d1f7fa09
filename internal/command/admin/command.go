package admin

import (
	"kevy/internal/command"
	"kevy/internal/glob"
	"kevy/resp"
)

func commandCommand(table func() *command.Table) *command.Spec {
	flags := serverFlags | command.Unlocked
	sub := func(name string, arity int, since, syntax, summary string, run func(c *command.Ctx, t *command.Table)) *command.Spec {
		return &command.Spec{
			Name: name, Arity: arity, Flags: flags, Category: command.CatConnection, Since: since, Syntax: syntax,
			Summary: summary, Complexity: "O(N) for N commands", Run: func(c *command.Ctx) { run(c, table()) },
		}
	}
	return &command.Spec{
		Name: "command", Arity: -1, Flags: flags, Category: command.CatConnection,
		Group: "server", Since: "2.8.13", Complexity: "O(N) for N commands", Tips: []string{"nondeterministic_output_order"},
		Summary: "Describes every command.",
		Run: func(c *command.Ctx) {
			if len(c.Args) > 1 {
				c.W.Error(resp.Errorf("ERR", "unknown subcommand '%.128s'. Try COMMAND HELP.", c.Args[1]))
				return
			}
			all := table().All()
			c.W.Array(len(all))
			for _, s := range all {
				writeInfo(c.W, s)
			}
		},
		Sub: []*command.Spec{
			sub("count", 2, "2.8.13", "", "Answers how many commands there are.", func(c *command.Ctx, t *command.Table) {
				c.W.Int(int64(len(t.All())))
			}),
			sub("docs", -2, "7.0.0", "[command-name [command-name ...]]", "Answers the documentation of commands.", runDocs),
			sub("getkeys", -3, "2.8.13", "command [arg [arg ...]]", "Answers the keys of a command line.", func(c *command.Ctx, t *command.Table) {
				runGetKeys(c, t, false)
			}),
			sub("getkeysandflags", -3, "7.0.0", "command [arg [arg ...]]", "Answers the keys of a command line and what is done to them.", func(c *command.Ctx, t *command.Table) {
				runGetKeys(c, t, true)
			}),
			sub("help", 2, "5.0.0", "", "Lists the subcommands.", func(c *command.Ctx, _ *command.Table) {
				command.Help(c, []string{
					"(no subcommand)", "    Return details about all Redis commands.",
					"COUNT", "    Return the total number of commands in this Redis server.",
					"LIST", "    Return a list of all commands in this Redis server.",
					"INFO [<command-name> ...]", "    Return details about multiple Redis commands.",
					"    If no command names are given, documentation details for all", "    commands are returned.",
					"DOCS [<command-name> ...]", "    Return documentation details about multiple Redis commands.",
					"    If no command names are given, documentation details for all", "    commands are returned.",
					"GETKEYS <full-command>", "    Return the keys from a full Redis command.",
					"GETKEYSANDFLAGS <full-command>", "    Return the keys and the access flags from a full Redis command.",
				})
			}),
			sub("info", -2, "2.8.13", "[command-name [command-name ...]]", "Describes commands.", func(c *command.Ctx, t *command.Table) {
				eachNamed(c, t, func(s *command.Spec) {
					if s == nil {
						c.W.NullArray()
					} else {
						writeInfo(c.W, s)
					}
				}, c.W.Array)
			}),
			sub("list", -2, "7.0.0", "[FILTERBY <MODULE module-name | ACLCAT category | PATTERN pattern>]", "Answers the names of commands.", runList),
		},
	}
}

// eachNamed calls fn for the commands that the arguments name, for all without
// arguments; begin is called with their number first.
func eachNamed(c *command.Ctx, t *command.Table, fn func(*command.Spec), begin func(int)) {
	if len(c.Args) == 2 {
		begin(len(t.All()))
		for _, s := range t.All() {
			fn(s)
		}
		return
	}
	begin(len(c.Args) - 2)
	for _, name := range c.Args[2:] {
		fn(t.Named(string(name)))
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
	w.Set(len(s.Sub))
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

func runDocs(c *command.Ctx, t *command.Table) {
	m := c.W.Begin()
	n := 0
	eachNamed(c, t, func(s *command.Spec) {
		if s != nil {
			n++
			writeDoc(c.W, s)
		}
	}, func(int) {})
	c.W.EndMap(m, n)
}

func writeDoc(w *resp.Writer, s *command.Spec) {
	group := s.Group
	if group == "" && s.Parent() != nil {
		group = s.Parent().Group
	}
	w.BulkString(s.FullName())
	n := 4
	if len(s.Sub) > 0 {
		n++
	}
	w.Map(n)
	for _, f := range [][2]string{{"summary", s.Summary}, {"since", s.Since}, {"group", group}, {"complexity", s.Complexity}} {
		w.BulkString(f[0])
		w.BulkString(f[1])
	}
	if len(s.Sub) > 0 {
		w.BulkString("subcommands")
		w.Map(len(s.Sub))
		for _, sub := range s.Sub {
			writeDoc(w, sub)
		}
	}
}

func runGetKeys(c *command.Ctx, t *command.Table, flags bool) {
	args := c.Args[2:]
	s := t.Lookup(args)
	switch {
	case s == nil || s.Run == nil:
		c.W.Error(resp.Errorf("ERR", "Invalid command specified"))
		return
	case len(s.Keys) == 0:
		c.W.Error(resp.Errorf("ERR", "The command has no key arguments"))
		return
	case !s.ArityFits(len(args)):
		c.W.Error(resp.Errorf("ERR", "Invalid number of arguments specified for command"))
		return
	}
	m := c.W.Begin()
	n := 0
	err := s.EachKey(args, func(i int, f command.KeyFlags) {
		n++
		if flags {
			c.W.Array(2)
			c.W.Bulk(args[i])
			writeStatuses(c.W, f.Names())
		} else {
			c.W.Bulk(args[i])
		}
	})
	if err != nil || n == 0 {
		c.W.Truncate(int(m))
		c.W.Error(resp.Errorf("ERR", "Invalid arguments specified for command"))
		return
	}
	c.W.EndArray(m, n)
}

func runList(c *command.Ctx, t *command.Table) {
	keep := func(*command.Spec) bool { return true }
	switch {
	case len(c.Args) == 2:
	case len(c.Args) == 5 && command.EqualFold(c.Args[2], "FILTERBY"):
		value := string(c.Args[4])
		switch by := c.Args[3]; {
		case command.EqualFold(by, "MODULE"):
			keep = func(*command.Spec) bool { return false }
		case command.EqualFold(by, "ACLCAT"):
			cat := command.CategoryNamed(value)
			keep = func(s *command.Spec) bool { return s.Categories()&cat != 0 }
		case command.EqualFold(by, "PATTERN"):
			keep = func(s *command.Spec) bool { return glob.MatchFold([]byte(value), []byte(s.FullName())) }
		default:
			c.W.Error(command.ErrSyntax)
			return
		}
	default:
		c.W.Error(command.ErrSyntax)
		return
	}
	m := c.W.Begin()
	n := 0
	add := func(s *command.Spec) {
		if keep(s) {
			n++
			c.W.BulkString(s.FullName())
		}
	}
	for _, s := range t.All() {
		add(s)
		if len(c.Args) > 2 {
			for _, sub := range s.Sub {
				add(sub)
			}
		}
	}
	c.W.EndSet(m, n)
}
