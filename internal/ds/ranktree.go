package ds

import "sync/atomic"

// scored is an element of a large sorted set: a score, and an entry whose key is the member.
type scored struct {
	score float64
	e     *Entry
}

func (a scored) compare(b scored) int {
	return orderCompare(a.score, a.e.keyBytes(), b.score, b.e.keyBytes())
}

// rankTree keeps the elements of a large sorted set in order: a B+ tree whose inner nodes know how many elements lie
// under each child, so that rank and element lead to each other in one descent. (tidwall/btree finds the element at a
// rank, but not the rank of an element: that takes log n look-ups.)
//
// A fork shares all nodes; a node is written only by the tree whose id it has, others copy it.
type rankTree struct {
	id   uint64
	root *rankNode
}

// rankNode is a leaf if inner is nil. Only an empty tree's root is empty.
type rankNode struct {
	owner uint64
	items []scored // of an inner node: the first element under each child
	inner *rankChildren
}

type rankChildren struct {
	nodes  []*rankNode
	counts []int // of elements under each child
}

const (
	// A node that reaches fullNode items is split, one that falls below sparseNode is joined with a neighbour or
	// filled from it.
	fullNode   = 64
	sparseNode = 16
	joinedNode = 48
	// Insertion at the end leaves most in the left half: elements often come in ascending order.
	ascendingSplit = 56

	rankNodeBytes = 48

	minRoom = 8 // items that a slice of a node has room for at least
)

var lastRankTreeID atomic.Uint64

func newRankTree() rankTree {
	id := lastRankTreeID.Add(1)
	return rankTree{id, &rankNode{owner: id}}
}

func (t *rankTree) fork() rankTree {
	t.id = lastRankTreeID.Add(1)
	return rankTree{lastRankTreeID.Add(1), t.root}
}

// memBytes estimates what n elements take.
func (t *rankTree) memBytes(n int) int { return rankNodeBytes + n*23 }

// own returns n, or a copy that the tree may write.
func (t *rankTree) own(n *rankNode) *rankNode {
	if n.owner == t.id {
		return n
	}
	c := &rankNode{owner: t.id, items: withRoom(n.items, 1)}
	if n.inner != nil {
		c.inner = &rankChildren{withRoom(n.inner.nodes, 1), withRoom(n.inner.counts, 1)}
	}
	return c
}

// itemRoom returns the number of items to allocate for n.
func itemRoom(n int) int { return max(minRoom, (n+7)&^7) }

// withRoom copies s with room for n more.
func withRoom[T any](s []T, n int) []T {
	return append(make([]T, 0, itemRoom(len(s)+n)), s...)
}

// insertOne inserts v before s[i], growing s in the steps of itemRoom.
func insertOne[T any](s []T, i int, v T) []T {
	n := len(s)
	if n == cap(s) {
		s = withRoom(s, 1)
	}
	s = s[:n+1]
	copy(s[i+1:], s[i:])
	s[i] = v
	return s
}

// removeOne removes s[i]; what it pointed to is not kept.
func removeOne[T any](s []T, i int) []T {
	copy(s[i:], s[i+1:])
	clear(s[len(s)-1:])
	s = s[:len(s)-1]
	if cap(s) > minRoom && len(s) <= cap(s)/4 {
		s = withRoom(s, len(s))
	}
	return s
}

func (n *rankNode) total() int {
	if n.inner == nil {
		return len(n.items)
	}
	sum := 0
	for _, c := range n.inner.counts {
		sum += c
	}
	return sum
}

// search returns the number of items that are not greater than x.
func (n *rankNode) search(x scored) int {
	low, high := 0, len(n.items)
	for low < high {
		mid := int(uint(low+high) / 2)
		if n.items[mid].compare(x) <= 0 {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// insert adds an element that is not in the tree.
func (t *rankTree) insert(x scored) {
	t.root = t.own(t.root)
	if right := t.insertUnder(t.root, x); right != nil {
		left := t.root
		t.root = &rankNode{
			owner: t.id,
			items: withRoom([]scored{left.items[0], right.items[0]}, 0),
			inner: &rankChildren{
				withRoom([]*rankNode{left, right}, 0),
				withRoom([]int{left.total(), right.total()}, 0),
			},
		}
	}
}

// insertUnder adds x under an owned node. If the node became full, it returns the new node to the right of it.
func (t *rankTree) insertUnder(n *rankNode, x scored) (right *rankNode) {
	i := n.search(x)
	if in := n.inner; in == nil {
		n.items = insertOne(n.items, i, x)
	} else {
		i = max(i-1, 0)
		child := t.own(in.nodes[i])
		in.nodes[i] = child
		in.counts[i]++
		right := t.insertUnder(child, x)
		n.items[i] = child.items[0]
		if right == nil {
			return nil
		}
		i++
		count := right.total()
		in.counts[i-1] -= count
		n.items = insertOne(n.items, i, right.items[0])
		in.nodes = insertOne(in.nodes, i, right)
		in.counts = insertOne(in.counts, i, count)
	}
	if len(n.items) < fullNode {
		return nil
	}
	if i == len(n.items)-1 {
		return t.splitNode(n, ascendingSplit)
	}
	return t.splitNode(n, fullNode/2)
}

// splitNode moves the items of an owned node from at on to a new node.
func (t *rankTree) splitNode(n *rankNode, at int) (right *rankNode) {
	right = &rankNode{owner: t.id, items: withRoom(n.items[at:], 1)}
	n.items = withRoom(n.items[:at], 0)
	if in := n.inner; in != nil {
		right.inner = &rankChildren{withRoom(in.nodes[at:], 1), withRoom(in.counts[at:], 1)}
		in.nodes, in.counts = withRoom(in.nodes[:at], 0), withRoom(in.counts[:at], 0)
	}
	return right
}

// remove removes an element that is in the tree.
func (t *rankTree) remove(x scored) {
	t.root = t.own(t.root)
	t.removeUnder(t.root, x)
	if in := t.root.inner; in != nil && len(in.nodes) == 1 {
		t.root = in.nodes[0]
	}
}

func (t *rankTree) removeUnder(n *rankNode, x scored) {
	i := n.search(x) - 1
	in := n.inner
	if in == nil {
		n.items = removeOne(n.items, i)
		return
	}
	child := t.own(in.nodes[i])
	in.nodes[i] = child
	in.counts[i]--
	t.removeUnder(child, x)
	if len(child.items) > 0 {
		n.items[i] = child.items[0]
	}
	if len(child.items) < sparseNode && len(in.nodes) > 1 {
		t.balance(n, max(i-1, 0))
	}
}

// balance joins the i-th child of an owned node with the next one, or levels the two.
func (t *rankTree) balance(n *rankNode, i int) {
	in := n.inner
	left, right := t.own(in.nodes[i]), t.own(in.nodes[i+1])
	in.nodes[i], in.nodes[i+1] = left, right
	items := append(append(make([]scored, 0, 2*fullNode), left.items...), right.items...)
	var nodes []*rankNode
	var counts []int
	if left.inner != nil {
		nodes = append(append(nodes, left.inner.nodes...), right.inner.nodes...)
		counts = append(append(counts, left.inner.counts...), right.inner.counts...)
	}
	both := in.counts[i] + in.counts[i+1]
	cut := len(items)
	if cut > joinedNode {
		cut /= 2
	}
	left.items = withRoom(items[:cut], 0)
	right.items = withRoom(items[cut:], 0)
	if nodes != nil {
		left.inner = &rankChildren{withRoom(nodes[:cut], 0), withRoom(counts[:cut], 0)}
		right.inner = &rankChildren{withRoom(nodes[cut:], 0), withRoom(counts[cut:], 0)}
	}
	in.counts[i] = left.total()
	in.counts[i+1] = both - in.counts[i]
	n.items[i] = left.items[0]
	if cut == len(items) {
		n.items = removeOne(n.items, i+1)
		in.nodes = removeOne(in.nodes, i+1)
		in.counts = removeOne(in.counts, i+1)
	} else {
		n.items[i+1] = right.items[0]
	}
}

// seek returns the number of elements before the first one that is in; all behind it must be in as well.
func (t *rankTree) seek(in func(scored) bool) int {
	rank := 0
	for n := t.root; ; {
		low, high := 0, len(n.items)
		for low < high {
			mid := int(uint(low+high) / 2)
			if in(n.items[mid]) {
				high = mid
			} else {
				low = mid + 1
			}
		}
		if n.inner == nil {
			return rank + low
		}
		// The child before the first one that is in as a whole has the border in it or at its end.
		low = max(low-1, 0)
		for _, c := range n.inner.counts[:low] {
			rank += c
		}
		n = n.inner.nodes[low]
	}
}

// rank returns the number of elements before x, which is in the tree.
func (t *rankTree) rank(x scored) int {
	rank := 0
	n := t.root
	for n.inner != nil {
		i := n.search(x) - 1
		for _, c := range n.inner.counts[:i] {
			rank += c
		}
		n = n.inner.nodes[i]
	}
	return rank + n.search(x) - 1
}

// each calls fn for up to n elements from the one at index start on, 0 <= start < total.
func (t *rankTree) each(start, n int, reverse bool, fn func(scored) bool) {
	walk := rankWalk{n, fn}
	if reverse {
		walk.down(t.root, start)
	} else {
		walk.up(t.root, start)
	}
}

// rankWalk calls fn for the next left elements.
type rankWalk struct {
	left int
	fn   func(scored) bool
}

// up walks the elements under a node from the one at index start on, and says whether to go on behind the node.
func (w *rankWalk) up(n *rankNode, start int) bool {
	if n.inner == nil {
		items := n.items[start:]
		items = items[:min(len(items), w.left)]
		w.left -= len(items)
		for _, x := range items {
			if !w.fn(x) {
				return false
			}
		}
		return w.left > 0
	}
	for i, count := range n.inner.counts {
		if start >= count {
			start -= count
			continue
		}
		if !w.up(n.inner.nodes[i], start) {
			return false
		}
		start = 0
	}
	return true
}

// down walks the elements under a node from the one at index start on towards the first, and says whether to go on
// before the node.
func (w *rankWalk) down(n *rankNode, start int) bool {
	if n.inner == nil {
		items := n.items[max(0, start+1-w.left) : start+1]
		w.left -= len(items)
		for i := len(items) - 1; i >= 0; i-- {
			if !w.fn(items[i]) {
				return false
			}
		}
		return w.left > 0
	}
	i := 0
	for start >= n.inner.counts[i] {
		start -= n.inner.counts[i]
		i++
	}
	for ; i >= 0; i-- {
		if !w.down(n.inner.nodes[i], start) {
			return false
		}
		if i > 0 {
			start = n.inner.counts[i-1] - 1
		}
	}
	return true
}
