package strings_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"kevy/internal/command/commandtest"
	"kevy/internal/command/strings"
)

// TestLCSIsACommonSubsequence checks random pairs: the answer is a subsequence
// of both strings, and as long as the textbook's recurrence says.
func TestLCSIsACommonSubsequence(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	text := func() string {
		b := make([]byte, rng.IntN(40))
		for i := range b {
			b[i] = "abcd"[rng.IntN(4)]
		}
		return string(b)
	}
	r := commandtest.NewRunner(strings.Commands())
	for range 500 {
		x, y := text(), text()
		r.Do("MSET", "x", x, "y", y)
		n := commonLength(x, y)
		if got := r.Do("LCS", "x", "y", "LEN"); got != fmt.Sprintf(":%d\r\n", n) {
			t.Fatalf("LCS of %q and %q is %q long, want %d (seed %d)", x, y, got, n, seed)
		}
		got := r.Do("LCS", "x", "y")
		var common string
		if n > 0 {
			if _, err := fmt.Sscanf(got, "$%d\r\n%s", new(int), &common); err != nil {
				t.Fatal(err)
			}
		}
		if len(common) != n || !within(common, x) || !within(common, y) {
			t.Fatalf("LCS of %q and %q is %q (seed %d)", x, y, common, seed)
		}
	}
}

func commonLength(x, y string) int {
	table := make([][]int, len(x)+1)
	for i := range table {
		table[i] = make([]int, len(y)+1)
		for j := range table[i] {
			switch {
			case i == 0 || j == 0:
			case x[i-1] == y[j-1]:
				table[i][j] = table[i-1][j-1] + 1
			default:
				table[i][j] = max(table[i-1][j], table[i][j-1])
			}
		}
	}
	return table[len(x)][len(y)]
}

func within(sub, s string) bool {
	for i := 0; i < len(s) && len(sub) > 0; i++ {
		if s[i] == sub[0] {
			sub = sub[1:]
		}
	}
	return len(sub) == 0
}
