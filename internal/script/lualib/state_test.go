package lualib_test

import (
	"strings"
	"testing"

	"kevy/internal/script/lualib"
	"kevy/resp"
)

// host answers every command with its arguments as an array.
type host struct {
	ticks int
	stop  error
	logs  []string
}

func (h *host) Call(args [][]byte, proto int) []byte {
	w := resp.NewWriter(proto)
	if string(args[0]) == "fail" {
		w.Error(&resp.Error{Code: "WRONGTYPE", Text: "no"})
		return w.Bytes()
	}
	w.Array(len(args))
	for _, a := range args {
		w.Bulk(a)
	}
	return w.Bytes()
}

func (h *host) Log(_ int, text string)          { h.logs = append(h.logs, text) }
func (h *host) Permitted([][]byte) (bool, bool) { return true, true }
func (h *host) Tick() error {
	h.ticks++
	if h.ticks > 100 {
		return h.stop
	}
	return nil
}

func eval(t *testing.T, h *host, source string) (string, lualib.Outcome) {
	t.Helper()
	p, err := lualib.Compile("user_script", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	s := lualib.New()
	defer s.Close()
	w := resp.NewWriter(2)
	out := s.Eval(p, "sha", [][]byte{[]byte("k")}, [][]byte{[]byte("a"), []byte("b")}, h, w)
	return string(w.Bytes()), out
}

func TestEval(t *testing.T) {
	for _, c := range []struct{ source, want string }{
		{"return 1.9", ":1\r\n"},
		{"return KEYS[1] .. ARGV[2]", "$2\r\nkb\r\n"},
		{"return redis.call('x', 1, 'y')", "*3\r\n$1\r\nx\r\n$1\r\n1\r\n$1\r\ny\r\n"},
		{"return {1, 'two', {ok = 'three'}, nil, 5}", "*3\r\n:1\r\n$3\r\ntwo\r\n+three\r\n"},
		{"return redis.pcall('fail')", "-WRONGTYPE no\r\n"},
		{"\nreturn redis.call('fail')", "-WRONGTYPE no script: sha, on @user_script:2.\r\n"},
	} {
		if got, _ := eval(t, new(host), c.source); got != c.want {
			t.Errorf("%s: got %q, want %q", c.source, got, c.want)
		}
	}
}

// TestTickEndsWhatProtectsItself holds that a script cannot catch the error that
// ends it.
func TestTickEndsWhatProtectsItself(t *testing.T) {
	for _, source := range []string{
		"while true do end",
		"while true do pcall(function() while true do end end) end",
		"local function f() return f() end return f()",
	} {
		h := &host{stop: resp.Errorf("ERR", "the end")}
		got, out := eval(t, h, source)
		if !strings.HasPrefix(got, "-ERR the end") || !out.Failed || out.Counted {
			t.Errorf("%s: got %q, %+v", source, got, out)
		}
	}
}
