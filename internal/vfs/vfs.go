// Package vfs is the file system that kevy writes its data through.
//
// OS is the machine's own. Mem is its twin in memory, which can be killed, lose its power, run full and fail on
// demand, so that the code above it is tested against the crashes that it must survive.
//
// The interface holds what a log and its sidecars need and no more: files grow at their end only, and nothing is
// durable before it was synced. A file's contents are made durable by File.Sync or File.SyncData; its name, and the
// absence of a removed or renamed one, by FS.SyncDir on the directory that holds it. Neither implies the other.
package vfs

import (
	"errors"
	"io"
	"path/filepath"
)

var (
	// ErrLocked says that another handle, in this process or another, holds the lock.
	ErrLocked = errors.New("locked by another process")
	// ErrDead is what every call on a Mem and on its files answers once it was killed or lost its power.
	ErrDead = errors.New("file system is dead")
)

// File is an open file. Its methods are safe for concurrent use.
//
// Errors name the file, and errors.Is finds the cause: fs.ErrClosed after Close, syscall.ENOSPC on a full disk.
type File interface {
	// Read reads from a position of its own, which starts at 0 and is moved by Read alone.
	io.Reader
	io.ReaderAt
	// Write appends to the end of the file, wherever other handles or Truncate have moved it. On an error the first
	// n bytes were written, as with a full disk.
	io.Writer
	// Close releases the handle. It does not sync.
	io.Closer
	// Sync makes the contents and the size durable (fsync). After an error the state of what was written since the
	// last success is unknown and stays so: the kernel has dropped it, and a later success does not cover it.
	Sync() error
	// SyncData is Sync without the metadata that reading the contents back does not need (fdatasync).
	SyncData() error
	// Truncate sets the size, dropping what lies beyond it or adding zeros. It is not durable before a Sync.
	Truncate(size int64) error
	// Size is the size in bytes.
	Size() (int64, error)
	// Inode is the number that identifies the file in its file system: Rename keeps it, a copy has another. It can be
	// given to a new file once this one is gone.
	Inode() (uint64, error)
	// Name is the name that the file was opened by.
	Name() string
}

// Info describes a directory entry. ModMs is the time of the last write in unix milliseconds.
type Info struct {
	Name  string // the last element of the path
	Size  int64  // bytes; 0 for a directory
	Inode uint64
	IsDir bool
	ModMs int64
}

// FS is a tree of directories and files. Its methods are safe for concurrent use.
//
// Errors name the file, and errors.Is finds fs.ErrNotExist and fs.ErrExist in them.
type FS interface {
	// Create makes a new file or empties the existing one, which keeps its inode, for reading and writing.
	Create(name string) (File, error)
	// Open opens an existing file for reading.
	Open(name string) (File, error)
	// OpenAppend opens an existing file, or makes a new one, for reading and writing.
	OpenAppend(name string) (File, error)
	// Rename gives a file another name, at once replacing what had it. Between two directories it is durable only
	// once both were synced.
	Rename(old, new string) error
	// Link gives a file a second name, which must be free.
	Link(old, new string) error
	// Remove removes a file or an empty directory. Open handles of a removed file go on working.
	Remove(name string) error
	// MkdirAll makes a directory and its missing parents, durably: their own entries need no SyncDir.
	MkdirAll(dir string) error
	// List returns the entries of a directory, sorted by name.
	List(dir string) ([]Info, error)
	Stat(name string) (Info, error)
	// SyncDir makes the entries of a directory durable: files made, renamed, linked and removed in it.
	SyncDir(dir string) error
	// Lock takes the exclusive lock of a file, which it makes if there is none, and holds it until the result is closed
	// or the process ends. It does not wait: the error is ErrLocked while anyone else has it.
	Lock(name string) (io.Closer, error)
	// Free is how many bytes can still be written to the file system that holds a directory; math.MaxInt64 where nobody
	// can tell. Others may take them meanwhile.
	Free(dir string) (bytes int64, err error)
}

// tempSuffix marks a file that WriteFileAtomic has not finished.
const tempSuffix = ".tmp"

// WriteFileAtomic durably replaces the contents of a file: whatever happens meanwhile, name afterwards holds the old
// contents or all of the new ones, and the new ones if the result is nil. It writes name+".tmp" and renames it, so a
// crash can leave that file behind, which the next call replaces. Calls for one name must not run at the same time.
//
// After an error name may already hold the new contents without their being durable.
func WriteFileAtomic(fsys FS, name string, data []byte) error {
	temp := name + tempSuffix
	if err := writeFileSync(fsys, temp, data); err != nil {
		// The write's error is the one that matters; a temp file that stays is replaced by the next call.
		_ = fsys.Remove(temp)
		return err
	}
	if err := fsys.Rename(temp, name); err != nil {
		_ = fsys.Remove(temp)
		return err
	}
	return fsys.SyncDir(filepath.Dir(name))
}

// writeFileSync writes data to a new file and syncs it.
func writeFileSync(fsys FS, name string, data []byte) error {
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
