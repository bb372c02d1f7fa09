package command

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"kevy/resp"
)

func TestArgsCounts(t *testing.T) {
	small := &resp.Error{Code: "ERR", Text: "too small"}
	few := &resp.Error{Code: "ERR", Text: "too few"}
	atLeast := func(a *Args) any { return a.AtLeast(1, small) }
	keys := func(a *Args) any { return fmt.Sprintf("%s", a.CountedKeys(few)) }
	for _, c := range []struct {
		text string
		read func(*Args) any
		want any // or the error
		left int
	}{
		{"1 x", atLeast, int64(1), 1},
		{"9223372036854775807", atLeast, int64(math.MaxInt64), 0},
		{"0", atLeast, "ERR too small", 0},
		{"-1", atLeast, "ERR too small", 0},
		{"x", atLeast, "ERR too small", 0},
		{"", atLeast, "ERR syntax error", 0},
		{"1 a", keys, "[a]", 0},
		{"2 a b c", keys, "[a b]", 1},
		{"2 a", keys, "ERR too few", 1},
		{"9223372036854775807 a", keys, "ERR too few", 1},
		{"0 a", keys, "ERR numkeys should be greater than 0", 1},
		{"01 a", keys, "ERR numkeys should be greater than 0", 1},
		{"", keys, "ERR syntax error", 0},
	} {
		var a Args
		for _, arg := range strings.Fields(c.text) {
			a.rest = append(a.rest, []byte(arg))
		}
		got := c.read(&a)
		if err := a.Err(); err != nil {
			got = err.Error()
		}
		if got != c.want || a.Len() != c.left {
			t.Errorf("%q: %v with %d left, want %v with %d", c.text, got, a.Len(), c.want, c.left)
		}
	}
}
