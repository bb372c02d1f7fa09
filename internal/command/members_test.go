package command

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"
)

func TestMembers(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 20 {
		var m Members
		if m.Find(nil) != -1 {
			t.Fatal("an empty Members has a member")
		}
		model := map[string]int{}
		var order []string
		for range rng.IntN(2000) {
			b := strconv.AppendInt(nil, rng.Int64N(700), 7)
			if b[0] == '0' {
				b = nil
			}
			want, there := model[string(b)]
			if !there {
				want = len(order)
				model[string(b)] = want
				order = append(order, string(b))
			}
			if i, added := m.Add(b); i != want || added == there {
				t.Fatalf("seed %d: Add(%q) = %d, %v, want %d, %v", seed, b, i, added, want, !there)
			}
		}
		if m.Len() != len(order) {
			t.Fatalf("seed %d: %d members, want %d", seed, m.Len(), len(order))
		}
		for i, b := range order {
			if string(m.At(i)) != b || m.Find([]byte(b)) != i {
				t.Fatalf("seed %d: member %d is %q, found at %d, want %q", seed, i, m.At(i), m.Find([]byte(b)), b)
			}
		}
		if i := m.Find([]byte("x")); i != -1 {
			t.Fatalf("seed %d: x found at %d", seed, i)
		}
	}
}

func TestMembersAppendKeepsDuplicates(t *testing.T) {
	var m Members
	for _, b := range []string{"a", "", "a"} {
		m.Append([]byte(b))
	}
	if m.Len() != 3 || string(m.At(0)) != "a" || string(m.At(1)) != "" || string(m.At(2)) != "a" {
		t.Errorf("%d members: %q %q %q", m.Len(), m.At(0), m.At(1), m.At(2))
	}
}
