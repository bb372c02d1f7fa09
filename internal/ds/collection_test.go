package ds

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"
)

// subject is a collection beside a plain Go model of it.
type subject interface {
	mutate(rng *rand.Rand, lim *Limits)
	fork() subject
	check() error // reads the collection only
	object() Object
}

// runForks mutates and forks subjects at random, and checks some of them in other goroutines all the while: those are
// not mutated from then on, as the objects of a frozen view are not.
func runForks(t *testing.T, steps int, fresh func() subject) {
	rng := newRand(t)
	var readers sync.WaitGroup
	defer readers.Wait()
	live := []subject{fresh()}
	for range steps {
		i := rng.IntN(len(live))
		lim := &Limits{
			HashMaxListpackEntries: rng.IntN(40), HashMaxListpackValue: 5 + rng.IntN(200),
			ZSetMaxListpackEntries: rng.IntN(40), ZSetMaxListpackValue: 5 + rng.IntN(200),
			SetMaxIntsetEntries: rng.IntN(60), ListMaxListpackSize: []int{-1, -2, 3, 20, 0}[rng.IntN(5)],
		}
		for range rng.IntN(60) {
			live[i].mutate(rng, lim)
		}
		if err := live[i].check(); err != nil {
			t.Fatal(err)
		}
		if live[i].object().MemBytes() <= 0 {
			t.Fatal("MemBytes")
		}
		switch rng.IntN(12) {
		case 0, 1:
			live = append(live, live[i].fork())
		case 2:
			// The original goes to readers, the fork takes its place, as in Table.Mutable.
			// It is forked while they read.
			old := live[i]
			started := make(chan bool)
			readers.Go(func() {
				close(started)
				for range 3 {
					if err := old.check(); err != nil {
						t.Error("frozen: ", err)
						return
					}
				}
			})
			<-started
			live[i] = old.fork()
		case 3:
			live[i] = fresh()
		}
		if len(live) > 6 {
			live = slices.Delete(live, 2, 3)
		}
		for _, s := range live {
			if rng.IntN(4) == 0 {
				if err := s.check(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

func randBytes(rng *rand.Rand, maxLen int) []byte {
	b := make([]byte, rng.IntN(maxLen+1))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

type hashSubject struct {
	h         *Hash
	model     map[string]string
	deadlines map[string]int64
}

func (s *hashSubject) object() Object { return s.h }

func (s *hashSubject) mutate(rng *rand.Rand, lim *Limits) {
	field := fmt.Appendf(nil, "f%d", rng.IntN(1<<rng.IntN(9)))
	if rng.IntN(50) == 0 {
		field = append(field, bytes.Repeat([]byte("x"), rng.IntN(300))...)
	}
	_, had := s.model[string(field)]
	switch n := rng.IntN(100); {
	case n < 30:
		if s.h.Delete(field) != had {
			panic("Hash.Delete")
		}
		s.forget(string(field))
	case n < 50:
		at := int64(rng.IntN(60))
		if s.h.SetDeadline(field, at) != had {
			panic("Hash.SetDeadline")
		}
		delete(s.deadlines, string(field))
		if had && at != 0 {
			s.deadlines[string(field)] = at
		}
	case n < 52:
		s.deleteDue(int64(rng.IntN(20)), rng.IntN(8))
	default:
		value := randBytes(rng, 1<<rng.IntN(8))
		if s.h.Set(field, value, lim) == had {
			panic("Hash.Set")
		}
		s.model[string(field)] = string(value)
		delete(s.deadlines, string(field))
	}
}

func (s *hashSubject) forget(field string) {
	delete(s.model, field)
	delete(s.deadlines, field)
}

// deleteDue deletes some of what is due, as many as may go and there are.
func (s *hashSubject) deleteDue(now int64, limit int) {
	due := 0
	for _, at := range s.deadlines {
		if at <= now {
			due++
		}
	}
	want := min(due, limit)
	var going []string
	s.h.EachDue(now, limit, func(field []byte) { going = append(going, string(field)) })
	if got := s.h.DeleteDue(now, limit); got != want || len(going) != want {
		panic(fmt.Sprintf("Hash.DeleteDue: %d, EachDue %d, want %d", got, len(going), want))
	}
	for _, field := range going {
		if at := s.deadlines[field]; at == 0 || at > now {
			panic("Hash.EachDue: what is not due")
		}
		s.forget(field)
	}
}

func (s *hashSubject) fork() subject {
	return &hashSubject{s.h.Fork().(*Hash), maps.Clone(s.model), maps.Clone(s.deadlines)}
}

func (s *hashSubject) check() error {
	got, expiring := map[string]string{}, map[string]int64{}
	s.h.EachWithDeadline(func(f, v []byte, at int64) bool {
		got[string(f)] = string(v)
		if at != 0 {
			expiring[string(f)] = at
		}
		return true
	})
	if !maps.Equal(got, s.model) || s.h.Len() != len(s.model) {
		return fmt.Errorf("hash: %d fields, want %d", s.h.Len(), len(s.model))
	}
	if !maps.Equal(expiring, s.deadlines) {
		return fmt.Errorf("hash: deadlines %v, want %v", expiring, s.deadlines)
	}
	last, n := int64(0), 0
	s.h.EachDeadline(func(f []byte, at int64) bool {
		if n == 0 && at != s.h.NextDeadline() || at < last || s.deadlines[string(f)] != at {
			last = 1 << 62
		}
		last = max(last, at)
		n++
		return true
	})
	if last == 1<<62 || n != len(s.deadlines) || n == 0 && s.h.NextDeadline() != 0 {
		return fmt.Errorf("hash: %d deadlines in order, the next %d, want %v", n, s.h.NextDeadline(), s.deadlines)
	}
	for f, want := range s.model {
		if v, ok := s.h.Get([]byte(f)); !ok || string(v) != want || !s.h.Has([]byte(f)) {
			return fmt.Errorf("hash: %q = %q, want %q", f, v, want)
		}
		if at, ok := s.h.Deadline([]byte(f)); !ok || at != s.deadlines[f] {
			return fmt.Errorf("hash: %q expires at %d, want %d", f, at, s.deadlines[f])
		}
	}
	for now := range int64(60) {
		all := len(s.deadlines) > 0 && len(s.deadlines) == len(s.model)
		for _, at := range s.deadlines {
			all = all && at <= now
		}
		if s.h.AllDue(now) != all {
			return fmt.Errorf("hash: all due at %d: %v", now, !all)
		}
	}
	if _, ok := s.h.Deadline([]byte("missing")); ok || s.h.Has([]byte("missing")) {
		return fmt.Errorf("hash: has a missing field")
	}
	return nil
}

// TestHashSize: a hash without deadlines is what it was without them.
func TestHashSize(t *testing.T) {
	if n := unsafe.Sizeof(Hash{}); n != hashBytes {
		t.Errorf("a hash has %d bytes, want %d", n, hashBytes)
	}
	if n := unsafe.Sizeof(fieldDeadlines{}); n != fieldDeadlinesBytes {
		t.Errorf("the deadlines of a hash have %d bytes, want %d", n, fieldDeadlinesBytes)
	}
	h, lim := NewHash(), DefaultLimits()
	h.Set([]byte("f"), []byte("v"), &lim)
	bare := h.MemBytes()
	h.SetDeadline([]byte("f"), 0)
	if h.MemBytes() != bare || h.deadlines != nil {
		t.Error("a deadline that is taken away costs memory, though there was none")
	}
	h.SetDeadline([]byte("f"), 5)
	if n := h.MemBytes(); n <= bare {
		t.Errorf("a deadline costs %d bytes", n-bare)
	}
}

func TestHashForks(t *testing.T) {
	runForks(t, 1000, func() subject { return &hashSubject{NewHash(), map[string]string{}, map[string]int64{}} })
}

type setSubject struct {
	s     *Set
	model map[string]bool
}

func (s *setSubject) object() Object { return s.s }

func (s *setSubject) mutate(rng *rand.Rand, lim *Limits) {
	var member []byte
	switch rng.IntN(300) {
	case 0:
		member = randBytes(rng, 20)
	case 1:
		member = fmt.Appendf(nil, "%d", int64(rng.Uint64()))
	case 2:
		member = fmt.Appendf(nil, "%d", int32(rng.Uint32()))
	default:
		member = fmt.Appendf(nil, "%d", rng.IntN(1<<rng.IntN(10))-20)
	}
	had := s.model[string(member)]
	if rng.IntN(3) == 0 {
		if s.s.Remove(member) != had {
			panic("Set.Remove")
		}
		delete(s.model, string(member))
		return
	}
	if s.s.Add(member, lim) == had {
		panic("Set.Add")
	}
	s.model[string(member)] = true
}

func (s *setSubject) fork() subject { return &setSubject{s.s.Fork().(*Set), maps.Clone(s.model)} }

func (s *setSubject) check() error {
	got := map[string]bool{}
	s.s.Each(func(m []byte) bool {
		got[string(m)] = true
		return true
	})
	if !maps.Equal(got, s.model) || s.s.Len() != len(s.model) {
		return fmt.Errorf("set: %d members, want %d", s.s.Len(), len(s.model))
	}
	for m := range s.model {
		if !s.s.Has([]byte(m)) {
			return fmt.Errorf("set: %q is missing", m)
		}
	}
	for _, m := range []string{"missing", "99999999", "007", ""} {
		if s.s.Has([]byte(m)) != s.model[m] {
			return fmt.Errorf("set: Has %q", m)
		}
	}
	return nil
}

func TestSetForks(t *testing.T) {
	runForks(t, 1000, func() subject { return &setSubject{NewSet(), map[string]bool{}} })
}

type listSubject struct {
	l     *List
	model []string
}

func (s *listSubject) object() Object { return s.l }

func (s *listSubject) mutate(rng *rand.Rand, lim *Limits) {
	s.l.SetLimits(lim)
	size := rng.IntN(1 << rng.IntN(8))
	if rng.IntN(100) == 0 {
		size = rng.IntN(20000)
	}
	elem := randBytes(rng, size)
	n := len(s.model)
	switch op := rng.IntN(20); op {
	case 0, 1, 2, 3:
		s.l.PushFront(elem)
		s.model = slices.Insert(s.model, 0, string(elem))
	case 4, 5, 6, 7, 8:
		s.l.PushBack(elem)
		s.model = append(s.model, string(elem))
	case 9, 10:
		got, ok := pop(s.l, 0)
		if ok != (n > 0) || ok && string(got) != s.model[0] {
			panic("the first element")
		}
		if ok {
			s.model = slices.Delete(s.model, 0, 1)
		}
	case 11, 12:
		got, ok := pop(s.l, -1)
		if ok != (n > 0) || ok && string(got) != s.model[n-1] {
			panic("the last element")
		}
		if ok {
			s.model = s.model[:n-1]
		}
	case 13, 14:
		i := rng.IntN(n + 1)
		s.l.InsertAt(i, elem)
		s.model = slices.Insert(s.model, i, string(elem))
	case 15, 16:
		i := rng.IntN(2*n+3) - n - 1
		ok := s.l.SetIndex(i, elem)
		if ok != (i >= -n && i < n) {
			panic("List.SetIndex")
		}
		if ok {
			s.model[(i+n)%n] = string(elem)
		}
	case 17:
		i, k := rng.IntN(n+1), rng.IntN(1<<rng.IntN(6))
		s.l.RemoveRange(i, k)
		s.model = slices.Delete(s.model, i, min(i+k, n))
	case 18:
		if rng.IntN(5) > 0 {
			return
		}
		start, stop := rng.IntN(2*n+3)-n-1, rng.IntN(2*n+3)-n-1
		s.l.Trim(start, stop)
		if start < 0 {
			start = max(start+n, 0)
		}
		if stop < 0 {
			stop += n
		}
		if stop = min(stop, n-1); start > stop {
			s.model = nil
		} else {
			s.model = s.model[start : stop+1]
		}
	}
}

func (s *listSubject) fork() subject {
	return &listSubject{s.l.Fork().(*List), slices.Clone(s.model)}
}

func (s *listSubject) check() error {
	n := len(s.model)
	if s.l.Len() != n {
		return fmt.Errorf("list: %d elements, want %d", s.l.Len(), n)
	}
	bytes, count := 0, 0
	for _, c := range s.l.chunks() {
		if c.n == 0 {
			return fmt.Errorf("list: empty chunk")
		}
		bytes += len(c.buf)
		count += c.n
	}
	if bytes != s.l.bytes || count != n {
		return fmt.Errorf("list: %d bytes, %d elements; counted %d, %d", s.l.bytes, n, bytes, count)
	}
	for _, reverse := range []bool{false, true} {
		for _, from := range []int{0, n / 3, n - 1} {
			i := from
			s.l.Each(from, n, reverse, func(elem []byte) bool {
				if string(elem) != s.model[i] {
					return false
				}
				if reverse {
					i--
				} else {
					i++
				}
				return true
			})
			if n > 0 && i != map[bool]int{false: n, true: -1}[reverse] {
				return fmt.Errorf("list: walk from %d (reverse %v) is wrong at %d of %d", from, reverse, i, n)
			}
		}
	}
	for i := 0; i < n; i += 1 + n/20 {
		a, ok1 := s.l.Index(i)
		b, ok2 := s.l.Index(i - n)
		if !ok1 || !ok2 || string(a) != s.model[i] || string(b) != s.model[i] {
			return fmt.Errorf("list: Index %d", i)
		}
	}
	if _, ok := s.l.Index(n); ok {
		return fmt.Errorf("list: Index beyond the end")
	}
	return nil
}

func TestListForks(t *testing.T) {
	runForks(t, 1000, func() subject { return &listSubject{l: NewList()} })
}

type scoredModel struct {
	member string
	score  float64
}

func (a scoredModel) compare(b scoredModel) int {
	if a.score != b.score {
		return cmp.Compare(a.score, b.score)
	}
	return strings.Compare(a.member, b.member)
}

type zsetSubject struct {
	z     *ZSet
	model map[string]float64
}

func (s *zsetSubject) object() Object { return s.z }

func (s *zsetSubject) mutate(rng *rand.Rand, lim *Limits) {
	member := fmt.Appendf(nil, "m%d", rng.IntN(1<<rng.IntN(9)))
	if rng.IntN(100) == 0 {
		member = append(member, bytes.Repeat([]byte("x"), rng.IntN(300))...)
	}
	_, had := s.model[string(member)]
	if rng.IntN(3) == 0 {
		if s.z.Remove(member) != had {
			panic("ZSet.Remove")
		}
		delete(s.model, string(member))
		return
	}
	score := []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), float64(rng.IntN(5)), rng.NormFloat64()}[rng.IntN(6)]
	if s.z.Set(member, score, lim) == had {
		panic("ZSet.Set")
	}
	s.model[string(member)] = score
}

func (s *zsetSubject) fork() subject { return &zsetSubject{s.z.Fork().(*ZSet), maps.Clone(s.model)} }

func (s *zsetSubject) check() error {
	var want []scoredModel
	for m, score := range s.model {
		want = append(want, scoredModel{m, score})
	}
	slices.SortFunc(want, scoredModel.compare)
	n := len(want)
	if s.z.Len() != n {
		return fmt.Errorf("zset: %d members, want %d", s.z.Len(), n)
	}
	for _, reverse := range []bool{false, true} {
		for _, from := range []int{0, n / 3, n - 1} {
			i := from
			s.z.EachRank(from, n, reverse, func(member []byte, score float64) bool {
				if string(member) != want[i].member || score != want[i].score {
					return false
				}
				if reverse {
					i--
				} else {
					i++
				}
				return true
			})
			if n > 0 && i != map[bool]int{false: n, true: -1}[reverse] {
				return fmt.Errorf("zset: walk from %d (reverse %v) is wrong at %d of %d", from, reverse, i, n)
			}
		}
	}
	for i := 0; i < n; i += 1 + n/20 {
		member, score, ok := s.z.At(i)
		got, ok2 := s.z.Score([]byte(want[i].member))
		rank, ok3 := s.z.Rank([]byte(want[i].member))
		if !ok || !ok2 || !ok3 || string(member) != want[i].member || score != want[i].score || rank != i ||
			math.Float64bits(got) != math.Float64bits(want[i].score) {
			return fmt.Errorf("zset: element %d is %q %v at %d, want %q %v", i, member, got, rank, want[i].member, want[i].score)
		}
	}
	if _, ok := s.z.Rank([]byte("missing")); ok {
		return fmt.Errorf("zset: has a missing member")
	}
	for _, min := range []float64{math.Inf(-1), 0, math.Copysign(0, -1), 1, 1.5, math.Inf(1)} {
		for _, exclusive := range []bool{false, true} {
			rank := slices.IndexFunc(want, func(m scoredModel) bool { return m.score > min || m.score == min && !exclusive })
			if rank < 0 {
				rank = n
			}
			if got := s.z.SeekScore(min, exclusive); got != rank {
				return fmt.Errorf("zset: SeekScore(%v, %v) = %d, want %d", min, exclusive, got, rank)
			}
		}
	}
	return nil
}

func TestZSetForks(t *testing.T) {
	runForks(t, 1000, func() subject { return &zsetSubject{NewZSet(), map[string]float64{}} })
}

func TestZSetSeekLex(t *testing.T) {
	for _, lim := range []Limits{DefaultLimits(), {}} {
		z := NewZSet()
		for _, m := range []string{"a", "ab", "b", "d"} {
			z.Set([]byte(m), 3, &lim)
		}
		for _, c := range []struct {
			min       string
			exclusive bool
			want      int
		}{{"", false, 0}, {"a", false, 0}, {"a", true, 1}, {"aa", false, 1}, {"b", true, 3}, {"c", false, 3}, {"d", true, 4}, {"e", false, 4}} {
			if got := z.SeekLex([]byte(c.min), c.exclusive); got != c.want {
				t.Errorf("%s: SeekLex(%q, %v) = %d, want %d", z.Encoding(), c.min, c.exclusive, got, c.want)
			}
		}
	}
}

// Redis converts when the entries exceed the limit or an element is longer, and never back.
func TestEncodings(t *testing.T) {
	lim := DefaultLimits()
	hash := func(fields, fieldLen, valueLen int) Object {
		h := NewHash()
		for i := range fields {
			h.Set(fmt.Appendf(nil, "%0*d", fieldLen, i), make([]byte, valueLen), &lim)
		}
		return h
	}
	zset := func(members, memberLen int) Object {
		z := NewZSet()
		for i := range members {
			z.Set(fmt.Appendf(nil, "%0*d", memberLen, i), float64(i), &lim)
		}
		return z
	}
	set := func(members ...string) Object {
		s := NewSet()
		for _, m := range members {
			s.Add([]byte(m), &lim)
		}
		return s
	}
	ints := func(n int) (members []string) {
		for i := range n {
			members = append(members, fmt.Sprint(i))
		}
		return members
	}
	shrunk := hash(513, 4, 1).(*Hash)
	for i := range 512 {
		shrunk.Delete(fmt.Appendf(nil, "%04d", i))
	}
	expiring := func(o Object) Object {
		o.(*Hash).SetDeadline(fmt.Appendf(nil, "%04d", 0), 5)
		return o
	}
	persistent := expiring(hash(1, 4, 1)).(*Hash)
	persistent.SetDeadline([]byte("0000"), 0)
	for _, c := range []struct {
		name string
		o    Object
		want string
		kind string
	}{
		{"hash with a deadline", expiring(hash(512, 4, 1)), "listpackex", "hash"},
		{"hash that had a deadline", persistent, "listpackex", "hash"},
		{"fork of a hash with a deadline", expiring(hash(1, 4, 1)).Fork(), "listpackex", "hash"},
		{"hash of 513 with a deadline", expiring(hash(513, 4, 1)), "hashtable", "hash"},
		{"hash at the limits", hash(512, 64, 64), "listpack", "hash"},
		{"hash of 513", hash(513, 4, 1), "hashtable", "hash"},
		{"hash with a long field", hash(1, 65, 1), "hashtable", "hash"},
		{"hash with a long value", hash(1, 1, 65), "hashtable", "hash"},
		{"hash that shrank", shrunk, "hashtable", "hash"},
		{"zset at the limits", zset(128, 64), "listpack", "zset"},
		{"zset of 129", zset(129, 4), "skiplist", "zset"},
		{"zset with a long member", zset(1, 65), "skiplist", "zset"},
		{"set at the limit", set(ints(512)...), "intset", "set"},
		{"set of 513", set(ints(513)...), "hashtable", "set"},
		{"set of extremes", set("-9223372036854775808", "9223372036854775807", "0"), "intset", "set"},
		{"set with a word", set("1", "a"), "hashtable", "set"},
		{"set with leading zero", set("01"), "hashtable", "set"},
		{"set with -0", set("-0"), "hashtable", "set"},
		{"set with plus", set("+1"), "hashtable", "set"},
		{"set above int64", set("9223372036854775808"), "hashtable", "set"},
		{"set below int64", set("-9223372036854775809"), "hashtable", "set"},
		{"set with 20 digits", set("99999999999999999999"), "hashtable", "set"},
		{"set with the empty string", set(""), "hashtable", "set"},
		{"set with a minus", set("-"), "hashtable", "set"},
		{"list", NewList(), "quicklist", "list"},
	} {
		if got := c.o.Encoding(); got != c.want || c.o.Kind().String() != c.kind {
			t.Errorf("%s: %s %s, want %s", c.name, c.o.Kind(), got, c.want)
		}
	}
}

func TestKindNumbers(t *testing.T) {
	want := map[Kind]string{0: "none", 1: "string", 2: "list", 3: "set", 4: "zset", 5: "hash", 6: "stream"}
	for k, name := range want {
		if k.String() != name {
			t.Errorf("kind %d is %q, want %q", k, k, name)
		}
	}
}

func TestIntsetWidths(t *testing.T) {
	lim := DefaultLimits()
	s := NewSet()
	for i, m := range []string{"32767", "-32768", "32768", "-2147483648", "2147483648", "-9223372036854775808"} {
		s.Add([]byte(m), &lim)
		if want := []int{2, 2, 4, 4, 8, 8}[i]; s.ints.width != want {
			t.Errorf("after %s: width %d, want %d", m, s.ints.width, want)
		}
	}
	var got []string
	s.Each(func(m []byte) bool {
		got = append(got, string(m))
		return true
	})
	want := []string{"-9223372036854775808", "-2147483648", "-32768", "32767", "32768", "2147483648"}
	if !slices.Equal(got, want) {
		t.Errorf("members %v, want %v", got, want)
	}
}

// The sign convention of list-max-listpack-size.
func TestListChunkSizes(t *testing.T) {
	for _, c := range []struct{ fill, elemLen, elems, wantChunks int }{
		{-1, 98, 40, 1}, {-1, 98, 41, 2}, // 100 bytes packed
		{-2, 98, 81, 1}, {-2, 98, 82, 2},
		{-3, 98, 163, 1}, {-3, 98, 164, 2},
		{-4, 98, 327, 1}, {-4, 98, 328, 2},
		{-5, 98, 655, 1}, {-5, 98, 656, 2},
		{-9, 98, 655, 1}, {-9, 98, 656, 2},
		{3, 1, 9, 3}, {3, 1, 10, 4}, {1000, 98, 82, 2},
		{0, 1, 3, 3},
		{-2, 10000, 3, 3}, // larger than a chunk
	} {
		for _, front := range []bool{false, true} {
			l := NewList()
			l.SetLimits(&Limits{ListMaxListpackSize: c.fill})
			for range c.elems {
				if front {
					l.PushFront(make([]byte, c.elemLen))
				} else {
					l.PushBack(make([]byte, c.elemLen))
				}
			}
			if got := len(l.chunks()); got != c.wantChunks {
				t.Errorf("fill %d, %d elements of %d bytes: %d chunks, want %d", c.fill, c.elems, c.elemLen, got, c.wantChunks)
			}
		}
	}
}

// pop removes the first or, with -1, the last element, as the keyspace does, and returns it.
func pop(l *List, i int) (elem []byte, ok bool) {
	elem, ok = l.Index(i)
	elem = slices.Clone(elem)
	if ok {
		l.RemoveRange((i+l.Len())%l.Len(), 1)
	}
	return elem, ok
}

// A queue holds a bounded number of chunk pointers however much passes through it.
func TestListQueueStaysSmall(t *testing.T) {
	l := NewList()
	for i := range 50_000 {
		l.PushBack(key(i))
		if i >= 1000 {
			if elem, _ := pop(l, 0); string(elem) != string(key(i-1000)) {
				t.Fatalf("popped %q at %d", elem, i)
			}
		}
	}
	if n := len(l.chunks()); n > 6 {
		t.Errorf("%d chunks for 1000 elements", n)
	}
	if cap(l.store) > 64 {
		t.Errorf("room for %d chunks", cap(l.store))
	}
}

func TestScanOfLargeCollections(t *testing.T) {
	lim := DefaultLimits()
	h, s, z := NewHash(), NewSet(), NewZSet()
	const n = 1000
	for i := range n {
		h.Set(key(i), key(i), &lim)
		s.Add(key(i), &lim)
		z.Set(key(i), float64(i), &lim)
	}
	got := [3]map[string]bool{{}, {}, {}}
	for i, scan := range []func(uint64) uint64{
		func(cursor uint64) uint64 {
			return h.Scan(cursor, 10, func(f, v []byte) { got[0][string(f)] = string(f) == string(v) })
		},
		func(cursor uint64) uint64 {
			return s.Scan(cursor, 10, func(m []byte) { got[1][string(m)] = true })
		},
		func(cursor uint64) uint64 {
			return z.Scan(cursor, 10, func(m []byte, score float64) { got[2][string(m)] = string(m) == string(key(int(score))) })
		},
	} {
		calls := 0
		for cursor := uint64(0); calls == 0 || cursor != 0; calls++ {
			cursor = scan(cursor)
		}
		if calls < n/10 {
			t.Errorf("collection %d: %d calls", i, calls)
		}
		for i2 := range n {
			if !got[i][string(key(i2))] {
				t.Errorf("collection %d: %d is missing or has a wrong value", i, i2)
			}
		}
	}
}

// A callback that returns false is not called again.
func TestWalksStop(t *testing.T) {
	small, large := DefaultLimits(), Limits{}
	for _, lim := range []*Limits{&small, &large} {
		h, s, z, l := NewHash(), NewSet(), NewZSet(), NewList()
		l.SetLimits(&Limits{ListMaxListpackSize: 4})
		for i := range 20 {
			h.Set(key(i), nil, lim)
			s.Add(fmt.Appendf(nil, "%d", i), lim)
			z.Set(key(i), 0, lim)
			l.PushBack(key(i))
		}
		calls := 0
		stop := func() bool { calls++; return calls < 7 }
		for name, walk := range map[string]func(){
			"Hash.Each":             func() { h.Each(func(_, _ []byte) bool { return stop() }) },
			"Set.Each":              func() { s.Each(func([]byte) bool { return stop() }) },
			"ZSet.EachRank":         func() { z.EachRank(2, 15, false, func([]byte, float64) bool { return stop() }) },
			"ZSet.EachRank reverse": func() { z.EachRank(15, 15, true, func([]byte, float64) bool { return stop() }) },
			"List.Each":             func() { l.Each(2, 15, false, func([]byte) bool { return stop() }) },
			"List.Each reverse":     func() { l.Each(15, 15, true, func([]byte) bool { return stop() }) },
		} {
			calls = 0
			if walk(); calls != 7 {
				t.Errorf("%s %s: %d calls, stopped at 7", h.Encoding(), name, calls)
			}
		}
		for _, start := range []int{-1, 20} {
			z.EachRank(start, 5, false, func([]byte, float64) bool { t.Error("beyond the end"); return true })
			l.Each(start, 5, false, func([]byte) bool { t.Error("beyond the end"); return true })
		}
		if _, _, ok := z.At(20); ok {
			t.Error("an element beyond the end")
		}
	}
}

func TestScanOfPackedIsWhole(t *testing.T) {
	lim := DefaultLimits()
	h, s, z := NewHash(), NewSet(), NewZSet()
	for i := range 100 {
		h.Set(key(i), nil, &lim)
		s.Add(fmt.Appendf(nil, "%d", i), &lim)
		z.Set(key(i), float64(i), &lim)
	}
	n := 0
	for _, next := range []uint64{
		h.Scan(0, 1, func(_, _ []byte) { n++ }),
		s.Scan(0, 1, func(_ []byte) { n++ }),
		z.Scan(0, 1, func(_ []byte, _ float64) { n++ }),
	} {
		if next != 0 {
			t.Errorf("cursor %d", next)
		}
	}
	if n != 300 {
		t.Errorf("%d elements, want 300", n)
	}
}

// Every member of a collection has the same chance. With a tolerance of six standard deviations.
func TestRandomIsFair(t *testing.T) {
	rng := newRand(t)
	lim := DefaultLimits()
	for _, n := range []int{1, 5, 100, 700} {
		h, s, z := NewHash(), NewSet(), NewZSet()
		for i := range n {
			h.Set(key(i), key(i), &lim)
			s.Add(fmt.Appendf(nil, "%d", i), &lim)
			z.Set(key(i), float64(i), &lim)
		}
		hits := [3]map[string]int{{}, {}, {}}
		draws := 200 * n
		for range draws {
			f, v := h.Random(rng)
			m, score := z.Random(rng)
			if want, _ := z.Score(m); string(f) != string(v) || score != want {
				t.Fatal("Random returns a value that is not the field's")
			}
			hits[0][string(f)]++
			hits[1][string(s.Random(rng))]++
			hits[2][string(m)]++
		}
		for i, hit := range hits {
			if len(hit) != n {
				t.Errorf("collection %d of %d: only %d members drawn", i, n, len(hit))
			}
			for m, c := range hit {
				if n > 1 && math.Abs(float64(c-200)) > 6*math.Sqrt(200) {
					t.Errorf("collection %d of %d: %s drawn %d times, expected 200", i, n, m, c)
				}
			}
		}
	}
	if f, _ := NewHash().Random(rng); f != nil {
		t.Error("Random of an empty hash")
	}
	if NewSet().Random(rng) != nil {
		t.Error("Random of an empty set")
	}
	if m, _ := NewZSet().Random(rng); m != nil {
		t.Error("Random of an empty sorted set")
	}
}

func TestDeadlineIndex(t *testing.T) {
	rng := newRand(t)
	x, model := NewDeadlineIndex(), map[string]int64{}
	for range 20000 {
		k := key(rng.IntN(300))
		at := int64(rng.IntN(200))
		x.Set(k, model[string(k)], at)
		if model[string(k)] = at; at == 0 {
			delete(model, string(k))
		}
		if x.Len() != len(model) {
			t.Fatalf("Len %d, want %d", x.Len(), len(model))
		}
	}
	for len(model) > 0 {
		want := slices.MinFunc(slices.Collect(maps.Keys(model)), func(a, b string) int {
			if model[a] != model[b] {
				return cmp.Compare(model[a], model[b])
			}
			return strings.Compare(a, b)
		})
		k, at, ok := x.Min()
		if !ok || string(k) != want || at != model[want] {
			t.Fatalf("Min %q %d, want %q %d", k, at, want, model[want])
		}
		x.Set(k, at, 0)
		delete(model, want)
	}
	if _, _, ok := x.Min(); ok {
		t.Error("Min of an empty index")
	}
}
