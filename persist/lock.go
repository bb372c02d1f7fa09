package persist

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"kevy/internal/vfs"
)

// lockName is the file that marks a data directory as in use. It is never
// removed: a lock on a removed file excludes nobody.
const lockName = "LOCK"

// LockedError says that another process has the data directory open.
type LockedError struct {
	Dir string
	// PID is the holder's process id, 0 where its file does not tell.
	PID int
}

func (e *LockedError) Error() string {
	holder := "another process"
	if e.PID != 0 {
		holder = fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("the data directory %q is in use by %s: stop that server, or give this one another directory with --dir", e.Dir, holder)
}

// Lock takes the data directory for this process and notes its process id in
// the LOCK file. The error is a *LockedError if another process, or another
// handle of this one, has it. Closing the result gives the directory back; the
// end of the process does too.
func Lock(fs vfs.FS, dir string) (io.Closer, error) {
	name := filepath.Join(dir, lockName)
	held, err := fs.Lock(name)
	if errors.Is(err, vfs.ErrLocked) {
		return nil, &LockedError{Dir: dir, PID: lockHolder(fs, name)}
	}
	if err != nil {
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	if err := noteHolder(fs, name); err != nil {
		return nil, fmt.Errorf("lock the data directory: %w", errors.Join(err, held.Close()))
	}
	return held, nil
}

func noteHolder(fs vfs.FS, name string) error {
	f, err := fs.Create(name)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "pid %d\n", os.Getpid())
	return errors.Join(err, f.Close())
}

// lockHolder reads the process id out of the LOCK file. The holder may not have
// written it yet, so anything else is "not known", not an error.
func lockHolder(fs vfs.FS, name string) int {
	data, err := readFactFile(fs, name)
	if err != nil {
		return 0
	}
	text, ok := strings.CutPrefix(string(data), "pid ")
	if !ok {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSuffix(text, "\n"))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}
