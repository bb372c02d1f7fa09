package admin

import (
	"strings"

	"kevy/internal/command"
	"kevy/shard"
)

// InfoTx is what INFO reads of the keyspace, whose shards are all held.
type InfoTx interface{ Stats() []shard.DBStats }

// Section is one section of INFO.
type Section struct {
	Name   string // as its heading shows it
	Fields []Field
	// Extra sections are shown on request and with "everything" only.
	Extra bool
}

// Field is one line of a section.
type Field struct{ Name, Value string }

func info(srv Server) *command.Spec {
	return &command.Spec{
		Name: "info", Arity: -1, Flags: serverFlags | command.AllShards, Category: command.CatDangerous,
		Group: "server", Since: "1.0.0", Complexity: "O(1)", Syntax: "[section [section ...]]",
		Tips:    []string{"nondeterministic_output", "request_policy:all_shards", "response_policy:special"},
		Summary: "Tells about the server.",
		Run: func(c *command.Ctx) {
			c.W.Verbatim("txt", render(srv.Info(c.Tx), c.Args[1:]))
		},
	}
}

// render writes the sections that are asked for: those by default without a
// name, all of them with "all" or "everything".
func render(sections []Section, names [][]byte) string {
	wanted := func(s *Section) bool {
		if len(names) == 0 {
			return !s.Extra
		}
		for _, n := range names {
			switch name := strings.ToLower(string(n)); {
			case name == "all" || name == "everything" || name == strings.ToLower(s.Name):
				return true
			case name == "default" && !s.Extra:
				return true
			}
		}
		return false
	}
	var b strings.Builder
	for i := range sections {
		s := &sections[i]
		if !wanted(s) {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString("# " + s.Name + "\r\n")
		for _, f := range s.Fields {
			b.WriteString(f.Name + ":" + f.Value + "\r\n")
		}
	}
	return b.String()
}
