package shard

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"

	"kevy/internal/ds"
)

// Digest is the sum of a keyspace: equal for equal keys, values and deadlines,
// whatever the order in which tables hold them.
type Digest [sha256.Size]byte

// String returns the digest in hexadecimal.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// Add adds the digest of one key: SHA-256 over its database, name, kind,
// deadline and value, each part with its length before it. Fields of a hash and
// members of a set are digested one by one and added, so that their order does
// not matter; a list, a sorted set and a stream are digested in order. Of a
// stream, that is all that its ops tell, not when consumers were seen.
func (d *Digest) Add(db int, e *ds.Entry) {
	h := sha256.New()
	var n [8]byte
	num := func(v uint64) {
		binary.BigEndian.PutUint64(n[:], v)
		h.Write(n[:])
	}
	part := func(b []byte) {
		num(uint64(len(b)))
		h.Write(b)
	}
	num(uint64(db))
	part(e.Key())
	num(uint64(kindOf(e)))
	num(uint64(e.Aux()))
	switch o := e.Object().(type) {
	case nil:
		part(e.Value())
	case *ds.Hash:
		var sum Digest
		o.EachWithDeadline(func(field, value []byte, at int64) bool {
			if at == 0 {
				sum.add(sumOf(field, value))
			} else {
				sum.add(sumOf(field, value, binary.BigEndian.AppendUint64(nil, uint64(at))))
			}
			return true
		})
		h.Write(sum[:])
	case *ds.Set:
		var sum Digest
		o.Each(func(m []byte) bool { sum.add(sumOf(m)); return true })
		h.Write(sum[:])
	case *ds.List:
		o.Each(0, o.Len(), false, func(elem []byte) bool { part(elem); return true })
	case *ds.ZSet:
		o.EachRank(0, o.Len(), false, func(m []byte, score float64) bool {
			part(m)
			num(math.Float64bits(score + 0)) // -0 and 0 are one score
			return true
		})
	case *ds.Stream:
		addStream(o, num, part)
	default:
		panic("shard: no digest of a " + o.Encoding())
	}
	d.add([sha256.Size]byte(h.Sum(nil)))
}

// addStream hands all of a stream to num and part.
func addStream(s *ds.Stream, num func(uint64), part func([]byte)) {
	id := func(id StreamID) {
		num(id.Ms)
		num(id.Seq)
	}
	s.Each(StreamID{}, ds.MaxStreamID, false, func(e *StreamEntry) bool {
		id(e.ID)
		num(uint64(e.Len()))
		e.Each(func(name, value []byte) {
			part(name)
			part(value)
		})
		return true
	})
	id(s.LastID())
	id(s.MaxDeletedID())
	num(s.Added())
	for _, g := range s.Groups() {
		part([]byte(g.Name()))
		id(g.LastID())
		num(uint64(g.EntriesRead()))
		num(uint64(g.Consumers()))
		g.EachConsumer(func(c *ds.StreamConsumer) bool { part([]byte(c.Name())); return true })
		num(uint64(g.Pending()))
		g.EachPending(StreamID{}, func(p ds.PendingEntry) bool {
			id(p.ID)
			part([]byte(g.ConsumerOf(p).Name()))
			num(uint64(p.DeliveredMs))
			num(p.Count)
			return true
		})
	}
}

func sumOf(parts ...[]byte) [sha256.Size]byte {
	h := sha256.New()
	var n [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write(p)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// add adds a sum, as four numbers modulo 2^64.
func (d *Digest) add(sum [sha256.Size]byte) {
	for i := 0; i < len(d); i += 8 {
		binary.BigEndian.PutUint64(d[i:], binary.BigEndian.Uint64(d[i:])+binary.BigEndian.Uint64(sum[i:]))
	}
}

// Digest returns the digest of all keys, overdue ones included. Every shard
// must be locked by the caller.
func (s *Set) Digest() Digest {
	var d Digest
	for _, sh := range s.shards {
		for db := range sh.dbs {
			sh.dbs[db].keys.Each(func(e *ds.Entry) bool { d.Add(db, e); return true })
		}
	}
	return d
}
