package shard

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	gohash "hash"
	"math"
	"math/bits"

	"kevy/internal/ds"
)

// Digest is a sum over keys, equal for equal keys, values and deadlines, whatever
// the order in which tables hold them and whatever encodes the values.
// docs/feed.md publishes what one key adds to it: CHANGES DIGEST answers it.
type Digest [sha256.Size]byte

// String returns the digest in hexadecimal.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// add adds a sum, as one number modulo 2^256.
func (d *Digest) add(sum *[sha256.Size]byte) {
	var carry uint64
	for i := len(d) - 8; i >= 0; i -= 8 {
		var v uint64
		v, carry = bits.Add64(binary.BigEndian.Uint64(d[i:]), binary.BigEndian.Uint64(sum[i:]), carry)
		binary.BigEndian.PutUint64(d[i:], v)
	}
}

// Digester adds keys to a Digest. The zero value is ready; one goroutine at a
// time may use it.
type Digester struct {
	// Pause, if set, is called after every pauseBytes or so of what is hashed, in the
	// middle of large values too.
	Pause func()

	sum     Digest
	since   int         // bytes hashed since the last Pause
	h       gohash.Hash // of the key in hand
	scratch []byte      // what h gets next
	elem    []byte      // an element of the key
	out     [sha256.Size]byte
}

const (
	// pauseBytes is hashed in less than a tenth of a millisecond.
	pauseBytes = 16 << 10
	// hashBytes is what a hash costs beside its bytes, as so many of them.
	hashBytes = 64
)

// hashed counts so many bytes towards the next pause.
func (d *Digester) hashed(n int) {
	if d.since += n; d.since >= pauseBytes && d.Pause != nil {
		d.since = 0
		d.Pause()
	}
}

// Sum returns the digest of what was added.
func (d *Digester) Sum() Digest { return d.sum }

// AddKey adds a key, whatever its database.
func (d *Digester) AddKey(e *ds.Entry) {
	sum := d.key(e)
	d.sum.add(&sum)
}

// Add adds a key of a database.
func (d *Digester) Add(db int, e *ds.Entry) {
	var in [8 + sha256.Size]byte
	binary.BigEndian.PutUint64(in[:], uint64(db))
	sum := d.key(e)
	copy(in[8:], sum[:])
	sum = sha256.Sum256(in[:])
	d.sum.add(&sum)
}

// maxScratchBytes is how much is gathered before it is hashed, and the longest
// part that is copied for that.
const maxScratchBytes = 4 << 10

func (d *Digester) num(v uint64) { d.scratch = binary.BigEndian.AppendUint64(d.scratch, v) }

// part adds bytes with their length before them.
func (d *Digester) part(b []byte) {
	d.num(uint64(len(b)))
	if len(b) > maxScratchBytes {
		d.flush()
		d.h.Write(b)
		d.hashed(len(b))
		return
	}
	d.scratch = append(d.scratch, b...)
	if len(d.scratch) > maxScratchBytes {
		d.flush()
	}
}

// text is part of a short text.
func (d *Digester) text(s string) {
	d.num(uint64(len(s)))
	d.scratch = append(d.scratch, s...)
}

func (d *Digester) flush() {
	d.h.Write(d.scratch)
	d.hashed(len(d.scratch))
	d.scratch = d.scratch[:0]
}

// key returns what a key adds.
func (d *Digester) key(e *ds.Entry) [sha256.Size]byte {
	if d.h == nil {
		d.h = sha256.New()
	}
	d.h.Reset()
	d.scratch = d.scratch[:0]
	d.part(e.Key())
	d.text(kindOf(e).String())
	d.num(uint64(e.Aux()))
	switch o := e.Object().(type) {
	case nil:
		d.part(e.Value())
	case *ds.List:
		o.Each(0, o.Len(), false, func(elem []byte) bool { d.part(elem); return true })
	case *ds.Set:
		var sum Digest
		o.Each(func(m []byte) bool { d.element(&sum, m, nil); return true })
		d.scratch = append(d.scratch, sum[:]...)
	case *ds.Hash:
		var sum Digest
		o.EachWithDeadline(func(field, value []byte, at int64) bool {
			d.element(&sum, field, func(b []byte) []byte {
				b = binary.BigEndian.AppendUint64(b, uint64(len(value)))
				return binary.BigEndian.AppendUint64(append(b, value...), uint64(at))
			})
			return true
		})
		d.scratch = append(d.scratch, sum[:]...)
	case *ds.ZSet:
		var sum Digest
		o.EachRank(0, o.Len(), false, func(m []byte, score float64) bool {
			d.element(&sum, m, func(b []byte) []byte {
				return binary.BigEndian.AppendUint64(b, math.Float64bits(score+0)) // -0 and 0 are one score
			})
			return true
		})
		d.scratch = append(d.scratch, sum[:]...)
	case *ds.Stream:
		d.stream(o)
	default:
		panic("shard: no digest of a " + o.Encoding())
	}
	d.flush()
	d.h.Sum(d.out[:0])
	d.hashed(hashBytes)
	return d.out
}

// element adds the hash of an element that has no place to a sum: its name with
// the length before it, and what more appends.
func (d *Digester) element(sum *Digest, name []byte, more func(b []byte) []byte) {
	b := binary.BigEndian.AppendUint64(d.elem[:0], uint64(len(name)))
	b = append(b, name...)
	if more != nil {
		b = more(b)
	}
	one := sha256.Sum256(b)
	sum.add(&one)
	d.hashed(len(b) + hashBytes)
	if cap(b) > 16*maxScratchBytes {
		b = nil
	}
	d.elem = b
}

func (d *Digester) id(id StreamID) {
	d.num(id.Ms)
	d.num(id.Seq)
}

// stream adds all that the ops of a stream tell, which is not when consumers
// were seen.
func (d *Digester) stream(s *ds.Stream) {
	d.id(s.LastID())
	d.id(s.MaxDeletedID())
	d.num(s.Added())
	groups := s.Groups() // by name
	d.num(uint64(len(groups)))
	for _, g := range groups {
		d.text(g.Name())
		d.id(g.LastID())
		d.num(uint64(g.EntriesRead()))
		d.num(uint64(g.Consumers()))
		g.EachConsumer(func(c *ds.StreamConsumer) bool { d.text(c.Name()); return true }) // by name
		d.num(uint64(g.Pending()))
		g.EachPending(StreamID{}, func(p ds.PendingEntry) bool {
			d.id(p.ID)
			d.text(g.ConsumerOf(p).Name())
			d.num(uint64(p.DeliveredMs))
			d.num(p.Count)
			return true
		})
	}
	s.Each(StreamID{}, ds.MaxStreamID, false, func(e *StreamEntry) bool {
		d.id(e.ID)
		d.num(uint64(e.Len()))
		e.Each(func(name, value []byte) {
			d.part(name)
			d.part(value)
		})
		return true
	})
}

// Digest returns the digest of all keys with their databases, overdue ones
// included. Every shard must be locked by the caller.
func (s *Set) Digest() Digest {
	var d Digester
	for _, sh := range s.shards {
		for db := range sh.dbs {
			sh.dbs[db].keys.Each(func(e *ds.Entry) bool { d.Add(db, e); return true })
		}
	}
	return d.Sum()
}
