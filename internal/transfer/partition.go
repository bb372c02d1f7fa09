package transfer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/maphash"
	"strconv"

	"kevy/internal/op"
	"kevy/internal/vfs"
	"kevy/shard"
)

// The sizes that bound the memory of an export. Only tests have others.
type exportSizes struct {
	// partitionBytes is how many bytes of ops a partition has at most that is
	// loaded as a whole, unless all of them are of one key.
	partitionBytes int64
	// stringBytes bounds the strings of a partition that is loaded: SETRANGE makes
	// much of few bytes.
	stringBytes int64
	// chunkBytes is how much is gathered for a partition before it is written.
	chunkBytes int
	// fanOut is how many partitions are written at once.
	fanOut int
}

var defaultSizes = exportSizes{partitionBytes: 16 << 20, stringBytes: 32 << 20, chunkBytes: 64 << 10, fanOut: 256}

const (
	// minSplit is how many partitions one that is too large is sorted into at least:
	// enough for a key with a long history to be alone soon.
	minSplit = 16
	// maxSplits bounds how often ops are sorted anew. Each time leaves a sixteenth of
	// the keys beside the largest one, so this is never reached.
	maxSplits = 32
)

// partition is a file of ops in the order of the log: all those of some keys. It
// has no name, so it is gone when it is closed, also by a crash.
//
// It consists of chunks: the length of the payload (8 bytes), its CRC-32C (4
// bytes), both little-endian, and whole ops behind the SELECT of their database.
type partition struct {
	file  vfs.File
	bytes int64 // of the file

	chunk []byte // being gathered
	db    int    // that the chunk has selected

	keyed   bool   // there is a key
	key     uint64 // the hash of the first one
	several bool   // there are others
	// expiresFields: a field of a hash was given a deadline.
	expiresFields bool
}

const chunkHeaderBytes = 8 + 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// newPartition makes a file beside the one that is to be written. A name from a
// run that was killed just here is taken over.
func newPartition(fsys vfs.FS, name string) (*partition, error) {
	file, err := fsys.Create(name)
	if err != nil {
		return nil, err
	}
	if err := fsys.Remove(name); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &partition{file: file}, nil
}

func (p *partition) close() {
	if p.file != nil {
		_ = p.file.Close() // it has no name: nothing of it is kept
		p.file, p.chunk = nil, nil
	}
}

func (p *partition) add(f *op.Frame, chunkBytes int) error {
	switch {
	case len(p.chunk) == 0:
		p.chunk = append(p.chunk, make([]byte, chunkHeaderBytes)...)
		p.chunk = op.AppendSelect(p.chunk, f.DB)
	case p.db != f.DB:
		p.chunk = op.AppendSelect(p.chunk, f.DB)
	}
	p.db = f.DB
	p.chunk = append(p.chunk, f.Raw...)
	if len(p.chunk) < chunkBytes {
		return nil
	}
	return p.flush(2 * chunkBytes)
}

// flush writes what was gathered, and keeps memory of up to keep bytes.
func (p *partition) flush(keep int) error {
	if len(p.chunk) > 0 {
		payload := p.chunk[chunkHeaderBytes:]
		binary.LittleEndian.PutUint64(p.chunk, uint64(len(payload)))
		binary.LittleEndian.PutUint32(p.chunk[8:], crc32.Checksum(payload, castagnoli))
		n, err := p.file.Write(p.chunk)
		p.bytes += int64(n)
		if err != nil {
			return err
		}
	}
	p.chunk = p.chunk[:0]
	if cap(p.chunk) > keep {
		p.chunk = nil
	}
	return nil
}

// reset makes it empty.
func (p *partition) reset() error {
	*p = partition{file: p.file, chunk: p.chunk[:0]}
	return p.file.Truncate(0)
}

// each calls fn with the ops in their order. A frame is valid until the next.
func (p *partition) each(fn func(f *op.Frame) error) error {
	var scanner op.Scanner
	var payload []byte
	for at := int64(0); at < p.bytes; {
		var head [chunkHeaderBytes]byte
		if _, err := p.file.ReadAt(head[:], at); err != nil {
			return err
		}
		at += chunkHeaderBytes
		n := binary.LittleEndian.Uint64(head[:])
		if n > uint64(p.bytes-at) {
			return errChanged
		}
		if uint64(cap(payload)) < n {
			payload = make([]byte, n)
		}
		payload = payload[:n]
		if _, err := p.file.ReadAt(payload, at); err != nil {
			return err
		}
		if crc32.Checksum(payload, castagnoli) != binary.LittleEndian.Uint32(head[8:]) {
			return errChanged
		}
		at += int64(n)
		scanner.Reset(payload, 0)
		for {
			f, err := scanner.Next()
			if err != nil {
				return err
			}
			if f == nil {
				break
			}
			if err := fn(f); err != nil {
				return err
			}
		}
		if cap(payload) > keptChunkBytes {
			payload = nil
		}
	}
	return nil
}

// keptChunkBytes is how large a buffer is kept for the next chunk.
const keptChunkBytes = 1 << 20

var errChanged = errors.New("a temporary file does not hold what was written to it: check the disk and the memory of this machine")

// sorter sorts ops by their keys into partitions.
type sorter struct {
	parts      []*partition
	seed       maphash.Seed
	chunkBytes int
}

// newSorter makes n partitions, one after the other under the name.
func newSorter(fsys vfs.FS, name string, n, chunkBytes int) (*sorter, error) {
	s := &sorter{seed: maphash.MakeSeed(), chunkBytes: chunkBytes}
	for range n {
		p, err := newPartition(fsys, name)
		if err != nil {
			s.close()
			return nil, err
		}
		s.parts = append(s.parts, p)
	}
	return s, nil
}

func (s *sorter) close() {
	for _, p := range s.parts {
		p.close()
	}
}

// add puts an op where its key belongs. One without a key concerns every key
// before it.
func (s *sorter) add(f *op.Frame) error {
	key := f.Key()
	if key == nil {
		return s.addToAll(f)
	}
	sum := maphash.Bytes(s.seed, key)
	p := s.parts[sum%uint64(len(s.parts))]
	if !p.keyed {
		p.keyed, p.key = true, sum
	}
	p.several = p.several || p.key != sum
	p.expiresFields = p.expiresFields || f.Verb == op.HPExpireAt
	return p.add(f, s.chunkBytes)
}

func (s *sorter) addToAll(f *op.Frame) error {
	for _, p := range s.parts {
		var err error
		switch {
		case !p.keyed:
			// It has no effect on nothing.
		case f.Verb == op.FlushAll:
			err = p.reset()
		default:
			err = p.add(f, s.chunkBytes)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// end writes what is left, after the last op.
func (s *sorter) end() error {
	for _, p := range s.parts {
		if err := p.flush(0); err != nil {
			return err
		}
	}
	return nil
}

// errTooLarge says that the strings of a partition need too much memory.
var errTooLarge = errors.New("the strings of a partition are too large together")

// load replays a partition into a keyspace of its own.
func (p *partition) load(dbs int, nowMs, maxStringBytes int64) (*shard.Set, error) {
	set := shard.NewSet(1, dbs)
	tx := set.NewTx(&op.LogPosition{})
	tx.BeginReplay([]int{0}, nowMs)
	defer tx.End()
	var grown int64
	err := p.each(func(f *op.Frame) error {
		if f.Verb == op.SetRange && p.several {
			if grown += growth(tx, f); grown > 2*maxStringBytes {
				if grown = stringBytes(set); grown > maxStringBytes {
					return errTooLarge
				}
			}
		}
		return tx.Apply(f)
	})
	return set, err
}

// growth returns by how much a SETRANGE makes its string longer.
func growth(tx *shard.Tx, f *op.Frame) int64 {
	n, err := strconv.Atoi(string(f.Args[2]))
	if err != nil || n < 0 {
		return 0 // Apply says so
	}
	tx.Select(f.DB)
	v, _ := tx.Peek(f.Key())
	return max(0, int64(n)+int64(len(f.Args[3]))-int64(len(v.Text)))
}

func stringBytes(set *shard.Set) (sum int64) {
	snap := set.Freeze()
	defer snap.Release()
	snap.EachValue(func(v shard.Value) bool {
		sum += int64(len(v.Text))
		return true
	})
	return sum
}

// eachLoaded calls fn with the keys of partitions, one keyspace after the other,
// until it returns false. What is too large for the memory is sorted once more.
// If they are to be consumed, partitions are closed once they are done with.
func (ex *exporter) eachLoaded(parts []*partition, consume bool, fn func(p *partition, set *shard.Set) (more bool, err error)) error {
	_, err := ex.eachSorted(parts, consume, 0, fn)
	return err
}

func (ex *exporter) eachSorted(parts []*partition, consume bool, splits int, fn func(p *partition, set *shard.Set) (bool, error)) (more bool, err error) {
	for _, p := range parts {
		if p.keyed {
			if more, err = ex.loaded(p, consume, splits, fn); err != nil || !more {
				return false, err
			}
		}
		if consume {
			p.close()
		}
	}
	return true, nil
}

func (ex *exporter) loaded(p *partition, consume bool, splits int, fn func(p *partition, set *shard.Set) (bool, error)) (more bool, err error) {
	sizes := &ex.sizes
	small := !p.several || splits >= maxSplits
	if small || p.bytes <= sizes.partitionBytes {
		limit := sizes.stringBytes
		if small {
			limit = 1 << 62
		}
		set, err := p.load(ex.opt.Store.DBs, ex.nowMs, limit)
		if err == nil {
			return fn(p, set)
		}
		if !errors.Is(err, errTooLarge) {
			return false, err
		}
	}
	n := max(minSplit, ex.partitions(p.bytes))
	s, err := newSorter(ex.opt.Store.FS, ex.partsName(), n, sizes.chunkBytes)
	if err != nil {
		return false, ex.needsSpace(err)
	}
	defer s.close()
	if err := errors.Join(p.each(s.add), s.end()); err != nil {
		return false, ex.needsSpace(err)
	}
	if consume {
		p.close()
	}
	return ex.eachSorted(s.parts, consume, splits+1, fn)
}

// partitions returns into how many partitions so many bytes of ops are sorted.
func (ex *exporter) partitions(bytes int64) int {
	return int(min(1+bytes/ex.sizes.partitionBytes, int64(ex.sizes.fanOut)))
}

// partsName is the name under which partitions are made.
func (ex *exporter) partsName() string { return ex.opt.File + ".parts" + tempSuffix }

// needsSpace says what an error of the temporary files may be about.
func (ex *exporter) needsSpace(err error) error {
	return fmt.Errorf("sort the log into files beside %s, which takes as much room there as the log has, %d bytes: %w", ex.opt.File, ex.logBytes, err)
}
