package script

import (
	"math"
	"sort"
	"strconv"
	"strings"

	"kevy/tests/wire"
)

// matches reports whether what came is what is written, under the directives of the step.
func (r rules) matches(want, got []item) bool {
	if len(want) != len(got) {
		return false
	}
	for i := range want {
		if want[i].mark != got[i].mark {
			return false
		}
		if want[i].mark == "" && !r.equal(want[i].reply, got[i].reply) {
			return false
		}
	}
	return true
}

func (r rules) equal(want, got wire.Reply) bool {
	if want.Kind != got.Kind || want.Nil != got.Nil {
		return false
	}
	if r.any {
		return true
	}
	if !want.Scalar() {
		if len(want.Elems) != len(got.Elems) {
			return false
		}
		if r.unordered > 0 {
			want, got = r.sorted(want), r.sorted(got)
		}
		for i := range want.Elems {
			if !r.equal(want.Elems[i], got.Elems[i]) {
				return false
			}
		}
		return true
	}
	w, g := string(want.Text), string(got.Text)
	if w == g {
		return true
	}
	if r.approx > 0 && want.Kind == wire.Int {
		a, errA := strconv.ParseInt(w, 10, 64)
		b, errB := strconv.ParseInt(g, 10, 64)
		return errA == nil && errB == nil && math.Abs(float64(a)-float64(b)) <= float64(r.approx)
	}
	if r.double && want.Kind != wire.Error {
		a, errA := strconv.ParseFloat(w, 64)
		b, errB := strconv.ParseFloat(g, 64)
		return errA == nil && errB == nil && (a == b || math.IsNaN(a) && math.IsNaN(b))
	}
	return false
}

// sorted is the reply with the groups of its elements in an order that does not depend on the server.
func (r rules) sorted(in wire.Reply) wire.Reply {
	n := r.unordered
	if in.Kind == wire.Map {
		n = 2
	}
	if n == 0 || len(in.Elems)%n != 0 {
		return in
	}
	groups := make([][]wire.Reply, 0, len(in.Elems)/n)
	keys := make(map[*wire.Reply]string, len(groups))
	for i := 0; i < len(in.Elems); i += n {
		g := in.Elems[i : i+n]
		var key strings.Builder
		for _, e := range g {
			key.WriteString(r.sorted(e).String())
			key.WriteByte(0)
		}
		groups = append(groups, g)
		keys[&g[0]] = key.String()
	}
	sort.SliceStable(groups, func(i, j int) bool { return keys[&groups[i][0]] < keys[&groups[j][0]] })
	out := in
	out.Elems = make([]wire.Reply, 0, len(in.Elems))
	for _, g := range groups {
		out.Elems = append(out.Elems, g...)
	}
	return out
}
