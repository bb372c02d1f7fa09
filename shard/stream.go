package shard

import (
	"kevy/internal/ds"
	"kevy/internal/op"
)

// StreamID orders the entries of a stream.
type StreamID = ds.StreamID

// MaxStreamID is the greatest id.
var MaxStreamID = ds.MaxStreamID

// StreamEntry is an entry of a stream while it is passed to a callback.
type StreamEntry = ds.StreamEntry

// StreamTrim says what XTrim removes.
type StreamTrim = ds.StreamTrim

// StreamView reads a stream. The zero StreamView is that of a missing key and
// is empty.
type StreamView struct{ s *ds.Stream }

// Stream returns the stream that the key holds; the error is ErrWrongType.
func (tx *Tx) Stream(key []byte) (StreamView, error) {
	s, err := view[*ds.Stream](tx, key)
	return StreamView{s}, err
}

// Exists reports whether the key exists.
func (v StreamView) Exists() bool { return v.s != nil }

// Len returns the number of entries.
func (v StreamView) Len() int {
	if v.s == nil {
		return 0
	}
	return v.s.Len()
}

// LastID returns the id that the next entry must be above.
func (v StreamView) LastID() StreamID {
	if v.s == nil {
		return StreamID{}
	}
	return v.s.LastID()
}

// MaxDeletedID returns the greatest id of an entry that was deleted otherwise
// than by trimming.
func (v StreamView) MaxDeletedID() StreamID {
	if v.s == nil {
		return StreamID{}
	}
	return v.s.MaxDeletedID()
}

// Added returns how many entries were ever added.
func (v StreamView) Added() uint64 {
	if v.s == nil {
		return 0
	}
	return v.s.Added()
}

// FirstID returns the id of the first entry, 0-0 if there is none.
func (v StreamView) FirstID() StreamID {
	if v.s == nil {
		return StreamID{}
	}
	return v.s.FirstID()
}

// TopID returns the id of the last entry that is there, 0-0 if there is none.
func (v StreamView) TopID() StreamID {
	if v.s == nil {
		return StreamID{}
	}
	return v.s.TopID()
}

// Has reports whether there is an entry of that id.
func (v StreamView) Has(id StreamID) bool { return v.s != nil && v.s.Has(id) }

// Each calls fn for the entries from one id to another, both included, until it
// returns false: in the order of their ids or, in reverse, against it. fn must
// not change keys.
func (v StreamView) Each(from, to StreamID, reverse bool, fn func(e *StreamEntry) bool) {
	if v.s != nil {
		v.s.Each(from, to, reverse, fn)
	}
}

// Blocks returns the number of blocks that the entries are in, each as a node
// of Redis, and how many nodes Redis' radix tree of them has.
func (v StreamView) Blocks() (blocks, treeNodes int) {
	if v.s == nil {
		return 0, 1
	}
	return v.s.Blocks(), v.s.RadixNodes()
}

// EachBlock calls fn with the blocks in order, as the nodes of Redis are stored
// and dumped: the id of the first entry and a whole listpack, valid during the
// call only.
func (v StreamView) EachBlock(fn func(first StreamID, listpack []byte) bool) {
	if v.s != nil {
		v.s.EachBlock(fn)
	}
}

// XAdd appends an entry to the key's stream (op XADD), given as name, value,
// name, value, …, of at most ds.MaxStreamEntryBytes. id must be above LastID.
// The error is ErrWrongType.
func (tx *Tx) XAdd(key []byte, id StreamID, pairs ...[]byte) error {
	sh, d := tx.at(key)
	s, err := writable(tx, sh, d, key, ds.NewStream)
	if err != nil {
		return err
	}
	tx.record(sh, op.XAdd, key, 1+len(pairs))
	tx.argID(id)
	for _, p := range pairs {
		tx.arg(p)
	}
	tx.recorded()
	s.Add(id, pairs, tx.set.limits.Load())
	return nil
}

// argID appends an id to the op that is being recorded.
func (tx *Tx) argID(id StreamID) {
	if !tx.replay {
		appendID(&tx.commit, id)
	}
}

// recordIDs records an op on a key with ids, and what stands before them.
func (tx *Tx) recordIDs(sh *Shard, v op.Verb, key []byte, ids []StreamID, before ...[]byte) {
	tx.record(sh, v, key, len(before)+len(ids))
	for _, a := range before {
		tx.arg(a)
	}
	for _, id := range ids {
		tx.argID(id)
	}
	tx.recorded()
}

// chunksOf calls fn with ids, MaxOpElems at a time.
func chunksOf(ids []StreamID, fn func(ids []StreamID)) {
	for len(ids) > 0 {
		n := min(len(ids), MaxOpElems)
		fn(ids[:n])
		ids = ids[n:]
	}
}

// XDel removes entries of the key's stream (op XDEL of those that were there)
// and returns how many went. It overwrites ids. The error is ErrWrongType.
func (tx *Tx) XDel(key []byte, ids []StreamID) (deleted int, err error) {
	sh, d := tx.at(key)
	s, err := writable[*ds.Stream](tx, sh, d, key, nil)
	if err != nil || s == nil {
		return 0, err
	}
	gone := ids[:0]
	for _, id := range ids {
		if s.Delete(id) {
			gone = append(gone, id)
		}
	}
	if len(gone) > 0 {
		tx.recordIDs(sh, op.XDel, key, gone)
	}
	return len(gone), nil
}

// XTrim removes entries from the beginning of the key's stream and returns how
// many. The op says exactly what is left: XTRIM MINID = with the id of the
// first entry, or MAXLEN = 0 if there is none. The error is ErrWrongType.
func (tx *Tx) XTrim(key []byte, t StreamTrim) (removed int64, err error) {
	sh, d := tx.at(key)
	s, err := writable[*ds.Stream](tx, sh, d, key, nil)
	if err != nil || s == nil {
		return 0, err
	}
	removed = s.Trim(t)
	if removed == 0 {
		return 0, nil
	}
	tx.record(sh, op.XTrim, key, numTrimArgs)
	if !tx.replay {
		appendTrim(&tx.commit, s)
	}
	tx.recorded()
	return removed, nil
}

// numTrimArgs is how many arguments appendTrim appends.
const numTrimArgs = 3

// appendTrim appends what an XTRIM says that leaves what the stream holds.
func appendTrim(c *op.Commit, s *ds.Stream) {
	if s.Len() == 0 {
		c.ArgString("MAXLEN")
		c.ArgString("=")
		c.ArgInt(0)
		return
	}
	c.ArgString("MINID")
	c.ArgString("=")
	appendID(c, s.FirstID())
}

// XSetID sets what the key's stream says of entries that are gone: LastID,
// Added and MaxDeletedID (op XSETID), and reports whether there is a stream.
// The error is ErrWrongType.
func (tx *Tx) XSetID(key []byte, last StreamID, added uint64, maxDeleted StreamID) (ok bool, err error) {
	sh, d := tx.at(key)
	s, err := writable[*ds.Stream](tx, sh, d, key, nil)
	if err != nil || s == nil {
		return false, err
	}
	// Without the option it stays. Redis refuses one above the id, also if that
	// is what the stream has.
	withMax := maxDeleted != s.MaxDeletedID()
	tx.record(sh, op.XSetID, key, numSetIDArgs(withMax))
	if !tx.replay {
		appendSetID(&tx.commit, last, added, maxDeleted, withMax)
	}
	tx.recorded()
	s.SetID(last, added, maxDeleted)
	return true, nil
}

// numSetIDArgs is how many arguments appendSetID appends.
func numSetIDArgs(withMax bool) int {
	if withMax {
		return 5
	}
	return 3
}

// appendSetID appends what an XSETID says, MAXDELETEDID only withMax.
func appendSetID(c *op.Commit, last StreamID, added uint64, maxDeleted StreamID, withMax bool) {
	appendID(c, last)
	c.ArgString("ENTRIESADDED")
	c.ArgInt(int64(added))
	if withMax {
		c.ArgString("MAXDELETEDID")
		appendID(c, maxDeleted)
	}
}
