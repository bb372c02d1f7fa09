package shard

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"kevy/internal/ds"
	"kevy/internal/op"
)

// TestScanGuarantee iterates while keys come and go, in many tables that grow
// and shrink: a key that is there all the time is returned, one that never is
// is not.
func TestScanGuarantee(t *testing.T) {
	rng := testRand(t)
	for round := range 60 {
		s := newTestSet([]int{1, 4, 16}[round%3])
		stay, size := map[string]bool{}, rng.IntN(2000)
		s.update(0, func(tx *Tx) {
			for i := range size {
				key := fmt.Appendf(nil, "key%d", i)
				tx.Set(key, nil, 0)
				if rng.IntN(2) == 0 {
					stay[string(key)] = true
				}
			}
			tx.Select(1)
			tx.Set([]byte("of another database"), nil, 0)
			tx.Select(0)
			tx.Set([]byte("overdue"), nil, s.now+10)
		})
		s.now += 20
		seen, calls := map[string]int{}, 0
		for cursor := uint64(0); ; {
			if calls++; calls > 100_000 {
				t.Fatal("the iteration does not end")
			}
			shard, ok := s.ScanShard(cursor)
			if !ok {
				t.Fatalf("cursor %d is in no shard", cursor)
			}
			if cursor >= 1<<53 {
				t.Fatalf("cursor %d does not fit a double", cursor)
			}
			// Only the shard that the cursor is in is held.
			held := []int{shard}
			s.Lock(held)
			s.tx.Begin(held, 0, s.now)
			cursor = s.tx.Scan(cursor, 1+rng.IntN(50), func(key []byte, kind Kind, overdue bool) bool {
				if overdue {
					return false
				}
				seen[string(key)]++
				if kind != KindString {
					t.Errorf("%q is a %v", key, kind)
				}
				return true
			})
			s.tx.End()
			s.Unlock(held)
			if cursor == 0 {
				break
			}
			s.update(0, func(tx *Tx) {
				for range rng.IntN(40) {
					switch key := fmt.Appendf(nil, "key%d", rng.IntN(4000)); {
					case stay[string(key)]:
						tx.Set(key, []byte("changed"), 0)
					case rng.IntN(2) == 0:
						tx.Set(key, nil, 0)
					default:
						tx.Del(key)
					}
				}
			})
		}
		for key := range stay {
			if seen[key] == 0 {
				t.Errorf("round %d: %q was there all the time, and is not returned", round, key)
			}
		}
		if seen["overdue"]+seen["of another database"] > 0 {
			t.Errorf("round %d: an overdue key, or one of another database, is returned", round)
		}
	}
	s := newTestSet(4)
	s.update(0, func(tx *Tx) {
		for _, cursor := range []uint64{1 << 50, 1<<64 - 1, 5 << ds.CursorBits} {
			if next := tx.Scan(cursor, 10, func([]byte, Kind, bool) bool { t.Error("a key from nowhere"); return false }); next != 0 {
				t.Errorf("cursor %d leads to %d", cursor, next)
			}
		}
	})
}

// TestExpireDue: overdue keys go in the order of their deadlines within a
// database, as many as asked for, as expired and not otherwise.
func TestExpireDue(t *testing.T) {
	rng := testRand(t)
	for range 50 {
		s := newTestSet(3)
		deadlines := map[string]int64{}
		s.update(0, func(tx *Tx) {
			for i := range 200 {
				db, key := rng.IntN(testDBs), fmt.Appendf(nil, "key%d", i)
				tx.Select(db)
				at := s.now + 1 + rng.Int64N(100)
				tx.Set(key, nil, at)
				if rng.IntN(3) == 0 {
					at = s.now + 1 + rng.Int64N(100)
					tx.ExpireAt(key, at)
				}
				if rng.IntN(5) == 0 {
					tx.Persist(key)
					continue
				}
				deadlines[fmt.Sprintf("%d %s", db, key)] = at
			}
		})
		s.ResetExpired()
		s.now += 50
		due := 0
		for _, at := range deadlines {
			if at <= s.now {
				due++
			}
		}
		gone := 0
		last := map[string]int64{} // by shard and database
		for limit := 1 + rng.IntN(20); ; {
			n := 0
			s.Lock(s.all)
			s.tx.Begin(s.all, 2, s.now)
			n = s.tx.ExpireDue(limit)
			c := s.tx.Commit()
			if c.Ops() != n || n > limit || s.tx.DB() != 2 {
				t.Fatalf("%d keys went with %d ops, %d were asked for; database %d", n, c.Ops(), limit, s.tx.DB())
			}
			var log []byte
			c.Bind(&op.LogPosition{})
			if n > 0 {
				log = c.AppendTo(nil, true)
			}
			if strings.Count(string(log), "#x\r\n") != n {
				t.Fatalf("not every DEL says that the key had expired: %q", log)
			}
			rest := c.Bytes()
			for i := range n {
				size, args, err := op.ReadCommand(rest, nil)
				if err != nil || c.Verb(i) != op.Del {
					t.Fatal(c.Verb(i), err)
				}
				rest = rest[size:]
				name := fmt.Sprintf("%d %s", c.DB(i), args[1])
				at, ok := deadlines[name]
				table := fmt.Sprint(c.Stream(i), c.DB(i))
				if !ok || at > s.now || at < last[table] {
					t.Fatalf("%s goes, which is due at %d, after one due at %d; it is %d", name, at, last[table], s.now)
				}
				last[table] = at
				delete(deadlines, name)
			}
			s.tx.End()
			s.Unlock(s.all)
			gone += n
			if n < limit {
				break
			}
		}
		if gone != due || s.Expired() != int64(due) {
			t.Errorf("%d keys went, %d are counted, and %d were due", gone, s.Expired(), due)
		}
		s.now += 1000
		s.update(0, func(tx *Tx) {
			if n := tx.ExpireDue(1000); n != len(deadlines) {
				t.Errorf("%d of %d keys go at the end", n, len(deadlines))
			}
			for db, st := range tx.Stats() {
				if st.Expires != 0 {
					t.Errorf("database %d has %d keys that expire", db, st.Expires)
				}
			}
		})
	}
}

// TestRandomKey: every live key comes, about as often as any other, and overdue
// ones go.
func TestRandomKey(t *testing.T) {
	rng := testRand(t)
	for _, shards := range []int{1, 8} {
		s := newTestSet(shards)
		s.update(0, func(tx *Tx) {
			if key := tx.RandomKey(rng); key != nil {
				t.Errorf("%q of nothing", key)
			}
			tx.Select(1)
			str(tx, []byte("of another database"))
			tx.Select(0)
			for i := range 100 {
				tx.Set(fmt.Appendf(nil, "live%d", i), nil, 0)
				tx.Set(fmt.Appendf(nil, "overdue%d", i), nil, s.now+10)
			}
		})
		s.now += 20
		const draws = 40_000
		counts := map[string]int{}
		s.update(0, func(tx *Tx) {
			for range draws {
				counts[string(tx.RandomKey(rng))]++
			}
			if tx.DBSize() != 100 {
				t.Errorf("%d keys are left", tx.DBSize())
			}
			if n := tx.Commit().Ops(); n != 100 {
				t.Errorf("%d ops for 100 keys that had expired", n)
			}
		})
		if len(counts) != 100 {
			t.Errorf("%d different keys came", len(counts))
		}
		low, high := draws, 0
		for key, n := range counts {
			if !strings.HasPrefix(key, "live") {
				t.Errorf("%q came", key)
			}
			low, high = min(low, n), max(high, n)
		}
		// The mean is 400; a table picks by place, which is not quite even.
		if low < 100 || high > 1200 {
			t.Errorf("%d shards: keys come between %d and %d times", shards, low, high)
		}
		s.update(0, func(tx *Tx) {
			for i := range 100 {
				tx.ExpireAt(fmt.Appendf(nil, "live%d", i), s.now+1)
			}
		})
		s.now += 2
		s.update(0, func(tx *Tx) {
			if key := tx.RandomKey(rng); key != nil || tx.DBSize() != 0 {
				t.Errorf("%q of %d keys that have all expired", key, tx.DBSize())
			}
		})
	}
}

// TestApplyRepeatsWhatWasRecorded: the ops of random changes make the same
// keyspace elsewhere, overdue keys and all, in one go or piece by piece.
func TestApplyRepeatsWhatWasRecorded(t *testing.T) {
	rng := testRand(t)
	if rng.IntN(2) == 0 {
		fewDue(t)
	}
	s, replay := newTestSet(4), newTestSet(7)
	replay.tx.BeginReplay(replay.all, 0)
	var scanner op.Scanner
	for round := range 2000 {
		s.now += rng.Int64N(60)
		var log []byte
		s.Lock(s.all)
		s.tx.Begin(s.all, rng.IntN(testDBs), s.now)
		for range 1 + rng.IntN(4) {
			mutate(rng, s.tx)
		}
		ops := s.tx.Commit().Ops()
		if ops > 0 {
			log = s.tx.Commit().AppendTo(nil, true)
			s.tx.Committed(1)
		}
		s.tx.End()
		s.Unlock(s.all)
		scanner.Reset(log, 0)
		applied := 0
		for {
			f, err := scanner.Next()
			if err != nil {
				t.Fatal(err)
			}
			if f == nil {
				break
			}
			applied++
			if err := replay.tx.Apply(f); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
		if applied != ops {
			t.Fatalf("round %d: %d ops of %d", round, applied, ops)
		}
		if round%20 == 0 && s.Digest() != replay.Digest() {
			t.Fatalf("round %d: the keyspaces differ\n%q", round, log)
		}
	}
	if s.Digest() != replay.Digest() {
		t.Error("the keyspaces differ")
	}
	// A replay is counted at its end.
	replay.CountAll()
	if got, want := replay.Bytes(), replay.Recount(); got != want || got == 0 {
		t.Errorf("counted %d bytes, there are %d", got, want)
	}
	// A snapshot's ops make it too.
	fresh := newTestSet(2)
	fresh.tx.BeginReplay(fresh.all, 0)
	err := s.Freeze().Each(func(db, stream int, e *ds.Entry) error {
		var c op.Commit
		c.Bind(&op.LogPosition{})
		Rebuild(&c, db, stream, e.Key(), e)
		scanner.Reset(c.AppendTo(nil, true), 0)
		for {
			f, err := scanner.Next()
			if err != nil || f == nil {
				return err
			}
			if err := fresh.tx.Apply(f); err != nil {
				return err
			}
		}
	})
	if err != nil || fresh.Digest() != s.Digest() {
		t.Errorf("the ops of a snapshot make another keyspace: %v", err)
	}
}

// TestApplyRefuses: what no commit records is refused, and changes nothing.
func TestApplyRefuses(t *testing.T) {
	s := newTestSet(2)
	s.tx.BeginReplay(s.all, 0)
	for _, words := range []string{
		"SET k v PX 5", "SET k v PXAT x", "SET k v PXAT 0", "SET k v PXAT -1", "SET k v KEEPTTL NX", "SETRANGE k -1 x", "SETRANGE k 99999999999 x", "SETRANGE k x x",
		"PEXPIREAT k x", "HPEXPIREAT k x FIELDS 1 f", "HPEXPIREAT k 0 FIELDS 1 f", "HPEXPIREAT k 5 NX FIELDS 1 f", "HPEXPIREAT k 5 FIELDS 2 f",
		"HPERSIST k FIELDS 2 f", "HPERSIST k FIELDS x f", "HPERSIST k fields 1 f", "HSET k f", "HSET k f v g", "ZADD k x m", "ZADD k nan m", "ZADD k 1", "LSET k x v", "LREM k x v", "LTRIM k 0 x", "LPOP k x",
		"SWAPDB 0 9", "SWAPDB x 1", "SWAPDB -1 0",
	} {
		f := frameOf(words)
		if err := s.tx.Apply(&f); err == nil {
			t.Errorf("%s is applied", words)
		}
	}
	f := frameOf("SET k v")
	f.DB = testDBs
	if err := s.tx.Apply(&f); err == nil || !strings.Contains(err.Error(), "database") {
		t.Errorf("in a database that is not there: %v", err)
	}
	if s.Digest() != (Digest{}) {
		t.Errorf("something has changed: %v", s.shown())
	}
	for _, words := range []string{"RPUSH k a", "SET k v", "RPUSH k a", "SADD k a", "HSET k f v", "ZADD k 1 m", "HDEL k f", "HPEXPIREAT k 5 FIELDS 1 f", "HPERSIST k FIELDS 1 f"} {
		f := frameOf(words)
		if err := s.tx.Apply(&f); (err == nil) != slices.Contains([]string{"RPUSH k a", "SET k v"}, words) && words != "RPUSH k a" {
			t.Errorf("%s: %v", words, err)
		}
	}
}

func frameOf(words string) op.Frame {
	var f op.Frame
	for _, w := range strings.Fields(words) {
		f.Args = append(f.Args, []byte(w))
	}
	for v := op.Set; v.String() != ""; v++ {
		if v.String() == string(f.Args[0]) {
			f.Verb = v
			break
		}
	}
	return f
}

// TestUnlockedKeyIsABug: a key of a shard that is not held is not touched.
func TestUnlockedKeyIsABug(t *testing.T) {
	s := newTestSet(16)
	held := []int{1, 5}
	s.tx.Begin(held, 0, s.now)
	defer s.tx.End()
	rng := rand.New(rand.NewPCG(1, 1))
	inside, outside := 0, 0
	for range 1000 {
		key := fmt.Appendf(nil, "key%d", rng.IntN(1000))
		var panicked bool
		func() {
			defer func() { panicked = recover() != nil }()
			s.tx.Set(key, nil, 0)
		}()
		if panicked == s.tx.Holds(key) || s.tx.Holds(key) != slices.Contains(held, s.ShardOf(key)) {
			t.Fatalf("%q of shard %d: held %v, refused %v", key, s.ShardOf(key), s.tx.Holds(key), panicked)
		}
		if panicked {
			outside++
			s.tx.Commit().Abandon()
		} else {
			inside++
		}
	}
	if inside == 0 || outside == 0 {
		t.Errorf("%d inside, %d outside", inside, outside)
	}
	for name, fn := range map[string]func(){
		"FlushAll": s.tx.FlushAll, "FlushDB": func() { s.tx.FlushDB(0) }, "SwapDB": func() { s.tx.SwapDB(0, 1) }, "Stats": func() { s.tx.Stats() },
		"PrefixStats": func() { s.tx.PrefixStats(nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s works without all shards", name)
				}
			}()
			fn()
		}()
	}
}
