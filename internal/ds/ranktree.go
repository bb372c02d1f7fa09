package ds

import (
	"sort"

	"github.com/tidwall/btree"
)

// scored is an element of a large sorted set: a score, and an entry whose key is the member.
type scored struct {
	score float64
	e     *Entry
}

func scoredLess(a, b scored) bool {
	return orderCompare(a.score, a.e.keyBytes(), b.score, b.e.keyBytes()) < 0
}

// rankTree keeps the elements of a large sorted set in order.
type rankTree struct {
	tree *btree.BTreeG[scored]
}

func newRankTree() rankTree {
	return rankTree{btree.NewBTreeGOptions(scoredLess, btree.Options{NoLocks: true})}
}

func (t *rankTree) fork() rankTree { return rankTree{t.tree.Copy()} }

func (t *rankTree) memBytes() int { return t.tree.Len() * 24 }

func (t *rankTree) insert(x scored) { t.tree.Set(x) }

func (t *rankTree) remove(x scored) { t.tree.Delete(x) }

// seek returns the number of elements before the first one that is in; all behind it must be in as well. It costs
// log2 n look-ups by index, which are O(log n) each.
func (t *rankTree) seek(in func(scored) bool) int {
	return sort.Search(t.tree.Len(), func(i int) bool {
		x, _ := t.tree.GetAt(i)
		return in(x)
	})
}

// each calls fn for up to n elements from the one at index start on.
func (t *rankTree) each(start, n int, reverse bool, fn func(scored) bool) {
	x, ok := t.tree.GetAt(start)
	if !ok {
		return
	}
	step := func(x scored) bool {
		n--
		return fn(x) && n > 0
	}
	if reverse {
		t.tree.Descend(x, step)
	} else {
		t.tree.Ascend(x, step)
	}
}
