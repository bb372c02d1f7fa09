package ds

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// streamModel is a stream as plain Go values.
type streamModel struct {
	entries          []entryModel
	last, maxDeleted StreamID
	added            uint64
	groups           map[string]groupModel
}

type entryModel struct {
	id    StreamID
	pairs string // quoted
}

type groupModel struct {
	last      StreamID
	read      int64
	consumers map[string]bool
	pending   map[StreamID]pendingModel
}

type pendingModel struct {
	consumer string
	at       int64
	count    uint64
}

func (m streamModel) clone() streamModel {
	m.entries = slices.Clone(m.entries)
	m.groups = maps.Clone(m.groups)
	for name, g := range m.groups {
		g.consumers, g.pending = maps.Clone(g.consumers), maps.Clone(g.pending)
		m.groups[name] = g
	}
	return m
}

type streamSubject struct {
	s     *Stream
	model streamModel
}

func newStreamSubject() subject {
	return &streamSubject{NewStream(), streamModel{groups: map[string]groupModel{}}}
}

func (s *streamSubject) object() Object { return s.s }

func (s *streamSubject) fork() subject {
	return &streamSubject{s.s.Fork().(*Stream), s.model.clone()}
}

func quotePairs(pairs [][]byte) string { return fmt.Sprintf("%q", pairs) }

// somePairs are mostly of few names, and numbers among the values.
func somePairs(rng *rand.Rand) (pairs [][]byte) {
	n := 1 + rng.IntN(3)
	if rng.IntN(60) == 0 {
		n = 1 + rng.IntN(150)
	}
	for i := range n {
		name := fmt.Appendf(nil, "f%d", i+rng.IntN(8)/7)
		if rng.IntN(12) == 0 {
			name = strconv.AppendInt(nil, int64(i), 10)
		}
		value := randBytes(rng, 1<<rng.IntN(8))
		switch rng.IntN(10) {
		case 0, 1, 2, 3:
			value = strconv.AppendInt(nil, int64(rng.Uint64())>>rng.IntN(64), 10)
		case 4:
			if rng.IntN(10) == 0 {
				value = bytes.Repeat([]byte("v"), rng.IntN(20_000))
			}
		}
		pairs = append(pairs, name, value)
	}
	return pairs
}

// near gives an id that may be there.
func (s *streamSubject) near(rng *rand.Rand) StreamID {
	if n := len(s.model.entries); n > 0 && rng.IntN(2) == 0 {
		return s.model.entries[rng.IntN(n)].id
	}
	return StreamID{Ms: s.model.last.Ms - min(s.model.last.Ms, uint64(rng.IntN(300))), Seq: uint64(rng.IntN(3))}
}

func (s *streamSubject) mutate(rng *rand.Rand, lim *Limits) {
	lim.StreamNodeMaxBytes = []int{4096, 200, 0}[rng.IntN(3)]
	lim.StreamNodeMaxEntries = []int{100, 10, 0}[rng.IntN(3)]
	m := &s.model
	switch n := rng.IntN(100); {
	case n < 55:
		id := m.last
		id.Seq += 1 + uint64(rng.IntN(2))
		if rng.IntN(3) > 0 {
			id = StreamID{Ms: id.Ms + 1 + uint64(rng.IntN(3)), Seq: uint64(rng.IntN(3))}
		}
		if rng.IntN(500) == 0 {
			id.Ms += 1 << rng.IntN(50)
		}
		pairs := somePairs(rng)
		s.s.Add(id, pairs, lim)
		m.entries = append(m.entries, entryModel{id, quotePairs(pairs)})
		m.last = id
		m.added++
	case n < 65:
		id := s.near(rng)
		i := slices.IndexFunc(m.entries, func(e entryModel) bool { return e.id == id })
		if s.s.Delete(id) != (i >= 0) {
			panic(fmt.Sprintf("Stream.Delete %s", id))
		}
		if i >= 0 {
			m.entries = slices.Delete(m.entries, i, i+1)
			if m.maxDeleted.Less(id) {
				m.maxDeleted = id
			}
		}
	case n < 68:
		s.trim(rng)
	case n < 70:
		m.last.Ms += uint64(rng.IntN(10))
		m.added += uint64(rng.IntN(3))
		m.maxDeleted = s.near(rng)
		s.s.SetID(m.last, m.added, m.maxDeleted)
	default:
		s.mutateGroup(rng)
	}
}

func (s *streamSubject) trim(rng *rand.Rand) {
	m := &s.model
	t := StreamTrim{Approximate: rng.IntN(2) == 0}
	keep := len(m.entries)
	if rng.IntN(2) == 0 {
		t.ByID, t.MinID = true, s.near(rng)
		i, _ := slices.BinarySearchFunc(m.entries, t.MinID, func(e entryModel, id StreamID) int { return e.id.Compare(id) })
		keep -= i
	} else {
		t.MaxLen = uint64(max(0, len(m.entries)-rng.IntN(200)))
		keep = int(t.MaxLen)
	}
	if t.Approximate {
		t.Limit = int64(rng.IntN(300))
	}
	removed := s.s.Trim(t)
	left := len(m.entries) - int(removed)
	if left < keep || !t.Approximate && left != keep || t.Limit > 0 && removed > t.Limit {
		panic(fmt.Sprintf("Stream.Trim %+v leaves %d of %d entries, want %d", t, left, len(m.entries), keep))
	}
	m.entries = slices.Delete(m.entries, 0, int(removed))
}

func (s *streamSubject) mutateGroup(rng *rand.Rand) {
	m := &s.model
	name := fmt.Sprintf("g%d", rng.IntN(4))
	model, known := m.groups[name]
	switch n := rng.IntN(40); {
	case n == 0:
		if s.s.DestroyGroup([]byte(name)) != known {
			panic("DestroyGroup")
		}
		delete(m.groups, name)
		return
	case n < 3:
		last, read := s.near(rng), int64(rng.IntN(5)-1)
		if s.s.CreateGroup([]byte(name), last, read) == known {
			panic("CreateGroup")
		}
		if !known {
			m.groups[name] = groupModel{last, read, map[string]bool{}, map[StreamID]pendingModel{}}
		}
		return
	}
	g := s.s.MutableGroup([]byte(name))
	if (g != nil) != known {
		panic("MutableGroup")
	}
	if !known {
		return
	}
	consumer := fmt.Sprintf("c%d", rng.IntN(5))
	switch n := rng.IntN(20); {
	case n < 2:
		model.last, model.read = s.near(rng), int64(rng.IntN(5)-1)
		g.SetID(model.last, model.read)
		m.groups[name] = model
	case n < 4:
		if g.CreateConsumer([]byte(consumer), 5) == model.consumers[consumer] {
			panic("CreateConsumer")
		}
		model.consumers[consumer] = true
	case n < 5:
		pending, ok := g.DeleteConsumer([]byte(consumer))
		before := len(model.pending)
		maps.DeleteFunc(model.pending, func(_ StreamID, p pendingModel) bool { return p.consumer == consumer })
		if ok != model.consumers[consumer] || pending != before-len(model.pending) {
			panic("DeleteConsumer")
		}
		delete(model.consumers, consumer)
	case n < 15:
		if g.CreateConsumer([]byte(consumer), 7) == model.consumers[consumer] {
			panic("CreateConsumer")
		}
		model.consumers[consumer] = true
		for range rng.IntN(30) {
			p := PendingEntry{ID: s.near(rng), DeliveredMs: rng.Int64N(100), Count: uint64(rng.IntN(5))}
			g.Deliver([]byte(consumer), p)
			model.pending[p.ID] = pendingModel{consumer, p.DeliveredMs, p.Count}
		}
	default:
		for range rng.IntN(30) {
			id := s.near(rng)
			if _, ok := model.pending[id]; g.Acknowledge(id) != ok {
				panic("Acknowledge")
			}
			delete(model.pending, id)
		}
	}
}

func (s *streamSubject) check() error {
	m := s.model
	if s.s.Len() != len(m.entries) || s.s.LastID() != m.last || s.s.MaxDeletedID() != m.maxDeleted || s.s.Added() != m.added {
		return fmt.Errorf("stream of %d entries, last %s, want %d, %s", s.s.Len(), s.s.LastID(), len(m.entries), m.last)
	}
	from, to := StreamID{}, MaxStreamID
	want := m.entries
	if len(want) > 2 && m.added%3 == 0 {
		i, j := len(want)/3, len(want)*2/3
		from, to, want = want[i].id, want[j].id, want[i:j+1]
	}
	for _, reverse := range []bool{false, true} {
		var got []entryModel
		s.s.Each(from, to, reverse, func(e *StreamEntry) bool {
			var pairs [][]byte
			e.Each(func(name, value []byte) { pairs = append(pairs, bytes.Clone(name), bytes.Clone(value)) })
			if len(pairs) != 2*e.Len() {
				got = nil
				return false
			}
			got = append(got, entryModel{e.ID, quotePairs(pairs)})
			return true
		})
		if reverse {
			slices.Reverse(got)
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("entries from %s to %s, reverse %v: got %d, want %d", from, to, reverse, len(got), len(want))
		}
	}
	var first, top StreamID
	if n := len(m.entries); n > 0 {
		first, top = m.entries[0].id, m.entries[n-1].id
		if !s.s.Has(m.entries[n/2].id) {
			return fmt.Errorf("an entry is not found")
		}
	}
	if s.s.FirstID() != first || s.s.TopID() != top {
		return fmt.Errorf("first %s top %s, want %s and %s", s.s.FirstID(), s.s.TopID(), first, top)
	}
	if s.s.Blocks() > 0 != (len(m.entries) > 0) {
		return fmt.Errorf("%d blocks of %d entries", s.s.Blocks(), len(m.entries))
	}
	return s.checkGroups()
}

func (s *streamSubject) checkGroups() error {
	names := slices.Sorted(maps.Keys(s.model.groups))
	for i, g := range s.s.Groups() {
		if i >= len(names) || g.Name() != names[i] {
			return fmt.Errorf("group %d is %s of %q", i, g.Name(), names)
		}
		m := s.model.groups[g.Name()]
		if g.LastID() != m.last || g.EntriesRead() != m.read || g.Consumers() != len(m.consumers) || g.Pending() != len(m.pending) {
			return fmt.Errorf("group %s differs", g.Name())
		}
		last := StreamID{}
		err := error(nil)
		g.EachPending(StreamID{}, func(p PendingEntry) bool {
			if want := (pendingModel{g.ConsumerOf(p).Name(), p.DeliveredMs, p.Count}); m.pending[p.ID] != want || p.ID.Less(last) {
				err = fmt.Errorf("pending %s: %v, want %v", p.ID, want, m.pending[p.ID])
			}
			last = p.ID
			return true
		})
		of := map[string]int{}
		for _, p := range m.pending {
			of[p.consumer]++
		}
		g.EachConsumer(func(c *StreamConsumer) bool {
			n := 0
			c.EachPending(StreamID{}, func(id StreamID) bool {
				if m.pending[id].consumer != c.Name() {
					err = fmt.Errorf("consumer %s has %s", c.Name(), id)
				}
				n++
				return true
			})
			if n != of[c.Name()] || c.Pending() != n || !m.consumers[c.Name()] || g.Consumer([]byte(c.Name())) != c {
				err = fmt.Errorf("consumer %s differs", c.Name())
			}
			return true
		})
		if err != nil {
			return err
		}
	}
	if len(s.s.Groups()) != len(names) {
		return fmt.Errorf("%d groups, want %d", len(s.s.Groups()), len(names))
	}
	return nil
}

func TestStreamForks(t *testing.T) {
	runForks(t, 2500, newStreamSubject)
}

// TestListpackElements reads back what is written, from both ends.
func TestListpackElements(t *testing.T) {
	rng := newRand(t)
	for range 300 {
		var b []byte
		var want [][]byte
		for range 1 + rng.IntN(40) {
			item := randBytes(rng, 1<<rng.IntN(15))
			switch rng.IntN(4) {
			case 0:
				item = strconv.AppendInt(nil, int64(rng.Uint64())>>rng.IntN(64), 10)
			case 1:
				edge := []int64{0, 127, 128, -1, 4095, 4096, -4096, -4097, math.MaxInt16, math.MinInt16, 1<<23 - 1, 1 << 23, -1 << 23, math.MaxInt32, math.MinInt32, math.MaxInt64, math.MinInt64}
				item = strconv.AppendInt(nil, edge[rng.IntN(len(edge))]+int64(rng.IntN(2)), 10)
			}
			before := len(b)
			b = appendLpItem(b, item)
			if v, ok := parseInt(item); ok && len(b)-before != lpIntBytes(v) {
				t.Fatalf("%s takes %d bytes", item, len(b)-before)
			}
			want = append(want, item)
		}
		var scratch [maxIntText]byte
		off := 0
		for i := range want {
			if !lpEquals(b, off, want[i]) || lpEquals(b, off, append(want[i], '0')) {
				t.Fatalf("element %d is not %q", i, want[i])
			}
			item, next := lpItem(b, off, &scratch)
			if !bytes.Equal(item, want[i]) || lpPrev(b, next) != off {
				t.Fatalf("element %d is %q, want %q", i, item, want[i])
			}
			off = next
		}
		if off != len(b) || lpCount(b) != len(want) {
			t.Fatalf("%d bytes of %d", off, len(b))
		}
	}
}

// TestStreamBlocks: blocks are the nodes that redis-server 7.0.15 makes. The figures are those of its XINFO STREAM and
// DEBUG OBJECT … after the same commands.
func TestStreamBlocks(t *testing.T) {
	lim := DefaultLimits()
	s := NewStream()
	for i := range 1000 {
		s.Add(StreamID{Ms: uint64(1000 + i)}, [][]byte{[]byte("name"), strconv.AppendInt(nil, int64(i), 10)}, &lim)
	}
	if s.Blocks() != 10 {
		t.Errorf("%d blocks of 100 entries", s.Blocks())
	}
	n := 0
	s.EachBlock(func(first StreamID, lp []byte) bool {
		if int(binary.LittleEndian.Uint32(lp)) != len(lp) || lp[len(lp)-1] != lpEnd || first.Ms != uint64(1000+100*n) {
			t.Errorf("block %d: %d bytes from %s", n, len(lp), first)
		}
		if got := int(binary.LittleEndian.Uint16(lp[4:])); got != 5+100*5 {
			t.Errorf("block %d has %d elements", n, got)
		}
		n++
		return true
	})
	big := []byte(strings.Repeat("x", 1500))
	for i := range 10 {
		s.Add(StreamID{Ms: uint64(9000 + i)}, [][]byte{[]byte("big"), big}, &lim)
	}
	if s.Blocks() != 15 {
		t.Errorf("%d blocks, two large entries in each of the last", s.Blocks())
	}
}

// TestRadixNodes: the count is that of a radix tree that is built.
func TestRadixNodes(t *testing.T) {
	rng := newRand(t)
	lim := DefaultLimits()
	lim.StreamNodeMaxEntries = 1
	for range 300 {
		s := NewStream()
		var keys []string
		id := StreamID{}
		for range rng.IntN(60) {
			if rng.IntN(2) == 0 {
				id.Seq += 1 + rng.Uint64N(1<<rng.IntN(40))
			} else {
				id = StreamID{Ms: id.Ms + 1 + rng.Uint64N(1<<rng.IntN(50)), Seq: rng.Uint64N(1 << rng.IntN(20))}
			}
			s.Add(id, [][]byte{{'f'}, {'v'}}, &lim)
			key := binary.BigEndian.AppendUint64(nil, id.Ms)
			keys = append(keys, string(binary.BigEndian.AppendUint64(key, id.Seq)))
		}
		if got, want := s.RadixNodes(), countRadix(keys); got != want {
			t.Fatalf("%d nodes of %d keys, want %d", got, len(keys), want)
		}
	}
}

// countRadix counts the nodes below the place to which all keys have led, whose rest they are.
func countRadix(keys []string) int {
	if len(keys) == 0 {
		return 1
	}
	if keys[0] == "" {
		return 1
	}
	common := 0
	for common < len(keys[0]) && keys[0][common] == keys[len(keys)-1][common] {
		common++
	}
	if common > 0 {
		rest := make([]string, len(keys))
		for i, k := range keys {
			rest[i] = k[common:]
		}
		return 1 + countRadix(rest)
	}
	n := 1
	for len(keys) > 0 {
		same := 0
		var rest []string
		for same < len(keys) && keys[same][0] == keys[0][0] {
			rest = append(rest, keys[same][1:])
			same++
		}
		n += countRadix(rest)
		keys = keys[same:]
	}
	return n
}

func TestStreamIDTexts(t *testing.T) {
	for _, c := range []struct {
		text string
		want StreamID
		ok   bool
	}{
		{"5", StreamID{5, 7}, true}, {"5-3", StreamID{5, 3}, true}, {"0-0", StreamID{}, true},
		{"18446744073709551615-18446744073709551615", MaxStreamID, true},
		{"18446744073709551616-1", StreamID{}, false}, {"", StreamID{}, false}, {"-", StreamID{}, false}, {"5-", StreamID{}, false},
		{"-5", StreamID{}, false}, {"5--3", StreamID{}, false}, {"05-003", StreamID{5, 3}, true}, {"+5", StreamID{5, 7}, true},
		{" 5-\t3", StreamID{5, 3}, true}, {"5- -3", StreamID{5, math.MaxUint64 - 2}, true}, {"5 ", StreamID{}, false}, {"a-1", StreamID{}, false},
		{"1-2-3", StreamID{}, false}, {"1-x", StreamID{}, false},
	} {
		got, _, ok := ParseStreamID([]byte(c.text), 7)
		if ok != c.ok || ok && got != c.want {
			t.Errorf("%q: %s %v", c.text, got, ok)
		}
	}
	if id, ok := (StreamID{1, math.MaxUint64}).Next(); id != (StreamID{2, 0}) || !ok {
		t.Error(id)
	}
	if id, ok := (StreamID{1, 0}).Prev(); id != (StreamID{0, math.MaxUint64}) || !ok {
		t.Error(id)
	}
	if _, ok := MaxStreamID.Next(); ok {
		t.Error("an id above the greatest")
	}
	if _, ok := (StreamID{}).Prev(); ok {
		t.Error("an id below 0-0")
	}
}
