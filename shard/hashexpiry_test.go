package shard

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kevy/internal/ds"
	"kevy/internal/op"
)

// recorded returns the ops of the Tx, with the line before those that expiry
// made.
func recorded(tx *Tx) (out []string) {
	if tx.Commit().Ops() == 0 {
		return nil
	}
	c := *tx.Commit()
	c.Bind(&op.LogPosition{})
	var s op.Scanner
	s.Reset(c.AppendTo(nil, true), 0)
	for {
		f, err := s.Next()
		if err != nil {
			panic(err)
		}
		if f == nil {
			return out
		}
		var b strings.Builder
		if f.Cause != op.User {
			b.WriteString(f.Cause.String() + ": ")
		}
		for i, a := range f.Args {
			if i > 0 {
				b.WriteByte(' ')
			}
			b.Write(a)
		}
		out = append(out, b.String())
	}
}

func words(s string) (out [][]byte) {
	for _, w := range strings.Fields(s) {
		out = append(out, []byte(w))
	}
	return out
}

// TestFieldsGoBeforeTheCommandLooks: whatever asks for the key, its overdue
// fields are gone, and that is the first thing recorded.
func TestFieldsGoBeforeTheCommandLooks(t *testing.T) {
	h, other := []byte("h"), []byte("other")
	for name, look := range map[string]func(tx *Tx){
		"Hash":     func(tx *Tx) { _, _ = tx.Hash(h) },
		"Exists":   func(tx *Tx) { tx.Exists(h) },
		"Touch":    func(tx *Tx) { tx.Touch(h) },
		"Kind":     func(tx *Tx) { _, _ = tx.Kind(h) },
		"Info":     func(tx *Tx) { _, _ = tx.Info(h) },
		"Deadline": func(tx *Tx) { _, _ = tx.Deadline(h) },
		"HSet":     func(tx *Tx) { _, _ = tx.HSet(h, []byte("x"), []byte("1")) },
		"HDel":     func(tx *Tx) { _, _ = tx.HDel(h, []byte("a"), []byte("keep")) },
		"HPersist": func(tx *Tx) { _ = tx.HPersist(h, words("a keep"), nil) },
		"HTake":    func(tx *Tx) { _, _ = tx.HTake(h, words("a"), func([]byte, bool) {}) },
		"Copy":     func(tx *Tx) { tx.Copy(h, 0, other) },
		"Move":     func(tx *Tx) { tx.Move(h, 1, h) },
		"Del":      func(tx *Tx) { tx.Del(h) },
		"List":     func(tx *Tx) { _, _ = tx.List(h) },
		"String":   func(tx *Tx) { _, _, _ = tx.String(h) },
	} {
		for _, keep := range []bool{true, false} {
			s := newTestSet(1)
			s.update(0, func(tx *Tx) {
				_, _ = tx.HSet(h, words("a 1 b 2 c 3")...)
				_ = tx.HExpireAt(h, s.now+10, words("a b"), nil, nil)
				_ = tx.HExpireAt(h, s.now+5, words("c"), nil, nil)
				if keep {
					_, _ = tx.HSet(h, words("keep 4")...)
				}
				tx.ExpireAt(h, s.now+1000)
			})
			s.now += 10
			s.update(0, func(tx *Tx) {
				look(tx)
				ops := recorded(tx)
				if len(ops) == 0 || len(ops[0]) != len("expired: HDEL h a b c") || !strings.HasPrefix(ops[0], "expired: HDEL h ") {
					t.Fatalf("%s: %q", name, ops)
				}
				if v, err := tx.Hash(h); err != nil || name != "HSet" && !keep && (v.Exists() || tx.Exists(h)) {
					t.Errorf("%s: the hash outlives its last field: %v", name, err)
				}
				if at, ok := tx.Deadline(h); ok && !keep && at != 0 {
					t.Errorf("%s: a hash that begins anew has the deadline of the old one", name)
				}
			})
			if got := s.ExpiredFields(); got != 3 {
				t.Errorf("%s: %d fields are counted", name, got)
			}
			if s.Expired() != 0 {
				t.Errorf("%s: %d keys are counted", name, s.Expired())
			}
			s.shown()
		}
	}
}

// TestFieldExpiryOps: what is recorded is resolved, and of an HSET that keeps a
// deadline both parts.
func TestFieldExpiryOps(t *testing.T) {
	h := []byte("h")
	never := func(int64) bool { return false }
	var outcome []int
	report := func(e FieldExpiry) { outcome = append(outcome, int(e)) }
	for _, c := range []struct {
		do      func(tx *Tx)
		ops     []string
		outcome []int
	}{
		{func(tx *Tx) { _ = tx.HExpireAt(h, 2_000_000, words("a none b a"), nil, report) },
			[]string{"HPEXPIREAT h 2000000 FIELDS 3 a b a"}, []int{1, -2, 1, 1}},
		{func(tx *Tx) { _ = tx.HExpireAt(h, 2_000_000, words("a"), never, report) }, nil, []int{0}},
		{func(tx *Tx) { _ = tx.HExpireAt(h, 1_000_000, words("a none b a"), nil, report) },
			[]string{"HDEL h a b"}, []int{2, -2, 2, -2}},
		{func(tx *Tx) {
			_ = tx.HExpireAt(h, 2_000_000, words("a b"), nil, nil)
			_ = tx.HExpireAt(h, 3_000_000, words("c"), nil, nil)
			_, _ = tx.HSetKeepTTL(h, words("a 7 b 8 new 9 c 10")...)
		}, []string{"HPEXPIREAT h 2000000 FIELDS 2 a b", "HPEXPIREAT h 3000000 FIELDS 1 c", "HSET h a 7 b 8 new 9 c 10",
			"HPEXPIREAT h 2000000 FIELDS 2 a b", "HPEXPIREAT h 3000000 FIELDS 1 c"}, nil},
		{func(tx *Tx) {
			_ = tx.HExpireAt(h, 2_000_000, words("a"), nil, nil)
			_ = tx.HPersist(h, words("a none b a"), nil)
		}, []string{"HPEXPIREAT h 2000000 FIELDS 1 a", "HPEXPIREAT h 70368744177663 FIELDS 1 a", "HPERSIST h FIELDS 1 a"}, nil},
		{func(tx *Tx) {
			_ = tx.HExpireAt(h, 2_000_000, words("a"), nil, nil)
			_, _ = tx.HSet(h, words("a 2")...)
			_ = tx.HPersist(h, words("a"), nil)
		}, []string{"HPEXPIREAT h 2000000 FIELDS 1 a", "HSET h a 2"}, nil},
		{func(tx *Tx) {
			var got []string
			n, _ := tx.HTake(h, words("a none a c"), func(value []byte, ok bool) { got = append(got, fmt.Sprint(string(value), ok)) })
			if n != 2 || !slices.Equal(got, []string{"1true", "false", "false", "3true"}) {
				t.Errorf("HTake: %d, %q", n, got)
			}
		}, []string{"HDEL h a c"}, nil},
		{func(tx *Tx) {
			_ = tx.HExpireAt(h, 2_000_000, words("a c"), nil, nil)
			_ = tx.HExpireAt(h, 1_500_000, words("b"), nil, nil)
			tx.ExpireAt(h, 5_000_000)
			tx.Copy(h, 1, h)
		}, []string{"HPEXPIREAT h 2000000 FIELDS 2 a c", "HPEXPIREAT h 1500000 FIELDS 1 b", "PEXPIREAT h 5000000",
			"HSET h a 1 b 2 c 3", "HPEXPIREAT h 1500000 FIELDS 1 b", "HPEXPIREAT h 2000000 FIELDS 2 a c", "PEXPIREAT h 5000000"}, nil},
	} {
		s := newTestSet(1)
		s.update(0, func(tx *Tx) { _, _ = tx.HSet(h, words("a 1 b 2 c 3")...) })
		outcome = nil
		s.update(0, func(tx *Tx) {
			c.do(tx)
			if got := recorded(tx); !slices.Equal(got, c.ops) {
				t.Errorf("recorded %q\nwant     %q", got, c.ops)
			}
		})
		if !slices.Equal(outcome, c.outcome) {
			t.Errorf("%q: outcome %d, want %d", c.ops, outcome, c.outcome)
		}
		s.shown()
	}
	s := newTestSet(1)
	s.update(0, func(tx *Tx) {
		tx.Set(h, nil, 0)
		for name, err := range map[string]error{
			"HExpireAt": tx.HExpireAt(h, 2_000_000, words("a"), nil, nil),
			"HPersist":  tx.HPersist(h, words("a"), nil),
		} {
			if err != ErrWrongType {
				t.Errorf("%s of a string: %v", name, err)
			}
		}
		if _, err := tx.HSetKeepTTL(h, words("a 1")...); err != ErrWrongType {
			t.Errorf("HSetKeepTTL of a string: %v", err)
		}
		if _, err := tx.HTake(h, words("a"), nil); err != ErrWrongType {
			t.Errorf("HTake of a string: %v", err)
		}
	})
}

// TestFieldExpiryModel does random things to hashes of several sizes and
// compares them with a model after each, time passing all the while.
func TestFieldExpiryModel(t *testing.T) {
	t.Run("all at once", testFieldExpiryModel)
	t.Run("a few at a time", func(t *testing.T) {
		fewDue(t)
		testFieldExpiryModel(t)
	})
}

// fewDue lets a look-up remove no more than a few overdue fields for the rest of
// the test.
func fewDue(t *testing.T) {
	before := maxDueOnAccess
	maxDueOnAccess = 3
	t.Cleanup(func() { maxDueOnAccess = before })
}

func testFieldExpiryModel(t *testing.T) {
	rng := testRand(t)
	type field struct {
		value string
		at    int64
	}
	s := newTestSet(2)
	s.SetLimits(ds.Limits{HashMaxListpackEntries: 20, HashMaxListpackValue: 64})
	model := map[string]map[string]field{}
	deadlines := map[string]int64{} // of keys
	rounds := 20000
	if testing.Short() {
		rounds = 5000
	}
	most := 0
	for round := range rounds {
		s.now += rng.Int64N(12)
		for key, fields := range model {
			if at := deadlines[key]; at != 0 && at <= s.now {
				clear(fields)
			}
			maps.DeleteFunc(fields, func(_ string, f field) bool { return f.at != 0 && f.at <= s.now })
			if len(fields) == 0 {
				delete(model, key)
				delete(deadlines, key)
			}
		}
		name := "h" + strconv.Itoa(rng.IntN(6))
		key := []byte(name)
		fields := model[name]
		var names [][]byte
		for range 1 + rng.IntN(8) {
			names = append(names, strconv.AppendInt(nil, rng.Int64N(60), 10))
		}
		put := func(pairs [][]byte, keep bool) {
			if fields == nil {
				fields = map[string]field{}
				model[name] = fields
			}
			for i := 0; i < len(pairs); i += 2 {
				f := field{value: string(pairs[i+1])}
				if keep {
					f.at = fields[string(pairs[i])].at
				}
				fields[string(pairs[i])] = f
			}
		}
		s.update(0, func(tx *Tx) {
			switch n := rng.IntN(20); {
			case n < 6:
				var pairs [][]byte
				for _, f := range names {
					pairs = append(pairs, f, strconv.AppendInt(nil, rng.Int64N(1e6), 10))
				}
				var created int
				if n < 4 {
					created, _ = tx.HSet(key, pairs...)
				} else {
					created, _ = tx.HSetKeepTTL(key, pairs...)
				}
				before := len(fields)
				put(pairs, n >= 4)
				if created != len(fields)-before {
					t.Fatalf("round %d: %d fields are new, want %d", round, created, len(fields)-before)
				}
			case n < 13:
				at := s.now - 3 + rng.Int64N(200)
				_ = tx.HExpireAt(key, at, names, nil, nil)
				for _, f := range names {
					if old, ok := fields[string(f)]; ok {
						old.at = at
						fields[string(f)] = old
						if at <= s.now {
							delete(fields, string(f))
						}
					}
				}
			case n < 14:
				_ = tx.HPersist(key, names, nil)
				for _, f := range names {
					if old, ok := fields[string(f)]; ok {
						old.at = 0
						fields[string(f)] = old
					}
				}
			case n < 15:
				_, _ = tx.HDel(key, names...)
				for _, f := range names {
					delete(fields, string(f))
				}
			case n < 17:
				tx.ExpireDue(1 + rng.IntN(5))
			case n < 18 && len(fields) > 0:
				at := s.now + 1 + rng.Int64N(300)
				tx.ExpireAt(key, at)
				deadlines[name] = at
			case n < 19:
				to := "h" + strconv.Itoa(rng.IntN(6))
				if to == name || !tx.Copy(key, 0, []byte(to)) {
					break
				}
				model[to] = maps.Clone(fields)
				delete(deadlines, to)
				if at := deadlines[name]; at != 0 {
					deadlines[to] = at
				}
			}
			if len(fields) == 0 {
				delete(model, name)
				delete(deadlines, name)
			}
		})
		s.update(0, func(tx *Tx) {
			v, err := tx.HashFields(key)
			if err != nil || v.Exists() != (len(model[name]) > 0) {
				t.Fatalf("round %d: the hash exists: %v (%v)", round, v.Exists(), err)
			}
			seen := 0
			v.Each(func(_, _ []byte) bool { seen++; return true })
			for f := range 60 {
				want, there := model[name][strconv.Itoa(f)]
				value, ok := v.Get([]byte(strconv.Itoa(f)))
				at, has := v.Deadline([]byte(strconv.Itoa(f)))
				if ok != there || has != there || string(value) != want.value || at != want.at {
					t.Fatalf("round %d: %d is %q until %d, want %v", round, f, value, at, want)
				}
			}
			if seen != len(model[name]) {
				t.Fatalf("round %d: %d fields are seen, want %d", round, seen, len(model[name]))
			}
			if rng.IntN(3) > 0 {
				return
			}
			if v, err = tx.Hash(key); err != nil || v.Len() != len(model[name]) || v.Exists() != (len(model[name]) > 0) {
				t.Fatalf("round %d: %d fields, want %v (%v)", round, v.Len(), model[name], err)
			}
			most = max(most, v.Len())
			v.EachWithDeadline(func(f, value []byte, at int64) bool {
				if got := (field{string(value), at}); got != model[name][string(f)] {
					t.Fatalf("round %d: %q is %v, want %v", round, f, got, model[name][string(f)])
				}
				return true
			})
			if at, _ := tx.Deadline(key); at != deadlines[name] {
				t.Fatalf("round %d: %q expires at %d, want %d", round, key, at, deadlines[name])
			}
		})
	}
	s.shown()
	if most <= 20 || s.ExpiredFields() < int64(rounds)/10 {
		t.Errorf("too little was tried: hashes of up to %d fields, %d fields expired", most, s.ExpiredFields())
	}
	s.now += 1000
	s.update(0, func(tx *Tx) {
		for tx.ExpireDue(64) > 0 {
		}
		for db, st := range tx.Stats() {
			if st.FieldExpires != 0 {
				t.Errorf("database %d has %d hashes with fields that expire", db, st.FieldExpires)
			}
		}
	})
}

// TestExpireDueOfFields: overdue keys and fields go by their deadlines, no more
// than asked for, in ops that say why.
func TestExpireDueOfFields(t *testing.T) {
	rng := testRand(t)
	s := newTestSet(1)
	due := 0
	s.update(0, func(tx *Tx) {
		for i := range 300 {
			key := fmt.Appendf(nil, "key%d", i)
			tx.Select(rng.IntN(testDBs))
			at := func() int64 {
				at := s.now + 1 + rng.Int64N(100)
				if at <= s.now+50 {
					due++
				}
				return at
			}
			if i%3 == 0 {
				tx.Set(key, nil, at())
				continue
			}
			for f := range 1 + rng.IntN(20) {
				name := strconv.AppendInt(nil, int64(f), 10)
				_, _ = tx.HSet(key, name, nil)
				if rng.IntN(4) != 0 {
					_ = tx.HExpireAt(key, at(), [][]byte{name}, nil, nil)
				}
			}
		}
	})
	s.now += 50
	gone := 0
	for limit := 7; ; {
		n := 0
		s.update(1, func(tx *Tx) {
			n = tx.ExpireDue(limit)
			went := 0
			for _, o := range recorded(tx) {
				if !strings.HasPrefix(o, "expired: DEL ") && !strings.HasPrefix(o, "expired: HDEL ") {
					t.Errorf("%q", o)
				}
				went += strings.Count(o, " ") - 1 - strings.Count(o, ": HDEL")
			}
			if went != n || n > limit || tx.DB() != 1 {
				t.Fatalf("%d went, %d are said to, of at most %d; database %d", went, n, limit, tx.DB())
			}
		})
		gone += n
		if n < limit {
			break
		}
	}
	if gone != due || s.Expired()+s.ExpiredFields() != int64(due) {
		t.Errorf("%d went, %d keys and %d fields are counted, %d were due", gone, s.Expired(), s.ExpiredFields(), due)
	}
	s.shown()
}

// TestReplayKeepsOverdueFields: their HDEL is in the log, if it came.
func TestReplayKeepsOverdueFields(t *testing.T) {
	s := newTestSet(2)
	h := []byte("h")
	s.tx.BeginReplay(s.all, s.now)
	for _, line := range []string{"HSET h a 1 b 2 c 3", "HPEXPIREAT h 5 FIELDS 2 a b", "HPERSIST h FIELDS 1 b", "HSET h x 1", "HPEXPIREAT h 6 FIELDS 1 c"} {
		f := frameOf(line)
		if err := s.tx.Apply(&f); err != nil {
			t.Fatal(err)
		}
	}
	v, _ := s.tx.Hash(h)
	for f, want := range map[string]int64{"a": 5, "b": 0, "c": 6, "x": 0} {
		if at, ok := v.Deadline([]byte(f)); !ok || at != want {
			t.Errorf("%s expires at %d (%v), want %d", f, at, ok, want)
		}
	}
	if s.tx.ExpireDue(10) != 0 || v.Len() != 4 || s.tx.Commit().Ops() != 0 {
		t.Error("a replay expires fields")
	}
	s.tx.End()
	s.update(0, func(tx *Tx) {
		if n := tx.ExpireDue(10); n != 2 {
			t.Errorf("%d fields go after the replay", n)
		}
	})
	// A hash whose fields are all gone is gone, with a log that has no DEL of it.
	s.tx.BeginReplay(s.all, s.now)
	f := frameOf("HDEL h b x")
	if err := s.tx.Apply(&f); err != nil || s.tx.Exists(h) {
		t.Errorf("the hash is still there: %v", err)
	}
	s.tx.End()
}

// TestMillionFields: a million fields that are due at once go in steps of
// bounded work, whether in one hash or in many.
func TestMillionFields(t *testing.T) {
	const batch = 64
	fields := 1_000_000
	if testing.Short() {
		fields = 100_000
	}
	for _, hashes := range []int{1, fields / 5} {
		s := newTestSet(1)
		each := fields / hashes
		per := min(each, 1000) // fields an HSET
		for i := range hashes {
			key := append([]byte("hash"), strconv.Itoa(i)...)
			for from := 0; from < each; from += per {
				var pairs, names [][]byte
				for f := from; f < from+per; f++ {
					name := strconv.AppendInt(nil, int64(f), 10)
					pairs, names = append(pairs, name, name), append(names, name)
				}
				s.update(0, func(tx *Tx) {
					_, _ = tx.HSet(key, pairs...)
					_ = tx.HExpireAt(key, s.now+1+rand.Int64N(1000), names, nil, nil)
				})
			}
		}
		s.now += 1000
		var worst time.Duration
		steps := 0
		for left := fields; left > 0; steps++ {
			start := time.Now()
			s.update(0, func(tx *Tx) {
				n := tx.ExpireDue(batch)
				if n == 0 || n > batch || tx.Commit().Ops() > batch || len(tx.Commit().Bytes()) > batch*100 {
					t.Fatalf("a step removes %d fields in %d ops of %d bytes", n, tx.Commit().Ops(), len(tx.Commit().Bytes()))
				}
				left -= n
			})
			worst = max(worst, time.Since(start))
		}
		if s.ExpiredFields() != int64(fields) || steps > fields/batch+1 {
			t.Errorf("%d fields went in %d steps", s.ExpiredFields(), steps)
		}
		s.update(0, func(tx *Tx) {
			if n := tx.DBSize(); n != 0 {
				t.Errorf("%d hashes are left", n)
			}
		})
		t.Logf("%d hashes: %d steps, the longest took %v", hashes, steps, worst)
	}
}

// TestLookAtManyOverdueFields: a command on single fields works on some of many
// that are overdue, and sees none of them; one on the whole hash sees none
// either. Where all are overdue the hash goes.
func TestLookAtManyOverdueFields(t *testing.T) {
	h := []byte("h")
	const fields = 10_000
	most := (maxDueOnAccess + MaxOpElems - 1) / MaxOpElems
	fill := func(stays bool) *testSet {
		s := newTestSet(1)
		s.update(0, func(tx *Tx) {
			var pairs, names [][]byte
			for f := range fields {
				name := strconv.AppendInt(nil, int64(f), 10)
				pairs, names = append(pairs, name, name), append(names, name)
			}
			_, _ = tx.HSet(h, pairs...)
			if stays {
				_, _ = tx.HSet(h, words("stays 1")...)
			}
			_ = tx.HExpireAt(h, s.now+5, names, nil, nil)
		})
		s.now += 5
		return s
	}
	s := fill(true)
	s.update(0, func(tx *Tx) {
		v, err := tx.HashFields(h)
		if err != nil || v.Len() != fields+1-maxDueOnAccess || !v.Exists() || !v.Expires() {
			t.Errorf("%d fields are left: %v", v.Len(), err)
		}
		if n := tx.Commit().Ops(); n != most {
			t.Errorf("a look at single fields makes %d ops, want %d", n, most)
		}
		seen := 0
		v.Each(func(f, _ []byte) bool { seen++; return true })
		for cursor := uint64(0); ; {
			if cursor = v.Scan(cursor, 100, func(f, _ []byte) { seen++ }); cursor == 0 {
				break
			}
		}
		for f := range fields {
			if _, ok := v.Get(strconv.AppendInt(nil, int64(f), 10)); ok {
				seen += 10
			}
			if _, ok := v.Deadline(strconv.AppendInt(nil, int64(f), 10)); ok {
				seen += 10
			}
		}
		value, ok := v.Get([]byte("stays"))
		if at, there := v.Deadline([]byte("stays")); seen != 2 || !ok || !there || string(value) != "1" || at != 0 {
			t.Errorf("fields that are overdue are seen %d times; the other is %q", seen-2, value)
		}
	})
	// Mutators of single fields find none that is overdue. Each looks the key up,
	// and so removes a part.
	overdue := func(tx *Tx) []byte {
		var name []byte
		d := &s.shards[0].dbs[0]
		d.keys.Get(h).Object().(*ds.Hash).EachDeadline(func(f []byte, _ int64) bool { name = append(name[:0], f...); return true })
		return name
	}
	for name, do := range map[string]func(tx *Tx, f []byte) bool{
		"HSet":        func(tx *Tx, f []byte) bool { n, _ := tx.HSet(h, f, f); _, _ = tx.HDel(h, f); return n == 0 },
		"HSetKeepTTL": func(tx *Tx, f []byte) bool { n, _ := tx.HSetKeepTTL(h, f, f); return n == 0 },
		"HDel":        func(tx *Tx, f []byte) bool { n, _ := tx.HDel(h, f); return n != 0 },
		"HTake":       func(tx *Tx, f []byte) bool { n, _ := tx.HTake(h, [][]byte{f}, func([]byte, bool) {}); return n != 0 },
		"HExpireAt": func(tx *Tx, f []byte) (wrong bool) {
			_ = tx.HExpireAt(h, s.now+100, [][]byte{f}, nil, func(e FieldExpiry) { wrong = e != FieldMissing })
			return wrong
		},
		"HPersist": func(tx *Tx, f []byte) (wrong bool) {
			_ = tx.HPersist(h, [][]byte{f}, func(found, _ bool) { wrong = found })
			return wrong
		},
	} {
		s.update(0, func(tx *Tx) {
			f := overdue(tx)
			if do(tx, f) {
				t.Errorf("%s finds a field that is overdue", name)
			}
			if n := tx.Commit().Ops(); n > 3*most {
				t.Errorf("%s makes %d ops", name, n)
			}
			ops := recorded(tx)
			if !slices.ContainsFunc(ops, func(o string) bool { return o == "expired: HDEL h "+string(f) }) {
				t.Errorf("%s: no op says that the field has expired", name)
			}
			if name == "HSetKeepTTL" {
				_, _ = tx.HDel(h, f)
			}
		})
	}
	s.update(0, func(tx *Tx) {
		if v, err := tx.Hash(h); err != nil || v.Len() != 1 || v.Expires() {
			t.Errorf("the whole hash shows %d fields: %v", v.Len(), err)
		}
		if s.ExpiredFields() != fields {
			t.Errorf("%d fields are counted", s.ExpiredFields())
		}
	})
	s.shown()

	for name, look := range map[string]func(tx *Tx){
		"Exists":     func(tx *Tx) { tx.Exists(h) },
		"HashFields": func(tx *Tx) { _, _ = tx.HashFields(h) },
		"Hash":       func(tx *Tx) { _, _ = tx.Hash(h) },
		"Copy":       func(tx *Tx) { tx.Copy(h, 1, h) },
	} {
		s := fill(false)
		s.update(0, func(tx *Tx) {
			look(tx)
			if ops := recorded(tx); !slices.Equal(ops, []string{"expired: DEL h"}) || tx.Exists(h) {
				t.Errorf("%s of a hash that is overdue as a whole: %q", name, ops)
			}
		})
		if s.ExpiredFields() != fields || s.Expired() != 0 {
			t.Errorf("%s: %d fields and %d keys are counted", name, s.ExpiredFields(), s.Expired())
		}
		s.shown()
	}
}
