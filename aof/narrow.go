package aof

import (
	"bytes"
	"slices"
	"sort"

	"kevy/internal/vfs"
)

// The index of a segment that this process neither wrote nor recovered begins
// empty: what lies below the base is not read at a start. So that a reader far
// back does not read such a file from its beginning, a block is found by halving:
// what checks with the file's random number is a block, wherever a look begins.
// Only a copy of the file's own blocks inside one of its values does so too, and
// gives itself away by what follows it: the file is then read in order after all.

const (
	// narrowBytes is how close before the block sought a look must end.
	narrowBytes = 2 * markBytes
	// probePieceBytes is what a look reads at a time.
	probePieceBytes = 64 << 10
	// maxProbeBytes bounds what one look reads to find two blocks that follow each
	// other, and maxProbeChecks how many places it takes for a block's beginning:
	// a value may be full of them.
	maxProbeBytes  = 4 << 20
	maxProbeChecks = 16
)

// around returns the marks between which the last block lies that is not beyond:
// from lo up to before the offset hi. The caller holds segMu.
func (s *segment) around(beyond func(*mark) bool) (lo mark, hi int64) {
	i := sort.Search(len(s.index), func(i int) bool { return beyond(&s.index[i]) })
	lo, hi = mark{lsn: s.first, unixMs: s.unixMs}, s.bytes
	if i > 0 {
		lo = s.index[i-1]
	}
	if i < len(s.index) {
		hi = s.index[i].at
	}
	return lo, hi
}

// insert adds a mark where it belongs, unless one stands there. The caller holds
// segMu.
func (s *segment) insert(m mark) {
	i := sort.Search(len(s.index), func(i int) bool { return s.index[i].at >= m.at })
	if i < len(s.index) && s.index[i].at == m.at {
		return
	}
	s.index = append(s.index, mark{})
	copy(s.index[i+1:], s.index[i:])
	s.index[i] = m
}

// narrow returns a mark closely before the last block that is not beyond, or the
// best there is. beyond is false for all blocks up to one and true behind it. The
// marks found on the way are kept.
func (d *directory) narrow(s *segment, file vfs.File, beyond func(*mark) bool) (mark, error) {
	d.segMu.Lock()
	lo, hi := s.around(beyond)
	inOrder := s.inOrder
	d.segMu.Unlock()
	if inOrder {
		return lo, nil
	}
	w := window{f: file, size: hi, piece: probePieceBytes}
	for hi-lo.at > narrowBytes {
		mid := lo.at + (hi-lo.at)/2
		w.size = hi
		m, found, err := probe(&w, mid, s.random, lo.lsn)
		if err != nil {
			return lo, err
		}
		switch {
		case !found:
			// One large block, or text like one: what lies before mid may be better.
			hi = mid
			continue
		case beyond(&m):
			hi = mid
		default:
			lo = m
		}
		d.segMu.Lock()
		s.insert(m)
		d.segMu.Unlock()
	}
	return lo, nil
}

// probe returns the first block at or behind offset from that follows another
// one directly: no line that belongs to it stands before it, which a reader that
// starts there would miss. least is an LSN that the block does not lie below.
func probe(w *window, from int64, random uint32, least uint64) (m mark, found bool, err error) {
	end, checks := min(w.size, from+maxProbeBytes), 0
	for at := from; at < end && checks < maxProbeChecks; {
		b, err := w.ahead(at, int64(maxBlockLineBytes))
		if err != nil {
			return m, false, err
		}
		i := bytes.Index(b, []byte(blockPrefix))
		if i < 0 {
			at += max(1, int64(len(b)-len(blockPrefix)+1))
			continue
		}
		at += int64(i)
		checks++
		h, ok, next, err := blockAt(w, at, random, least)
		if err != nil {
			return m, false, err
		}
		if !ok {
			at++
			continue
		}
		at = next
		if h.Ops == 0 {
			continue // a line that belongs to the next op may stand before it
		}
		if h, ok, _, err = blockAt(w, at, random, h.LastLSN()+1); err != nil {
			return m, false, err
		} else if ok {
			return mark{lsn: h.FirstLSN, at: at, unixMs: h.UnixMs, guessed: true}, true, nil
		}
	}
	return m, false, nil
}

// blockAt returns the block at an offset, and where it ends, if one stands there
// whose ops do not lie below the LSN least.
func blockAt(w *window, at int64, random uint32, least uint64) (h BlockHeader, ok bool, end int64, err error) {
	line, err := w.peek(at, int64(maxBlockLineBytes))
	if err != nil || !bytes.HasPrefix(line, []byte(blockPrefix)) {
		return h, false, 0, err
	}
	h, n, ok := parseBlockLine(line)
	if !ok || h.FirstLSN < least || int64(n)+int64(h.PayloadBytes) > w.size-at {
		return h, false, 0, nil
	}
	it, err := readItem(w, at, random, h.FirstLSN-1)
	return h, err == nil && it.kind == itemBlock, it.end, err
}

// distrust forgets the marks of a segment that were guessed, and lets none be
// guessed any more.
func (d *directory) distrust(s *segment) {
	d.segMu.Lock()
	defer d.segMu.Unlock()
	s.inOrder = true
	s.index = slices.DeleteFunc(s.index, func(m mark) bool { return m.guessed })
}
