package rdb

import (
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
		again, err := ParsePayload(AppendPayload(nil, v), &limits)
		if err != nil {
			t.Fatalf("what was written of it cannot be read: %v", err)
		}
		if digestOf(again, 0) != want {
			t.Fatal("it came back as another value")
		}
	})
}
