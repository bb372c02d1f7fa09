package persist

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"kevy/internal/vfs"
)

const (
	importingName   = "IMPORTING"
	importingKind   = "kevy-importing"
	importingFormat = 1
)

// Importing says that the directory is being filled from a file. While
// data/IMPORTING is there, what the store holds is a part of the file, or all of
// it, and nobody may be served from it.
type Importing struct {
	// From names the file.
	From string
	// New says that the store was made for the import, so that another one may
	// replace all that it holds.
	New bool
}

// ReadImporting reads data/IMPORTING; nil if there is none. The error is a
// *FormatError or a *FileError for one that cannot be understood.
func ReadImporting(fsys vfs.FS, dir string) (*Importing, error) {
	name := filepath.Join(dir, importingName)
	data, err := readFactFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	lines, err := parseFacts(name, data, importingKind, importingFormat)
	if err != nil {
		return nil, err
	}
	m := &Importing{}
	for i := range lines {
		l := &lines[i]
		if err := l.count(1); err != nil {
			return nil, err
		}
		switch value := l.values[0]; {
		case l.name == "from":
			if m.From, err = strconv.Unquote(value); err != nil {
				return nil, l.errorf("%q is no quoted name", value)
			}
		case l.name == "into" && value == "new":
			m.New = true
		case l.name == "into" && value == "store":
		default:
			return nil, l.errorf("format %d has no fact %s", importingFormat, strconv.Quote(l.name+" "+value))
		}
	}
	return m, nil
}

// WriteImporting writes data/IMPORTING durably.
func WriteImporting(fsys vfs.FS, dir string, m Importing) error {
	const maxNameBytes = 4096
	from := m.From[max(0, len(m.From)-maxNameBytes):]
	w := newFactWriter(importingKind, importingFormat)
	w.fact("from", strings.ReplaceAll(strconv.QuoteToASCII(from), " ", `\x20`))
	if m.New {
		w.fact("into", "new")
	} else {
		w.fact("into", "store")
	}
	if err := replaceFiles(fsys, dir, []namedData{{filepath.Join(dir, importingName), w.seal()}}); err != nil {
		return fmt.Errorf("note that an import has begun: %w", err)
	}
	return nil
}

// RemoveImporting removes data/IMPORTING durably: the store holds all of the
// file, and that is durable.
func RemoveImporting(fsys vfs.FS, dir string) error {
	err := fsys.Remove(filepath.Join(dir, importingName))
	if err == nil {
		err = fsys.SyncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("note that the import is complete: %w", err)
	}
	return nil
}
