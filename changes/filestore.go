package changes

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

const (
	cursorFileHead = "kevy-cursors 1"
	// maxCursorFileBytes is more than the cursors of the most streams take.
	maxCursorFileBytes = 2 << 20
)

// FileStore keeps cursors in a file. When Save returns, the cursor survives a
// crash of the machine: the file is written anew beside the old one, fsynced, and
// takes its place, and then the directory is fsynced. Saves of several streams at
// the same time share one write.
//
// The file is text: a line "kevy-cursors 1", for each stream a line of its name,
// generation and offset, and a line with a checksum of what stands above it. One
// program at a time may use it.
type FileStore struct {
	path string

	writing sync.Mutex // one writes, for all
	written uint64     // the version that the file has; guarded by writing

	mu      sync.Mutex
	version uint64            // of cursors; guarded by mu
	cursors map[string]Cursor // guarded by mu
}

// DamagedFileError says that a file of cursors is not as it was written.
type DamagedFileError struct{ Path, Why string }

func (e *DamagedFileError) Error() string {
	return fmt.Sprintf("changes: the cursors in %s are damaged (%s): put back a good copy, whose commits come again from there, or remove the file to begin as Options.Start says", e.Path, e.Why)
}

// OpenFileStore returns the store in a file, which is made by the first Save if
// there is none. A file that is damaged is a *DamagedFileError, and stays as it
// is.
func OpenFileStore(path string) (*FileStore, error) {
	s := &FileStore{path: path, cursors: make(map[string]Cursor)}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("changes: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxCursorFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("changes: %w", err)
	}
	if s.cursors, err = parseCursors(string(text)); err != nil {
		return nil, &DamagedFileError{Path: path, Why: err.Error()}
	}
	return s, nil
}

// Load implements CursorStore. It never fails.
func (s *FileStore) Load(_ context.Context, stream string) (Cursor, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.cursors[stream]
	return at, ok, nil
}

// Save implements CursorStore. After an error the file is the old one or the new
// one, whole in either case.
func (s *FileStore) Save(_ context.Context, stream string, at Cursor) error {
	if stream == "" || strings.ContainsAny(stream, " \r\n") {
		return fmt.Errorf("changes: %q is no name of a stream", stream)
	}
	s.mu.Lock()
	s.cursors[stream] = at
	s.version++
	mine := s.version
	s.mu.Unlock()
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.written >= mine {
		return nil // somebody wrote for all who waited
	}
	s.mu.Lock()
	text, version := formatCursors(s.cursors), s.version
	s.mu.Unlock()
	if err := replaceFile(s.path, []byte(text)); err != nil {
		return fmt.Errorf("changes: %w", err)
	}
	s.written = version
	return nil
}

// Cursors returns a copy of all that is kept, by stream.
func (s *FileStore) Cursors() map[string]Cursor {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.cursors)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func formatCursors(cursors map[string]Cursor) string {
	var b strings.Builder
	b.WriteString(cursorFileHead + "\n")
	for _, stream := range slices.Sorted(maps.Keys(cursors)) {
		fmt.Fprintf(&b, "%s %d %d\n", stream, cursors[stream].Generation, cursors[stream].Offset)
	}
	return withChecksum(b.String())
}

// withChecksum appends the last line.
func withChecksum(text string) string {
	return fmt.Sprintf("%scrc32c %08x\n", text, crc32.Checksum([]byte(text), castagnoli))
}

func parseCursors(text string) (map[string]Cursor, error) {
	if len(text) > maxCursorFileBytes {
		return nil, fmt.Errorf("more than %d bytes", maxCursorFileBytes)
	}
	if first, _, _ := strings.Cut(text, "\n"); first != cursorFileHead {
		return nil, fmt.Errorf("the first line is not %q", cursorFileHead)
	}
	end := strings.LastIndex(strings.TrimSuffix(text, "\n"), "\n") + 1
	if text != withChecksum(text[:end]) {
		return nil, errors.New("the checksum is wrong")
	}
	cursors := make(map[string]Cursor)
	for _, line := range strings.Split(strings.TrimSuffix(text[:end], "\n"), "\n")[1:] {
		parts := strings.Split(line, " ")
		if len(parts) != 3 {
			return nil, fmt.Errorf("line %q", line)
		}
		at, err := ParseCursor(parts[1] + ":" + parts[2])
		if _, twice := cursors[parts[0]]; err != nil || twice {
			return nil, fmt.Errorf("line %q", line)
		}
		cursors[parts[0]] = at
	}
	return cursors, nil
}

// replaceFile puts content in the place of a file, durably and all at once.
func replaceFile(path string, content []byte) (err error) {
	temp := path + ".tmp"
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	if runtime.GOOS == "windows" {
		return nil // there a directory cannot be fsynced
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	err = dir.Sync()
	if cerr := dir.Close(); err == nil {
		err = cerr
	}
	return err
}
