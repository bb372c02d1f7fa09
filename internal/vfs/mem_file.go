package vfs

import (
	"io"
	"io/fs"
	"syscall"
)

// memFile is an open file of a Mem.
type memFile struct {
	m        *Mem
	n        *node
	name     string
	writable bool

	readPos int64 // guarded by m.mu
	closed  bool  // guarded by m.mu
}

func (m *Mem) newHandle(n *node, name string, writable bool) *memFile {
	f := &memFile{m: m, n: n, name: name, writable: writable}
	n.handles++
	m.open[f] = true
	return f
}

// usable says whether the handle can be used at all. A dead file system goes before a closed handle.
func (f *memFile) usable(op Op) error {
	if f.m.dead {
		return ErrDead
	}
	if f.closed {
		return pathError(op, f.name, fs.ErrClosed)
	}
	return nil
}

func (f *memFile) Read(p []byte) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if len(p) == 0 {
		return 0, f.usable(OpRead)
	}
	data, err := f.contents(f.readPos, len(p))
	if err != nil {
		return 0, err
	}
	if f.readPos >= int64(len(data)) {
		return 0, io.EOF
	}
	n := copy(p, data[f.readPos:])
	f.readPos += int64(n)
	return n, nil
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, pathError(OpRead, f.name, syscall.EINVAL)
	}
	f.m.mu.Lock()
	data, err := f.contents(off, len(p))
	f.m.mu.Unlock()
	if err != nil {
		return 0, err
	}
	// Bytes of a file never change in place, so they can be copied while others append.
	if off > int64(len(data)) {
		off = int64(len(data))
	}
	n := copy(p, data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// contents returns what the file holds now, for a read of so many bytes at off. The caller holds m.mu.
func (f *memFile) contents(off int64, bytes int) ([]byte, error) {
	err := f.usable(OpRead)
	if err == nil {
		_, err = f.m.step(OpRead, f.name, "")
		f.m.record(OpRecord{Op: OpRead, Name: f.name, Offset: off, Bytes: bytes, Err: err})
	}
	if err != nil {
		return nil, err
	}
	return f.n.data, nil
}

func (f *memFile) Write(p []byte) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.usable(OpWrite); err != nil {
		return 0, err
	}
	off := int64(len(f.n.data))
	n, err := f.write(p)
	f.m.record(OpRecord{Op: OpWrite, Name: f.name, Offset: off, Bytes: n, Err: err})
	return n, err
}

func (f *memFile) write(p []byte) (int, error) {
	if !f.writable {
		return 0, pathError(OpWrite, f.name, syscall.EBADF)
	}
	short, err := f.m.step(OpWrite, f.name, "")
	if err != nil {
		p = p[:min(short, len(p))]
	}
	if room := f.m.room(); int64(len(p)) > room {
		p = p[:room]
		if err == nil {
			err = pathError(OpWrite, f.name, syscall.ENOSPC)
		}
	}
	f.m.append(f.n, p)
	return len(p), err
}

func (f *memFile) Truncate(size int64) error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.usable(OpTruncate); err != nil {
		return err
	}
	err := f.truncate(size)
	f.m.record(OpRecord{Op: OpTruncate, Name: f.name, Offset: size, Err: err})
	return err
}

func (f *memFile) truncate(size int64) error {
	if size < 0 || !f.writable {
		return pathError(OpTruncate, f.name, syscall.EINVAL)
	}
	if _, err := f.m.step(OpTruncate, f.name, ""); err != nil {
		return err
	}
	if size-int64(len(f.n.data)) > f.m.room() {
		return pathError(OpTruncate, f.name, syscall.ENOSPC)
	}
	f.m.resize(f.n, size)
	return nil
}

// Sync implements File. When it fails, what was written since the last success is as on Linux: still read back, but
// never written to the disk, whatever succeeds later.
func (f *memFile) Sync() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.usable(OpSync); err != nil {
		return err
	}
	_, err := f.m.step(OpSync, f.name, "")
	switch {
	case f.m.dead:
		// The sync was not reached: what is unsynced is as open as it was.
	case err != nil:
		f.n.syncFailed()
	default:
		f.n.synced()
	}
	f.m.record(OpRecord{Op: OpSync, Name: f.name, Err: err})
	return err
}

// SyncData implements File. The difference to Sync is a matter of timestamps, which no crash of a Mem takes back.
func (f *memFile) SyncData() error { return f.Sync() }

// Close implements File. As on Linux the handle is closed even when it fails.
func (f *memFile) Close() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.usable(OpClose); err != nil {
		return err
	}
	_, err := f.m.step(OpClose, f.name, "")
	f.closed = true
	delete(f.m.open, f)
	f.n.handles--
	f.m.releaseUnnamed(f.n)
	f.m.record(OpRecord{Op: OpClose, Name: f.name, Err: err})
	return err
}

func (f *memFile) Size() (int64, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.usable(OpStat); err != nil {
		return 0, err
	}
	return int64(len(f.n.data)), nil
}

func (f *memFile) Inode() (uint64, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.usable(OpStat); err != nil {
		return 0, err
	}
	return f.n.inode, nil
}

func (f *memFile) Name() string { return f.name }
