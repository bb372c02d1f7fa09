package vfs

import (
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Mem is a file system in memory that keeps apart what is cached and what is on disk, and can therefore crash: Kill is
// the end of the process, PowerCut the end of the machine. What was not synced it keeps, loses and mixes in more ways than a
// journaling file system does, so that code which survives it does not lean on one.
//
// Names are slash-separated; "a" and "/a" are one file, and only the root exists at first. All methods are safe for
// concurrent use. A run from one goroutine is deterministic, inode numbers included; times of last write are the clock's.
type Mem struct {
	inodes *atomic.Uint64 // last number drawn; shared with every Mem that came out of this one

	mu      sync.Mutex
	root    *node             // guarded by mu
	journal []*dirOp          // directory operations that are not on disk yet, in order; guarded by mu
	open    map[*memFile]bool // guarded by mu
	used    int64             // bytes of all files that have a name or a handle; guarded by mu
	quota   int64             // guarded by mu; noQuota for none
	dead    bool              // guarded by mu; never reset
	faults  []*fault          // guarded by mu
	steps   int               // guarded by mu
	dieIn   int               // steps that are still allowed; immortal for any number; guarded by mu
	torn    int               // bytes of a write that dieIn cuts short; guarded by mu
	tracing bool              // guarded by mu
	trace   []OpRecord        // guarded by mu
}

var _ FS = (*Mem)(nil)

// NewMem makes an empty file system.
func NewMem() *Mem {
	m := newMem(new(atomic.Uint64))
	m.root = m.newDir()
	return m
}

func newMem(inodes *atomic.Uint64) *Mem {
	return &Mem{
		inodes: inodes,
		open:   map[*memFile]bool{},
		quota:  noQuota,
		dieIn:  immortal,
	}
}

func (m *Mem) newFile() *node {
	return &node{inode: m.inodes.Add(1), modMs: time.Now().UnixMilli()}
}

func (m *Mem) newDir() *node {
	n := m.newFile()
	n.dir = true
	n.entries = map[string]*node{}
	n.diskEntries = map[string]*node{}
	return n
}

// Create implements FS.
func (m *Mem) Create(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, err := m.create(name)
	m.record(OpRecord{Op: OpCreate, Name: name, Err: err})
	return fileOrNil(f, err)
}

// Open implements FS.
func (m *Mem) Open(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, err := m.openExisting(name, false)
	m.record(OpRecord{Op: OpOpen, Name: name, Err: err})
	return fileOrNil(f, err)
}

// OpenAppend implements FS.
func (m *Mem) OpenAppend(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	op := OpOpen
	if n, err := m.find(name); err == nil && n == nil {
		op = OpCreate
	}
	var f *memFile
	var err error
	if op == OpCreate {
		f, err = m.create(name)
	} else {
		f, err = m.openExisting(name, true)
	}
	m.record(OpRecord{Op: op, Name: name, Err: err})
	return fileOrNil(f, err)
}

// fileOrNil keeps a nil *memFile from becoming a File that is not nil.
func fileOrNil(f *memFile, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (m *Mem) create(name string) (*memFile, error) {
	if _, err := m.step(OpCreate, name, ""); err != nil {
		return nil, err
	}
	n, err := m.createNode(name)
	if err != nil {
		return nil, pathError(OpCreate, name, err)
	}
	if len(n.data) > 0 {
		m.resize(n, 0)
	}
	return m.newHandle(n, name, true), nil
}

// createNode finds the file of a name, or makes it.
func (m *Mem) createNode(name string) (*node, error) {
	parent, base, err := m.lookup(name)
	if err != nil {
		return nil, err
	}
	n := parent.entries[base]
	if base == "" || n != nil && n.dir {
		return nil, syscall.EISDIR
	}
	if n == nil {
		n = m.newFile()
		m.setEntry(parent, base, n)
		m.addOp(&dirOp{effects: []effect{{parent, base, n}}})
	}
	return n, nil
}

func (m *Mem) openExisting(name string, writable bool) (*memFile, error) {
	if _, err := m.step(OpOpen, name, ""); err != nil {
		return nil, err
	}
	n, err := m.mustFind(name)
	if err == nil && n.dir {
		err = syscall.EISDIR
	}
	if err != nil {
		return nil, pathError(OpOpen, name, err)
	}
	return m.newHandle(n, name, writable), nil
}

// Rename implements FS. A directory can be renamed too; no power cut then shows a later operation without it.
func (m *Mem) Rename(old, new string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := m.step(OpRename, old, new)
	if err == nil {
		err = linkError(OpRename, old, new, m.rename(old, new))
	}
	m.record(OpRecord{Op: OpRename, Name: old, New: new, Err: err})
	return err
}

func (m *Mem) rename(old, new string) error {
	oldDir, oldBase, err := m.lookup(old)
	if err != nil {
		return err
	}
	newDir, newBase, err := m.lookup(new)
	if err != nil {
		return err
	}
	n, target := oldDir.entries[oldBase], newDir.entries[newBase]
	switch {
	case oldBase == "":
		return syscall.EBUSY
	case n == nil:
		return syscall.ENOENT
	case newBase == "" || target != nil && target.dir:
		return syscall.EEXIST
	case n.dir && strings.HasPrefix(cleanPath(new), cleanPath(old)+"/"):
		return syscall.EINVAL
	case target == n:
		return nil // two names of one file: rename(2) leaves both
	case target != nil && n.dir:
		return syscall.ENOTDIR
	}

	m.setEntry(newDir, newBase, n)
	m.setEntry(oldDir, oldBase, nil)
	link := effect{newDir, newBase, n}
	unlink := effect{oldDir, oldBase, nil}
	if oldDir == newDir || n.dir {
		m.addOp(&dirOp{effects: []effect{link, unlink}, barrier: n.dir})
		return nil
	}
	// Two directories are two places on disk. The new name comes first, so that no crash loses the file; until both are
	// synced a crash can leave it with both names.
	first := m.addOp(&dirOp{effects: []effect{link}})
	m.addOp(&dirOp{effects: []effect{unlink}, follows: first})
	return nil
}

// Link implements FS.
func (m *Mem) Link(old, new string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := m.step(OpLink, old, new)
	if err == nil {
		err = linkError(OpLink, old, new, m.link(old, new))
	}
	m.record(OpRecord{Op: OpLink, Name: old, New: new, Err: err})
	return err
}

func (m *Mem) link(old, new string) error {
	n, err := m.mustFind(old)
	if err != nil {
		return err
	}
	parent, base, err := m.lookup(new)
	if err != nil {
		return err
	}
	if base == "" || parent.entries[base] != nil {
		return syscall.EEXIST
	}
	if n.dir {
		return syscall.EPERM
	}
	m.setEntry(parent, base, n)
	m.addOp(&dirOp{effects: []effect{{parent, base, n}}})
	return nil
}

// Remove implements FS.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := m.step(OpRemove, name, "")
	if err == nil {
		err = pathError(OpRemove, name, m.remove(name))
	}
	m.record(OpRecord{Op: OpRemove, Name: name, Err: err})
	return err
}

func (m *Mem) remove(name string) error {
	parent, base, err := m.lookup(name)
	if err != nil {
		return err
	}
	n := parent.entries[base]
	switch {
	case base == "":
		return syscall.EBUSY
	case n == nil:
		return syscall.ENOENT
	case n.dir && len(n.entries) > 0:
		return syscall.ENOTEMPTY
	}
	m.setEntry(parent, base, nil)
	m.addOp(&dirOp{effects: []effect{{parent, base, nil}}, barrier: n.dir})
	return nil
}

// MkdirAll implements FS. Each directory that it makes is a step.
func (m *Mem) MkdirAll(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return ErrDead
	}
	parent := m.root
	for base := range strings.SplitSeq(strings.TrimPrefix(cleanPath(dir), "/"), "/") {
		if base == "" {
			continue
		}
		n := parent.entries[base]
		if n == nil {
			var err error
			if n, err = m.mkdir(dir, parent, base); err != nil {
				return err
			}
		}
		if !n.dir {
			return pathError(OpMkdir, dir, syscall.ENOTDIR)
		}
		parent = n
	}
	return nil
}

func (m *Mem) mkdir(name string, parent *node, base string) (*node, error) {
	_, err := m.step(OpMkdir, name, "")
	m.record(OpRecord{Op: OpMkdir, Name: name, Err: err})
	if err != nil {
		return nil, err
	}
	n := m.newDir()
	m.setEntry(parent, base, n)
	m.commit(m.addOp(&dirOp{effects: []effect{{parent, base, n}}}))
	m.trimJournal()
	return n, nil
}

// List implements FS.
func (m *Mem) List(dir string) ([]Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := m.step(OpList, dir, "")
	var infos []Info
	if err == nil {
		infos, err = m.list(dir)
		err = pathError(OpList, dir, err)
	}
	m.record(OpRecord{Op: OpList, Name: dir, Err: err})
	return infos, err
}

func (m *Mem) list(dir string) ([]Info, error) {
	d, err := m.findDir(dir)
	if err != nil {
		return nil, err
	}
	infos := make([]Info, 0, len(d.entries))
	for _, name := range sortedNames(d.entries) {
		infos = append(infos, d.entries[name].info(name))
	}
	return infos, nil
}

// Stat implements FS.
func (m *Mem) Stat(name string) (Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := m.step(OpStat, name, "")
	var info Info
	if err == nil {
		var n *node
		if n, err = m.mustFind(name); err == nil {
			info = n.info(filepath.Base(name))
		}
		err = pathError(OpStat, name, err)
	}
	m.record(OpRecord{Op: OpStat, Name: name, Err: err})
	return info, err
}

// SyncDir implements FS. When it fails nothing has become durable, and the next one covers what it did not.
func (m *Mem) SyncDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := m.step(OpSyncDir, dir, "")
	if err == nil {
		var d *node
		if d, err = m.findDir(dir); err == nil {
			m.commitDir(d)
		}
		err = pathError(OpSyncDir, dir, err)
	}
	m.record(OpRecord{Op: OpSyncDir, Name: dir, Err: err})
	return err
}

// Lock implements FS. Making the file is a step of its own.
func (m *Mem) Lock(name string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l, err := m.lock(name)
	m.record(OpRecord{Op: OpLock, Name: name, Err: err})
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (m *Mem) lock(name string) (*memLock, error) {
	if _, err := m.step(OpLock, name, ""); err != nil {
		return nil, err
	}
	n, err := m.find(name)
	if err == nil && n == nil {
		if _, err = m.step(OpCreate, name, ""); err != nil {
			return nil, err
		}
		n, err = m.createNode(name)
	}
	switch {
	case err != nil:
	case n.dir:
		err = syscall.EISDIR
	case n.locked:
		err = ErrLocked
	}
	if err != nil {
		return nil, pathError(OpLock, name, err)
	}
	n.locked = true
	n.handles++
	return &memLock{m: m, n: n, name: name}, nil
}

// memLock is a held lock.
type memLock struct {
	m    *Mem
	n    *node
	name string

	closed bool // guarded by m.mu
}

func (l *memLock) Close() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if l.m.dead {
		return ErrDead
	}
	if l.closed {
		return &fs.PathError{Op: "unlock", Path: l.name, Err: fs.ErrClosed}
	}
	l.closed = true
	l.n.locked = false
	l.n.handles--
	l.m.releaseUnnamed(l.n)
	return nil
}

// lookup finds the directory that holds a name and the name's last element, which is "" for the root.
func (m *Mem) lookup(name string) (parent *node, base string, err error) {
	dir, base := path.Split(cleanPath(name))
	parent = m.root
	for elem := range strings.SplitSeq(strings.Trim(dir, "/"), "/") {
		if elem == "" {
			continue
		}
		parent = parent.entries[elem]
		if parent == nil {
			return nil, "", syscall.ENOENT
		}
		if !parent.dir {
			return nil, "", syscall.ENOTDIR
		}
	}
	return parent, base, nil
}

// find returns the file or directory of a name, nil if its directory has none.
func (m *Mem) find(name string) (*node, error) {
	parent, base, err := m.lookup(name)
	if err != nil {
		return nil, err
	}
	if base == "" {
		return m.root, nil
	}
	return parent.entries[base], nil
}

func (m *Mem) mustFind(name string) (*node, error) {
	n, err := m.find(name)
	if err == nil && n == nil {
		err = syscall.ENOENT
	}
	return n, err
}

func (m *Mem) findDir(name string) (*node, error) {
	n, err := m.mustFind(name)
	if err == nil && !n.dir {
		err = syscall.ENOTDIR
	}
	return n, err
}

// setEntry changes the cached directory; n is nil to remove the name.
func (m *Mem) setEntry(dir *node, name string, n *node) {
	old := dir.entries[name]
	if n == nil {
		delete(dir.entries, name)
	} else {
		dir.entries[name] = n
		n.links++
	}
	dir.modMs = time.Now().UnixMilli()
	if old != nil {
		old.links--
		m.releaseUnnamed(old)
	}
}

// releaseUnnamed gives back the room of a file that nothing reaches any more.
func (m *Mem) releaseUnnamed(n *node) {
	if n.links == 0 && n.handles == 0 {
		m.used -= int64(len(n.data))
	}
}

// cleanPath gives a name its one form: slashes, absolute, without a slash at the end except for the root, which is "/".
func cleanPath(name string) string {
	return path.Clean("/" + filepath.ToSlash(name))
}

func sortedNames(entries map[string]*node) []string {
	return slices.Sorted(maps.Keys(entries))
}

// pathError names the file in an error, if it is one and says more than that the file system is dead.
func pathError(op Op, name string, err error) error {
	if err == nil || err == ErrDead {
		return err
	}
	return &fs.PathError{Op: op.String(), Path: name, Err: err}
}

// linkError is pathError for two names.
func linkError(op Op, old, new string, err error) error {
	if err == nil || err == ErrDead {
		return err
	}
	return &os.LinkError{Op: op.String(), Old: old, New: new, Err: err}
}
