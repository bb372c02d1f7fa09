package changes

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
)

func TestCursorText(t *testing.T) {
	for _, c := range []Cursor{{}, {Generation: 1, Offset: 2}, {Generation: 1<<53 - 1, Offset: 1<<63 - 1}} {
		if got, err := ParseCursor(c.String()); err != nil || got != c {
			t.Errorf("%v came back as %v, %v", c, got, err)
		}
	}
	for _, s := range []string{"", ":", "1", "1:", ":1", "1:2:3", " 1:2", "1:2 ", "+1:2", "1:-2", "0x1:2", "1:9223372036854775808", "1:1_0"} {
		if c, err := ParseCursor(s); err == nil {
			t.Errorf("%q was read as %v", s, c)
		}
	}
}

func frame(args ...string) Frame {
	f := Frame{}
	for _, a := range args {
		f.Args = append(f.Args, []byte(a))
	}
	return f
}

func TestFrameKey(t *testing.T) {
	for want, f := range map[string]Frame{
		"k":  frame("SET", "k", "v"),
		"x":  frame("XGROUP", "CREATE", "x", "g", "0-0"),
		"":   frame("FLUSHALL"),
		"\n": frame("HDEL", "\n", "f"),
	} {
		if got := f.Key(); string(got) != want {
			t.Errorf("the key of %q is %q", f.Args, got)
		}
	}
	for _, f := range []Frame{frame("SWAPDB", "0", "1"), frame("FUNCTION", "LOAD", "x"), frame("SET"), frame("XGROUP", "CREATE"), {}} {
		if got := f.Key(); got != nil {
			t.Errorf("%q has the key %q", f.Args, got)
		}
	}
}

func TestCloneSharesNothing(t *testing.T) {
	c := &Commit{Stream: All, Frames: []Frame{frame("SET", "k", "v")}}
	clone := c.Clone()
	c.Frames[0].Args[2][0] = 'x'
	c.Frames[0].Args[1] = nil
	if !bytes.Equal(clone.Frames[0].Args[2], []byte("v")) || clone.Frames[0].Args[1] == nil {
		t.Errorf("the clone changed with the commit: %q", clone.Frames[0].Args)
	}
}

func TestMemoryStore(t *testing.T) {
	var s MemoryStore
	ctx := context.Background()
	if at, ok, err := s.Load(ctx, All); ok || err != nil {
		t.Fatalf("an empty store has %v, %v", at, err)
	}
	want := Cursor{Generation: 7, Offset: 9}
	if err := s.Save(ctx, All, want); err != nil {
		t.Fatal(err)
	}
	if at, ok, err := s.Load(ctx, All); at != want || !ok || err != nil {
		t.Errorf("loaded %v, %v, %v", at, ok, err)
	}
	if _, ok, _ := s.Load(ctx, "0"); ok {
		t.Error("another stream has a cursor")
	}
}

func TestFilterArguments(t *testing.T) {
	f := Filter{
		Prefixes: []string{"a", "b"}, Matches: []string{"*c"}, Regexes: []KeyRegex{{"d", "e+"}},
		ValueExact: []string{"f"}, ValuePrefixes: []string{"g"}, ValueRegexes: []string{"h"}, DB: 3, ByteMode: true,
	}
	want := "DB 3 BYTEMODE PREFIX a PREFIX b MATCH *c REGEX d e+ VALUE EXACT f VALUE PREFIX g VALUE REGEX h"
	if got := strings.Join(f.appendArgs(nil), " "); got != want {
		t.Errorf("arguments:\n got %s\nwant %s", got, want)
	}
	all := Filter{AllDBs: true}
	if got := all.appendArgs(nil); !slices.Equal(got, []string{"DB", "*"}) {
		t.Errorf("all databases: %q", got)
	}
	if !all.passesAll() || f.passesAll() || (&Filter{}).passesAll() {
		t.Error("which filters leave nothing out is wrong")
	}
}

func TestFilterCheck(t *testing.T) {
	many := slices.Repeat([]string{"x"}, maxFiltersOfAKind)
	if err := (&Filter{Prefixes: many, Matches: many, ValueExact: many, ValuePrefixes: many, ValueRegexes: many, Regexes: make([]KeyRegex, 0)}).check(); err != nil {
		t.Errorf("%d of each kind: %v", maxFiltersOfAKind, err)
	}
	more := append(slices.Clone(many), "x")
	for name, f := range map[string]Filter{
		"prefixes":       {Prefixes: more},
		"matches":        {Matches: more},
		"regexes":        {Regexes: slices.Repeat([]KeyRegex{{"", "x"}}, maxFiltersOfAKind+1)},
		"values":         {ValueExact: more},
		"value prefixes": {ValuePrefixes: more},
		"value regexes":  {ValueRegexes: more},
		"blank prefix":   {Prefixes: []string{"a", ""}},
		"blank pattern":  {Regexes: []KeyRegex{{"a", ""}}},
		"negative DB":    {DB: -1},
	} {
		if err := f.check(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
