package lua_test

import (
	"flag"
	"testing"

	"kevy/tests/inprocess"
	luatest "kevy/tests/lua"
)

var rewrite = flag.Bool("rewrite", false, "take the answers of redis-server into testdata")

// TestCommands runs scripts that call commands on a server. What they must answer
// is redis-server's, which is asked again where it is installed.
func TestCommands(t *testing.T) {
	const path, minScripts = "testdata/commands.txt", 80
	scripts := luatest.Read(t, path)
	if len(scripts) < minScripts {
		t.Errorf("%d scripts, there must be %d", len(scripts), minScripts)
	}
	oracle := luatest.StartOracle(t)
	if *rewrite && oracle == nil {
		t.Fatal("no redis-server 7.0.15 to ask")
	}
	kevy := luatest.Connect(t, "tcp", inprocess.Start(t).Addr())
	for _, s := range scripts {
		for proto := 2; proto <= 3; proto++ {
			if oracle != nil {
				answer := oracle.Eval(t, proto, s.Source)
				if *rewrite {
					s.Answers[proto] = answer
				} else if answer != s.Answers[proto] {
					t.Errorf("%s\nin RESP%d redis-server now says %q\n                      the file has %q", s.Source, proto, answer, s.Answers[proto])
				}
			}
			got := kevy.Eval(t, proto, s.Source)
			want := s.Answers[proto]
			if s.Differs != "" {
				if proto == 3 {
					continue
				}
				if *rewrite {
					s.Ours = got
				}
				if got == want {
					t.Errorf("%s\nthere is no difference any more: %q", s.Source, got)
				}
				want = s.Ours
			}
			if got != want {
				t.Errorf("%s\nin RESP%d is  %q\n      must be %q", s.Source, proto, got, want)
			}
		}
	}
	if *rewrite {
		luatest.Write(t, path, scripts)
	}
}
