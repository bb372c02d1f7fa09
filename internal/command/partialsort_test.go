package command

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestPartialSort(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 3000 {
		n := rng.IntN(200)
		kinds := 1 + rng.IntN(n+1)
		list := make([][2]int, n)
		for i := range list {
			list[i] = [2]int{rng.IntN(kinds), i}
		}
		first := rng.IntN(n + 1)
		last := first - 1 + rng.IntN(n-first+1)
		compare := func(a, b [2]int) int { return cmp.Compare(a[0], b[0]) }
		sorted := slices.Clone(list)
		slices.SortFunc(sorted, compare)
		all := slices.Clone(list)
		PartialSort(list, first, last, compare)
		for i := first; i <= last; i++ {
			if list[i][0] != sorted[i][0] {
				t.Fatalf("%d elements, %d to %d: %v at %d of %v, want %d", n, first, last, list[i], i, list, sorted[i][0])
			}
		}
		whole := func(a, b [2]int) int { return cmp.Compare(a[1], b[1]) }
		slices.SortFunc(list, whole)
		slices.SortFunc(all, whole)
		if !slices.Equal(list, all) {
			t.Fatalf("%d elements, %d to %d: some are gone", n, first, last)
		}
	}
}

// TestPartialSortOfKiller sorts what makes a quicksort split off one element at
// a time: whatever is not yet known is the greatest (M. D. McIlroy, "A Killer
// Adversary for Quicksort").
func TestPartialSortOfKiller(t *testing.T) {
	const n = 20_000
	const unknown = n
	value := make([]int, n)
	list := make([]int, n)
	for i := range list {
		list[i], value[i] = i, unknown
	}
	known, candidate, compared := 0, 0, 0
	PartialSort(list, 0, n-1, func(a, b int) int {
		compared++
		if value[a] == unknown && value[b] == unknown {
			if a == candidate {
				value[a] = known
			} else {
				value[b] = known
			}
			known++
		}
		if value[a] == unknown {
			candidate = a
		} else if value[b] == unknown {
			candidate = b
		}
		return cmp.Compare(value[a], value[b])
	})
	if !slices.IsSortedFunc(list, func(a, b int) int { return cmp.Compare(value[a], value[b]) }) {
		t.Error("not sorted")
	}
	if most := 200 * n; compared > most {
		t.Errorf("%d comparisons, more than %d", compared, most)
	}
	t.Logf("%d comparisons", compared)
}
