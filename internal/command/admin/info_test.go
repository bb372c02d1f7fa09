package admin

import (
	"strings"
	"testing"
)

func TestRenderInfo(t *testing.T) {
	section := func(title string, kind SectionKind, names ...string) Section {
		return Section{Title: title, Kind: kind, Fields: func() (f []Field) {
			for _, n := range names {
				f = append(f, Field{n, "1"})
			}
			return f
		}}
	}
	modules := section("Modules", ByDefault)
	modules.Alias = "module_list"
	sections := []Section{section("Server", ByDefault, "a", "b"), modules, section("Commandstats", OnRequest, "c"), section("Keyspace", ByDefault)}
	const (
		server   = "# Server\r\na:1\r\nb:1\r\n"
		module   = "# Modules\r\n"
		commands = "# Commandstats\r\nc:1\r\n"
		keyspace = "# Keyspace\r\n"
		gap      = "\r\n"
	)
	for names, want := range map[string]string{
		"":                     server + gap + module + gap + keyspace,
		"default":              server + gap + module + gap + keyspace,
		"all":                  server + gap + module + gap + commands + gap + keyspace,
		"Everything":           server + gap + module + gap + commands + gap + keyspace,
		"server":               server,
		"keyspace SERVER":      server + gap + keyspace,
		"server server":        server,
		"module_list":          module,
		"commandSTATS":         commands,
		"default commandstats": server + gap + module + gap + commands + gap + keyspace,
		"nosuch":               "",
		"nosuch keyspace":      keyspace,
	} {
		var args [][]byte
		for _, n := range strings.Fields(names) {
			args = append(args, []byte(n))
		}
		if got := renderInfo(sections, args); got != want {
			t.Errorf("%q: %q, want %q", names, got, want)
		}
	}
	if got := renderInfo(sections, [][]byte{nil}); got != "" {
		t.Errorf("an empty name selects %q", got)
	}
}
