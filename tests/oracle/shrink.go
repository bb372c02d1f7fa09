package oracle

import (
	"strings"
	"time"
)

// Shrink looks for a short list of steps that ends in the same kind of difference as steps do. It gives up
// refining when the time is over and returns the shortest list so far.
func (p *Pair) Shrink(steps []Step, found *Difference, limit time.Duration) ([]Step, *Difference) {
	if after := p.After; !found.after {
		// Restarts would take most of the time.
		p.After = nil
		defer func() { p.After = after }()
	}
	return shrink(steps, found, limit, p.Run)
}

// shrink is Shrink for steps that run runs.
func shrink(steps []Step, found *Difference, limit time.Duration, run func(steps []Step, checkEvery int) (*Difference, error)) ([]Step, *Difference) {
	deadline := time.Now().Add(limit)
	best, bestDiff := append([]Step{}, steps[:found.Index+1]...), found
	// A difference of the whole keyspace shows at the next look, so look often when there is little to run.
	try := func(candidate []Step) bool {
		if len(candidate) == 0 || time.Now().After(deadline) {
			return false
		}
		every := 50
		if len(candidate) <= 60 {
			every = 1
		}
		diff, err := run(candidate, every)
		if err != nil || diff == nil || !sameKind(diff.What, found.What) {
			return false
		}
		best, bestDiff = append([]Step{}, candidate[:diff.Index+1]...), diff
		return true
	}
	for _, depth := range []int{1, 2, 3} {
		if try(related(best, depth)) {
			break
		}
	}
	for size := len(best) / 2; size >= 1; {
		shorter := false
		// From the end: the steps right before the difference matter most, and what is cut there costs least.
		for at := 0; at < len(best) && time.Now().Before(deadline); {
			end := min(at+size, len(best))
			if end == len(best) && at == 0 {
				break
			}
			candidate := append(append([]Step{}, best[:at]...), best[end:]...)
			if try(candidate) {
				shorter = true
				continue
			}
			at += size
		}
		if size > 1 {
			size = max(1, size/2)
			continue
		}
		if !shorter || time.Now().After(deadline) {
			break
		}
	}
	shrinkArguments(&best, try)
	return best, bestDiff
}

// sameKind reports whether two differences are likely one: the same command, alone or in a transaction, or
// the keyspace that the command would have shown.
func sameKind(a, b string) bool {
	return strings.TrimPrefix(a, "EXEC ") == strings.TrimPrefix(b, "EXEC ") || a == "keyspace"
}

// shrinkArguments drops arguments and shortens long ones.
func shrinkArguments(best *[]Step, try func([]Step) bool) {
	for i := 0; i < len(*best); i++ {
		for a := len((*best)[i].Args) - 1; a >= 1; a-- {
			if i >= len(*best) || a >= len((*best)[i].Args) {
				break
			}
			with := func(args [][]byte) []Step {
				candidate := append([]Step{}, *best...)
				candidate[i].Args = args
				return candidate
			}
			old := (*best)[i].Args
			if try(with(append(append([][]byte{}, old[:a]...), old[a+1:]...))) {
				continue
			}
			for n := len(old[a]) / 2; n >= 8 && n < len(old[a]); n /= 2 {
				args := append([][]byte{}, old...)
				args[a] = old[a][:n]
				if !try(with(args)) {
					break
				}
				old = args
			}
		}
	}
}

// related keeps the steps that share an argument with the last one, directly or over depth-1 others, and
// those that set a connection's state.
func related(steps []Step, depth int) []Step {
	known := map[string]bool{}
	learn := func(s Step) {
		for _, a := range s.Args[1:] {
			// Numbers and options stand in too many commands to tell anything.
			if len(a) > 1 && (a[0] < '0' || a[0] > '9') && a[0] != '-' {
				known[string(a)] = true
			}
		}
	}
	keep := map[int]bool{len(steps) - 1: true}
	learn(steps[len(steps)-1])
	for range depth {
		var found []int
		for i, s := range steps {
			if keep[i] {
				continue
			}
			hit := false
			switch name(s.Args) {
			case "SELECT", "MULTI", "EXEC", "DISCARD", "HELLO", "RESET", "SWAPDB", "FLUSHALL", "FLUSHDB":
				hit = true
			}
			for _, a := range s.Args[1:] {
				hit = hit || known[string(a)]
			}
			if hit {
				found = append(found, i)
			}
		}
		for _, i := range found {
			keep[i] = true
			learn(steps[i])
		}
	}
	var out []Step
	for i, s := range steps {
		if keep[i] {
			out = append(out, s)
		}
	}
	return out
}
