package stream_test

import (
	"strconv"
	"strings"
	"testing"

	"kevy/internal/command/commandtest"
	"kevy/internal/command/generic"
	"kevy/internal/command/list"
	"kevy/internal/command/stream"
	stringfamily "kevy/internal/command/strings"
)

func TestSpecs(t *testing.T) { commandtest.Specs(t, stream.Commands(), "xdelex", "xackdel") }

func TestScripts(t *testing.T) {
	commandtest.Scripts(t, stream.Commands(), list.Commands(), stringfamily.Commands(), generic.Commands())
}

func TestAllocations(t *testing.T) {
	r := commandtest.NewRunner(stream.Commands())
	for i := range 1000 {
		r.Do("XADD", "s", strconv.Itoa(i+1), "name", "value-"+strconv.Itoa(i), "n", strconv.Itoa(i))
	}
	r.Do("XGROUP", "CREATE", "s", "g", "900")
	r.Do("XREADGROUP", "GROUP", "g", "c", "COUNT", "20", "STREAMS", "s", ">")
	for _, c := range []struct {
		command string
		allocs  float64
	}{
		// A new block now and then is not counted.
		{"XADD s * name value n 1", 0},
		{"XADD s MAXLEN ~ 1000 * name value n 1", 0},
		{"XLEN s", 0},
		// The walk over the tree of blocks needs a few.
		{"XRANGE s 500 510", 4},
		{"XRANGE s - + COUNT 10", 4},
		{"XREVRANGE s + - COUNT 10", 4},
		{"XREAD COUNT 10 STREAMS s 500", 4},
		{"XDEL s 5000", 2},
		{"XACK s g 5", 0},
		{"XPENDING s g", 4},
	} {
		if got := r.Allocs(strings.Fields(c.command)...); got > c.allocs {
			t.Errorf("%s allocates %v times, want %v", c.command, got, c.allocs)
		}
	}
}
