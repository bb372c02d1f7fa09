package wire

import (
	"bufio"
	"strings"
	"testing"
)

func TestReadAndNotation(t *testing.T) {
	for _, c := range []struct{ raw, want string }{
		{"+OK\r\n", "+OK"},
		{"-ERR bad\r\n", "-ERR bad"},
		{":-5\r\n", ":-5"},
		{"$3\r\na\"\x00\r\n", `"a\"\x00"`},
		{"$-1\r\n", "$nil"},
		{"*-1\r\n", "*nil"},
		{"_\r\n", "_nil"},
		{"*2\r\n:1\r\n*0\r\n", "[:1, []]"},
		{"%1\r\n+a\r\n,1.5\r\n", "map{+a: ,1.5}"},
		{"~2\r\n#t\r\n(12\r\n", "set{#t, (12}"},
		{">2\r\n$1\r\na\r\n=5\r\ntxt:b\r\n", `push["a", ="txt:b"]`},
		{"|1\r\n+k\r\n+v\r\n:7\r\n", ":7"},
	} {
		r, err := Read(bufio.NewReader(strings.NewReader(c.raw)))
		if err != nil {
			t.Fatalf("%q: %v", c.raw, err)
		}
		if got := r.String(); got != c.want {
			t.Errorf("%q: got %s, want %s", c.raw, got, c.want)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for _, raw := range []string{"x\r\n", "$x\r\n", "$-2\r\n", "$1\r\nabc", ":1\n", "\r\n", "$3\r\nabcde", "$99999999999\r\n"} {
		if r, err := Read(bufio.NewReader(strings.NewReader(raw))); err == nil {
			t.Errorf("%q: read as %s", raw, r)
		}
	}
	deep := strings.Repeat("*1\r\n", maxDepth+2)
	if _, err := Read(bufio.NewReader(strings.NewReader(deep))); err == nil {
		t.Error("deep nesting was read")
	}
}

func TestEscapeRoundTrip(t *testing.T) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	got, err := Unescape(Escape(all))
	if err != nil || string(got) != string(all) {
		t.Fatalf("round trip: %q, %v", got, err)
	}
	for _, bad := range []string{`\`, `\x`, `\x1`, `\xzz`} {
		if _, err := Unescape(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestParseRoundTrip(t *testing.T) {
	for _, s := range []string{
		"+OK", "-ERR wrong number, of things", ":-1", `"a\"b, c]\x00"`, `="txt:x"`, "$nil", "*nil", "_nil", ",1.5", "#t", "(123",
		"[]", `[:1, [+QUEUED, ,2.5, ,inf], "x"]`, `map{"f": "v", +g: :2, :3: ,4}`, `set{"a", :1}`, `push["a", [:1]]`,
		`[-ERR a, b c, :1, -WRONGTYPE x y]`, `[,1, ,2]`, `[[,1], :2]`,
	} {
		r, rest, err := Parse(s)
		if err != nil || rest != "" || r.String() != s {
			t.Errorf("%s: got %s, rest %q, %v", s, r, rest, err)
		}
	}
	for _, s := range []string{"", "OK", `"open`, "[:1", "[:1 :2]", "map{:1}x", "?"} {
		if r, rest, err := Parse(s); err == nil && rest == "" {
			t.Errorf("%q was read as %s", s, r)
		}
	}
}
