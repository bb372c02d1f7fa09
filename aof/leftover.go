package aof

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"kevy/internal/vfs"
)

// spareSegment is a segment that the manifest does not list.
type spareSegment struct {
	name string // path
	seq  int64
	size int64
	info vfs.Info
	line fileLine
	ok   bool // its header checks, to the end
}

// list notes the segments that are not listed, and the highest numbers in use.
func (r *recovery) list() error {
	d := &r.log.dir
	listed := map[string]bool{}
	for _, e := range r.manifest.segments {
		listed[e.name] = true
	}
	infos, err := d.fs.List(d.logDir())
	if err != nil {
		return err
	}
	orphans := false
	for _, info := range infos {
		if seq, ok := parseSeq(info.Name, baseSuffix); ok {
			d.baseSeq = max(d.baseSeq, seq)
			orphans = orphans || info.Size > 0
		}
		seq, ok := parseSeq(info.Name, segmentSuffix)
		if !ok || info.IsDir {
			continue
		}
		r.log.out.nextSeq = max(r.log.out.nextSeq, seq)
		if listed[info.Name] {
			continue
		}
		s, err := r.spareSegment(info, seq)
		if err != nil {
			return err
		}
		r.spare = append(r.spare, s)
		orphans = orphans || s.ok && s.line.first != 1
	}
	// What is listed and not there has given its number away all the same, the one
	// in its name too.
	for _, e := range r.manifest.segments {
		named, _ := parseSeq(e.name, segmentSuffix)
		r.log.out.nextSeq = max(r.log.out.nextSeq, e.seq, named)
	}
	if e := r.manifest.base; e != nil {
		named, _ := parseSeq(e.name, baseSuffix)
		d.baseSeq = max(d.baseSeq, e.seq, named)
	}
	if !r.found && orphans {
		// No crash leaves this: a manifest is only ever replaced.
		return &DamageError{File: d.logPath(manifestName), Reason: "it is missing, and files that it must have listed are there"}
	}
	slices.SortFunc(r.spare, func(a, b spareSegment) int { return cmp.Compare(a.seq, b.seq) })

	feed, err := d.fs.List(d.feedDir())
	if err != nil {
		return err
	}
	for _, info := range feed {
		if first, ok := parseFeedName(info.Name); ok {
			r.highestFeedLSN = max(r.highestFeedLSN, first)
		}
	}
	return nil
}

// refuseSingleFile keeps a directory of an older Redis from being taken for an
// empty one.
func (r *recovery) refuseSingleFile() error {
	d := &r.log.dir
	name := filepath.Join(d.dir, filePrefixName)
	info, err := d.fs.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Size == 0 || info.IsDir:
		return nil
	}
	return fmt.Errorf("%s: %w", name, ErrSingleFile)
}

func (r *recovery) spareSegment(info vfs.Info, seq int64) (s spareSegment, err error) {
	d := &r.log.dir
	s = spareSegment{name: d.logPath(info.Name), seq: seq, size: info.Size, info: info}
	if info.Size == 0 {
		return s, nil
	}
	file, err := d.fs.Open(s.name)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	w := &window{f: file, size: info.Size}
	line, at, ok, err := readFileLine(w)
	if err != nil || !ok || line.format != formatVersion {
		return s, err
	}
	s.line = line
	_, s.ok, err = new(segment).readHeader(w, at, line)
	return s, err
}

// followers returns the segments that are not listed and were made after the
// last listed one. That their header was written says that all before them was
// fsynced.
func (r *recovery) followers() []spareSegment {
	after := int64(0)
	if n := len(r.manifest.segments); n > 0 {
		after = r.manifest.segments[n-1].seq
	}
	for i, s := range r.spare {
		if s.seq > after {
			return slices.DeleteFunc(slices.Clone(r.spare[i:]), func(s spareSegment) bool { return !s.ok })
		}
	}
	return nil
}

// tidy moves or removes what is in the log's directory and not part of the log.
func (r *recovery) tidy() error {
	d := &r.log.dir
	listed := map[string]bool{manifestName: true}
	for _, e := range r.manifest.segments {
		listed[e.name] = true
	}
	if r.manifest.base != nil {
		listed[r.manifest.base.name] = true
	}
	for _, s := range r.spare {
		if listed[filepath.Base(s.name)] {
			continue
		}
		if err := r.putAway(s); err != nil {
			return err
		}
	}
	infos, err := d.fs.List(d.logDir())
	if err != nil {
		return err
	}
	for _, info := range infos {
		if listed[info.Name] || info.IsDir {
			continue
		}
		_, base := parseSeq(info.Name, baseSuffix)
		_, segment := parseSeq(info.Name, segmentSuffix)
		temp := strings.HasPrefix(info.Name, tempPrefix+filePrefixName) || info.Name == manifestName+".tmp" || info.Name == failedSyncName+".tmp"
		history := slices.Contains(r.manifest.history, info.Name)
		if base && r.lostBase {
			// It may be the one that the manifest meant.
			if err := r.setInQuarantine(d.logPath(info.Name)); err != nil {
				return err
			}
			continue
		}
		if base || segment || temp || history {
			r.note("%s is left over and removed", d.logPath(info.Name))
			if err := d.fs.Remove(d.logPath(info.Name)); err != nil {
				return err
			}
		}
	}
	// Also when nothing was moved: what an earlier start moved may not be durable
	// yet. The new names go first.
	if err := d.fs.SyncDir(d.feedDir()); err != nil {
		return err
	}
	return d.fs.SyncDir(d.logDir())
}

// putAway moves a segment that is no part of the log to where it belongs. One
// without ops stays, to be removed with the other leftovers.
func (r *recovery) putAway(s spareSegment) error {
	d := &r.log.dir
	if s.size == 0 {
		return nil
	}
	if s.ok {
		first, last, err := segmentRange(d.fs, s.name)
		if err != nil {
			return err
		}
		if last < first {
			return nil
		}
		if r.numbered && last < r.lowest() {
			to := d.feedPath(feedName(first))
			info, err := d.fs.Stat(to)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				r.note("%s lies below the base and is kept as %s", s.name, to)
				return d.fs.Rename(s.name, to)
			case err != nil:
				return err
			case info.Inode == s.info.Inode:
				// A move that a power cut has left half done: both names are one file.
				return nil
			}
		}
	}
	return r.setInQuarantine(s.name)
}

// setInQuarantine moves a file that does not belong to the log.
func (r *recovery) setInQuarantine(name string) error {
	to, err := r.quarantineName(name, 0)
	if err != nil {
		return err
	}
	r.note("%s does not belong to the log and is put in quarantine as %s", name, to)
	if err := r.log.dir.fs.Rename(name, to); err != nil {
		return err
	}
	return r.log.dir.fs.SyncDir(filepath.Dir(to))
}

// lowest is the LSN with which the listed segments begin.
func (r *recovery) lowest() uint64 {
	if len(r.segments) > 0 {
		return r.segments[0].first
	}
	return r.last + 1
}

// findFeed lists the feed segments that join to the log without a gap, and
// removes the others: nobody can be served from them.
func (r *recovery) findFeed() ([]*segment, error) {
	d := &r.log.dir
	infos, err := d.fs.List(d.feedDir())
	if err != nil {
		return nil, err
	}
	var feed []*segment
	next, joins := r.lowest(), r.history <= r.lowest()
	for _, info := range slices.Backward(infos) {
		named, ok := parseFeedName(info.Name)
		if !ok || info.IsDir {
			continue
		}
		s := &segment{name: d.feedPath(info.Name)}
		if joins && named < next {
			if err := s.inspect(d.fs); err != nil {
				return nil, err
			}
			joins = s.first == named && s.last >= s.first && s.last+1 == next
		}
		if !joins || named >= next {
			r.note("%s does not join to the log and is removed", s.name)
			if err := d.fs.Remove(s.name); err != nil {
				return nil, err
			}
			continue
		}
		feed = append(feed, s)
		next = named
	}
	slices.Reverse(feed)
	return feed, d.fs.SyncDir(d.feedDir())
}

// segmentRange returns the first and the last LSN of a segment. For a file that
// does not check, last is below first.
func segmentRange(fsys vfs.FS, name string) (first, last uint64, err error) {
	s := segment{name: name}
	err = s.inspect(fsys)
	return s.first, s.last, err
}

// inspect finds out what a closed segment holds: all fields but seq and index.
// For a file that does not check, last is below first.
func (s *segment) inspect(fsys vfs.FS) (err error) {
	s.first, s.last = 1, 0
	file, err := fsys.Open(s.name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if s.bytes, err = file.Size(); err != nil {
		return err
	}
	w := &window{f: file, size: s.bytes, piece: 2 * maxLineBytes}
	line, at, ok, err := readFileLine(w)
	if err != nil || !ok || line.format != formatVersion {
		return err
	}
	at, ok, err = s.readHeader(w, at, line)
	if err != nil || !ok {
		return err
	}
	s.first, s.random, s.last = line.first, line.random, line.first-1
	last, ok, err := statedEnd(w, line)
	if err == nil && !ok {
		w.piece = 0
		last, err = countLSNs(w, at, line)
	}
	s.last = last
	return err
}

// readHeader reads the lines of a file's header and the block that ends it, and
// returns where that ends.
func (s *segment) readHeader(w *window, at int64, line fileLine) (end int64, ok bool, err error) {
	for at < w.size {
		it, err := readItem(w, at, line.random, line.first-1)
		if err != nil {
			return 0, false, err
		}
		at = it.end
		switch it.kind {
		case itemBlock:
			s.unixMs = it.header.UnixMs
			return at, it.header.Ops == 0, nil
		case itemLine:
			if !bytes.HasPrefix(it.text, []byte(positionPrefix)) {
				continue
			}
			if p, ok := parsePosition(it.text); ok {
				s.positions = append(s.positions, p)
			}
		default:
			return 0, false, nil
		}
	}
	return 0, false, nil
}

// countLSNs returns the last LSN of a file that was not closed; one below its
// first if something in it does not check.
func countLSNs(w *window, at int64, line fileLine) (last uint64, err error) {
	last = line.first - 1
	for at < w.size {
		it, err := readItem(w, at, line.random, last)
		if err != nil {
			return 0, err
		}
		switch it.kind {
		case itemFault:
			return line.first - 1, nil
		case itemBlock:
			last = it.header.LastLSN()
		case itemForeign:
			reg, err := foreignRegion(w, at)
			if err != nil {
				return 0, err
			}
			if reg.left != whole || reg.stop == at {
				return line.first - 1, nil
			}
			it.end = reg.stop
		}
		at = it.end
	}
	return last, nil
}

// statedEnd reads the empty block that a closed segment ends with.
func statedEnd(w *window, line fileLine) (last uint64, ok bool, err error) {
	at := max(0, w.size-int64(maxBlockLineBytes))
	end, err := w.peek(at, int64(maxBlockLineBytes))
	if err != nil {
		return 0, false, err
	}
	i := bytes.LastIndex(end, []byte(blockPrefix))
	if i < 0 {
		return 0, false, nil
	}
	end = end[i:]
	h, n, ok := parseBlockLine(end)
	if !ok || n != len(end) || h.Ops != 0 || h.FirstLSN < line.first ||
		blockChecksum(line.random, end[:n-checksumBytes], nil) != h.CRC {
		return 0, false, nil
	}
	return h.FirstLSN - 1, true, nil
}
