package ds

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// checkRankTree verifies the structure of a tree and returns its elements. Empty and full nodes, counts that are
// wrong, first elements that are not the child's, and leaves of different depths are failures.
func checkRankTree(t *testing.T, tree *rankTree) []scored {
	t.Helper()
	var all []scored
	leafDepth := -1
	var walk func(n *rankNode, depth int) int
	walk = func(n *rankNode, depth int) int {
		if len(n.items) >= fullNode || len(n.items) == 0 && n != tree.root {
			t.Fatalf("node of %d items", len(n.items))
		}
		if n.inner == nil {
			if leafDepth >= 0 && depth != leafDepth {
				t.Fatalf("leaf at depth %d and at %d", depth, leafDepth)
			}
			leafDepth = depth
			all = append(all, n.items...)
			return len(n.items)
		}
		in := n.inner
		if len(in.nodes) != len(n.items) || len(in.counts) != len(n.items) || n == tree.root && len(in.nodes) < 2 {
			t.Fatalf("inner node of %d items, %d children, %d counts", len(n.items), len(in.nodes), len(in.counts))
		}
		sum := 0
		for i, child := range in.nodes {
			if child.items[0] != n.items[i] {
				t.Fatalf("the first element of child %d is not in its parent", i)
			}
			got := walk(child, depth+1)
			if got != in.counts[i] {
				t.Fatalf("child %d has %d elements, its parent says %d", i, got, in.counts[i])
			}
			sum += got
		}
		return sum
	}
	walk(tree.root, 0)
	if !slices.IsSortedFunc(all, scored.compare) {
		t.Fatal("elements out of order")
	}
	return all
}

func TestRankTree(t *testing.T) {
	rng := newRand(t)
	for _, order := range []string{"ascending", "descending", "random"} {
		tree := newRankTree()
		var want []scored
		const n = 6000 // three levels
		for i := range n {
			x := scored{float64(i), newEntry(key(i), nil)}
			switch order {
			case "descending":
				x.score = -x.score
			case "random":
				x.score = float64(rng.IntN(3000))
			}
			tree.insert(x)
			want = append(want, x)
		}
		slices.SortFunc(want, scored.compare)
		if got := checkRankTree(t, &tree); !slices.Equal(got, want) {
			t.Fatalf("%s: elements differ after insertion", order)
		}
		frozen := tree.fork()
		frozenWant := slices.Clone(want)
		for round := 0; len(want) > 0; round++ {
			for range min(1+rng.IntN(2000), len(want)) {
				i := rng.IntN(len(want))
				if round%3 == 1 {
					i = min(i, 100) // from one end
				}
				if tree.rank(want[i]) != i {
					t.Fatalf("%s: rank %d, want %d", order, tree.rank(want[i]), i)
				}
				tree.remove(want[i])
				want = slices.Delete(want, i, i+1)
			}
			if got := checkRankTree(t, &tree); !slices.Equal(got, want) {
				t.Fatalf("%s: elements differ with %d left", order, len(want))
			}
			checkRankWalks(t, rng, &tree, want)
		}
		if got := checkRankTree(t, &frozen); !slices.Equal(got, frozenWant) {
			t.Fatalf("%s: the fork has changed", order)
		}
	}
}

func checkRankWalks(t *testing.T, rng *rand.Rand, tree *rankTree, want []scored) {
	t.Helper()
	for range 10 {
		if len(want) == 0 {
			return
		}
		start, n := rng.IntN(len(want)), 1+rng.IntN(300)
		var up, down []scored
		tree.each(start, n, false, func(x scored) bool { up = append(up, x); return true })
		tree.each(start, n, true, func(x scored) bool { down = append(down, x); return true })
		slices.Reverse(down)
		if !slices.Equal(up, want[start:min(start+n, len(want))]) || !slices.Equal(down, want[max(0, start+1-n):start+1]) {
			t.Fatalf("walk of %d from %d of %d", n, start, len(want))
		}
		stop := rng.IntN(n)
		calls := 0
		tree.each(start, n, rng.IntN(2) == 0, func(scored) bool { calls++; return calls <= stop })
		if calls > stop+1 {
			t.Fatalf("%d calls, stopped at %d", calls, stop+1)
		}
	}
}

// A score that grows, as a time does, fills the leaves.
func TestRankTreeAscendingIsDense(t *testing.T) {
	tree := newRankTree()
	const n = 10000
	for i := range n {
		tree.insert(scored{float64(i), newEntry(key(i), nil)})
	}
	leaves := 0
	var walk func(*rankNode)
	walk = func(node *rankNode) {
		if node.inner == nil {
			leaves++
			return
		}
		for _, child := range node.inner.nodes {
			walk(child)
		}
	}
	walk(tree.root)
	if leaves > n/ascendingSplit+1 {
		t.Errorf("%d leaves for %d elements", leaves, n)
	}
}
