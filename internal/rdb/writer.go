package rdb

import (
	"encoding/binary"
	"fmt"
	"io"
	"strconv"

	"kevy/shard"
)

// Writer writes a file. Its first error stays and is what Close returns.
type Writer struct {
	e  encoder
	db int
}

// Version returns the lowest version of the format that holds all the values
// that each calls its argument with.
func Version(each func(fn func(v shard.Value) bool)) int {
	highest := version
	each(func(v shard.Value) bool {
		_, ver := typeOf(v)
		highest = max(highest, ver)
		return highest < fieldExpiryVersion
	})
	return highest
}

// NewWriter begins a file of a version that Version returned. facts say
// something about the file, by name and value.
func NewWriter(w io.Writer, ver int, facts ...[2]string) *Writer {
	wr := &Writer{e: encoder{out: w}, db: -1}
	wr.e.buf = fmt.Appendf(make([]byte, 0, encodeBytes), "%s%04d", magic, ver)
	for _, f := range facts {
		wr.e.byte(opAux)
		wr.e.str([]byte(f[0]))
		wr.e.str([]byte(f[1]))
	}
	return wr
}

// Database begins a database that has so many keys, of which so many expire.
func (w *Writer) Database(db, keys, expires int) {
	w.selectDB(db)
	w.e.byte(opResizeDB)
	w.e.length(keys)
	w.e.length(expires)
}

func (w *Writer) selectDB(db int) {
	if db != w.db {
		w.db = db
		w.e.byte(opSelectDB)
		w.e.length(db)
	}
}

// Put writes a key; atMs is when it expires in unix milliseconds, 0 for never.
func (w *Writer) Put(db int, key []byte, v shard.Value, atMs int64) error {
	w.selectDB(db)
	if atMs != 0 {
		w.e.byte(opExpireMs)
		w.e.buf = binary.LittleEndian.AppendUint64(w.e.buf, uint64(atMs))
	}
	typ, _ := typeOf(v)
	w.e.byte(typ)
	w.e.str(key)
	w.e.value(typ, v)
	w.e.flushIfFull()
	return w.e.err
}

// Written returns how many bytes have been written.
func (w *Writer) Written() int64 { return w.e.written }

// Close ends the file with its checksum. It does not close what it wrote to.
func (w *Writer) Close() error {
	w.e.byte(opEOF)
	w.e.flush()
	w.e.buf = appendChecksum(w.e.buf[:0], w.e.crc)
	w.e.flush()
	return w.e.err
}

// Fact is a fact whose value is a number.
func Fact(name string, n int64) [2]string { return [2]string{name, strconv.FormatInt(n, 10)} }
