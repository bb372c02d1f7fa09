package vfs

import (
	"io/fs"
	"os"
	"syscall"
)

// syncData calls fdatasync(2), which spares the journal a transaction when only timestamps have changed.
func syncData(f *os.File) error {
	var err error
	conn, connErr := f.SyscallConn()
	if connErr == nil {
		// Control keeps the descriptor open for as long as the call runs, against a Close at the same time.
		connErr = conn.Control(func(fd uintptr) {
			err = retryInterrupted(func() error { return syscall.Fdatasync(int(fd)) })
		})
	}
	if connErr != nil {
		// The only reason there is, but the runtime has an error of its own for it.
		err = fs.ErrClosed
	}
	if err != nil {
		return &fs.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
	}
	return nil
}
