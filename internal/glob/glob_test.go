package glob

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"kevy/tests/process"
	"kevy/tests/wire"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true}, {"*", "", false}, {"**", "", false}, {"", "a", false},
		{"*", "a", true}, {"a*", "a", true}, {"a**", "a", true}, {"a*?", "a", false},
		{"h?llo", "hello", true}, {"h?llo", "hllo", false}, {"h*llo", "heeeello", true},
		{"h[ae]llo", "hallo", true}, {"h[ae]llo", "hillo", false}, {"h[^e]llo", "hallo", true}, {"h[^e]llo", "hello", false},
		{"h[a-c]llo", "hbllo", true}, {"h[c-a]llo", "hbllo", true}, {"[a-]", "-", false}, {"[a-]", "]", true}, {"[a-]", "^", true},
		{"h[a", "ha", true}, {"h[a", "hb", false}, {"h[^a", "hb", true}, {"[", "a", false}, {"[^", "a", true}, {"[^]", "a", true},
		{"[]a]", "a", false}, {`[\]a]`, "]", true}, {`[\`, `\`, true}, {"hxll[o-", "hxllo", true}, {"hxll[o-", "hxll-", true},
		{`h\*llo`, "h*llo", true}, {`h\*llo`, "hallo", false}, {`\`, `\`, true}, {`\a`, "a", true}, {`a\`, `a\`, true},
		{"*a*b*c", "xxaxxbxxc", true}, {"*a*b*c", "xxaxxbxx", false}, {"*[^x", "ab", true},
		{"HELLO", "hello", false},
	} {
		if got := Match(c.pattern, c.s); got != c.want {
			t.Errorf("%q matches %q: %v", c.pattern, c.s, got)
		}
		if got := Match([]byte(c.pattern), []byte(c.s)); got != c.want {
			t.Errorf("%q matches %q, as bytes: %v", c.pattern, c.s, got)
		}
	}
}

func TestMatchFold(t *testing.T) {
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"HeLLo", "hEllO", true}, {"h[A-C]llo", "hbllo", true}, {"h[^B]llo", "hbllo", false}, {`\H`, "h", true},
		{"[Z-a]", "m", false}, {"[[-T]", "p", false}, {"[T-O]", "p", true}, {"[", "{", false}, {"é", "É", false},
	} {
		if got := MatchFold(c.pattern, c.s); got != c.want {
			t.Errorf("%q matches %q: %v", c.pattern, c.s, got)
		}
	}
}

// A pattern that backtracking would follow for longer than anyone waits.
func TestMatchIsNotExponential(t *testing.T) {
	pattern := strings.Repeat("a*", 1000) + "b"
	start := time.Now()
	if Match(pattern, strings.Repeat("a", 20_000)) {
		t.Error("it matches")
	}
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("it took %v", d)
	}
}

// TestOracle holds random patterns to those of redis-server, as its KEYS tells
// of one key and its CONFIG GET, without regard to case, of one name.
func TestOracle(t *testing.T) {
	c := process.Start(t, process.Oracle(t), process.Config{}).Conn(t)
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	text := func(alphabet string, n int) string {
		var b strings.Builder
		for range n {
			b.WriteByte(alphabet[rng.IntN(len(alphabet))])
		}
		return b.String()
	}
	do := func(args ...string) wire.Reply {
		r, err := c.Do(args...)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	matched := 0
	for range 400 {
		s := text(`ab-]\^*[`, rng.IntN(5))
		do("FLUSHALL")
		do("SET", s, "")
		patterns := make([]string, 50)
		cmds := make([][]string, len(patterns))
		for i := range patterns {
			patterns[i] = text(`aab--]\^^**?[[`, 1+rng.IntN(7))
			if patterns[i] == "*" { // KEYS treats it apart
				patterns[i] = "**"
			}
			cmds[i] = []string{"KEYS", patterns[i]}
		}
		replies, err := c.Pipeline(cmds...)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range replies {
			want := len(r.Elems) == 1
			if got := Match(patterns[i], s); got != want {
				t.Errorf("%q matches %q: %v, in redis-server %v (seed %d)", patterns[i], s, got, want, seed)
			}
			if want {
				matched++
			}
		}
	}
	if matched < 100 {
		t.Errorf("only %d patterns matched: the test tries too little", matched)
	}
	for range 2000 {
		pattern := text(`pPoOrRtT[]-*?^`, 1+rng.IntN(6))
		if !strings.ContainsAny(pattern, "[]*?") {
			continue // CONFIG GET looks such a name up
		}
		want := false
		for _, e := range do("CONFIG", "GET", pattern).Elems {
			want = want || string(e.Text) == "port"
		}
		if got := MatchFold(pattern, "port"); got != want {
			t.Errorf("%q matches port without regard to case: %v, in redis-server %v (seed %d)", pattern, got, want, seed)
		}
	}
}

func TestTooManyStarsMatchNothing(t *testing.T) {
	s := strings.Repeat("a", 50000)
	if Match(strings.Repeat("*?", 50000), s) {
		t.Error("a pattern of 50,000 stars matches")
	}
	if !Match(strings.Repeat("*?", maxStars), s) {
		t.Errorf("a pattern of %d stars does not match", maxStars)
	}
	if !Match(strings.Repeat("*", 5000)+"a", s) {
		t.Error("stars in a row are one")
	}
}
