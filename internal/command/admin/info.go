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
	Title string // its heading, and in lower case its name
	Alias string // a second name, in lower case; empty: none
	Kind  SectionKind
	// Fields returns the section's lines.
	Fields func() []Field
}

// SectionKind says when a section is shown.
type SectionKind int

const (
	// ByDefault sections are shown unless others are asked for.
	ByDefault SectionKind = iota
	// OnRequest sections are shown when they are asked for, or all are.
	OnRequest
)

// Field is one line of a section.
type Field struct{ Name, Value string }

func info(srv Server) *command.Spec {
	return &command.Spec{
		Name: "info", Arity: -1, Flags: serverFlags | command.AllShards, Category: command.CatDangerous,
		Group: "server", Since: "1.0.0", Complexity: "O(1)", Syntax: "[section [section ...]]",
		Tips:    []string{"nondeterministic_output", "request_policy:all_shards", "response_policy:special"},
		Summary: "Tells about the server.",
		Differences: "A section Feed and fields that begin with kevy_ are ours. Fields of mechanisms that are not here are 0. " +
			"In commandstats and latencystats quick commands that come in one batch are measured together and the time is divided equally; " +
			"the time for which a command waits is not counted.",
		Run: func(c *command.Ctx) {
			session(c).MergeStats()
			c.W.Verbatim("txt", renderInfo(srv.Info(c.Tx), c.Args[1:]))
		},
	}
}

// renderInfo writes the sections that are asked for: those by default without a
// name, all of them with "all" or "everything".
func renderInfo(sections []Section, names [][]byte) string {
	var b strings.Builder
	for i := range sections {
		s := &sections[i]
		if !s.wanted(names) {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString("# " + s.Title + "\r\n")
		for _, f := range s.Fields() {
			b.WriteString(f.Name + ":" + f.Value + "\r\n")
		}
	}
	return b.String()
}

func (s *Section) wanted(names [][]byte) bool {
	if len(names) == 0 {
		return s.Kind == ByDefault
	}
	for _, n := range names {
		switch name := strings.ToLower(string(n)); name {
		case "all", "everything", strings.ToLower(s.Title):
			return true
		case "default":
			if s.Kind == ByDefault {
				return true
			}
		default:
			if name != "" && name == s.Alias {
				return true
			}
		}
	}
	return false
}
