package rdb

import (
	"bytes"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"kevy/internal/ds"
	"kevy/internal/op"
	"kevy/shard"
)

// seededRand returns a generator whose seed the test shows and KEVY_SEED sets.
func seededRand(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("KEVY_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = n
	}
	t.Logf("KEVY_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// digestOf returns a digest of a value with a deadline.
func digestOf(v shard.Value, atMs int64) string {
	t := ds.NewTable()
	var e *ds.Entry
	if v.Object != nil {
		e = t.PutObject([]byte("k"), v.Object)
	} else {
		e, _ = t.Put([]byte("k"), v.Text)
	}
	t.SetAux(e, atMs)
	var d shard.Digester
	d.Add(0, e)
	return d.Sum().String()
}

// encodingOf returns the name of a collection's encoding.
func encodingOf(v shard.Value) string {
	if v.Object == nil {
		return "string"
	}
	return v.Object.Encoding()
}

// randomText returns text of every kind that is encoded in its own way: small
// and large numbers, what looks like one and is none, short and long, that which
// can be compressed and that which cannot.
func randomText(rng *rand.Rand) []byte {
	switch rng.IntN(12) {
	case 0:
		return strconv.AppendInt(nil, int64(rng.IntN(300)-150), 10)
	case 1:
		return strconv.AppendInt(nil, int64(int16(rng.Uint64())), 10)
	case 2:
		return strconv.AppendInt(nil, int64(rng.Uint64())>>rng.IntN(64), 10)
	case 3:
		return []byte([]string{"", "-0", "007", "+5", " 1", "1.5", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "12345678901", "4294967296"}[rng.IntN(11)])
	case 4:
		return bytes.Repeat([]byte{byte(rng.IntN(256))}, rng.IntN(600))
	case 5:
		return randomBytes(rng, []int{62, 63, 64, 65, 4094, 4095, 4096, 4097, 9000}[rng.IntN(9)])
	case 6:
		word := randomBytes(rng, 1+rng.IntN(20))
		return bytes.Repeat(word, 1+rng.IntN(100))
	}
	return randomBytes(rng, rng.IntN(30))
}

func randomBytes(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func randomScore(rng *rand.Rand) float64 {
	switch rng.IntN(6) {
	case 0:
		return float64(rng.IntN(2000) - 1000)
	case 1:
		return math.Inf(1 - 2*rng.IntN(2))
	case 2:
		for {
			if f := math.Float64frombits(rng.Uint64()); f == f && f != 0 {
				return f
			}
		}
	case 3:
		return float64(int64(rng.Uint64()))
	}
	return rng.NormFloat64()
}

// randomValue returns a value of a kind, small ones and large ones, as Redis 7.0
// knows them.
func randomValue(rng *rand.Rand, kind ds.Kind) shard.Value { return randomValueOf(rng, kind, false) }

// randomValueOf lets fields of hashes expire if expiring.
func randomValueOf(rng *rand.Rand, kind ds.Kind, expiring bool) shard.Value {
	limits := ds.DefaultLimits()
	n := 1 + rng.IntN(20)
	if rng.IntN(5) == 0 {
		n = 1 + rng.IntN(1500)
	}
	switch kind {
	case ds.KindString:
		return shard.Value{Text: randomText(rng)}
	case ds.KindList:
		l := ds.NewList()
		for range n {
			l.PushBack(randomText(rng))
		}
		return shard.Value{Object: l}
	case ds.KindSet:
		s := ds.NewSet()
		ints := rng.IntN(2) == 0
		for range n {
			if ints {
				s.Add(strconv.AppendInt(nil, int64(rng.Uint64())>>(16*rng.IntN(4)), 10), &limits)
			} else {
				s.Add(randomText(rng), &limits)
			}
		}
		return shard.Value{Object: s}
	case ds.KindZSet:
		z := ds.NewZSet()
		for range n {
			z.Set(randomText(rng), randomScore(rng), &limits)
		}
		return shard.Value{Object: z}
	case ds.KindHash:
		h := ds.NewHash()
		text := randomText
		if rng.IntN(2) == 0 {
			text = func(rng *rand.Rand) []byte { return randomBytes(rng, rng.IntN(10)) }
		}
		for range n {
			field := text(rng)
			h.Set(field, text(rng), &limits)
			if expiring && rng.IntN(2) == 0 {
				h.SetDeadline(field, 1+rng.Int64N(1<<46)>>rng.IntN(40))
			}
		}
		return shard.Value{Object: h}
	}
	return shard.Value{Object: randomStream(rng, n)}
}

// randomStream returns a stream of about n entries, some of which are deleted,
// with groups whose consumers have some pending, also of those.
func randomStream(rng *rand.Rand, n int) *ds.Stream {
	limits := ds.DefaultLimits()
	s := ds.NewStream()
	if rng.IntN(8) == 0 {
		n = 0
	}
	var ids []ds.StreamID
	id := ds.StreamID{Ms: rng.Uint64() >> rng.IntN(64) / 2}
	names := [][]byte{randomText(rng), randomText(rng)}
	for range n {
		id = ds.StreamID{Ms: id.Ms + rng.Uint64N(3), Seq: id.Seq + 1 + rng.Uint64N(5)}
		if rng.IntN(10) == 0 {
			id.Ms, id.Seq = id.Ms+1, 0
		}
		pairs := [][]byte{names[0], randomText(rng)}
		for range rng.IntN(4) / 3 * rng.IntN(4) {
			pairs = append(pairs, randomText(rng), randomText(rng))
		}
		s.Add(id, pairs, &limits)
		ids = append(ids, id)
	}
	for _, id := range ids {
		if rng.IntN(6) == 0 {
			s.Delete(id)
		}
	}
	if rng.IntN(3) == 0 {
		s.Trim(ds.StreamTrim{MaxLen: uint64(n / 2)})
	}
	if rng.IntN(4) == 0 {
		s.SetID(ds.StreamID{Ms: s.LastID().Ms + 1, Seq: 7}, s.Added()+uint64(rng.IntN(100)), s.MaxDeletedID())
	}
	for i := range rng.IntN(4) {
		name := append(randomText(rng), byte('a'+i))
		if !s.CreateGroup(name, id, int64(rng.IntN(n+2))-1) {
			continue
		}
		g := s.MutableGroup(name)
		for c := range rng.IntN(4) {
			consumer := append(randomText(rng), byte('a'+c))
			g.CreateConsumer(consumer, rng.Int64N(1<<41))
			for range rng.IntN(2*n/3 + 1) {
				g.Deliver(consumer, ds.PendingEntry{ID: ids[rng.IntN(n)], DeliveredMs: rng.Int64N(1 << 41), Count: rng.Uint64N(1 << rng.IntN(40))})
			}
		}
	}
	return s
}

// replayed returns the digest of the value that the ops make which rebuild v.
func replayed(t testing.TB, v shard.Value, atMs int64) string {
	t.Helper()
	var c op.Commit
	shard.RebuildValue(&c, 0, 0, []byte("k"), v, atMs, nil)
	set := shard.NewSet(1, 1)
	tx := set.NewTx(&op.LogPosition{})
	tx.BeginReplay([]int{0}, 0)
	var s op.Scanner
	s.Reset(c.Bytes(), 0)
	for {
		f, err := s.Next()
		if err != nil {
			t.Fatal(err)
		}
		if f == nil {
			return set.Digest().String()
		}
		if err := tx.Apply(f); err != nil {
			t.Fatalf("an op that rebuilds a %s: %v", encodingOf(v), err)
		}
	}
}

// kinds are those that randomValue makes.
var kinds = []ds.Kind{ds.KindString, ds.KindList, ds.KindSet, ds.KindZSet, ds.KindHash, ds.KindStream}

func TestPayloadRoundTrip(t *testing.T) {
	rng := seededRand(t)
	limits := ds.DefaultLimits()
	encodings := map[string]int{}
	for i := range 1500 {
		want := randomValueOf(rng, kinds[i%len(kinds)], true)
		payload := AppendPayload([]byte("before"), want)[len("before"):]
		got, err := ParsePayload(payload, &limits)
		if err != nil {
			t.Fatalf("%s: %v\n%x", encodingOf(want), err, payload)
		}
		if digestOf(got, 0) != digestOf(want, 0) {
			t.Fatalf("a %s came back as another value", encodingOf(want))
		}
		if replayed(t, got, 5) != digestOf(want, 5) {
			t.Fatalf("the ops of a %s make another value", encodingOf(want))
		}
		encodings[encodingOf(want)]++
		// Redis turns a collection of small elements into a packed one, so only those
		// that are packed must stay as they are.
		e := encodingOf(want)
		if h, ok := want.Object.(*ds.Hash); ok && e == "listpackex" && h.NextDeadline() == 0 {
			e = "listpack" // its fields have deadlines no more, and that they had is no part of the value
		}
		if (e == "listpack" || e == "listpackex" || e == "intset" || e == "quicklist") && encodingOf(got) != e {
			t.Fatalf("a %s came back as a %s", e, encodingOf(got))
		}
	}
	for _, e := range []string{"string", "quicklist", "intset", "hashtable", "listpack", "listpackex", "skiplist", "stream"} {
		if encodings[e] < 5 {
			t.Errorf("only %d values were encoded as %s", encodings[e], e)
		}
	}
}

// TestEncoderGivesUpScratch: an encoder that wrote a large packed value keeps no
// memory of that size.
func TestEncoderGivesUpScratch(t *testing.T) {
	limits := ds.DefaultLimits()
	limits.SetMaxIntsetEntries = math.MaxInt
	s := ds.NewSet()
	for i := range keptBytes / 8 {
		s.Add(strconv.AppendInt(nil, math.MaxInt64-keptBytes+int64(i), 10), &limits)
	}
	var e encoder
	e.value(typeSetIntset, shard.Value{Object: s})
	if s.Encoding() != "intset" || cap(e.pack.b) > keptBytes {
		t.Errorf("a set of %d numbers, as %s, leaves a scratch of %d bytes", s.Len(), s.Encoding(), cap(e.pack.b))
	}
}

func TestChecksum(t *testing.T) {
	// The value that crc64.c of Redis names for this input.
	if got := checksum(0, []byte("123456789")); got != 0xe9c6d914c4b8d9ca {
		t.Errorf("got %x", got)
	}
	all := []byte("123456789")
	if got := checksum(checksum(0, all[:4]), all[4:]); got != 0xe9c6d914c4b8d9ca {
		t.Errorf("in two parts: %x", got)
	}
}

func TestLZF(t *testing.T) {
	rng := seededRand(t)
	var c compressor
	small := 0
	for i := range 3000 {
		want := randomText(rng)
		if i%50 == 0 {
			want = append(bytes.Repeat(randomBytes(rng, 10), 1000), randomBytes(rng, 3)...)
		}
		out, ok := c.compress([]byte("x"), want, len(want)-4)
		if !ok {
			if string(out) != "x" {
				t.Fatal("what could not be compressed has changed dst")
			}
			continue
		}
		small++
		if len(out)-1 > len(want)-4 {
			t.Fatalf("%d bytes became %d", len(want), len(out)-1)
		}
		got, err := decompress(nil, out[1:], len(want))
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%x became %x: %v", want, got, err)
		}
		for _, size := range []int{len(want) - 1, len(want) + 1} {
			if _, err := decompress(nil, out[1:], size); !IsDamage(err) {
				t.Fatalf("%d bytes were taken for %d: %v", len(want), size, err)
			}
		}
	}
	if small < 500 {
		t.Errorf("only %d were compressed", small)
	}
	// A table that has counted far begins anew.
	c.base = 1<<31 + 1
	if out, ok := c.compress(nil, make([]byte, 100), 50); !ok || len(out) == 0 {
		t.Error("a table that has counted far no longer compresses")
	}
}

func TestMaxInflated(t *testing.T) {
	for n := range 40 {
		// The most that n bytes can stand for: a literal, then repetitions of three
		// bytes each.
		src := []byte{0, 'x'}
		size := 1
		for len(src)+3 <= n {
			src = append(src, 0xe0, 255, 0)
			size += lzfMaxMatch
		}
		if n < 2 {
			continue
		}
		if got, err := decompress(nil, src, size); err != nil || len(got) != size {
			t.Fatal(err)
		}
		if size > maxInflated(n) {
			t.Errorf("%d bytes hold %d, above the bound %d", n, size, maxInflated(n))
		}
	}
}
