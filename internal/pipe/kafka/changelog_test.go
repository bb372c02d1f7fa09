package kafka

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"kevy/changes"
)

func part(stream, token string, n uint64, db int, ops ...string) *changes.SnapshotPart {
	p := &changes.SnapshotPart{Stream: stream, Token: token, N: n, DB: db}
	for _, o := range ops {
		p.Ops = append(p.Ops, bytes.Fields([]byte(o)))
	}
	return p
}

func snapshotInto(t testing.TB, s *Sink, f *feed, token string, parts ...*changes.SnapshotPart) {
	t.Helper()
	if err := s.SnapshotStart(t.Context(), f.stream, token); err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		if err := s.SnapshotPart(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.SnapshotEnd(t.Context(), f.stream, changes.Cursor{Generation: f.generation, Offset: f.next}); err != nil {
		t.Fatal(err)
	}
}

// latest is what compaction would leave: the last record of each key, without
// the tombstones.
func latest(records map[int32][]*kgo.Record) map[string]string {
	m := map[string]string{}
	for _, rs := range records {
		for _, r := range rs {
			if r.Value == nil {
				delete(m, string(r.Key))
			} else {
				m[string(r.Key)] = string(r.Value)
			}
		}
	}
	return m
}

func changelogOptions(b *broker) Options {
	o := b.options("c")
	o.Mode, o.Snapshot, o.Form = Changelog, true, nil
	return o
}

func TestChangelog(t *testing.T) {
	b := startBroker(t)
	o := changelogOptions(b)
	s := open(t, o)
	f := newFeed("ALL")
	snapshotInto(t, s, f, "x", part("ALL", "x", 1, 0, "SET a 1", "HSET h f 1", "RPUSH l a b"))
	write(t, s,
		f.commit("HSET h g 2", "HPEXPIREAT h 1790000000000 FIELDS 1 g"), f.commit("LPOP l"), f.commit("SETRANGE a 1 2"), f.commit("PEXPIREAT a 1790000000001"),
		f.commit("ZADD z 1 m inf n"), f.commit("SADD s x"), f.commit("XADD st 1-1 f v", "XGROUP CREATE st g 0-0"), f.commit("SET gone 1"), f.commit("DEL gone"))
	want := map[string]string{
		"a":  `{"type":"string","value":"12","expires-ms":1790000000001}`,
		"h":  `{"type":"hash","value":{"f":"1","g":"2"},"field-expires-ms":{"g":1790000000000}}`,
		"l":  `{"type":"list","value":["b"]}`,
		"z":  `{"type":"zset","value":[["m",1],["n","inf"]]}`,
		"s":  `{"type":"set","value":["x"]}`,
		"st": `{"type":"stream","ops":[["XADD","1-1","f","v"],["XGROUP","CREATE","g","0-0"]]}`,
	}
	compare := func() {
		t.Helper()
		if got := latest(committed(t, o)); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("the topic holds\n%v\nnot\n%v", got, want)
		}
	}
	compare()
	tombstones := 0
	for _, rs := range committed(t, o) {
		for _, r := range rs {
			if r.Value == nil {
				tombstones++
				if string(r.Key) != "gone" || header(r, HeaderCursor) == "" {
					t.Errorf("a tombstone for %s, headers %v", r.Key, r.Headers)
				}
			}
		}
	}
	if tombstones != 1 {
		t.Errorf("%d tombstones", tombstones)
	}

	// Another process reads the values back and goes on with changes of them.
	s = open(t, o)
	if at := s.at["ALL"].cursor(); at.Offset != f.next {
		t.Fatalf("cursor %v", at)
	}
	write(t, s, f.commit("HDEL h f"), f.commit("RPUSH l c"), f.commit("PERSIST a"), f.commit("XADD st 2-1 f w"), f.commit("ZREM z m n"))
	want["a"] = `{"type":"string","value":"12"}`
	want["h"] = `{"type":"hash","value":{"g":"2"},"field-expires-ms":{"g":1790000000000}}`
	want["l"] = `{"type":"list","value":["b","c"]}`
	want["st"] = `{"type":"stream","ops":[["XADD","1-1","f","v"],["XADD","2-1","f","w"],["XGROUP","CREATE","g","0-0"]]}`
	delete(want, "z")
	compare()

	// Another snapshot writes the difference only.
	before := len(flat(committed(t, o)))
	snapshotInto(t, s, f, "y", part("ALL", "y", 1, 0, "SET a 12", "SET new 1", "RPUSH l b c"))
	want = map[string]string{"a": want["a"], "l": want["l"], "new": `{"type":"string","value":"1"}`}
	compare()
	if n := len(flat(committed(t, o))) - before; n != 4 { // new, and the ends of h, s and st
		t.Errorf("the second snapshot wrote %d records, not 4", n)
	}

	// A FLUSHALL is the end of every key.
	write(t, s, f.commit("FLUSHALL"), f.commit("SET a 2"))
	want = map[string]string{"a": `{"type":"string","value":"2"}`}
	compare()
	if err := s.Write(t.Context(), []*changes.Commit{f.commitIn(3, "SET a 1")}); err == nil || !strings.Contains(err.Error(), "database 3") {
		t.Errorf("a second database under the same keys: %v", err)
	}
}

func flat(records map[int32][]*kgo.Record) (all []*kgo.Record) {
	for _, rs := range records {
		all = append(all, rs...)
	}
	return all
}

func TestChangelogDatabases(t *testing.T) {
	b := startBroker(t)
	o := changelogOptions(b)
	o.DBInKey = true
	s := open(t, o)
	f := newFeed("ALL")
	snapshotInto(t, s, f, "x", part("ALL", "x", 1, 0, "SET a 0"), part("ALL", "x", 2, 7, "SET a 7", "SET b 7"))
	write(t, s, f.commit("SWAPDB 0 7"))
	if got := fmt.Sprint(latest(committed(t, o))); got != `map[0/a:{"type":"string","value":"7"} 0/b:{"type":"string","value":"7"} 7/a:{"type":"string","value":"0"}]` {
		t.Errorf("after SWAPDB %s", got)
	}
	s = open(t, o)
	write(t, s, f.commitIn(7, "FLUSHDB"), f.commitIn(7, "SET c 1"))
	if got := fmt.Sprint(latest(committed(t, o))); got != `map[0/a:{"type":"string","value":"7"} 0/b:{"type":"string","value":"7"} 7/c:{"type":"string","value":"1"}]` {
		t.Errorf("after FLUSHDB %s", got)
	}
}

// A snapshot that was begun and not ended is begun again, and the topic ends up
// right; without --snapshot the pipe does not start.
func TestSnapshotCutShort(t *testing.T) {
	b := startBroker(t)
	for _, mode := range []Mode{History, Changelog} {
		o := changelogOptions(b)
		o.Topic, o.Mode, o.Form = string(mode), mode, words{}
		s := open(t, o)
		f := newFeed("ALL")
		snapshotInto(t, s, f, "x", part("ALL", "x", 1, 0, "SET a 1", "SET b 1"))
		write(t, s, f.commit("SET c 1"))
		if err := s.SnapshotStart(t.Context(), "ALL", "y"); err != nil {
			t.Fatal(err)
		}
		if err := s.SnapshotPart(t.Context(), part("ALL", "y", 1, 0, "SET a 2")); err != nil {
			t.Fatal(err)
		}
		s.cl.Close()
		s, at, err := tryOpen(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := at["ALL"]; ok {
			t.Errorf("%s: a stream whose snapshot did not end has the cursor %v", mode, at)
		}
		snapshotInto(t, s, f, "z", part("ALL", "z", 1, 0, "SET a 2", "SET d 1"))
		closeSink(t, s)
		if mode == Changelog {
			if got := fmt.Sprint(latest(committed(t, o))); got != `map[a:{"type":"string","value":"2"} d:{"type":"string","value":"1"}]` {
				t.Errorf("the topic holds %s", got)
			}
			continue
		}
		// A consumer that forgets all at each start has the same.
		for p, rs := range committed(t, o) {
			text := show(rs)
			i := strings.LastIndex(text, "snapshot z : start z\n")
			if i < 0 || !strings.HasSuffix(text, "snapshot z : end 1000:1\n") || !strings.Contains(text[:i], "start y") {
				t.Errorf("partition %d:\n%s", p, text)
			}
		}
		if err := s.SnapshotPart(t.Context(), part("ALL", "z", 2, 0, "SET a 2")); err == nil {
			t.Error("a part of no snapshot is taken")
		}
		s = open(t, o)
		if err := s.SnapshotStart(t.Context(), "ALL", "y"); err != nil {
			t.Fatal(err)
		}
		s.cl.Close()
		o.Snapshot = false
		if _, _, err := tryOpen(t.Context(), o); err == nil || !strings.Contains(err.Error(), "--snapshot") {
			t.Errorf("it goes on from nowhere: %v", err)
		}
	}
}

// Values larger than memory is allowed for end the pipe with what to do.
func TestStateBound(t *testing.T) {
	b := startBroker(t)
	o := changelogOptions(b)
	o.MaxStateBytes = 1
	s := open(t, o)
	f := newFeed("ALL")
	if err := s.SnapshotStart(t.Context(), "ALL", "x"); err != nil {
		t.Fatal(err)
	}
	if err := s.SnapshotEnd(t.Context(), "ALL", changes.Cursor{Generation: f.generation}); err == nil || !strings.Contains(err.Error(), "state-max-bytes") {
		t.Errorf("a state beyond its bound: %v", err)
	}
}

// Every value that ops make is read back from its record as it was.
func TestValues(t *testing.T) {
	rng := seed(t)
	word := func() string {
		w := make([]byte, rng.IntN(6))
		for i := range w {
			w[i] = byte(rng.IntN(256))
			if rng.IntN(3) > 0 {
				w[i] = "ab\"\\\x00\n\x7fé"[rng.IntN(9)]
			}
		}
		return string(w)
	}
	seen := map[string]int{}
	for range 3000 {
		d := newDatabase()
		key := word()
		var ops [][]string
		n := 1 + rng.IntN(5)
		switch rng.IntN(6) {
		case 0:
			ops = append(ops, []string{"SET", key, word()})
		case 1:
			for range n {
				ops = append(ops, []string{"HSET", key, word(), word()})
			}
			if rng.IntN(2) == 0 {
				ops = append(ops, []string{"HPEXPIREAT", key, "1790000000000", "FIELDS", "1", ops[0][2]})
			}
		case 2:
			for range n {
				ops = append(ops, []string{"RPUSH", key, word()})
			}
		case 3:
			for range n {
				ops = append(ops, []string{"SADD", key, word()})
			}
		case 4:
			for range n {
				ops = append(ops, []string{"ZADD", key, randomScore(rng), word()})
			}
		case 5:
			for i := range n {
				ops = append(ops, []string{"XADD", key, fmt.Sprintf("%d-1", i+1), word(), word()})
			}
			ops = append(ops, []string{"XGROUP", "CREATE", key, word(), "1-1"}, []string{"XDEL", key, "1-1"})
		}
		if rng.IntN(3) == 0 {
			ops = append(ops, []string{"PEXPIREAT", key, "1790000000001"})
		}
		for _, o := range ops {
			if err := d.apply(split(o)); err != nil {
				t.Fatalf("%q: %v", o, err)
			}
		}
		record, ok, err := d.value(nil, []byte(key))
		if err != nil || !ok {
			t.Fatalf("%q: %v", ops, err)
		}
		back, err := opsOf([]byte(key), record)
		if err != nil {
			t.Fatalf("%s of %q: %v", record, ops, err)
		}
		d2 := newDatabase()
		for _, o := range back {
			if err := d2.apply(o); err != nil {
				t.Fatalf("%q of %s: %v", o, record, err)
			}
		}
		again, _, err := d2.value(nil, []byte(key))
		if err != nil || !bytes.Equal(again, record) {
			t.Fatalf("%q\nis %s\nand then %s (%v)", ops, record, again, err)
		}
		seen[ops[0][0]]++
	}
	if len(seen) != 6 {
		t.Errorf("only %v were tried", seen)
	}
}

func randomScore(rng *rand.Rand) string {
	return []string{"1", "-2.5", "inf", "-inf", "1e+300", "0.1", "1e-300"}[rng.IntN(7)]
}

func split(words []string) [][]byte {
	args := make([][]byte, len(words))
	for i, w := range words {
		args[i] = []byte(w)
	}
	return args
}

// What is no record of ours is refused.
func TestForeignRecords(t *testing.T) {
	for _, record := range []string{``, `x`, `{}`, `{"type":"string"}`, `{"type":"hash","value":1}`, `{"type":"list","value":{}}`, `{"type":"zset","value":[["a"]]}`, `{"type":"stream","ops":[[]]}`, `{"type":"stream","ops":[["SET","v"]]}`, `{"type":"stream","ops":[["XGROUP"]]}`, `{"type":"x"}`,
		`{"type":"hash","value":{"a":[]}}`, `{"type":"set","value":[true]}`} {
		st := newState(&Options{MaxStateBytes: 1 << 40})
		r := &kgo.Record{Key: []byte("k"), Value: []byte(record), Headers: []kgo.RecordHeader{{Key: HeaderStream, Value: []byte("ALL")}, {Key: HeaderDB, Value: []byte("0")}}}
		if err := st.put(r); err == nil {
			t.Errorf("%s was taken", record)
		}
		r.Headers = nil
		if err := st.put(r); err == nil || !strings.Contains(err.Error(), "somebody else") {
			t.Errorf("a record without headers: %v", err)
		}
	}
	if _, err := appendValue(nil, []byte("*1\r\n$3\r\nGET\r\n")); err == nil {
		t.Error("GET rebuilds a value")
	}
	if _, err := appendValue(nil, nil); err == nil {
		t.Error("no ops rebuild a value")
	}
}

// FuzzValue reads values of a changelog that anybody may have written: they are refused, or
// are ops of which each applies or is refused.
func FuzzValue(f *testing.F) {
	for _, s := range []string{`{"type":"string","value":"v","expires-ms":1}`, `{"type":"hash","value":{"f":"v"},"field-expires-ms":{"f":1}}`, `{"type":"hash","value":[["f","v"]]}`,
		`{"type":"list","value":["a",{"base64":"/w=="}]}`, `{"type":"zset","value":[["a","inf"],["b",1e3]]}`, `{"type":"stream","ops":[["XADD","1-1","f","v"],["XGROUP","CREATE","g","0-0"]]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, record []byte) {
		ops, err := opsOf([]byte("k"), record)
		if err != nil {
			return
		}
		d := newDatabase()
		for _, args := range ops {
			if err := d.apply(args); err != nil {
				return
			}
		}
		if _, ok := d.tx.Peek([]byte("k")); !ok {
			return
		}
		if _, _, err := d.value(nil, []byte("k")); err != nil {
			t.Fatalf("%s makes a value that has no record: %v", record, err)
		}
	})
}

// A transaction ends at a commit's border once it has some MiB, and never within one.
func TestTransactionSize(t *testing.T) {
	b := startBroker(t)
	o := b.options("t")
	o.Partitions = 1
	s := open(t, o)
	f := newFeed("ALL")
	n := s.owner.N
	value := strings.Repeat("x", 500_000)
	large := make([]string, 20)
	for i := range large {
		large[i] = fmt.Sprintf("SET k%d %s", i, value)
	}
	write(t, s, f.commit(large[:10]...), f.commit(large...), f.commit("SET a 1"))
	if got := s.owner.N - n; got != 2 {
		t.Errorf("%d transactions, not 2", got)
	}
	if got := len(flat(committed(t, o))); got != 31 {
		t.Errorf("%d records, not 31", got)
	}
}
