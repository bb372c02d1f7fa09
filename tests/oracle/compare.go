package oracle

import (
	"bytes"
	"math"
	"sort"
	"strconv"
	"strings"

	"kevy/tests/wire"
)

// mode is how the replies of two servers to one command are compared.
type mode int

const (
	exact mode = iota
	// unordered: the elements are the same, in any order.
	unordered
	// unorderedPairs: the same, and a RESP2 array holds pairs.
	unorderedPairs
	// scores: texts that Redis 7.0 writes with 17 digits are compared as numbers.
	scores
	// clock: an integer that depends on the time of day, or several.
	clock
	// random: elements that each server picks; their number and kind agree.
	random
	// shape: only the type of the reply agrees.
	shape
	// measure: an integer that is each server's own, or nil; and redis-server may measure an overdue key that ours
	// does not have.
	measure
	// refusals: those that ACL LOG answers, without their age and their client.
	refusals
	// coordinates: texts that Redis 7.0 writes with 17 places are compared as it would write them.
	coordinates
)

// clockTolerance is how far integers that depend on the time may lie apart, in the unit of the command.
const clockTolerance = 5_000

// same reports whether two replies agree. Errors agree when they are the same bytes, whatever the mode.
func same(m mode, want, got wire.Reply) bool {
	if want.Equal(got) || m == measure && want.Kind == wire.Int && (got.Kind == wire.Int || got.IsNil()) {
		return true
	}
	if want.Kind != got.Kind || want.Nil != got.Nil || want.Kind == wire.Error {
		return false
	}
	switch m {
	case unordered:
		return want.Nil == got.Nil && strings.Join(sortedElems(want, 1), "\n") == strings.Join(sortedElems(got, 1), "\n")
	case unorderedPairs:
		return strings.Join(sortedElems(want, 2), "\n") == strings.Join(sortedElems(got, 2), "\n")
	case scores:
		return sameScores(want, got)
	case clock:
		if !want.Scalar() {
			return len(want.Elems) == len(got.Elems) && allSame(clock, want.Elems, got.Elems)
		}
		a, errA := want.Int()
		b, errB := got.Int()
		return errA == nil && errB == nil && a >= 0 && b >= 0 && math.Abs(float64(a)-float64(b)) <= clockTolerance
	case random:
		return sameOutline(want, got)
	case shape:
		return true
	case refusals:
		return sameRefusals(want, got)
	case coordinates:
		return sameCoordinates(want, got)
	}
	return false
}

func allSame(m mode, want, got []wire.Reply) bool {
	for i := range want {
		if !same(m, want[i], got[i]) {
			return false
		}
	}
	return true
}

// sortedElems is the elements in groups of n, as texts, sorted.
func sortedElems(r wire.Reply, n int) []string {
	var out []string
	for i := 0; i < len(r.Elems); i += n {
		var b strings.Builder
		for _, e := range r.Elems[i:min(i+n, len(r.Elems))] {
			b.WriteString(e.String())
			b.WriteByte(' ')
		}
		out = append(out, b.String())
	}
	sort.Strings(out)
	return out
}

func sameScores(want, got wire.Reply) bool {
	if want.Kind != got.Kind || want.Nil != got.Nil || len(want.Elems) != len(got.Elems) {
		return false
	}
	for i := range want.Elems {
		if !sameScores(want.Elems[i], got.Elems[i]) {
			return false
		}
	}
	if !want.Scalar() || bytes.Equal(want.Text, got.Text) {
		return true
	}
	if want.Kind != wire.Bulk && want.Kind != wire.Double {
		return false
	}
	a, errA := strconv.ParseFloat(string(want.Text), 64)
	b, errB := strconv.ParseFloat(string(got.Text), 64)
	// A member that looks like a number is not a score: only the form in which 7.0 writes one is.
	return errA == nil && errB == nil && a == b && string(want.Text) == scoreText(a)
}

// scoreText is how redis 7.0 writes a score, C's %.17g.
func scoreText(f float64) string { return strconv.FormatFloat(f, 'g', 17, 64) }

// sameOutline compares types and lengths only.
func sameOutline(want, got wire.Reply) bool {
	if want.Kind != got.Kind || want.Nil != got.Nil || len(want.Elems) != len(got.Elems) {
		return false
	}
	for i := range want.Elems {
		if !sameOutline(want.Elems[i], got.Elems[i]) {
			return false
		}
	}
	return true
}

// sameRefusals compares lists of refusals field by field, but for how old each is and who was refused.
func sameRefusals(want, got wire.Reply) bool {
	if want.Scalar() || len(want.Elems) != len(got.Elems) {
		return false
	}
	for i := range want.Elems {
		w, g := want.Elems[i], got.Elems[i]
		if w.Kind != g.Kind || len(w.Elems) != len(g.Elems) {
			return false
		}
		for j := 0; j+1 < len(w.Elems); j += 2 {
			field, a, b := string(w.Elems[j].Text), w.Elems[j+1], g.Elems[j+1]
			own := field == "age-seconds" || field == "client-info"
			if !w.Elems[j].Equal(g.Elems[j]) || a.Kind != b.Kind || !own && !a.Equal(b) {
				return false
			}
		}
	}
	return true
}
