package aof

import (
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"kevy/internal/vfs"
)

func TestRangeChecksums(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, 5*sampleBytes+77)
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	fs := vfs.NewMem()
	f, err := fs.Create("x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(data); err != nil {
		t.Fatal(err)
	}
	const from = 13
	w := &window{f: f, size: int64(len(data))}
	sums, err := newPrefixSums(w, from)
	if err != nil {
		t.Fatal(err)
	}
	for range 2000 {
		a := from + rng.IntN(len(data)-from+1)
		b := from + rng.IntN(len(data)-from+1)
		if a > b {
			a, b = b, a
		}
		seed := rng.Uint32()
		got, err := sums.checksum(seed, int64(a), int64(b))
		if err != nil {
			t.Fatal(err)
		}
		if want := crc32.Update(seed, castagnoli, data[a:b]); got != want {
			t.Fatalf("range %d to %d, seed %08x: %08x instead of %08x", a, b, seed, got, want)
		}
	}
}
