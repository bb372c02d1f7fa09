package op

import (
	"slices"
	"testing"
)

func TestWords(t *testing.T) {
	for _, c := range []struct {
		line  string
		words []string // nil: refused
	}{
		{"", []string{}},
		{"#!lua name=foo", []string{"#!lua", "name=foo"}},
		{" \t#!lua  name=foo \r", []string{"#!lua", "name=foo"}},
		{`#!lua name="a b"`, []string{"#!lua", "name=a b"}},
		{`#!lua "name=foo"`, []string{"#!lua", "name=foo"}},
		{`name="\x41\n\q\"" 'it\'s \n'`, []string{"name=A\nq\"", `it's \n`}},
		{`""`, []string{""}},
		{`"\x4"`, []string{"x4"}},
		{`name="foo`, nil},
		{`name='foo`, nil},
		{`name="foo"bar`, nil},
		{`name="foo\`, nil},
	} {
		words, ok := Words(c.line)
		if ok != (c.words != nil) || !slices.Equal(words, c.words) {
			t.Errorf("%q: %q, %v", c.line, words, ok)
		}
	}
	if name, err := LibraryName([]byte("#!lua name=\"foo\"\n")); err != nil || string(name) != "foo" {
		t.Errorf("%q, %v", name, err)
	}
}
