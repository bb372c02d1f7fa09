package lualib_test

import (
	"strconv"
	"strings"
	"testing"

	"kevy/internal/script/lualib"
)

// quote writes a string as Lua reads it.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('\'')
	for i := range len(s) {
		b.WriteByte('\\')
		d := strconv.Itoa(int(s[i]))
		b.WriteString("000"[len(d):] + d)
	}
	b.WriteByte('\'')
	return b.String()
}

// fuzzed runs a script and asks that it ends in a reply, and that the state goes
// on: a panic would be an error that no function of Lua raises.
func fuzzed(t *testing.T, s *lualib.State, source string) {
	reply := evalOurs(s, 3, source)
	if !strings.HasSuffix(reply, "\r\n") || strings.Contains(reply, "runtime error") {
		t.Fatalf("%s\n%q", source, reply)
	}
	if got := evalOurs(s, 3, "return 1"); got != ":1\r\n" {
		t.Fatalf("%s\nafter it: %q", source, got)
	}
}

func FuzzJSONDecode(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5e3,null,true,"x\u00e9\ud83d\ude00"]}`, `[[[`, `"\ud800"`, `-0x1p3`, `nan`, "\"a\x00"} {
		f.Add(s)
	}
	s := lualib.New()
	defer s.Close()
	f.Fuzz(func(t *testing.T, data string) {
		fuzzed(t, s, "local ok, v = pcall(cjson.decode, "+quote(data)+") if ok then return cjson.encode(v) end return v")
	})
}

func FuzzMsgUnpack(f *testing.F) {
	for _, s := range []string{"\x93\x01\x02\x03", "\xdf\x00\x00\x00\x01\xa1a\xc0", "\xcb\x7f\xf8", "\xdd\xff\xff\xff\xff", "\x81\xc0\x01"} {
		f.Add(s)
	}
	s := lualib.New()
	defer s.Close()
	f.Fuzz(func(t *testing.T, data string) {
		fuzzed(t, s, "local ok, v = pcall(cmsgpack.unpack, "+quote(data)+") if ok then return cmsgpack.pack(v) end return v")
	})
}

func FuzzStructUnpack(f *testing.F) {
	f.Add(">i3<I16!8bdsc0", "\x01\x02\x03\x04\x05\x06\x07\x08\x09", 1)
	f.Add("bc0", "\xff", -1)
	f.Add("!2147483648i", "x", 0)
	s := lualib.New()
	defer s.Close()
	f.Fuzz(func(t *testing.T, format, data string, at int) {
		fuzzed(t, s, "local f = "+quote(format)+" local t = {pcall(struct.unpack, f, "+quote(data)+", "+strconv.Itoa(at)+")} "+
			"pcall(struct.size, f) pcall(struct.pack, f, unpack(t, 2)) return tostring(t[2])")
	})
}

func FuzzPattern(f *testing.F) {
	f.Add("hello world", "(%w+) (%b()%f[%a])", "%1%0")
	f.Add("a", "[]]", "%")
	f.Add("abc", "()%1", "%9")
	s := lualib.New()
	defer s.Close()
	f.Fuzz(func(t *testing.T, subject, pattern, repl string) {
		if len(subject) > 200 || len(pattern) > 30 {
			return // some of those take for ever
		}
		args := quote(subject) + ", " + quote(pattern)
		fuzzed(t, s, "pcall(string.find, "+args+") pcall(string.gsub, "+args+", "+quote(repl)+") return tostring(select(2, pcall(string.match, "+args+")))")
	})
}

func FuzzCompile(f *testing.F) {
	f.Add("local a, b = 1, ... for i = 1, #a do a[i] = -i ^ 2 .. 'x' end return function() a = b end")
	f.Add("goto x = [==[ ]==] --[[")
	f.Add("return ('x'):rep(3), {1, 2; [3] = 4, x = 5}")
	s := lualib.New()
	defer s.Close()
	f.Fuzz(func(t *testing.T, source string) {
		if len(source) < 1<<12 {
			// It is not run: it may never end.
			fuzzed(t, s, "return tostring(loadstring("+quote(source)+"))")
		}
	})
}
