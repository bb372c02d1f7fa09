package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/metrics"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kevy/changes"
	"kevy/internal/op"
	"kevy/resp"
	"kevy/shard"
)

// Ops are deltas: an HSET says one field, and compaction would keep the last
// field of a hash and lose the others. A changelog therefore holds whole values.
// They are computed here: state is what the topic holds, as a keyspace to which
// the ops are applied as a server that recovers applies them, and at the end of a
// transaction the keys that it touched are written as they stand then. That is
// the state as of a commit, whole, and not what a question to the server would answer
// a moment later. At start the state is read back from the topic, which a
// transaction keeps in step with the cursor. The price is the memory for the values.
type state struct {
	spaces  map[string]*space // by stream
	dbInKey bool
	max     int64 // bytes of live heap
}

// space is the keyspace of one stream.
type space struct {
	dbs     map[int]*database
	touched map[place]*changed
	order   []place           // of touched, as they came
	before  map[int]*database // what the topic holds while a snapshot is under way, else nil
}

type place struct {
	db  int
	key string
}

// changed says which frame touched a key last.
type changed struct {
	generation, offset, last, lsn uint64
	time                          time.Time
	cause                         changes.Cause
}

// maxTouched ends a transaction at the next commit's border.
const maxTouched = 4096

func newState(o *Options) *state {
	return &state{spaces: map[string]*space{}, dbInKey: o.DBInKey, max: o.MaxStateBytes}
}

func (st *state) space(stream string) *space {
	sp := st.spaces[stream]
	if sp == nil {
		sp = &space{dbs: map[int]*database{}, touched: map[place]*changed{}}
		st.spaces[stream] = sp
	}
	return sp
}

// database is the keyspace of one numbered database. It is a shard of its own, so
// that exchanging two of them costs nothing.
type database struct {
	tx      *shard.Tx
	scanner op.Scanner
	w       []byte
}

func newDatabase() *database {
	d := &database{tx: shard.NewSet(1, 1).NewTx(&op.LogPosition{})}
	d.tx.BeginReplay([]int{0}, 0)
	return d
}

func (d *database) apply(args [][]byte) error {
	d.w = resp.AppendCommand(d.w[:0], args...)
	d.scanner.Reset(d.w, 0)
	f, err := d.scanner.Next()
	if err != nil {
		return err
	}
	return d.tx.Apply(f)
}

// value appends a key's record value to dst; ok is false if there is no such key.
func (d *database) value(dst []byte, key []byte) (_ []byte, ok bool, err error) {
	v, ok := d.tx.Peek(key)
	if !ok {
		return dst, false, nil
	}
	deadline, _ := d.tx.Deadline(key)
	var c op.Commit
	shard.RebuildValue(&c, 0, 0, key, v, deadline, nil)
	dst, err = appendValue(dst, c.Bytes())
	return dst, true, err
}

func (d *database) keys() [][]byte {
	var keys [][]byte
	d.tx.EachKey(func(key []byte, _ shard.Kind) bool {
		keys = append(keys, bytes.Clone(key))
		return true
	})
	return keys
}

func (sp *space) db(n int) *database {
	d := sp.dbs[n]
	if d == nil {
		d = newDatabase()
		sp.dbs[n] = d
	}
	return d
}

func (sp *space) touch(p place, by *changed) {
	if sp.touched[p] == nil {
		sp.order = append(sp.order, p)
	}
	sp.touched[p] = by
}

func (sp *space) touchAll(db int, by *changed) {
	if d := sp.dbs[db]; d != nil {
		for _, key := range d.keys() {
			sp.touch(place{db, string(key)}, by)
		}
	}
}

// frame applies a frame of a commit and notes which keys it changed.
func (st *state) frame(c *changes.Commit, f *changes.Frame) error {
	sp := st.space(c.Stream)
	by := &changed{generation: c.Generation, offset: f.Offset, last: c.Last, lsn: f.LSN, time: f.Time, cause: f.Cause}
	if err := sp.apply(st, f, by); err != nil {
		return permanentf("changelog: frame %s %d:%d: %w", c.Stream, c.Generation, f.Offset, err)
	}
	return nil
}

// apply is frame of what a snapshot holds: nothing is noted.
func (st *state) apply(stream string, f *changes.Frame) error {
	if err := st.space(stream).apply(st, f, nil); err != nil {
		return permanentf("changelog: snapshot of %s: %w", stream, err)
	}
	return nil
}

func (sp *space) apply(st *state, f *changes.Frame, by *changed) error {
	if !st.dbInKey && len(sp.dbs) > 0 && sp.dbs[f.DB] == nil && f.Verb() != "FLUSHALL" {
		return fmt.Errorf("keys of database %d beside others: records of several databases need the database in their keys (all databases of a pipe, with a topic of its own)", f.DB)
	}
	switch f.Verb() {
	case "FLUSHALL":
		if by != nil {
			for db := range sp.dbs {
				sp.touchAll(db, by)
			}
		}
		for db := range sp.dbs {
			sp.dbs[db] = newDatabase()
		}
		return nil
	case "FLUSHDB":
		if by != nil {
			sp.touchAll(f.DB, by)
		}
		sp.dbs[f.DB] = newDatabase()
		return nil
	case "SWAPDB":
		if len(f.Args) != 3 {
			return errors.New("SWAPDB of other than two databases")
		}
		a, errA := strconv.Atoi(string(f.Args[1]))
		b, errB := strconv.Atoi(string(f.Args[2]))
		if errA != nil || errB != nil {
			return errors.New("SWAPDB of what are no databases")
		}
		// Keys of both may be new, changed or gone in both.
		for _, from := range []int{a, b} {
			if d := sp.dbs[from]; d != nil && by != nil {
				for _, key := range d.keys() {
					sp.touch(place{a, string(key)}, by)
					sp.touch(place{b, string(key)}, by)
				}
			}
		}
		da, db := sp.db(a), sp.db(b)
		sp.dbs[a], sp.dbs[b] = db, da
		return nil
	case "FUNCTION":
		return nil // no key's value
	}
	if err := sp.db(f.DB).apply(f.Args); err != nil {
		return err
	}
	if by != nil {
		sp.touch(place{f.DB, string(f.Key())}, by)
	}
	return nil
}

// recordKey is the key of a record.
func (st *state) recordKey(b *batch, p place) []byte {
	if !st.dbInKey {
		return b.text(p.key)
	}
	return b.bytesOf(func(d []byte) []byte {
		return append(append(strconv.AppendInt(d, int64(p.db), 10), '/'), p.key...)
	})
}

// full reports whether a transaction should end.
func (st *state) full() bool {
	n := 0
	for _, sp := range st.spaces {
		n += len(sp.order)
	}
	return n >= maxTouched
}

// emit adds the keys that were touched, as they stand, to a batch.
func (st *state) emit(b *batch, r *router) error {
	for stream, sp := range st.spaces {
		for _, p := range sp.order {
			by := sp.touched[p]
			c := changes.Commit{Stream: stream, Generation: by.generation, Last: by.last}
			f := changes.Frame{Offset: by.offset, LSN: by.lsn, Time: by.time, DB: p.db, Cause: by.cause}
			var value []byte
			if d := sp.dbs[p.db]; d != nil {
				v, ok, err := d.value(nil, []byte(p.key))
				if err != nil {
					return permanentf("changelog: key %q: %w", p.key, err)
				}
				if ok {
					value = v
				}
			}
			key := st.recordKey(b, p)
			b.record(r, stream, key, value, by.time, b.headers(&c, &f))
		}
		clear(sp.touched)
		sp.order = sp.order[:0]
	}
	return st.bounded()
}

// bounded refuses to keep more than was allowed.
func (st *state) bounded() error {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if live := int64(sample[0].Value.Uint64()); live > st.max {
		return permanentf("changelog: the values need %d bytes of memory, more than state-max-bytes=%d: allow more, follow fewer keys by a filter, or say mode=history, which keeps none", live, st.max)
	}
	return nil
}

// load reads the values that the topic holds.
func (s *Sink) load(ctx context.Context) error {
	st := newState(&s.o)
	partitions := make([]int32, s.topic.partitions)
	for i := range partitions {
		partitions[i] = int32(i)
	}
	n := 0
	err := s.o.readCommitted(ctx, s.o.Topic, partitions, true, func(r *kgo.Record) error {
		if n++; n%maxTouched == 0 {
			if err := st.bounded(); err != nil {
				return err
			}
		}
		return st.put(r)
	})
	if err != nil {
		return fmt.Errorf("reading the values in topic %s: %w", s.o.Topic, err)
	}
	s.state = st
	return nil
}

// put gives a key the value of a record of the topic.
func (st *state) put(r *kgo.Record) error {
	var stream, dbText string
	for _, h := range r.Headers {
		switch h.Key {
		case HeaderStream:
			stream = string(h.Value)
		case HeaderDB:
			dbText = string(h.Value)
		}
	}
	n, err := strconv.Atoi(dbText)
	if err != nil || n < 0 || stream == "" {
		return permanentf("partition %d, offset %d: a record without %s and %s: somebody else writes to this topic", r.Partition, r.Offset, HeaderStream, HeaderDB)
	}
	key := r.Key
	if st.dbInKey {
		_, key, _ = bytes.Cut(key, []byte{'/'})
	}
	d := st.space(stream).db(n)
	d.tx.Del(key)
	if r.Value == nil {
		return nil
	}
	ops, err := opsOf(key, r.Value)
	if err != nil {
		return permanentf("partition %d, offset %d: %w: somebody else writes to this topic", r.Partition, r.Offset, err)
	}
	for _, args := range ops {
		if err := d.apply(args); err != nil {
			return permanentf("partition %d, offset %d: %w", r.Partition, r.Offset, err)
		}
	}
	return nil
}

// beginSnapshot lets a stream's state begin empty, and keeps what the topic
// holds: at the end the difference is written.
func (st *state) beginSnapshot(stream string) {
	sp := st.space(stream)
	if sp.before == nil {
		sp.before = sp.dbs
	}
	sp.dbs = map[int]*database{}
}

// endChangelogSnapshot writes what the snapshot has changed and returns the last
// of it, for the transaction of the cursor.
func (s *Sink) endChangelogSnapshot(ctx context.Context, stream string, snap *snapshot) (*batch, error) {
	sp := s.state.space(stream)
	b := snap.b
	add := func(p place, value []byte) error {
		b.record(s.router, stream, s.state.recordKey(b, p), value, time.Now(), b.snapshotHeaders("state", stream, snap.token, p.db))
		if b.bytes < maxTransactionBytes {
			return nil
		}
		full := b
		b = newBatch()
		return s.commit(ctx, full)
	}
	var was []byte
	for n, d := range sp.dbs {
		old := sp.before[n]
		for _, key := range d.keys() {
			value, _, err := d.value(nil, key)
			if err != nil {
				return nil, permanentf("changelog: key %q: %w", key, err)
			}
			if old != nil {
				var there bool
				if was, there, err = old.value(was[:0], key); err != nil {
					return nil, permanentf("changelog: key %q: %w", key, err)
				}
				if there && bytes.Equal(was, value) {
					continue
				}
			}
			if err := add(place{n, string(key)}, value); err != nil {
				return nil, err
			}
		}
	}
	for n, old := range sp.before {
		d := sp.dbs[n]
		for _, key := range old.keys() {
			if d != nil && d.tx.Exists(key) {
				continue
			}
			if err := add(place{n, string(key)}, nil); err != nil {
				return nil, err
			}
		}
	}
	sp.before = nil
	return b, s.state.bounded()
}
