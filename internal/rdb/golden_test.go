package rdb

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"kevy/internal/ds"
	"kevy/shard"
	"kevy/tests/wire"
)

// The encodings that redis-server 7.0 reads and does not write any more are put
// together here from the descriptions of their formats.

func rawString(b []byte) []byte { return append(appendLength(nil, uint64(len(b))), b...) }

// ziplist puts a ziplist together; an element is a string, or an integer in the
// narrowest form or in that of width bytes.
type ziplistBuilder struct {
	b          []byte
	last, prev int
	n          int
	longPrev   bool // write the size of the element before in five bytes
}

func newZiplist() *ziplistBuilder {
	return &ziplistBuilder{b: make([]byte, 10), last: 10}
}

func (z *ziplistBuilder) entry(encoded []byte) *ziplistBuilder {
	z.last = len(z.b)
	if z.prev < 254 && !z.longPrev {
		z.b = append(z.b, byte(z.prev))
	} else {
		z.b = binary.LittleEndian.AppendUint32(append(z.b, 254), uint32(z.prev))
	}
	z.b = append(z.b, encoded...)
	z.prev = len(z.b) - z.last
	z.n++
	return z
}

func (z *ziplistBuilder) str(s string) *ziplistBuilder {
	n := len(s)
	switch {
	case n < 1<<6:
		return z.entry(append([]byte{byte(n)}, s...))
	case n < 1<<14:
		return z.entry(append([]byte{0x40 | byte(n>>8), byte(n)}, s...))
	}
	return z.entry(append(binary.BigEndian.AppendUint32([]byte{0x80}, uint32(n)), s...))
}

func (z *ziplistBuilder) int(v int64, width int) *ziplistBuilder {
	if width == 0 {
		return z.entry([]byte{0xf1 + byte(v)})
	}
	head := map[int]byte{1: 0xfe, 2: 0xc0, 3: 0xf0, 4: 0xd0, 8: 0xe0}[width]
	b := binary.LittleEndian.AppendUint64([]byte{head}, uint64(v))
	return z.entry(b[:1+width])
}

func (z *ziplistBuilder) bytes() []byte {
	b := append(bytes.Clone(z.b), 0xff)
	binary.LittleEndian.PutUint32(b, uint32(len(b)))
	binary.LittleEndian.PutUint32(b[4:], uint32(z.last))
	binary.LittleEndian.PutUint16(b[8:], uint16(z.n))
	return b
}

// zipmap puts a zipmap together, with free bytes behind every value.
func zipmap(free int, items ...string) []byte {
	b := []byte{byte(min(len(items)/2, zipmapManyFields))}
	length := func(n int) {
		if n < 254 {
			b = append(b, byte(n))
		} else {
			b = binary.LittleEndian.AppendUint32(append(b, 254), uint32(n))
		}
	}
	for i, s := range items {
		length(len(s))
		if i%2 == 1 {
			b = append(b, byte(free))
		}
		b = append(b, s...)
		if i%2 == 1 {
			b = append(b, make([]byte, free)...)
		}
	}
	return append(b, 0xff)
}

func intset(width int, members ...int64) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(width))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(members)))
	for _, v := range members {
		b = append(b, binary.LittleEndian.AppendUint64(nil, uint64(v))[:width]...)
	}
	return b
}

func packedList(items ...string) []byte {
	var l listpack
	l.begin()
	for _, s := range items {
		l.add([]byte(s))
	}
	return bytes.Clone(l.bytes())
}

func join(parts ...any) (out []byte) {
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			out = append(out, byte(p))
		case string:
			out = append(out, p...)
		case []byte:
			out = append(out, p...)
		}
	}
	return out
}

// golden is a body of a payload and what is in it.
type golden struct {
	name string
	body []byte
	kind ds.Kind
	// parts are the elements: a sorted set's as member and score.
	parts []string
	// ours: redis-server 7.0 does not know the type.
	ours bool
	// expires are the deadlines of fields.
	expires map[string]int64
}

// goldenStream is the stream of all goldens of that kind: two entries, of which
// the first is pending for a consumer.
func goldenStream() *ds.Stream {
	limits := ds.DefaultLimits()
	s := ds.NewStream()
	s.Add(ds.StreamID{Ms: 5, Seq: 1}, [][]byte{[]byte("f"), []byte("v")}, &limits)
	s.Add(ds.StreamID{Ms: 6, Seq: 0}, [][]byte{[]byte("a"), []byte("1"), []byte("b"), []byte("2")}, &limits)
	s.CreateGroup([]byte("g"), ds.StreamID{Ms: 5, Seq: 1}, 1)
	g := s.MutableGroup([]byte("g"))
	g.CreateConsumer([]byte("c"), 1000)
	g.Deliver([]byte("c"), ds.PendingEntry{ID: ds.StreamID{Ms: 5, Seq: 1}, DeliveredMs: 2000, Count: 3})
	return s
}

// goldenEntries are those of a stream, and a deleted one between them.
func goldenEntries() []byte {
	return join(1, 16, rawID(5, 1), rawString(packedList("2", "1", "1", "f", "0", "2", "0", "0", "v", "4", "3", "0", "1", "gone", "4",
		"0", "1", "-1", "2", "a", "1", "b", "2", "8")))
}

func rawID(ms, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, ms), seq)
}

func goldens() []golden {
	long, longer := strings.Repeat("x", 300), strings.Repeat("xyz", 6000)
	ints := newZiplist().int(0, 0).int(12, 0).int(-1, 1).int(13, 1).int(-300, 2).int(70000, 3).int(-8388608, 3).int(1<<30, 4).int(-1<<62, 8)
	intTexts := []string{"0", "12", "-1", "13", "-300", "70000", "-8388608", "1073741824", "-4611686018427387904"}
	texts := newZiplist().str("").str("a").str(long).str("b").str(longer).str("c")
	textParts := []string{"", "a", long, "b", longer, "c"}
	five := newZiplist()
	five.longPrev = true
	five.str("a").str("b")
	at := func(ms uint64) []byte { return binary.LittleEndian.AppendUint64(nil, ms) }
	double := func(f float64) []byte { return binary.LittleEndian.AppendUint64(nil, math.Float64bits(f)) }
	entries := join(goldenEntries(), 2, 6, 0)
	newer := join(5, 1, 5, 2, 3) // first id, greatest deleted id, entries added
	pending := join(1, rawID(5, 1), at(2000), 3)
	mine := join(1, rawID(5, 1))
	return []golden{
		{"string of 6 bits", join(typeString, 3, "abc"), ds.KindString, []string{"abc"}, false, nil},
		{"string of 14 bits", join(typeString, 0x41, 0x2c, long), ds.KindString, []string{long}, false, nil},
		{"string of 32 bits", join(typeString, 0x80, 0, 0, 0, 3, "abc"), ds.KindString, []string{"abc"}, false, nil},
		{"string of 64 bits", join(typeString, 0x81, 0, 0, 0, 0, 0, 0, 0, 3, "abc"), ds.KindString, []string{"abc"}, false, nil},
		{"int8", join(typeString, 0xc0, 0x80), ds.KindString, []string{"-128"}, false, nil},
		{"int16", join(typeString, 0xc1, 0x00, 0x80), ds.KindString, []string{"-32768"}, false, nil},
		{"int32", join(typeString, 0xc2, 0, 0, 0, 0x80), ds.KindString, []string{"-2147483648"}, false, nil},
		{"compressed", join(typeString, 0xc3, 5, 10, 0, "a", 0xe0, 0, 0), ds.KindString, []string{"aaaaaaaaaa"}, false, nil},
		{"compressed, a repetition with a distance", join(typeString, 0xc3, 7, 7, 3, "abcd", 0x20, 3), ds.KindString, []string{"abcdabc"}, false, nil},
		{"list", join(typeList, 3, 1, "a", 0xc0, 5, 0), ds.KindList, []string{"a", "5", ""}, false, nil},
		{"list of a ziplist of integers", join(typeListZiplist, rawString(ints.bytes())), ds.KindList, intTexts, false, nil},
		{"list of a ziplist of texts", join(typeListZiplist, rawString(texts.bytes())), ds.KindList, textParts, false, nil},
		{"list of a ziplist with long sizes", join(typeListZiplist, rawString(five.bytes())), ds.KindList, []string{"a", "b"}, false, nil},
		{"quicklist of ziplists", join(typeListQuicklist, 3, rawString(ints.bytes()), rawString(newZiplist().bytes()), rawString(texts.bytes())), ds.KindList, append(intTexts[:len(intTexts):len(intTexts)], textParts...), false, nil},
		{"quicklist of both kinds of nodes", join(typeListQuicklist2, 3, nodePacked, rawString(packedList("a", "1")), nodePlain, rawString([]byte(long)), nodePacked, rawString(packedList(longer))), ds.KindList, []string{"a", "1", long, longer}, false, nil},
		{"set", join(typeSet, 2, 1, "a", 0xc0, 5), ds.KindSet, []string{"5", "a"}, false, nil},
		{"set of integers", join(typeSet, 2, 0xc0, 7, 0xc0, 5), ds.KindSet, []string{"5", "7"}, false, nil},
		{"intset of 16 bits", join(typeSetIntset, rawString(intset(2, -5, 5, 300))), ds.KindSet, []string{"-5", "300", "5"}, false, nil},
		{"intset of 32 bits", join(typeSetIntset, rawString(intset(4, -70000, 5))), ds.KindSet, []string{"-70000", "5"}, false, nil},
		{"intset of 64 bits", join(typeSetIntset, rawString(intset(8, math.MinInt64, math.MaxInt64))), ds.KindSet, []string{"-9223372036854775808", "9223372036854775807"}, false, nil},
		{"set of a listpack", join(typeSetListpack, rawString(packedList("a", "5", "b"))), ds.KindSet, []string{"5", "a", "b"}, true, nil},
		{"sorted set with texts", join(typeZSet, 4, 1, "a", 3, "1.5", 1, "b", 254, 1, "c", 255, 1, "d", 2, "-0"), ds.KindZSet, []string{"c", "-inf", "d", "0", "a", "1.5", "b", "inf"}, false, nil},
		{"sorted set with doubles", join(typeZSet2, 2, 1, "a", double(0.1), 1, "b", double(math.Inf(-1))), ds.KindZSet, []string{"b", "-inf", "a", "0.1"}, false, nil},
		{"sorted set of a ziplist", join(typeZSetZiplist, rawString(newZiplist().str("a").int(3, 0).str("b").str("4.25").str("c").str("inf").bytes())), ds.KindZSet, []string{"a", "3", "b", "4.25", "c", "inf"}, false, nil},
		{"sorted set of a listpack", join(typeZSetListpack, rawString(packedList("a", "-3", "b", "4.25", "7", "1e+300"))), ds.KindZSet, []string{"a", "-3", "b", "4.25", "7", "1e+300"}, false, nil},
		{"hash", join(typeHash, 2, 1, "f", 1, "v", 1, "g", 0xc0, 5), ds.KindHash, []string{"f", "v", "g", "5"}, false, nil},
		{"hash of a zipmap", join(typeHashZipmap, rawString(zipmap(0, "f", "v", "g", long))), ds.KindHash, []string{"f", "v", "g", long}, false, nil},
		{"hash of a zipmap with free bytes", join(typeHashZipmap, rawString(zipmap(3, "f", "v", long, "w"))), ds.KindHash, []string{"f", "v", long, "w"}, false, nil},
		{"hash of a ziplist", join(typeHashZiplist, rawString(newZiplist().str("f").int(5, 0).str("g").str("w").bytes())), ds.KindHash, []string{"f", "5", "g", "w"}, false, nil},
		{"hash of a listpack", join(typeHashListpack, rawString(packedList("f", "5", "g", long))), ds.KindHash, []string{"f", "5", "g", long}, false, nil},
		{"hash with deadlines", join(typeHashExpiry, at(5000), 3, 1, 1, "f", 1, "v", 0, 1, "g", 1, "w", 0x43, 0xe9, 1, "h", 0), ds.KindHash, []string{"f", "v", "g", "w", "h", ""}, true, map[string]int64{"f": 5000, "h": 6000}},
		{"hash with deadlines, of a release candidate", join(typeHashExpiryPreGA, 2, 0x53, 0x88, 1, "f", 1, "v", 0, 1, "g", 1, "w"), ds.KindHash, []string{"f", "v", "g", "w"}, true, map[string]int64{"f": 5000}},
		{"hash of a listpack with deadlines", join(typeHashListpackEx, at(5000), rawString(packedList("f", "v", "5000", "h", "", "6000", "g", "w", "0"))), ds.KindHash, []string{"f", "v", "g", "w", "h", ""}, true, map[string]int64{"f": 5000, "h": 6000}},
		{"hash of a listpack with deadlines, of a release candidate", join(typeHashListpackPre, rawString(packedList("f", "v", "5000", "g", "w", "0"))), ds.KindHash, []string{"f", "v", "g", "w"}, true, map[string]int64{"f": 5000}},
		{"stream of Redis 5", join(typeStream, entries, 1, 1, "g", 5, 1, pending, 1, 1, "c", at(1000), mine), ds.KindStream, []string{"2", "0-0", "1"}, false, nil},
		{"stream of Redis 7.0", join(typeStream2, entries, newer, 1, 1, "g", 5, 1, 1, pending, 1, 1, "c", at(1000), mine), ds.KindStream, []string{"3", "5-2", "1"}, false, nil},
		{"stream of Redis 7.2", join(typeStream3, entries, newer, 1, 1, "g", 5, 1, 1, pending, 1, 1, "c", at(1000), at(999), mine), ds.KindStream, []string{"3", "5-2", "1"}, true, nil},
	}
}

// valueOf builds the value that a golden should be.
func (g *golden) value() shard.Value {
	limits := ds.DefaultLimits()
	switch g.kind {
	case ds.KindString:
		return shard.Value{Text: []byte(g.parts[0])}
	case ds.KindList:
		l := ds.NewList()
		for _, p := range g.parts {
			l.PushBack([]byte(p))
		}
		return shard.Value{Object: l}
	case ds.KindSet:
		s := ds.NewSet()
		for _, p := range g.parts {
			s.Add([]byte(p), &limits)
		}
		return shard.Value{Object: s}
	case ds.KindStream:
		s := goldenStream()
		added, _ := strconv.ParseUint(g.parts[0], 10, 64)
		maxDeleted, _, _ := ds.ParseStreamID([]byte(g.parts[1]), 0)
		s.SetID(s.LastID(), added, maxDeleted)
		return shard.Value{Object: s}
	case ds.KindHash:
		h := ds.NewHash()
		for i := 0; i < len(g.parts); i += 2 {
			h.Set([]byte(g.parts[i]), []byte(g.parts[i+1]), &limits)
			if at := g.expires[g.parts[i]]; at != 0 {
				h.SetDeadline([]byte(g.parts[i]), at)
			}
		}
		return shard.Value{Object: h}
	}
	z := ds.NewZSet()
	for i := 0; i < len(g.parts); i += 2 {
		var score float64
		fmt.Sscan(g.parts[i+1], &score)
		z.Set([]byte(g.parts[i]), score, &limits)
	}
	return shard.Value{Object: z}
}

// TestGoldenPayloads reads every encoding, and sees that redis-server reads the
// same in the same bytes.
func TestGoldenPayloads(t *testing.T) {
	limits := ds.DefaultLimits()
	for _, g := range goldens() {
		got, err := ParsePayload(sealed(g.body), &limits)
		if err != nil {
			t.Errorf("%s: %v", g.name, err)
			continue
		}
		if digestOf(got, 0) != digestOf(g.value(), 0) {
			t.Errorf("%s: another value", g.name)
		}
	}
	conn, do := startRedis(t, "--sanitize-dump-payload", "yes")
	for _, g := range goldens() {
		if g.ours {
			if r, err := conn.Do("RESTORE", "k", "0", string(sealed(g.body)), "REPLACE"); err != nil || r.Kind != wire.Error {
				t.Errorf("%s: redis-server knows it: %v %v", g.name, r, err)
			}
			continue
		}
		do("RESTORE", "k", "0", string(sealed(g.body)), "REPLACE")
		theirs := string(do("DEBUG", "DIGEST-VALUE", "k").Elems[0].Text)
		do("RESTORE", "k", "0", string(AppendPayload(nil, g.value())), "REPLACE")
		if ours := string(do("DEBUG", "DIGEST-VALUE", "k").Elems[0].Text); ours != theirs {
			t.Errorf("%s: redis-server reads another value", g.name)
		}
	}
}

// TestDamage cuts every golden short at every byte and changes every byte:
// nothing may panic, and what is cut short must not be taken for whole. What
// redis-server finds wrong when it looks closely is wrong here too.
func TestDamage(t *testing.T) {
	limits := ds.DefaultLimits()
	conn, _ := startRedis(t, "--sanitize-dump-payload", "yes")
	taken, refused := 0, 0
	for _, g := range goldens() {
		if len(g.body) > 1000 {
			continue
		}
		for n := range len(g.body) {
			if v, err := ParsePayload(sealed(g.body[:n]), &limits); !IsDamage(err) {
				t.Errorf("%s, cut to %d bytes: %v %v", g.name, n, v, err)
			}
		}
		for i := range g.body {
			for _, b := range []byte{g.body[i] ^ 1, g.body[i] ^ 0x80, 0, 0xff, 0xfe} {
				body := bytes.Clone(g.body)
				body[i] = b
				v, err := ParsePayload(sealed(body), &limits)
				if err != nil {
					if !IsDamage(err) && !strings.Contains(err.Error(), "module") {
						t.Fatalf("%s, byte %d is %#x: %v", g.name, i, b, err)
					}
					refused++
					continue
				}
				taken++
				if g.ours || body[0] > typeStream2 {
					continue
				}
				r, err := conn.Do("RESTORE", "k", "0", string(sealed(body)), "REPLACE")
				if err != nil {
					t.Fatal(err)
				}
				if r.Kind == wire.Error {
					t.Errorf("%s, byte %d is %#x: redis-server says %s, here it is %s", g.name, i, b, r, encodingOf(v))
				}
			}
		}
	}
	if taken < 500 || refused < 500 {
		t.Errorf("%d were taken and %d refused", taken, refused)
	}
}

// TestStreamCounts: what a stream says of its entries must fit them. redis-server
// takes what does not, answers a wrong XLEN, and then cannot load its own log.
func TestStreamCounts(t *testing.T) {
	limits := ds.DefaultLimits()
	for _, c := range []struct {
		name               string
		typ, length, added int
		good               bool
	}{
		{"as it is", typeStream2, 2, 3, true},
		{"none was ever deleted", typeStream2, 2, 2, true},
		{"one too many", typeStream2, 3, 3, false},
		{"one too few", typeStream2, 1, 3, false},
		{"none", typeStream2, 0, 3, false},
		{"fewer added than there are", typeStream2, 2, 1, false},
		{"Redis 5", typeStream, 2, 0, true},
		{"Redis 5, one too few", typeStream, 1, 0, false},
		{"Redis 7.2, none added", typeStream3, 2, 0, false},
	} {
		body := join(c.typ, goldenEntries(), c.length, 6, 0)
		if c.typ != typeStream {
			body = join(body, 5, 1, 5, 2, c.added)
		}
		_, err := ParsePayload(sealed(join(body, 0)), &limits)
		if c.good && err != nil || !c.good && !IsDamage(err) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	empty := sealed(join(typeStream2, 0, 1, 6, 0, 0, 0, 0, 0, 3, 0))
	if _, err := ParsePayload(empty, &limits); !IsDamage(err) {
		t.Errorf("an entry, and no block: %v", err)
	}
}

// TestBytesBehindAValue: redis-server 7.0.15 does not look at them.
func TestBytesBehindAValue(t *testing.T) {
	limits := ds.DefaultLimits()
	for _, g := range goldens() {
		v, err := ParsePayload(sealed(join(g.body, "more")), &limits)
		if err != nil {
			t.Errorf("%s: %v", g.name, err)
		} else if got, want := digestOf(v, 0), digestOf(g.value(), 0); got != want {
			t.Errorf("%s: with bytes behind it, it is another value", g.name)
		}
	}
}

// TestLatestFieldDeadline: a payload says none that HPEXPIREAT refuses.
func TestLatestFieldDeadline(t *testing.T) {
	limits := ds.DefaultLimits()
	const most = shard.MaxFieldDeadlineMs
	at := func(ms uint64) []byte { return binary.LittleEndian.AppendUint64(nil, ms) }
	packed := func(ms uint64) []byte { return rawString(packedList("f", "v", strconv.FormatUint(ms, 10))) }
	for ms, good := range map[uint64]bool{most: true, most + 1: false, 1<<48 - 1: false, 1 << 62: false} {
		for name, body := range map[string][]byte{
			"a hash":                            join(typeHashExpiry, at(ms), 1, 1, 1, "f", 1, "v"),
			"a hash, far from the earliest":     join(typeHashExpiry, at(5), 1, appendLength(nil, ms-5+1), 1, "f", 1, "v"),
			"a hash of a release candidate":     join(typeHashExpiryPreGA, 1, appendLength(nil, ms), 1, "f", 1, "v"),
			"a listpack":                        join(typeHashListpackEx, at(ms), packed(ms)),
			"a listpack of a release candidate": join(typeHashListpackPre, packed(ms)),
		} {
			v, err := ParsePayload(sealed(body), &limits)
			if !good {
				if !IsDamage(err) {
					t.Errorf("%s, %d: %v", name, ms, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s, %d: %v", name, ms, err)
			} else if got := v.Object.(*ds.Hash).NextDeadline(); got != most {
				t.Errorf("%s: the deadline is %d", name, got)
			}
		}
	}
}
