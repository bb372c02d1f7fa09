package vfs

import "slices"

// dirOp is a change of directories that is not on disk yet. All its effects reach the disk, or none.
type dirOp struct {
	effects []effect
	// deps must reach the disk first. Operations on other names are free to overtake one another.
	deps []*dirOp
	// follows is set on the second half of a rename between directories: the removal of the old name, which stays back
	// until the new one is on disk.
	follows *dirOp
	// barrier orders it after everything before it and before everything after it. Operations on directories are, so
	// that no choice of what to keep leaves a directory in itself or synced files in one that is gone.
	barrier bool
	synced  bool // its directory was synced while it stayed back
	done    bool // it is on disk
}

// effect sets the entry of a directory, or with node nil removes it.
type effect struct {
	dir  *node
	name string
	node *node
}

// addOp appends to the journal.
func (m *Mem) addOp(op *dirOp) *dirOp {
	for _, earlier := range m.journal {
		if earlier.barrier || op.barrier || earlier == op.follows || op.sharesName(earlier) {
			op.deps = append(op.deps, earlier)
		}
	}
	m.journal = append(m.journal, op)
	return op
}

func (op *dirOp) sharesName(other *dirOp) bool {
	for _, a := range op.effects {
		for _, b := range other.effects {
			if a.dir == b.dir && a.name == b.name {
				return true
			}
		}
	}
	return false
}

func (op *dirOp) touches(dir *node) bool {
	return slices.ContainsFunc(op.effects, func(e effect) bool { return e.dir == dir })
}

// staysBack says that syncing the operation's directory is not enough.
func (op *dirOp) staysBack() bool {
	return op.follows != nil && !op.follows.done
}

// commitDir brings what was done to a directory to disk.
func (m *Mem) commitDir(dir *node) {
	for _, op := range m.journal {
		if !op.touches(dir) {
			continue
		}
		if op.staysBack() {
			op.synced = true
		} else {
			m.commit(op)
		}
	}
	m.trimJournal()
}

// commit brings an operation to disk, and first all that it depends on.
func (m *Mem) commit(op *dirOp) {
	if op.done {
		return
	}
	for _, dep := range op.deps {
		m.commit(dep)
	}
	op.deps = nil
	op.toDisk()
}

func (op *dirOp) toDisk() {
	for _, e := range op.effects {
		if e.node == nil {
			delete(e.dir.diskEntries, e.name)
		} else {
			e.dir.diskEntries[e.name] = e.node
		}
	}
	op.done = true
}

// trimJournal drops from the journal what is on disk, after committing what no longer has to stay back.
func (m *Mem) trimJournal() {
	for _, op := range m.journal {
		if op.synced && !op.staysBack() {
			m.commit(op)
		}
	}
	m.journal = slices.DeleteFunc(m.journal, func(op *dirOp) bool { return op.done })
}
