package rdb

import (
	"bytes"
	"encoding/binary"
	"testing"

	"kevy/internal/ds"
)

// sealed returns a payload with the trailer that belongs to it.
func sealed(body []byte) []byte {
	b := binary.LittleEndian.AppendUint16(append([]byte(nil), body...), version)
	return appendChecksum(b, checksum(0, b))
}

// FuzzPayload restores any bytes as if their checksum were right: it must not
// panic, must not take memory out of proportion, and what it takes must come
// back the same.
func FuzzPayload(f *testing.F) {
	rng := seededRand(f)
	for i := range 40 {
		p := AppendPayload(nil, randomValue(rng, kinds[i%len(kinds)]))
		if len(p) < 3000 {
			f.Add(p[:len(p)-trailerBytes])
		}
	}
	for _, g := range goldens() {
		f.Add(g.body)
	}
	limits := ds.DefaultLimits()
	f.Fuzz(func(t *testing.T, body []byte) {
		v, err := ParsePayload(sealed(body), &limits)
		if err != nil {
			return
		}
		want := digestOf(v, 0)
		if replayed(t, v, 0) != want {
			t.Fatal("the ops that rebuild it make another value")
		}
		again, err := ParsePayload(AppendPayload(nil, v), &limits)
		if err != nil {
			t.Fatalf("what was written of it cannot be read: %v", err)
		}
		if digestOf(again, 0) != want {
			t.Fatal("it came back as another value")
		}
	})
}

// FuzzFile reads any bytes as a file: it must not panic and must not take memory
// out of proportion.
func FuzzFile(f *testing.F) {
	rng := seededRand(f)
	for i := range 20 {
		var b bytes.Buffer
		w := NewWriter(&b, version, Fact("ctime", 5))
		if i%4 == 0 {
			w.Function([]byte("#!lua name=lib\nreturn 1"))
		}
		w.Database(i%3, 1, 1)
		v := randomValueOf(rng, kinds[i%len(kinds)], true)
		_ = w.Put(i%3, []byte("k"), v, int64(i))
		if _ = w.Close(); b.Len() < 3000 {
			f.Add(b.Bytes(), i%2 == 0)
		}
	}
	for _, g := range goldens() {
		f.Add(file(10, g.body[0], 1, "k", g.body[1:]), true)
	}
	f.Fuzz(func(t *testing.T, b []byte, leave bool) {
		r, err := NewReader(bytes.NewReader(b), int64(len(b)), ds.DefaultLimits(), LeaveOut{Functions: leave, Modules: leave})
		for err == nil {
			var e *Entry
			if e, err = r.Next(); err == nil {
				digestOf(e.Value, e.AtMs)
			}
		}
	})
}
