package ds

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// removeSubject is a list that loses elements by their value.
type removeSubject struct{ listSubject }

func (s *removeSubject) mutate(rng *rand.Rand, lim *Limits) {
	switch rng.IntN(8) {
	case 0:
		var elem []byte
		if n := len(s.model); n > 0 && rng.IntN(5) > 0 {
			elem = []byte(s.model[rng.IntN(n)])
		}
		n, reverse := 1+rng.IntN(1<<rng.IntN(8)), rng.IntN(2) == 0
		want := s.remove(string(elem), n, reverse)
		if got := s.l.RemoveEqual(elem, n, reverse); got != want {
			panic(fmt.Sprintf("List.RemoveEqual of %d (reverse %v): %d, want %d", n, reverse, got, want))
		}
	case 1, 2, 3, 4:
		// Few values, so that many are equal; many elements, so that there are many chunks.
		s.l.SetLimits(lim)
		for range rng.IntN(60) {
			elem := fmt.Appendf(nil, "%*d", 1+rng.IntN(3)*rng.IntN(3)*40, rng.IntN(3))
			s.l.PushBack(elem)
			s.model = append(s.model, string(elem))
		}
	default:
		s.listSubject.mutate(rng, lim)
	}
}

func (s *removeSubject) remove(elem string, n int, reverse bool) (removed int) {
	if reverse {
		slices.Reverse(s.model)
		defer func() { slices.Reverse(s.model) }()
	}
	s.model = slices.DeleteFunc(s.model, func(e string) bool {
		gone := e == elem && removed < n
		if gone {
			removed++
		}
		return gone
	})
	return removed
}

func (s *removeSubject) fork() subject {
	return &removeSubject{*s.listSubject.fork().(*listSubject)}
}

func TestListRemoveEqualForks(t *testing.T) {
	runForks(t, 500, func() subject { return &removeSubject{listSubject{l: NewList()}} })
}

// TestListRemoveEqualJoins sees that chunks of which little is left are joined, whichever end the removal
// begins at.
func TestListRemoveEqualJoins(t *testing.T) {
	for _, reverse := range []bool{false, true} {
		l := NewList()
		for i := range 200_000 {
			elem := "gone"
			if i%100 == 0 {
				elem = "kept"
			}
			l.PushBack([]byte(elem))
		}
		if got := l.RemoveEqual([]byte("gone"), 1<<30, reverse); got != 198_000 {
			t.Fatalf("%d removed", got)
		}
		if got := len(l.chunks()); got > 6 {
			t.Errorf("%d elements in %d chunks (reverse %v)", l.Len(), got, reverse)
		}
		if got := l.RemoveEqual([]byte("kept"), 2000, reverse); got != 2000 || l.Len() != 0 || l.bytes != 0 {
			t.Errorf("%d removed, %d elements and %d bytes left", got, l.Len(), l.bytes)
		}
		l.PushFront([]byte("again"))
		if elem, ok := pop(l, -1); !ok || string(elem) != "again" {
			t.Errorf("after that: %q, %v", elem, ok)
		}
	}
}
