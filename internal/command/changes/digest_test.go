package changes_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"kevy/changes"
	"kevy/feed"
	"kevy/internal/ds"
	"kevy/internal/op"
	"kevy/shard"
	"kevy/tests/oracle"
	"kevy/tests/wire"
)

// mirror follows a stream with all databases, as a consumer does, and keeps what
// its frames say.
type mirror struct {
	t      *testing.T
	c      *wire.Conn
	stream string
	at     feed.Cursor
	set    *shard.Set
	tx     *shard.Tx
	frames int
}

const mirroredDBs = 16

func newMirror(t *testing.T, c *wire.Conn, stream string) *mirror {
	m := &mirror{t: t, c: c, stream: stream, set: shard.NewSet(1, mirroredDBs)}
	m.tx = m.set.NewTx(&op.LogPosition{})
	m.set.Lock([]int{0})
	m.tx.BeginReplay([]int{0}, time.Now().UnixMilli())
	r := do(t, c, "CHANGES TAIL "+stream)
	m.at = cursorOf(r.Elems)
	return m
}

func cursorOf(elems []wire.Reply) (at feed.Cursor) {
	fmt.Sscan(string(elems[0].Text), &at.Generation)
	fmt.Sscan(string(elems[1].Text), &at.Offset)
	return at
}

// step applies the next commits and reports whether the cursor moved.
func (m *mirror) step(count string) bool {
	m.t.Helper()
	r, err := m.c.Do("CHANGES", "SINCE", m.stream, strconv.FormatUint(m.at.Generation, 10), strconv.FormatUint(m.at.Offset, 10), "COUNT", count, "META", "DB", "*")
	if err != nil || len(r.Elems) != 4 {
		m.t.Fatalf("stream %s at %v: %v %v", m.stream, m.at, r, err)
	}
	for _, f := range r.Elems[2].Elems {
		var raw []byte
		var args []string
		for _, a := range f.Elems[1].Elems {
			args = append(args, string(a.Text))
		}
		raw = wire.AppendStrings(nil, args...)
		var s op.Scanner
		s.Reset(raw, 0)
		frame, err := s.Next()
		if err != nil {
			m.t.Fatal(err)
		}
		fmt.Sscan(string(f.Elems[2].Elems[2].Text), &frame.DB)
		if err := m.tx.Apply(frame); err != nil {
			m.t.Fatalf("stream %s: %v", m.stream, err)
		}
		m.frames++
	}
	before := m.at
	m.at = cursorOf(r.Elems)
	return m.at != before
}

// follow goes on to exactly a cursor, which is not behind the mirror.
func (m *mirror) follow(to feed.Cursor) {
	m.t.Helper()
	for m.at != to {
		count := uint64(1000)
		if m.at.Generation == to.Generation {
			count = to.Offset - m.at.Offset // its cursor is the end of a commit
		}
		if !m.step(fmt.Sprint(count)) {
			m.t.Fatalf("stream %s ends at %v, not at %v", m.stream, m.at, to)
		}
	}
}

// digest is what the consumer library makes of the mirror's keys.
func (m *mirror) digest(db int, prefix string) *changes.Digest {
	var d changes.Digest
	_ = m.set.FreezeDB([]int{0}, db).Each(func(_, _ int, e *ds.Entry) error {
		if strings.HasPrefix(string(e.Key()), prefix) {
			d.Add(keyDigest(e))
		}
		return nil
	})
	return &d
}

// keyDigest hands a key to the consumer library as an application would.
func keyDigest(e *ds.Entry) changes.KeyDigest {
	key, at := e.Key(), e.Aux()
	switch o := e.Object().(type) {
	case *ds.List:
		return changes.ListDigest(key, func(yield func([]byte) bool) { o.Each(0, o.Len(), false, yield) }, at)
	case *ds.Set:
		return changes.SetDigest(key, o.Each, at)
	case *ds.Hash:
		return changes.HashDigest(key, func(yield func(changes.HashField) bool) {
			o.EachWithDeadline(func(field, value []byte, at int64) bool {
				return yield(changes.HashField{Name: field, Value: value, ExpireMs: at})
			})
		}, at)
	case *ds.ZSet:
		// Backwards: the order must not matter.
		return changes.SortedSetDigest(key, func(yield func([]byte, float64) bool) { o.EachRank(o.Len()-1, o.Len(), true, yield) }, at)
	case *ds.Stream:
		return changes.StreamDigest(key, streamOf(o), at)
	}
	return changes.StringDigest(key, e.Value(), at)
}

func streamOf(o *ds.Stream) *changes.Stream {
	s := &changes.Stream{LastID: changes.StreamID(o.LastID()), MaxDeletedID: changes.StreamID(o.MaxDeletedID()), EntriesAdded: o.Added()}
	s.Entries = func(yield func(changes.StreamEntry) bool) {
		o.Each(ds.StreamID{}, ds.MaxStreamID, false, func(e *ds.StreamEntry) bool {
			entry := changes.StreamEntry{ID: changes.StreamID(e.ID)}
			e.Each(func(name, value []byte) {
				entry.Fields = append(entry.Fields, []byte(string(name)), []byte(string(value)))
			})
			return yield(entry)
		})
	}
	for _, g := range o.Groups() {
		group := changes.StreamGroup{Name: g.Name(), LastID: changes.StreamID(g.LastID()), EntriesRead: g.EntriesRead()}
		g.EachConsumer(func(c *ds.StreamConsumer) bool {
			group.Consumers = append([]string{c.Name()}, group.Consumers...)
			return true
		})
		g.EachPendingBack(func(p ds.PendingEntry) bool {
			group.Pending = append(group.Pending, changes.StreamPending{
				ID: changes.StreamID(p.ID), Consumer: g.ConsumerOf(p).Name(), DeliveredMs: p.DeliveredMs, Deliveries: p.Count,
			})
			return true
		})
		s.Groups = append([]changes.StreamGroup{group}, s.Groups...)
	}
	return s
}

// compare asks for a digest in the connection's database, follows to its cursor
// and compares.
func (m *mirror) compare(db int, prefix string) (keys int64) {
	m.t.Helper()
	args := []string{"CHANGES", "DIGEST", m.stream}
	if prefix != "" {
		args = append(args, "PREFIX", prefix)
	}
	r, err := m.c.Do(args...)
	if err != nil || len(r.Elems) != 4 {
		m.t.Fatalf("%v: %v %v", args, r, err)
	}
	m.follow(cursorOf(r.Elems))
	d := m.digest(db, prefix)
	keys, _ = r.Elems[2].Int()
	if got := string(r.Elems[3].Text); uint64(keys) != d.Keys() || got != d.String() {
		m.differs(db)
		m.t.Fatalf("stream %s at %v, database %d, prefix %q: the server has %d keys, %s, the mirror %d, %s", m.stream, m.at, db, prefix, keys, got, d.Keys(), d)
	}
	return keys
}

// differs says which keys do, where nobody writes.
func (m *mirror) differs(db int) {
	_ = m.set.FreezeDB([]int{0}, db).Each(func(_, _ int, e *ds.Entry) error {
		r, err := m.c.Do("CHANGES", "DIGEST", m.stream, "PREFIX", string(e.Key()))
		if err != nil || len(r.Elems) != 4 {
			return err
		}
		if n, _ := r.Elems[2].Int(); n == 1 {
			var d changes.Digest
			if d.Add(keyDigest(e)); string(r.Elems[3].Text) != d.String() {
				m.t.Logf("%s %q", e.Kind(), e.Key())
			}
		}
		return nil
	})
}

func seedOf(t *testing.T) uint64 {
	seed := rand.Uint64() >> 1
	if text := os.Getenv("KEVY_SEED"); text != "" {
		if _, err := fmt.Sscan(text, &seed); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("KEVY_SEED=%d", seed)
	return seed
}

// TestMirrorHasTheDigest follows a server that runs random commands on values of
// all types, and compares digests at the same cursor: of every stream, in several
// databases, with and without a prefix.
func TestMirrorHasTheDigest(t *testing.T) {
	seed := seedOf(t)
	rng := rand.New(rand.NewPCG(seed, 1))
	dial := serve(t)
	writer, reader := dial(), dial()
	var mirrors []*mirror
	for _, stream := range []string{"ALL", "0", "1", "2", "3"} {
		mirrors = append(mirrors, newMirror(t, reader, stream))
	}
	g := oracle.NewGenerator(seed, time.Now().UnixMilli(), oracle.Options{Plain: true, Newer: true})
	keys := map[string]int64{}
	kinds := map[string]int{}
	for round := range 60 {
		for range 100 {
			s := g.Next()
			if s.MayWait() {
				continue
			}
			if rng.IntN(40) == 0 {
				do(t, writer, fmt.Sprintf("SELECT %d", rng.IntN(2)*rng.IntN(3)))
			}
			args := make([]string, len(s.Args))
			for i, a := range s.Args {
				args[i] = string(a)
			}
			if _, err := writer.Do(args...); err != nil {
				t.Fatal(args, err)
			}
		}
		if round%20 == 7 {
			do(t, writer, []string{"SWAPDB 0 1", "FLUSHDB", "FLUSHALL"}[rng.IntN(3)])
		}
		db := rng.IntN(2) * rng.IntN(3)
		do(t, reader, fmt.Sprintf("SELECT %d", db))
		for _, m := range mirrors {
			keys[m.stream] += m.compare(db, "")
			keys["prefix"] += m.compare(db, string('a'+rune(rng.IntN(26))))
		}
		_ = mirrors[0].set.FreezeDB([]int{0}, db).Each(func(_, _ int, e *ds.Entry) error {
			kinds[e.Kind().String()]++
			return nil
		})
	}
	t.Log(keys, kinds)
	for _, m := range mirrors {
		if keys[m.stream] < 100 {
			t.Errorf("stream %s had %d keys in all", m.stream, keys[m.stream])
		}
	}
	for _, kind := range []string{"string", "list", "set", "hash", "zset", "stream"} {
		if kinds[kind] < 20 {
			t.Errorf("%d keys held a %s", kinds[kind], kind)
		}
	}
}

// TestDigestBesideWriters: writers do not stand still, and the digest is still
// that of its cursor.
func TestDigestBesideWriters(t *testing.T) {
	dial := serve(t)
	c := dial()
	m := newMirror(t, dial(), "ALL")
	for i := range 200 {
		args := []string{"MSET"}
		for j := range 100 {
			args = append(args, fmt.Sprintf("key:%d", i*100+j), strings.Repeat("v", j))
		}
		if _, err := c.Do(args...); err != nil {
			t.Fatal(err)
		}
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for w := range 2 {
		conn := dial()
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				key := fmt.Sprintf("key:%d", (i*7919+w)%20000)
				time.Sleep(100 * time.Microsecond)
				if _, err := conn.Do([][]string{{"APPEND", key, "x"}, {"DEL", key}, {"SET", key, "new", "PX", "5"}}[i%3]...); err != nil {
					t.Error(err)
					return
				}
			}
		}()
	}
	for range 10 {
		m.compare(0, "")
		m.compare(0, "key:1")
	}
	close(stop)
	wg.Wait()
}

// TestDigestArguments and what a digest says of nothing.
func TestDigestArguments(t *testing.T) {
	c := serve(t)()
	g := generation(t, c, "ALL")
	zeros := strings.Repeat("0", 64)
	check(t, c, g, "CHANGES DIGEST ALL", `[:$G, :0, :0, "`+zeros+`"]`)
	do(t, c, "SET k v")
	check(t, c, g, "CHANGES DIGEST all PREFIX x", `[:$G, :1, :0, "`+zeros+`"]`)
	check(t, c, g, "CHANGES DIGEST nosuch", "-ERR no such stream 'nosuch'")
	check(t, c, g, "CHANGES DIGEST ALL PREFIX", "-ERR syntax error")
	check(t, c, g, "CHANGES DIGEST ALL MATCH x", "-ERR syntax error")
	check(t, c, g, "CHANGES DIGEST ALL PREFIX x PREFIX y", "-ERR syntax error")
	if r, err := c.Do("CHANGES", "DIGEST", "ALL", "PREFIX", ""); err != nil || r.String() != "-ERR invalid filter: PREFIX must not be empty" {
		t.Errorf("a blank prefix: %v %v", r, err)
	}
	do(t, c, "MULTI")
	if r := do(t, c, "CHANGES DIGEST ALL"); !strings.HasPrefix(r.String(), "-ERR ") {
		t.Errorf("in a transaction: %s", r)
	}
	do(t, c, "DISCARD")
	// Overdue keys, and fields, are part of the state until their DEL comes.
	do(t, c, "FLUSHALL")
	do(t, c, "DEBUG SET-ACTIVE-EXPIRE 0")
	m := newMirror(t, c, "ALL")
	do(t, c, "SET gone v PXAT 1000")
	do(t, c, "HSET h f v g w")
	do(t, c, "HPEXPIRE h 1 FIELDS 1 f")
	time.Sleep(5 * time.Millisecond)
	if n := m.compare(0, ""); n != 2 {
		t.Errorf("%d keys", n)
	}
	do(t, c, "GET gone")
	do(t, c, "HGET h f")
	if n := m.compare(0, ""); n != 1 {
		t.Errorf("%d keys once they are gone", n)
	}
	check(t, serve(t, "--feed", "no")(), "none", "CHANGES DIGEST ALL", "-ERR feed is disabled")
}

// TestPublishedDigests holds the table of docs/feed.md to what a server answers.
func TestPublishedDigests(t *testing.T) {
	page, err := os.ReadFile("../../../docs/feed.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| (.*) \\| `([0-9a-f]{64})` \\|$").FindAllStringSubmatch(string(page), -1)
	if len(rows) != 8 {
		t.Fatalf("docs/feed.md has %d digests", len(rows))
	}
	c := serve(t)()
	var all []string
	for i, row := range rows {
		do(t, c, "FLUSHALL")
		var commands []string
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			commands = append(commands, m[1])
		}
		if i > 0 { // the first key is the second one with another deadline
			all = append(all, commands...)
		}
		if i == len(rows)-1 {
			commands = all[:len(all)-1] // without the name that the row mentions
		}
		for _, line := range commands {
			args := strings.Fields(strings.ReplaceAll(line, `""`, "\x00"))
			for j := range args {
				args[j] = strings.ReplaceAll(args[j], "\x00", "")
			}
			if r, err := c.Do(args...); err != nil || strings.HasPrefix(r.String(), "-") {
				t.Fatalf("%s: %v %v", line, r, err)
			}
		}
		if got := string(do(t, c, "CHANGES DIGEST ALL").Elems[3].Text); got != row[2] {
			t.Errorf("%s: %s", row[1], got)
		}
	}
}
