package changes

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"iter"
	"math"
	"math/bits"
	"slices"
	"strings"
)

// Digest is what the server's CHANGES DIGEST answers, computed over a mirror's
// own keys: if number of keys and text are those of the server at the mirror's
// cursor, the two hold the same. The server's docs/feed.md has the algorithm.
//
// It is a sum over keys, so a mirror can keep it up to date: Remove what a key
// was, Add what it is. It finds mistakes; it is no defence against somebody who
// chooses keys so that sums collide. The zero value is the digest of nothing. A
// Digest is not safe for concurrent use.
type Digest struct {
	keys uint64
	sum  KeyDigest
}

// KeyDigest is what one key adds to a [Digest]: a SHA-256 over its name, type,
// deadline and value.
type KeyDigest [sha256.Size]byte

// Add adds a key.
func (d *Digest) Add(k KeyDigest) {
	d.keys++
	d.sum.add(k)
}

// Remove takes back an Add of the same k.
func (d *Digest) Remove(k KeyDigest) {
	d.keys--
	d.sum.subtract(k)
}

// Keys returns how many keys were added and not removed.
func (d *Digest) Keys() uint64 { return d.keys }

// String returns the digest as the server answers it: 64 hexadecimal digits.
func (d *Digest) String() string { return hex.EncodeToString(d.sum[:]) }

// add adds as one number modulo 2^256.
func (k *KeyDigest) add(other KeyDigest) {
	var carry uint64
	for i := len(k) - 8; i >= 0; i -= 8 {
		var v uint64
		v, carry = bits.Add64(binary.BigEndian.Uint64(k[i:]), binary.BigEndian.Uint64(other[i:]), carry)
		binary.BigEndian.PutUint64(k[i:], v)
	}
}

func (k *KeyDigest) subtract(other KeyDigest) {
	var borrow uint64
	for i := len(k) - 8; i >= 0; i -= 8 {
		var v uint64
		v, borrow = bits.Sub64(binary.BigEndian.Uint64(k[i:]), binary.BigEndian.Uint64(other[i:]), borrow)
		binary.BigEndian.PutUint64(k[i:], v)
	}
}

// StringDigest returns what a string adds. expireMs is when the key expires, in
// Unix milliseconds, 0 if never; so it is in the functions below. A mirror must
// not expire keys by its own clock: the server sends a DEL.
func StringDigest(key, value []byte, expireMs int64) KeyDigest {
	c := begin(key, "string", expireMs)
	c.part(value)
	return c.end()
}

// ListDigest returns what a list adds; elements yields it from its head on.
func ListDigest(key []byte, elements iter.Seq[[]byte], expireMs int64) KeyDigest {
	c := begin(key, "list", expireMs)
	for e := range elements {
		c.part(e)
	}
	return c.end()
}

// SetDigest returns what a set adds; members yields each member once, in any
// order.
func SetDigest(key []byte, members iter.Seq[[]byte], expireMs int64) KeyDigest {
	var sum KeyDigest
	for m := range members {
		c := canonical{sha256.New()}
		c.part(m)
		sum.add(c.end())
	}
	return unordered(key, "set", expireMs, sum)
}

// HashField is a field of a hash.
type HashField struct {
	Name, Value []byte
	// ExpireMs is when the field expires, in Unix milliseconds, 0 if never.
	ExpireMs int64
}

// HashDigest returns what a hash adds; fields yields each field once, in any
// order.
func HashDigest(key []byte, fields iter.Seq[HashField], expireMs int64) KeyDigest {
	var sum KeyDigest
	for f := range fields {
		c := canonical{sha256.New()}
		c.part(f.Name)
		c.part(f.Value)
		c.num(uint64(f.ExpireMs))
		sum.add(c.end())
	}
	return unordered(key, "hash", expireMs, sum)
}

// SortedSetDigest returns what a sorted set adds; members yields each member
// once with its score, in any order.
func SortedSetDigest(key []byte, members iter.Seq2[[]byte, float64], expireMs int64) KeyDigest {
	var sum KeyDigest
	for m, score := range members {
		c := canonical{sha256.New()}
		c.part(m)
		c.num(math.Float64bits(score + 0)) // -0 and 0 are one score
		sum.add(c.end())
	}
	return unordered(key, "zset", expireMs, sum)
}

func unordered(key []byte, kind string, expireMs int64, sum KeyDigest) KeyDigest {
	c := begin(key, kind, expireMs)
	c.h.Write(sum[:])
	return c.end()
}

// StreamID is the id of an entry of a stream.
type StreamID struct{ Ms, Seq uint64 }

// Stream is a stream with all that its ops tell of it.
type Stream struct {
	// LastID is the id that the next entry must be above, MaxDeletedID the
	// greatest that XDEL has removed, EntriesAdded how many were ever added.
	LastID, MaxDeletedID StreamID
	EntriesAdded         uint64
	Groups               []StreamGroup // in any order
	// Entries yields the entries in the order of their ids; nil if there are none.
	Entries iter.Seq[StreamEntry]
}

// StreamEntry is an entry: name, value, name, value, ….
type StreamEntry struct {
	ID     StreamID
	Fields [][]byte
}

// StreamGroup is a group of consumers.
type StreamGroup struct {
	Name   string
	LastID StreamID // delivered last
	// EntriesRead is how many entries were read up to LastID, -1 if that is not
	// known.
	EntriesRead int64
	Consumers   []string        // in any order
	Pending     []StreamPending // in any order
}

// StreamPending is an entry that was delivered and not acknowledged.
type StreamPending struct {
	ID          StreamID
	Consumer    string
	DeliveredMs int64 // when last, in Unix milliseconds
	Deliveries  uint64
}

// StreamDigest returns what a stream adds.
func StreamDigest(key []byte, s *Stream, expireMs int64) KeyDigest {
	c := begin(key, "stream", expireMs)
	c.id(s.LastID)
	c.id(s.MaxDeletedID)
	c.num(s.EntriesAdded)
	c.num(uint64(len(s.Groups)))
	groups := slices.SortedFunc(slices.Values(s.Groups), func(a, b StreamGroup) int { return strings.Compare(a.Name, b.Name) })
	for _, g := range groups {
		c.part([]byte(g.Name))
		c.id(g.LastID)
		c.num(uint64(g.EntriesRead))
		c.num(uint64(len(g.Consumers)))
		for _, name := range slices.Sorted(slices.Values(g.Consumers)) {
			c.part([]byte(name))
		}
		c.num(uint64(len(g.Pending)))
		for _, p := range slices.SortedFunc(slices.Values(g.Pending), func(a, b StreamPending) int { return a.ID.compare(b.ID) }) {
			c.id(p.ID)
			c.part([]byte(p.Consumer))
			c.num(uint64(p.DeliveredMs))
			c.num(p.Deliveries)
		}
	}
	if s.Entries != nil {
		for e := range s.Entries {
			c.id(e.ID)
			c.num(uint64(len(e.Fields) / 2))
			for _, f := range e.Fields {
				c.part(f)
			}
		}
	}
	return c.end()
}

func (id StreamID) compare(other StreamID) int {
	return cmp.Or(cmp.Compare(id.Ms, other.Ms), cmp.Compare(id.Seq, other.Seq))
}

// canonical is the canonical bytes of something, hashed as they come.
type canonical struct{ h hash.Hash }

func begin(key []byte, kind string, expireMs int64) canonical {
	c := canonical{sha256.New()}
	c.part(key)
	c.part([]byte(kind))
	c.num(uint64(expireMs))
	return c
}

// num adds eight bytes, the highest first.
func (c canonical) num(n uint64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n)
	c.h.Write(b[:])
}

// part adds bytes with their length before them.
func (c canonical) part(b []byte) {
	c.num(uint64(len(b)))
	c.h.Write(b)
}

func (c canonical) id(id StreamID) {
	c.num(id.Ms)
	c.num(id.Seq)
}

func (c canonical) end() (k KeyDigest) {
	copy(k[:], c.h.Sum(nil))
	return k
}
