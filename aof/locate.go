package aof

import (
	"errors"
	"fmt"
	"io/fs"
	"sort"

	"kevy/internal/vfs"
)

// BlockCRC returns the checksum of the block that holds lsn, which must be in a
// file: an LSN alone does not tell one history from another. The error is
// ErrTruncated if the log does not reach back to it.
func (l *Log) BlockCRC(lsn uint64) (uint32, error) {
	if lsn > l.written.Load() {
		return 0, fmt.Errorf("aof: LSN %d is not in a file yet", lsn)
	}
	r, err := l.NewReader(lsn)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	if _, _, err := r.fromDisk(); err != nil {
		return 0, err
	}
	return r.crc, nil
}

// FirstAt returns the LSN of the first op, of those that readers may read, whose
// block was opened at or after a time in unix milliseconds; the next LSN if there
// is none. It reads a few blocks.
func (l *Log) FirstAt(unixMs int64) (lsn uint64, err error) {
	const attempts = 8 // files may be let go of meanwhile, or have to be read in order
	for range attempts {
		if lsn, ok := l.firstInMemoryAt(unixMs); ok {
			return lsn, nil
		}
		lsn, err = l.firstOnDiskAt(unixMs)
		if !errors.Is(err, ErrTruncated) && !errors.Is(err, errGuess) {
			break
		}
	}
	return lsn, err
}

// firstInMemoryAt is FirstAt if what is in memory begins before that time, or is
// all there is.
func (l *Log) firstInMemoryAt(unixMs int64) (lsn uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := &l.mem
	if len(m.chunks) == 0 || len(m.chunks[0].blocks) == 0 {
		return l.last.Load() + 1, l.opt.NoFile
	}
	if !l.opt.NoFile && m.chunks[0].blocks[0].unixMs >= unixMs {
		return 0, false
	}
	i := sort.Search(len(m.chunks), func(i int) bool {
		blocks := m.chunks[i].blocks
		return blocks[len(blocks)-1].unixMs >= unixMs
	})
	if i == len(m.chunks) {
		return l.last.Load() + 1, true
	}
	blocks := m.chunks[i].blocks
	return blocks[sort.Search(len(blocks), func(j int) bool { return blocks[j].unixMs >= unixMs })].first, true
}

func (l *Log) firstOnDiskAt(unixMs int64) (uint64, error) {
	d := &l.dir
	d.segMu.Lock()
	// All blocks of a segment come after its beginning, and before the next one's.
	from := sort.Search(len(d.segments), func(i int) bool { return d.segments[i].first >= d.history })
	i := sort.Search(len(d.segments), func(i int) bool { return i >= from && d.segments[i].unixMs >= unixMs })
	if i == from {
		d.segMu.Unlock()
		return l.OldestLSN(), nil
	}
	s := d.segments[i-1]
	file, err := d.fs.Open(s.name)
	d.segMu.Unlock()
	if errors.Is(err, fs.ErrNotExist) {
		return 0, ErrTruncated
	}
	if err != nil {
		return 0, err
	}
	at, err := d.narrow(s, file, func(m *mark) bool { return m.unixMs >= unixMs })
	if err != nil {
		_ = file.Close() // it was only read
		return 0, err
	}
	return l.firstFrom(s, file, at, unixMs)
}

// firstFrom reads on from a mark to the first block that was opened at or after
// a time, or to the end of the segment. It closes the file.
func (l *Log) firstFrom(s *segment, file vfs.File, from mark, unixMs int64) (uint64, error) {
	d := &l.dir
	d.segMu.Lock()
	size, end := s.bytes, s.last+1
	d.segMu.Unlock()
	r := Reader{log: l, segment: s, file: file, next: from.lsn}
	defer r.closeFile()
	r.window.reset(file, size)
	if err := r.startAt(from); err != nil {
		return 0, err
	}
	for r.at < size {
		it, err := r.item()
		if err != nil {
			return 0, err
		}
		if it.kind == itemBlock && it.header.Ops > 0 && it.header.UnixMs >= unixMs {
			return it.header.FirstLSN, nil
		}
	}
	return end, nil
}
