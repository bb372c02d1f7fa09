package vfs

import (
	"io/fs"
	"os"
	"syscall"
)

// syncData calls fdatasync(2), which spares the journal a transaction when only timestamps have changed.
func syncData(f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var syncErr error
	// Control keeps the descriptor open for as long as the call runs, against a Close at the same time.
	err = conn.Control(func(fd uintptr) {
		syncErr = retryInterrupted(func() error { return syscall.Fdatasync(int(fd)) })
	})
	if err == nil {
		err = syncErr
	}
	if err != nil {
		return &fs.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
	}
	return nil
}
