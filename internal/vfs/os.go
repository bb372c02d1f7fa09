//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// The permissions of new files and directories before the umask, which are those of redis-server.
const (
	filePerm fs.FileMode = 0o644
	dirPerm  fs.FileMode = 0o755
)

// OS is the file system of the machine. Locks are flock(2) locks: they exclude other processes and other handles of this
// one, and the kernel drops them when the process dies.
func OS() FS { return osFS{} }

type osFS struct{}

func (osFS) Create(name string) (File, error) {
	return openFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND)
}

func (osFS) Open(name string) (File, error) {
	return openFile(name, os.O_RDONLY)
}

func (osFS) OpenAppend(name string) (File, error) {
	return openFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND)
}

func (osFS) Rename(old, new string) error { return os.Rename(old, new) }
func (osFS) Link(old, new string) error   { return os.Link(old, new) }
func (osFS) Remove(name string) error     { return os.Remove(name) }

func (o osFS) MkdirAll(dir string) error {
	dir = filepath.Clean(dir)
	info, err := os.Stat(dir)
	if err == nil {
		if !info.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
		}
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := o.MkdirAll(parent); err != nil {
			return err
		}
	}
	// Another process may have made it meanwhile; its entry is then not yet known to be durable either.
	if err := os.Mkdir(dir, dirPerm); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return o.SyncDir(parent)
}

func (osFS) List(dir string) ([]Info, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	infos := make([]Info, 0, len(entries))
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed since the directory was read
		}
		if err != nil {
			return nil, err
		}
		infos = append(infos, infoOf(info))
	}
	return infos, nil
}

func (osFS) Stat(name string) (Info, error) {
	info, err := os.Stat(name)
	if err != nil {
		return Info{}, err
	}
	return infoOf(info), nil
}

func (osFS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (osFS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, filePerm)
	if err != nil {
		return nil, err
	}
	err = retryInterrupted(func() error {
		return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	})
	if err == nil {
		return f, nil
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrLocked
	}
	_ = f.Close() // nothing was written through it
	return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
}

func openFile(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag, filePerm)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = &fs.PathError{Op: "open", Path: name, Err: syscall.EISDIR}
	}
	if err != nil {
		_ = f.Close() // nothing was written through it
		return nil, err
	}
	return &osFile{f: f}, nil
}

// osFile is opened with O_APPEND where it is writable, so the kernel keeps no position worth having: a write leaves it at
// the end. Read has its own.
type osFile struct {
	f *os.File

	readMu  sync.Mutex
	readPos int64 // guarded by readMu
}

func (o *osFile) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	o.readMu.Lock()
	defer o.readMu.Unlock()
	n, err := o.f.ReadAt(p, o.readPos)
	o.readPos += int64(n)
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

func (o *osFile) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, &fs.PathError{Op: "read", Path: o.f.Name(), Err: syscall.EINVAL}
	}
	return o.f.ReadAt(p, off)
}

func (o *osFile) Write(p []byte) (int, error) { return o.f.Write(p) }
func (o *osFile) Close() error                { return o.f.Close() }
func (o *osFile) Sync() error                 { return o.f.Sync() }
func (o *osFile) SyncData() error             { return syncData(o.f) }
func (o *osFile) Truncate(size int64) error   { return o.f.Truncate(size) }
func (o *osFile) Name() string                { return o.f.Name() }

func (o *osFile) Size() (int64, error) {
	info, err := o.f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (o *osFile) Inode() (uint64, error) {
	info, err := o.f.Stat()
	if err != nil {
		return 0, err
	}
	return infoOf(info).Inode, nil
}

func infoOf(info fs.FileInfo) Info {
	i := Info{
		Name:  info.Name(),
		Size:  info.Size(),
		IsDir: info.IsDir(),
		ModMs: info.ModTime().UnixMilli(),
	}
	if i.IsDir {
		i.Size = 0
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		i.Inode = uint64(st.Ino)
	}
	return i
}

// retryInterrupted calls a system call again for as long as signals interrupt it.
func retryInterrupted(call func() error) error {
	for {
		if err := call(); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
