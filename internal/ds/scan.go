package ds

import (
	"cmp"
	"slices"
)

// CursorBits is the width of a Scan cursor: cursors are below 1 << CursorBits, so that a caller can put a table number
// beside one and the whole still is a number that JavaScript clients keep.
const CursorBits = 40

const cursorShift = 64 - CursorBits

type scanned struct {
	pos uint64 // the top CursorBits of the hash
	e   *Entry
}

// Scan calls fn for about count entries from a cursor on, 0 being the start, and returns the next cursor, 0 at the
// end. An entry that is in the table from the first call to the last is returned, over any number of insertions and
// deletions in between; one that is not there all the time may be. An entry is returned once unless it is removed and
// put back. It works on about count entries and segments.
func (t *Table) Scan(cursor uint64, count int, fn func(*Entry)) (next uint64) {
	// Entries are returned in the order of their hashes, and a cursor is the position of the first one not yet
	// returned: how the hashes are cut into segments can change between two calls.
	if t.count == 0 || cursor >= 1<<CursorBits {
		return 0
	}
	count = max(count, 1)
	var stack [segmentSlots]scanned
	at := cursor << cursorShift >> t.shift
	for budget := count; budget > 0; {
		found := stack[:0]
		t.dir[at].each(func(e *Entry) bool {
			if pos := hashOf(e.keyBytes()) >> cursorShift; pos >= cursor {
				found = append(found, scanned{pos, e})
			}
			return true
		})
		n := len(found)
		if n > budget {
			slices.SortFunc(found, func(a, b scanned) int { return cmp.Compare(a.pos, b.pos) })
			n = cut(found, budget)
		}
		for _, f := range found[:n] {
			fn(f.e)
		}
		if n < len(found) {
			return found[n].pos
		}
		budget -= max(n, 1)
		first, width := t.span(at)
		at = first + width
		if at == uint64(len(t.dir)) {
			return 0
		}
		cursor = at << t.shift >> cursorShift
	}
	return cursor
}

// cut returns the smallest length >= n at which found can be cut: entries at one position are not separated.
func cut(found []scanned, n int) int {
	for n < len(found) && found[n].pos == found[n-1].pos {
		n++
	}
	return n
}
