package lualib_test

import (
	"crypto/sha1"
	"encoding/hex"
	"flag"
	"path/filepath"
	"strings"
	"testing"

	"kevy/internal/script/lualib"
	"kevy/resp"
	luatest "kevy/tests/lua"
)

// The scripts in testdata/corpus were run by redis-server 7.0.15, which says what
// each must answer in RESP2 and RESP3; where redis-server is installed they are
// run by it again. -rewrite takes its answers into the files.
var rewrite = flag.Bool("rewrite", false, "take the answers of redis-server into testdata/corpus")

// evalOurs runs a script as EVAL does.
func evalOurs(s *lualib.State, proto int, source string) string {
	w := resp.NewWriter(proto)
	p, err := lualib.Compile("user_script", []byte(source))
	if err != nil {
		w.Error(&resp.Error{Code: "ERR", Text: "Error compiling script (new function): " + err.Error()})
		return string(w.Bytes())
	}
	sum := sha1.Sum([]byte(source))
	s.Eval(p, hex.EncodeToString(sum[:]), bytesOf(luatest.Keys), bytesOf(luatest.Args), &host{}, w)
	return string(w.Bytes())
}

func bytesOf(list []string) [][]byte {
	b := make([][]byte, len(list))
	for i, s := range list {
		b[i] = []byte(s)
	}
	return b
}

// minCorpus is how many scripts there are at least.
const minCorpus = 1500

func TestCorpus(t *testing.T) {
	files, err := filepath.Glob("testdata/corpus/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	o := luatest.StartOracle(t)
	if *rewrite && o == nil {
		t.Fatal("no redis-server 7.0.15 to ask")
	}
	n, differ := 0, 0
	for _, path := range files {
		scripts := luatest.Read(t, path)
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			s := lualib.New()
			defer s.Close()
			for _, c := range scripts {
				n++
				if c.Differs != "" {
					differ++
				}
				checkScript(t, s, o, c)
			}
		})
		if *rewrite {
			luatest.Write(t, path, scripts)
		}
	}
	t.Logf("%d scripts in RESP2 and RESP3, of which %d differ for the reason they name", n, differ)
	if n < minCorpus {
		t.Errorf("%d scripts, there must be %d", n, minCorpus)
	}
}

func checkScript(t *testing.T, s *lualib.State, o *luatest.Server, c *luatest.Script) {
	t.Helper()
	for _, proto := range []int{2, 3} {
		if o != nil {
			got := o.Eval(t, proto, c.Source)
			if *rewrite {
				c.Answers[proto] = got
			} else if got != c.Answers[proto] {
				t.Errorf("%s\nin RESP%d redis-server now says %q\n                      the file has %q", c.Source, proto, got, c.Answers[proto])
			}
		}
		want, got := c.Answers[proto], evalOurs(s, proto, c.Source)
		if c.Differs != "" {
			if *rewrite && proto == 2 {
				c.Ours = got
			}
			if got == want && proto == 2 {
				t.Errorf("%s\nin RESP%d there is no difference any more: %q", c.Source, proto, got)
			}
			want = c.Ours
			if proto == 3 {
				continue
			}
		}
		if got != want {
			t.Errorf("%s\nin RESP%d is  %q\n      must be %q", c.Source, proto, got, want)
		}
	}
}
