package xxh3_test

import (
	"testing"

	"kevy/internal/xxh3"
)

// input returns bytes that look random: the high bytes of a linear congruence.
func input(n int) []byte {
	b := make([]byte, n)
	x := uint64(1)
	for i := range b {
		x = x*6364136223846793005 + 1442695040888963407
		b[i] = byte(x >> 56)
	}
	return b
}

// The sums of the reference implementation, on either side of every length at
// which the algorithm changes.
func TestSums(t *testing.T) {
	b := input(4096)
	for _, want := range []struct {
		length int
		sum    uint64
	}{
		{0, 0x2d06800538d394c2}, {1, 0xc00f9d4f580c0c3a}, {3, 0xe92112d1e602af4a}, {4, 0x9008de7e100606d1},
		{8, 0xcca6ee6f8e080c52}, {9, 0x568f9d2e69ad8bd0}, {16, 0x600a07a4f5a9911c}, {17, 0xdeab0265f35dfc24},
		{32, 0xd04581c566616653}, {33, 0xe2f96cd271e72881}, {64, 0xad0685dabb3ce66b}, {65, 0x7d4e3da065c21b2d},
		{96, 0xbf9a1938301428ca}, {97, 0xae7c260494b7847c}, {128, 0x410bd3b4d8d84f51}, {129, 0x55964eec39625032},
		{240, 0x977b659bdc81fdb1}, {241, 0x2cb1ed4a30c8bded}, {255, 0xc77eae9c20c21088}, {1024, 0x5ec111a1e5a293ae},
		{1025, 0x5ea0264528a903fc}, {2048, 0x82651c64d545e737}, {4096, 0xa76570548864595e},
	} {
		if got := xxh3.Sum64(b[:want.length]); got != want.sum {
			t.Errorf("%d bytes: %016x, want %016x", want.length, got, want.sum)
		}
	}
	// Every length between them, in one number.
	all := uint64(0)
	for n := range len(b) + 1 {
		all = all*31 + xxh3.Sum64(b[:n])
	}
	if want := uint64(0x254682946f220ce0); all != want {
		t.Errorf("all lengths: %016x, want %016x", all, want)
	}
	// As Redis's documentation of DIGEST has it.
	if got := xxh3.Sum64([]byte("Hello world")); got != 0xb6acb9d84a38ff74 {
		t.Errorf("Hello world: %016x", got)
	}
}

func BenchmarkSum64(b *testing.B) {
	data := input(64 << 10)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		xxh3.Sum64(data)
	}
}
