package rdb

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"kevy/internal/ds"
	"kevy/shard"
)

// Entry is a key of a file.
type Entry struct {
	DB    int
	Key   []byte
	Value shard.Value
	// AtMs is when the key expires, in unix milliseconds; 0 for never.
	AtMs int64
}

// FileError says where in a file reading it ended, and why.
type FileError struct {
	Offset int64
	// Key is the key whose value was read, nil if none was; DB is its database.
	Key []byte
	DB  int
	Err error
}

func (e *FileError) Error() string {
	if e.Key == nil {
		return fmt.Sprintf("at offset %d: %v", e.Offset, e.Err)
	}
	return fmt.Sprintf("at offset %d, key %.100q of database %d: %v", e.Offset, e.Key, e.DB, e.Err)
}

func (e *FileError) Unwrap() error { return e.Err }

// LeaveOut says what is passed over: libraries of functions, and values of modules,
// which are an error otherwise.
type LeaveOut struct{ Functions, Modules bool }

// Reader reads a file: its libraries of functions, then key by key.
type Reader struct {
	d       decoder
	src     source
	leave   LeaveOut
	version int
	db      int
	done    bool
	// libraries are those before the keys, once headRead; first is the byte that was
	// read behind them.
	libraries [][]byte
	headRead  bool
	first     byte
	hasFirst  bool

	// Aux are the facts that the file gives of itself, such as "redis-ver".
	Aux map[string]string
	// Functions and Modules name what was left out, each name once; ModuleKeys and
	// EmptyKeys count the keys that were: of a module's type, and collections
	// without elements, which old versions of Redis could write.
	Functions, Modules    []string
	ModuleKeys, EmptyKeys int
}

const (
	magic      = "REDIS"
	magicBytes = len(magic) + 4
	// maxFacts bounds what is kept of the facts that a file gives of itself.
	maxFacts = 100
)

// NewReader reads the head of a file of size bytes. limits say when collections
// are packed.
func NewReader(r io.Reader, size int64, limits ds.Limits, leave LeaveOut) (*Reader, error) {
	rd := &Reader{src: source{r: r, size: size, sums: true}, leave: leave, Aux: map[string]string{}}
	rd.d = decoder{src: &rd.src, limits: &limits}
	head, err := rd.src.take(uint64(magicBytes))
	if err != nil || !bytes.HasPrefix(head, []byte(magic)) {
		return nil, rd.notRDB(head, err)
	}
	v, err := strconv.Atoi(string(head[len(magic):]))
	switch {
	case err != nil || v < 1:
		return nil, rd.fail(nil, damaged("the file says it is of version %q", head[len(magic):]))
	case v > MaxVersion:
		return nil, rd.fail(nil, newerVersion(fmt.Sprintf("RDB version %d", v)))
	}
	rd.version = v
	return rd, nil
}

func (r *Reader) notRDB(head []byte, err error) error {
	switch {
	case err != nil && !IsDamage(err):
		return err
	case bytes.HasPrefix(head, []byte("VALKEY")):
		return r.fail(nil, newerVersion("the file format of Valkey 9"))
	}
	return r.fail(nil, damaged("this is no RDB file: it does not begin with %s and four digits", magic))
}

func newerVersion(what string) error {
	return &Unsupported{
		What:   what,
		Advice: fmt.Sprintf("files up to RDB version %d are read, as Redis up to 8.0 and Valkey up to 8 write them", MaxVersion),
	}
}

// Version returns the version of the format that the file is in.
func (r *Reader) Version() int { return r.version }

// Offset returns how many bytes of the file have been read.
func (r *Reader) Offset() int64 { return r.src.offset() }

func (r *Reader) fail(key []byte, err error) error {
	var f *FileError
	if errors.As(err, &f) {
		return err
	}
	return &FileError{Offset: r.Offset(), Key: key, DB: r.db, Err: err}
}

// Libraries returns the code of the libraries of functions, which stand before the
// keys; none if they are left out.
func (r *Reader) Libraries() ([][]byte, error) {
	for !r.headRead {
		op, err := r.src.byte()
		if err != nil {
			return nil, r.fail(nil, err)
		}
		switch op {
		case opAux, opModuleAux, opFunction, opFunctionPreGA, opSelectDB, opResizeDB, opSlotInfo:
			if err := r.opcode(op, nil); err != nil {
				return nil, r.fail(nil, err)
			}
		default:
			r.headRead, r.first, r.hasFirst = true, op, true
		}
	}
	return r.libraries, nil
}

// nextOp returns the byte that says what follows.
func (r *Reader) nextOp() (byte, error) {
	if r.hasFirst {
		r.hasFirst = false
		return r.first, nil
	}
	return r.src.byte()
}

// Next returns the next key, io.EOF behind the last one once the checksum is
// right. A string in the entry is valid until the call after.
func (r *Reader) Next() (*Entry, error) {
	if r.done {
		return nil, io.EOF
	}
	if _, err := r.Libraries(); err != nil {
		return nil, err
	}
	e := &Entry{}
	for {
		op, err := r.nextOp()
		if err != nil {
			return nil, r.fail(nil, err)
		}
		switch {
		case op == opEOF:
			if err := r.end(); err != nil {
				return nil, r.fail(nil, err)
			}
			r.done = true
			return nil, io.EOF
		case op >= opSlotInfo:
			if err := r.opcode(op, e); err != nil {
				return nil, r.fail(nil, err)
			}
			continue
		}
		found, err := r.key(op, e)
		if err != nil {
			return nil, err
		}
		if found {
			return e, nil
		}
		*e = Entry{}
	}
}

// key reads a key and its value into e; found is false if it is left out.
func (r *Reader) key(typ byte, e *Entry) (found bool, err error) {
	e.DB = r.db
	name, err := r.d.str()
	if err != nil {
		return false, r.fail(nil, err)
	}
	e.Key = bytes.Clone(name)
	if typ == typeModule2 && r.leave.Modules {
		id, err := r.src.length()
		if err == nil {
			r.Modules = appendOnce(r.Modules, moduleName(id))
			r.ModuleKeys++
			err = r.d.skipModule()
		}
		if err != nil {
			err = r.fail(e.Key, err)
		}
		return false, err
	}
	e.Value, err = r.d.value(typ)
	switch {
	case errors.Is(err, errEmpty):
		r.EmptyKeys++
		return false, nil
	case err != nil:
		return false, r.fail(e.Key, err)
	}
	return true, nil
}

// opcode reads what stands between keys. What concerns the next key goes into e,
// which is nil where no key can follow yet.
func (r *Reader) opcode(op byte, e *Entry) error {
	switch op {
	case opExpireSec:
		b, err := r.src.take(4)
		if err != nil {
			return err
		}
		e.AtMs = max(1000*littleEndian(b), 1) // a time before 1970 has passed like any other
		return nil
	case opExpireMs:
		ms, err := r.src.uint64LE()
		if err != nil {
			return err
		}
		e.AtMs = max(int64(ms), 1)
		return nil
	case opFreq:
		_, err := r.src.byte()
		return err
	case opIdle:
		_, err := r.src.length()
		return err
	case opSelectDB:
		n, err := r.src.length()
		if err == nil && n > math.MaxInt32 {
			err = damaged("there is no database %d", n)
		}
		r.db = int(n)
		return err
	case opResizeDB:
		return r.lengths(2)
	case opSlotInfo:
		return r.lengths(3)
	case opAux:
		return r.fact()
	case opFunction:
		return r.function()
	case opFunctionPreGA:
		return &Unsupported{What: "a function as release candidates of Redis 7.0 wrote it", Advice: "let Redis 7.0 or later write the file anew"}
	case opModuleAux:
		return r.moduleAux()
	}
	return damaged("there is no opcode %d", op)
}

func (r *Reader) lengths(n int) error {
	for range n {
		if _, err := r.src.length(); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reader) fact() error {
	name, err := r.d.str()
	if err != nil {
		return err
	}
	n := string(name)
	value, err := r.d.str()
	if err == nil && len(r.Aux) < maxFacts && len(n)+len(value) < 1000 {
		r.Aux[n] = string(value)
	}
	return err
}

// function reads a library of functions, whose first line has its name.
func (r *Reader) function() error {
	code, err := r.d.str()
	if err != nil {
		return err
	}
	if !r.leave.Functions {
		// Who imports decides about all libraries before he takes the first key.
		if r.headRead {
			return damaged("a library of functions stands behind a key, where no server writes one")
		}
		r.libraries = append(r.libraries, bytes.Clone(code))
		return nil
	}
	line, _, _ := bytes.Cut(code, []byte("\n"))
	name := "without a name"
	for _, word := range strings.Fields(string(line[:min(len(line), 1000)])) {
		if n, ok := strings.CutPrefix(word, "name="); ok {
			name = n
		}
	}
	r.Functions = appendOnce(r.Functions, name)
	return nil
}

// moduleAux reads what a module keeps beside the keys: its number, a 2 and when
// it is loaded, and what skipModule reads.
func (r *Reader) moduleAux() error {
	id, err := r.src.length()
	if err != nil {
		return err
	}
	name := moduleName(id)
	if !r.leave.Modules {
		return &Unsupported{What: "data of the Redis module type " + name + " beside the keys", Advice: "there are no modules here; leave modules out if their data is not needed"}
	}
	r.Modules = appendOnce(r.Modules, name)
	if err := r.lengths(2); err != nil {
		return err
	}
	return r.d.skipModule()
}

func appendOnce(list []string, name string) []string {
	if slices.Contains(list, name) {
		return list
	}
	return append(list, name)
}

// end checks the checksum, where there is one, and that nothing follows. A
// checksum of 0 says that none was made.
func (r *Reader) end() error {
	if r.version >= checksumVersion {
		r.src.sum()
		want := r.src.crc
		got, err := r.src.uint64LE()
		if err != nil {
			return err
		}
		if got != 0 && got != want {
			return damaged("the checksum of the file is %016x and should be %016x", got, want)
		}
	}
	if n := r.src.size - r.Offset(); n > 0 {
		return damaged("%d bytes follow where the file should end", n)
	}
	return nil
}
