package pipe

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"kevy/changes"
	"kevy/internal/vfs"
)

// cursorFileFormat is the number of the form that cursor files have.
const cursorFileFormat = 1

// maxCursorFileBytes bounds what is read of a cursor file: 4,096 streams need
// less than half of it.
const maxCursorFileBytes = 1 << 20

// cursorFile keeps a pipe's cursors in a file, for sinks that keep none. It is
// replaced as a whole, fsynced, so that a crash leaves the old or the new one;
// a lock beside it keeps a second pipe out.
type cursorFile struct {
	fsys vfs.FS
	name string
	lock io.Closer
	now  cursorFacts
}

// cursorFacts are what the file holds, as JSON.
type cursorFacts struct {
	Format    int    `json:"format"`
	Selection string `json:"selection"` // the filters and rules that the cursors are of
	// Cursors are "generation:offset" by stream.
	Cursors map[string]string `json:"cursors"`
	// Snapshots are the streams whose snapshot has begun and not ended.
	Snapshots []string `json:"snapshots,omitempty"`
}

// openCursorFile takes the file, which need not be there yet. selection says
// which frames the pipe carries: cursors of other frames are refused, since
// what was left out would be missing for ever.
func openCursorFile(fsys vfs.FS, name, selection string, anew bool) (*cursorFile, error) {
	if dir := filepath.Dir(name); dir != "." {
		if err := fsys.MkdirAll(dir); err != nil {
			return nil, fmt.Errorf("the cursor file's directory: %w; let the pipe's user write to its directory, or name another with --cursor-file", err)
		}
	}
	lock, err := fsys.Lock(name + ".lock")
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("another pipe is using the cursor file %s: end it, or give this one a file of its own with --cursor-file", name)
	}
	if err != nil {
		return nil, fmt.Errorf("the cursor file cannot be kept there: %w; let the pipe's user write to its directory, or name another with --cursor-file", err)
	}
	f := &cursorFile{fsys: fsys, name: name, lock: lock, now: cursorFacts{Format: cursorFileFormat, Selection: selection, Cursors: map[string]string{}}}
	if err := f.load(selection, anew); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return f, nil
}

func (f *cursorFile) load(selection string, anew bool) error {
	file, err := f.fsys.Open(f.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the cursor file: %w", err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxCursorFileBytes+1))
	if err != nil {
		return fmt.Errorf("the cursor file: %w", err)
	}
	if anew {
		return nil
	}
	var facts cursorFacts
	if err := json.Unmarshal(data, &facts); err != nil || len(data) > maxCursorFileBytes {
		return fmt.Errorf("%s is no cursor file of a pipe: give another name with --cursor-file, or remove it and start with --snapshot", f.name)
	}
	if facts.Format != cursorFileFormat {
		return fmt.Errorf("%s has format %d, and this program reads %d: use the program that wrote it", f.name, facts.Format, cursorFileFormat)
	}
	if facts.Selection != selection {
		return fmt.Errorf("%s was kept for other filters (%s; now %s), and what they left out would be missing: start once with --anew, or give another file with --cursor-file",
			f.name, facts.Selection, selection)
	}
	for stream, text := range facts.Cursors {
		if _, err := changes.ParseCursor(text); err != nil {
			return fmt.Errorf("%s: stream %s: %w", f.name, stream, err)
		}
	}
	if facts.Cursors == nil {
		facts.Cursors = map[string]string{}
	}
	f.now = facts
	return nil
}

// cursors returns what is kept.
func (f *cursorFile) cursors() map[string]changes.Cursor {
	at := make(map[string]changes.Cursor, len(f.now.Cursors))
	for stream, text := range f.now.Cursors {
		at[stream], _ = changes.ParseCursor(text) // load has checked it
	}
	return at
}

// unfinished returns a stream whose snapshot has not ended, "" if there is
// none.
func (f *cursorFile) unfinished() string {
	if len(f.now.Snapshots) == 0 {
		return ""
	}
	return f.now.Snapshots[0]
}

// save keeps the cursors of some streams.
func (f *cursorFile) save(at map[string]changes.Cursor) error {
	return f.write(func(next *cursorFacts) {
		for stream, c := range at {
			next.Cursors[stream] = c.String()
		}
	})
}

// beginSnapshot notes that what the target has of a stream is void.
func (f *cursorFile) beginSnapshot(stream string) error {
	return f.write(func(next *cursorFacts) {
		delete(next.Cursors, stream)
		if !slices.Contains(next.Snapshots, stream) {
			next.Snapshots = append(next.Snapshots, stream)
		}
	})
}

// endSnapshot notes that it has the stream as of a cursor.
func (f *cursorFile) endSnapshot(stream string, at changes.Cursor) error {
	return f.write(func(next *cursorFacts) {
		next.Cursors[stream] = at.String()
		next.Snapshots = slices.DeleteFunc(next.Snapshots, func(s string) bool { return s == stream })
	})
}

func (f *cursorFile) write(change func(*cursorFacts)) error {
	next := f.now
	next.Cursors = maps.Clone(f.now.Cursors)
	next.Snapshots = slices.Clone(f.now.Snapshots)
	change(&next)
	data, err := json.MarshalIndent(next, "", "  ")
	if err != nil {
		return err
	}
	if err := vfs.WriteFileAtomic(f.fsys, f.name, append(data, '\n')); err != nil {
		return fmt.Errorf("the cursor file cannot be written: %w", err)
	}
	f.now = next
	return nil
}

func (f *cursorFile) close() error { return f.lock.Close() }
