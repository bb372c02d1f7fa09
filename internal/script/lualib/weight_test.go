package lualib_test

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"kevy/internal/script/lualib"
)

// TestBytes: what a state and a program are said to occupy is about what they do.
func TestBytes(t *testing.T) {
	corpus, err := os.ReadFile("testdata/corpus/base.txt")
	if err != nil {
		t.Fatal(err)
	}
	// Everything in the corpus is a script and its answers, in comments.
	var parts []string
	for part := range strings.SplitSeq(string(corpus), "\n\n") {
		source := "local function f()\n" + part + "\nend"
		if _, err := lualib.Compile("user_script", []byte(source)); err == nil {
			parts = append(parts, source)
		}
	}
	if len(parts) < 200 {
		t.Fatalf("only %d parts of the corpus can be compiled", len(parts))
	}
	compiled := func(source string) func() (any, int) {
		return func() (any, int) {
			p, err := lualib.Compile("user_script", []byte(source))
			if err != nil {
				t.Fatal(err)
			}
			return p, p.Bytes()
		}
	}
	for _, c := range []struct {
		name string
		n    int
		make func() (any, int)
	}{
		{"state", 50, func() (any, int) {
			s := lualib.New()
			evalOurs(s, 2, "return pcall(tostring, 1)")
			return s, lualib.StateBytes
		}},
		{"short script", 2000, compiled("return redis.call('GET', KEYS[1])")},
		{"limiter", 1000, compiled("local n = redis.call('INCR', KEYS[1]) if n == 1 then redis.call('EXPIRE', KEYS[1], ARGV[1]) end return n")},
		{"long script", 20, compiled("do " + strings.Join(parts[:150], " end do\n") + " end")},
		{"table", 20, compiled("return {" + strings.Repeat("'x', 1, {a = 2}, ", 3000) + "}")},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := make([]any, c.n)
			said := 0
			c.make()
			before := liveBytes()
			for i := range all {
				var bytes int
				all[i], bytes = c.make()
				said += bytes
			}
			grown := int(liveBytes() - before)
			if said < grown*2/3 || said > grown*3/2 {
				t.Errorf("said to be %d bytes each, and is %d", said/c.n, grown/c.n)
			}
			t.Logf("said %d is %d", said/c.n, grown/c.n)
			runtime.KeepAlive(all)
		})
	}
}

// liveBytes is what is in use on the heap.
func liveBytes() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
