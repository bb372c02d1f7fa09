package shard

import (
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"math"
	"strconv"

	"kevy/internal/ds"
)

// RedisDigest is what DEBUG DIGEST of a Redis answers for the same keys: SHA-1
// sums, laid on each other by exclusive or where there is no order and chained
// where there is one (computeDatasetDigest in Redis's debug.c).
type RedisDigest [sha1.Size]byte

// String returns the digest in hexadecimal.
func (d RedisDigest) String() string { return hex.EncodeToString(d[:]) }

// xor lays the sum of part on the digest: the order of parts does not matter.
func (d *RedisDigest) xor(part []byte) {
	sum := sha1.Sum(part)
	for i := range d {
		d[i] ^= sum[i]
	}
}

// mix is xor in a chain: the order of parts matters.
func (d *RedisDigest) mix(part []byte) {
	d.xor(part)
	*d = sha1.Sum(d[:])
}

// mixInt mixes a number in, as four bytes.
func (d *RedisDigest) mixInt(n int) {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], uint32(n))
	d.mix(b[:])
}

// RedisDigest returns the digest of all keys of all databases, those that are
// overdue and not gone included. All shards must be held.
func (tx *Tx) RedisDigest() RedisDigest {
	tx.mustHoldAll()
	var d RedisDigest
	for db := range tx.set.dbs {
		size := 0
		for _, sh := range tx.set.shards {
			size += sh.dbs[db].keys.Len()
		}
		if size == 0 {
			continue
		}
		d.mixInt(db)
		for _, sh := range tx.set.shards {
			sh.dbs[db].keys.Each(func(e *ds.Entry) bool {
				var k RedisDigest
				k.mix(e.Key())
				k.addEntry(e)
				d.xor(k[:])
				return true
			})
		}
	}
	return d
}

// RedisDigestOf returns the digest of what the key holds, without its name:
// zeros if there is no key. The look does not count as a use.
func (tx *Tx) RedisDigestOf(key []byte) (d RedisDigest) {
	if e := tx.lookup(key); e != nil {
		d.addEntry(e)
	}
	return d
}

// addEntry adds what a key holds and whether it expires.
func (d *RedisDigest) addEntry(e *ds.Entry) {
	d.mixInt(redisType(kindOf(e)))
	switch o := e.Object().(type) {
	case nil:
		d.mix(e.Value())
	case *ds.List:
		o.Each(0, o.Len(), false, func(elem []byte) bool { d.mix(elem); return true })
	case *ds.Set:
		o.Each(func(m []byte) bool { d.xor(m); return true })
	case *ds.Hash:
		o.EachWithDeadline(func(field, value []byte, at int64) bool {
			d.xorPair(field, value)
			if at != 0 {
				d.xor([]byte("!!hexpire!!")) // since Redis 7.4
			}
			return true
		})
	case *ds.ZSet:
		var text [32]byte
		o.EachRank(0, o.Len(), false, func(m []byte, score float64) bool {
			d.xorPair(m, appendScore17(text[:0], score))
			return true
		})
	case *ds.Stream:
		var text []byte
		o.Each(StreamID{}, ds.MaxStreamID, false, func(entry *StreamEntry) bool {
			text = strconv.AppendUint(text[:0], entry.ID.Ms, 10)
			text = strconv.AppendUint(append(text, '.'), entry.ID.Seq, 10)
			d.mix(text)
			entry.Each(func(name, value []byte) {
				d.mix(name)
				d.mix(value)
			})
			return true
		})
	default:
		panic("shard: no Redis digest of a " + o.Encoding())
	}
	if e.Aux() != 0 {
		d.xor([]byte("!!expire!!"))
	}
}

// xorPair lays a digest of two parts on d.
func (d *RedisDigest) xorPair(a, b []byte) {
	var pair RedisDigest
	pair.mix(a)
	pair.mix(b)
	d.xor(pair[:])
}

// redisType is Redis's number of a kind of value.
func redisType(k Kind) int {
	switch k {
	case KindString:
		return 0
	case KindList:
		return 1
	case KindSet:
		return 2
	case KindZSet:
		return 3
	case KindHash:
		return 4
	case KindStream:
		return 6
	}
	panic("shard: a kind that Redis does not have")
}

// appendScore17 writes a score as C's %.17g does.
func appendScore17(dst []byte, score float64) []byte {
	switch {
	case math.IsInf(score, 1):
		return append(dst, "inf"...)
	case math.IsInf(score, -1):
		return append(dst, "-inf"...)
	}
	return strconv.AppendFloat(dst, score, 'g', 17, 64)
}
