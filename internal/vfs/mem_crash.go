package vfs

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// Kill ends the process that used the file system: every call on m and its files fails with ErrDead from now on, and
// the result holds every completed write, as the kernel's cache would. What was not synced is still not, so a power cut
// of the result can take it back. Locks are free, faults and DieAfter are off, the quota stays.
//
// Kill and PowerCut of a dead m are further outcomes of the same moment, each independent of the others.
func (m *Mem) Kill() *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = true
	left := m.successor()
	c := copier{nodes: map[*node]*node{}, ops: map[*dirOp]*dirOp{}}
	left.root = c.node(m.root)
	left.journal = c.journal(m.journal)
	left.recount()
	return left
}

// PowerCut ends the machine: every call on m and its files fails with ErrDead from now on, and the result holds what one
// possible disk would, all of it synced. rng decides; the same state and the same seed give the same result.
//
// What a Sync covered is there. Beyond it, each write was kept, lost, or kept in some of its sectors of 512 bytes, whatever
// became of those before and after it; the size is one that the file had, or a sector's border between two such; and what
// the size covers but no sector fills reads as zeros. A write takes with it what its first sector held before. What a
// Truncate cut off can be back, as zeros in part, and even under what was written after it.
//
// What a SyncDir covered is there. Beyond it, each operation on a directory was kept or undone, so that a removed file can
// be back and a replaced one too. Those on one name are kept in order, and those on different names whatever their order.
// A rename within a directory is kept whole; one between two can leave both names, never none.
func (m *Mem) PowerCut(rng *rand.Rand) *Mem {
	left := m.Kill()
	left.mu.Lock()
	defer left.mu.Unlock()
	left.cutJournal(rng)
	left.cutNode(left.root, map[*node]bool{}, rng)
	left.recount()
	return left
}

// Clone copies the directories and files to a file system of its own, with the same contents and new inodes, all of it
// synced: what a copy of the data directory is. m lives on. Names of one file stay names of one file.
func (m *Mem) Clone() *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	clone := m.successor()
	clone.root = clone.cloneNode(m.root, map[*node]*node{})
	clone.recount()
	return clone
}

// successor makes the Mem that comes after m, without a root yet.
func (m *Mem) successor() *Mem {
	s := newMem(m.inodes)
	s.quota = m.quota
	s.tracing = m.tracing
	return s
}

func (m *Mem) cloneNode(n *node, done map[*node]*node) *node {
	if c := done[n]; c != nil {
		return c
	}
	var c *node
	if n.dir {
		c = m.newDir()
		for _, name := range sortedNames(n.entries) {
			c.entries[name] = m.cloneNode(n.entries[name], done)
		}
		c.diskEntries = maps.Clone(c.entries)
	} else {
		c = m.newFile()
		c.data = n.data[:len(n.data):len(n.data)]
		c.disk = c.data
	}
	done[n] = c
	return c
}

// copier copies nodes and operations, each once.
type copier struct {
	nodes map[*node]*node
	ops   map[*dirOp]*dirOp
}

func (c copier) node(n *node) *node {
	if n == nil {
		return nil
	}
	if done := c.nodes[n]; done != nil {
		return done
	}
	to := &node{
		inode:    n.inode,
		modMs:    n.modMs,
		dir:      n.dir,
		data:     n.data[:len(n.data):len(n.data)],
		disk:     n.disk[:len(n.disk):len(n.disk)],
		changes:  slices.Clone(n.changes),
		diverged: n.diverged,
	}
	c.nodes[n] = to
	if n.dir {
		to.entries = c.entries(n.entries)
		to.diskEntries = c.entries(n.diskEntries)
	}
	return to
}

func (c copier) entries(entries map[string]*node) map[string]*node {
	to := make(map[string]*node, len(entries))
	for name, n := range entries {
		to[name] = c.node(n)
	}
	return to
}

func (c copier) journal(ops []*dirOp) []*dirOp {
	to := make([]*dirOp, 0, len(ops))
	for _, op := range ops {
		copied := &dirOp{follows: c.ops[op.follows], barrier: op.barrier, synced: op.synced}
		for _, e := range op.effects {
			copied.effects = append(copied.effects, effect{c.node(e.dir), e.name, c.node(e.node)})
		}
		for _, dep := range op.deps {
			if !dep.done {
				copied.deps = append(copied.deps, c.ops[dep])
			}
		}
		c.ops[op] = copied
		to = append(to, copied)
	}
	return to
}

// recount derives the links of every node and the bytes in use from the cached tree.
func (m *Mem) recount() {
	m.used = 0
	seen := map[*node]bool{}
	var walk func(n *node)
	walk = func(n *node) {
		if !seen[n] {
			seen[n] = true
			n.links = 0
			m.used += int64(len(n.data))
			for _, child := range n.entries {
				walk(child)
			}
		}
		n.links++
	}
	walk(m.root)
}

// cutJournal brings some of the operations to disk and drops the others.
func (m *Mem) cutJournal(rng *rand.Rand) {
	keepOutOf4 := [...]int{0, 2, 2, 4}[rng.IntN(4)]
	for _, op := range m.journal {
		possible := !slices.ContainsFunc(op.deps, func(dep *dirOp) bool { return !dep.done })
		if possible && rng.IntN(4) < keepOutOf4 {
			op.toDisk()
		}
	}
	m.journal = nil
}

// cutNode makes the disk's state of a node, and of all below it, the only one.
func (m *Mem) cutNode(n *node, seen map[*node]bool, rng *rand.Rand) {
	if seen[n] {
		return
	}
	seen[n] = true
	if !n.dir {
		n.data = n.cut(rng)
		n.disk = n.data
		n.changes = nil
		n.diverged = false
		return
	}
	n.entries = maps.Clone(n.diskEntries)
	for _, name := range sortedNames(n.entries) {
		m.cutNode(n.entries[name], seen, rng)
	}
}
