package aof

import (
	"errors"
	"fmt"
	"io"

	"kevy/internal/vfs"
)

const (
	windowBytes     = 256 << 10
	maxWindowedKept = 4 << 20
)

// window reads a file at any offset, in large pieces.
type window struct {
	f    vfs.File
	size int64 // the file counts as ending here
	// piece is how much is read at least, windowBytes if 0.
	piece int64
	at    int64 // offset of buf
	buf   []byte
}

// peek returns n bytes at offset at, fewer at the end of the file. They are
// valid until the next call.
func (w *window) peek(at int64, n int64) ([]byte, error) {
	n = min(n, w.size-at)
	if n <= 0 {
		return nil, nil
	}
	if at < w.at || at+n > w.at+int64(len(w.buf)) {
		if err := w.fill(at, n); err != nil {
			return nil, err
		}
	}
	from := at - w.at
	return w.buf[from : from+n : from+n], nil
}

// ahead returns what is buffered from offset at on: at least n bytes, fewer at
// the end of the file.
func (w *window) ahead(at int64, n int64) ([]byte, error) {
	if _, err := w.peek(at, n); err != nil {
		return nil, err
	}
	if at >= w.size {
		return nil, nil
	}
	return w.buf[at-w.at : min(int64(len(w.buf)), w.size-w.at)], nil
}

func (w *window) fill(at, n int64) error {
	piece := w.piece
	if piece == 0 {
		piece = windowBytes
	}
	want := min(max(n, piece), w.size-at)
	var kept []byte
	if at >= w.at && at < w.at+int64(len(w.buf)) {
		kept = w.buf[at-w.at:]
	}
	if int64(cap(w.buf)) < want || cap(w.buf) > maxWindowedKept && want <= windowBytes {
		w.buf = make([]byte, 0, want)
	}
	w.buf = append(w.buf[:0], kept...)
	w.at = at
	had := len(w.buf)
	w.buf = w.buf[:want]
	if err := readFull(w.f, w.buf[had:], at+int64(had)); err != nil {
		w.buf = w.buf[:0]
		return err
	}
	return nil
}

// readFull fills b from offset at of a file that has as much.
func readFull(f vfs.File, b []byte, at int64) error {
	for len(b) > 0 {
		n, err := f.ReadAt(b, at)
		b, at = b[n:], at+int64(n)
		if len(b) == 0 || err == nil && n > 0 {
			continue
		}
		if err == nil || errors.Is(err, io.EOF) {
			err = fmt.Errorf("read %s: it is shorter than it was", f.Name())
		}
		return err
	}
	return nil
}

// reset makes w read another file.
func (w *window) reset(f vfs.File, size int64) {
	w.f, w.size = f, size
	w.at, w.buf = 0, w.buf[:0]
}
