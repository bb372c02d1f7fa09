package persist

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"strings"

	"kevy/internal/vfs"
)

// A fact file is text that a person can read and a machine can check:
//
//	<kind> <format>
//	<fact> <value> …
//	crc32c <8 hexadecimal digits>
//
// Lines end with '\n', values are separated by one space, and the last line
// covers every byte before it.

// maxFactFileBytes bounds what is read of a fact file but feed-holds. The largest
// one, a sidecar with 64 past generations of the longest numbers, has under 7 KiB.
const maxFactFileBytes = 64 << 10

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// FileError says that a file of the data directory is not what was written
// there: torn, edited, or of another directory. Line is 0 where no single line
// is at fault.
type FileError struct {
	File   string
	Line   int
	Reason string
}

func (e *FileError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.File, e.Reason)
	}
	return fmt.Sprintf("%s, line %d: %s", e.File, e.Line, e.Reason)
}

// FormatError says that a file was written by a newer version.
type FormatError struct {
	File      string
	Format    int
	Supported int
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("%s has format %d, and this version of kevy reads formats up to %d: it was written by a newer version, so start that one on this directory",
		e.File, e.Format, e.Supported)
}

type factWriter struct{ buf []byte }

func newFactWriter(kind string, format int) *factWriter {
	w := &factWriter{}
	w.fact(kind, strconv.Itoa(format))
	return w
}

func (w *factWriter) fact(name string, values ...string) {
	w.buf = append(w.buf, name...)
	for _, v := range values {
		w.buf = append(w.buf, ' ')
		w.buf = append(w.buf, v...)
	}
	w.buf = append(w.buf, '\n')
}

func (w *factWriter) number(name string, n uint64) { w.fact(name, strconv.FormatUint(n, 10)) }

// seal appends the checksum and returns the whole file.
func (w *factWriter) seal() []byte {
	return fmt.Appendf(w.buf, "crc32c %08x\n", crc32.Checksum(w.buf, castagnoli))
}

// factLine is one line of a fact file, taken apart.
type factLine struct {
	file   string
	number int
	name   string
	values []string
}

func (l *factLine) errorf(format string, a ...any) error {
	return &FileError{File: l.file, Line: l.number, Reason: fmt.Sprintf(format, a...)}
}

// text returns value i, or an error that says what is missing.
func (l *factLine) text(i int) (string, error) {
	if i >= len(l.values) {
		return "", l.errorf("%q has %d values, too few", l.name, len(l.values))
	}
	return l.values[i], nil
}

// uint returns value i as a decimal number of at most max.
func (l *factLine) uint(i int, max uint64) (uint64, error) {
	s, err := l.text(i)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n > max || strconv.FormatUint(n, 10) != s {
		return 0, l.errorf("%q is not a number from 0 to %d", s, max)
	}
	return n, nil
}

// hex32 returns value i, which must be eight lower-case hexadecimal digits.
func (l *factLine) hex32(i int) (uint32, error) {
	s, err := l.text(i)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(s, 16, 32)
	if err != nil || fmt.Sprintf("%08x", n) != s {
		return 0, l.errorf("%q is not a checksum of eight hexadecimal digits", s)
	}
	return uint32(n), nil
}

// count refuses a line that has not exactly n values.
func (l *factLine) count(n int) error {
	if len(l.values) != n {
		return l.errorf("%q has %d values instead of %d", l.name, len(l.values), n)
	}
	return nil
}

// parseFacts checks a whole fact file and returns its lines without the first
// and the checksum.
func parseFacts(file string, data []byte, kind string, supported int) ([]factLine, error) {
	first, _, whole := bytes.Cut(data, []byte("\n"))
	head := splitFact(file, 1, string(first))
	if !whole || head.name != kind {
		return nil, &FileError{File: file, Line: 1, Reason: fmt.Sprintf("it does not begin with %q", kind)}
	}
	format, err := head.uint(0, 1<<31-1)
	if err != nil {
		return nil, err
	}
	// A newer format may end otherwise, so this comes before the checksum.
	if int(format) > supported {
		return nil, &FormatError{File: file, Format: int(format), Supported: supported}
	}
	if format == 0 {
		return nil, head.errorf("there is no format 0")
	}
	const sumBytes = len("crc32c 00000000\n")
	if len(data) < len(first)+1+sumBytes {
		return nil, &FileError{File: file, Reason: "it is cut short"}
	}
	body, last := data[:len(data)-sumBytes], data[len(data)-sumBytes:]
	if body[len(body)-1] != '\n' || string(last) != fmt.Sprintf("crc32c %08x\n", crc32.Checksum(body, castagnoli)) {
		return nil, &FileError{File: file, Reason: "its checksum does not match: it is torn or was edited"}
	}
	texts := strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")[1:]
	lines := make([]factLine, len(texts))
	for i, text := range texts {
		lines[i] = splitFact(file, i+2, text)
	}
	return lines, nil
}

func splitFact(file string, number int, text string) factLine {
	fields := strings.Split(text, " ")
	return factLine{file: file, number: number, name: fields[0], values: fields[1:]}
}

// readFactFile returns the content of a file, whose size it bounds. The error
// of a file that is not there matches fs.ErrNotExist.
func readFactFile(fs vfs.FS, name string) (data []byte, err error) {
	return readBounded(fs, name, maxFactFileBytes)
}

func readBounded(fs vfs.FS, name string, most int64) (data []byte, err error) {
	f, err := fs.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data, err = io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if int64(len(data)) > most {
		return nil, &FileError{File: name, Reason: fmt.Sprintf("it is larger than %d bytes", most)}
	}
	return data, nil
}

// tempSuffix marks a file that was not yet renamed to its name.
const tempSuffix = ".tmp"

// namedData is a file to be written.
type namedData struct {
	name string
	data []byte
}

// replaceFiles writes all files durably: each to a temporary file that is
// fsynced and renamed, then one fsync of the directory. A crash leaves each file
// either old or new.
func replaceFiles(fs vfs.FS, dir string, files []namedData) error {
	for _, file := range files {
		if err := writeTemp(fs, file); err != nil {
			return err
		}
	}
	for _, file := range files {
		if err := fs.Rename(file.name+tempSuffix, file.name); err != nil {
			return err
		}
	}
	return fs.SyncDir(dir)
}

func writeTemp(fs vfs.FS, file namedData) error {
	f, err := fs.Create(file.name + tempSuffix)
	if err != nil {
		return err
	}
	_, err = f.Write(file.data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
