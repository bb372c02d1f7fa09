package vfs

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"syscall"
)

// Op names a kind of call.
type Op uint8

const (
	OpOpen   Op = iota + 1 // Open, and OpenAppend of an existing file
	OpCreate               // Create, and OpenAppend or Lock that makes the file
	OpRead
	OpWrite
	OpTruncate
	OpSync // Sync and SyncData
	OpClose
	OpRename
	OpLink
	OpRemove
	OpMkdir // each directory that MkdirAll makes
	OpList
	OpStat
	OpSyncDir
	OpLock
)

var opNames = [...]string{
	OpOpen:     "open",
	OpCreate:   "create",
	OpRead:     "read",
	OpWrite:    "write",
	OpTruncate: "truncate",
	OpSync:     "sync",
	OpClose:    "close",
	OpRename:   "rename",
	OpLink:     "link",
	OpRemove:   "remove",
	OpMkdir:    "mkdir",
	OpList:     "list",
	OpStat:     "stat",
	OpSyncDir:  "syncdir",
	OpLock:     "lock",
}

func (op Op) String() string {
	if op == 0 || int(op) >= len(opNames) {
		return fmt.Sprintf("Op(%d)", op)
	}
	return opNames[op]
}

// step says whether a call of this kind can be told from its absence after a crash.
func (op Op) isStep() bool {
	switch op {
	case OpCreate, OpWrite, OpTruncate, OpSync, OpRename, OpLink, OpRemove, OpMkdir, OpSyncDir:
		return true
	}
	return false
}

// Fault makes calls fail. A call that fails does nothing, with three exceptions: a Write writes Bytes; a Sync drops what
// was written since the last success, which still reads back but never gets to the disk, whatever succeeds later (this is
// what Linux does); a Close closes.
type Fault struct {
	Op Op
	// Glob selects files by the name that they are called or were opened by, with path.Match: by the last element, or by
	// the whole name if the pattern has a slash. A rename or link matches with either name. Empty is every file.
	Glob string
	// After is the number of calls that match and still succeed.
	After int
	// Times is the number of calls that fail then; 0 is every one.
	Times int
	// Err is the error, EIO if nil.
	Err error
	// Bytes is how much of a failing Write is written, at most.
	Bytes int
}

// fault is a Fault that counts down.
type fault struct {
	Fault
	left int // calls that are still to fail
}

const (
	noQuota  = -1
	immortal = -1
)

// Inject adds a fault, and returns what removes it again. It panics on a malformed Glob.
func (m *Mem) Inject(f Fault) (remove func()) {
	if _, err := path.Match(f.Glob, ""); err != nil {
		panic(fmt.Sprintf("vfs: bad glob %q", f.Glob))
	}
	if f.Err == nil {
		f.Err = syscall.EIO
	}
	added := &fault{Fault: f, left: f.Times}
	if f.Times == 0 {
		added.left = math.MaxInt
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults = append(m.faults, added)
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.faults = slices.DeleteFunc(m.faults, func(f *fault) bool { return f == added })
	}
}

// SetQuota bounds the bytes of all files together, those included that only an open handle keeps. A write past it is
// short and answers ENOSPC; everything else goes on working. Below 0 there is no bound.
func (m *Mem) SetQuota(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.quota = max(bytes, noQuota)
}

// Used is the number of bytes that count against the quota.
func (m *Mem) Used() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}

// Free implements FS: what the quota leaves.
func (m *Mem) Free(dir string) (bytes int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return 0, ErrDead
	}
	if _, err := m.findDir(dir); err != nil {
		return 0, pathError(OpStat, dir, err)
	}
	return m.room(), nil
}

// room is the number of bytes that can still be written.
func (m *Mem) room() int64 {
	if m.quota == noQuota {
		return math.MaxInt64
	}
	return max(m.quota-m.used, 0)
}

// DieAfter lets so many more steps succeed and dies in the one after, as Kill would end it there. A step is a call that
// changes something or makes something durable: Create, Write, Truncate, Sync, Rename, Link, Remove, SyncDir, and each
// directory of MkdirAll, whether it succeeds or not. Kill and PowerCut then tell what is left. Run once to learn Steps, and
// every crash point can be tried in turn.
//
// If that step is a Write, its first tornBytes bytes are still written. Any other does nothing; a Sync that does nothing
// can still, in a power cut, have reached the disk.
func (m *Mem) DieAfter(steps, tornBytes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dieIn = max(steps, 0)
	m.torn = max(tornBytes, 0)
}

// Steps is the number of steps so far, in the sense of DieAfter.
func (m *Mem) Steps() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.steps
}

// step begins a call: it answers the error that the call is to fail with, and how many bytes a Write is to write all
// the same. The caller holds mu.
func (m *Mem) step(op Op, name, new string) (bytes int, err error) {
	if m.dead {
		return 0, ErrDead
	}
	if op.isStep() {
		if m.dieIn == 0 {
			m.dead = true
			return m.torn, ErrDead
		}
		if m.dieIn > 0 {
			m.dieIn--
		}
		m.steps++
	}
	for _, f := range m.faults {
		if f.left == 0 || f.Op != op || !f.matches(name) && (new == "" || !f.matches(new)) {
			continue
		}
		if f.After > 0 {
			f.After--
			continue
		}
		f.left--
		if new != "" {
			return 0, linkError(op, name, new, f.Err)
		}
		return f.Bytes, pathError(op, name, f.Err)
	}
	return 0, nil
}

func (f *fault) matches(name string) bool {
	name = strings.TrimPrefix(cleanPath(name), "/")
	glob := strings.TrimPrefix(f.Glob, "/")
	if glob == "" {
		return true
	}
	if glob == f.Glob && !strings.Contains(glob, "/") {
		name = path.Base(name)
	}
	ok, _ := path.Match(glob, name) // Inject has checked the pattern
	return ok
}

// OpRecord is a call that was made.
type OpRecord struct {
	Op     Op
	Name   string
	New    string // second name of a rename or link
	Offset int64  // where a read or write began; the size that a truncate set
	Bytes  int    // what was written, or asked for by a read
	Err    error
}

// Trace begins to record calls, or ends it and drops the record.
func (m *Mem) Trace(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tracing = on
	m.trace = nil
}

// Ops returns the calls since Trace(true), in order, failed ones included, except those of the dead.
func (m *Mem) Ops() []OpRecord {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.trace)
}

func (m *Mem) record(r OpRecord) {
	if m.tracing && r.Err != ErrDead {
		m.trace = append(m.trace, r)
	}
}

// OpenFiles returns the names of the handles that were not closed, sorted.
func (m *Mem) OpenFiles() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := make([]string, 0, len(m.open))
	for f := range m.open {
		names = append(names, f.name)
	}
	slices.Sort(names)
	return names
}
