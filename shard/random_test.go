package shard

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"kevy/internal/ds"
	"kevy/internal/op"
)

// testRand returns a generator whose seed is shown, and is KEVY_SEED if that is
// set.
func testRand(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if s := os.Getenv("KEVY_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("KEVY_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

const testDBs = 3

// testSet is a keyspace with a Tx that holds all of it.
type testSet struct {
	*Set
	all []int
	tx  *Tx
	now int64
}

func newTestSet(shards int) *testSet {
	s := &testSet{Set: NewSet(shards, testDBs), now: 1_000_000}
	for i := range shards {
		s.all = append(s.all, i)
	}
	s.tx = s.NewTx(&op.LogPosition{})
	return s
}

// update runs fn on a Tx that is begun in a database and committed.
func (s *testSet) update(db int, fn func(tx *Tx)) (ops int) {
	s.Lock(s.all)
	s.tx.Begin(s.all, db, s.now)
	fn(s.tx)
	ops = s.tx.Commit().Ops()
	if ops > 0 {
		s.tx.Committed(1)
	}
	s.tx.End()
	s.Unlock(s.all)
	return ops
}

// shown is what readers can see of a keyspace, beyond its digest.
func (s *testSet) shown() (keys []string) {
	for i, sh := range s.shards {
		for db := range sh.dbs {
			d := &sh.dbs[db]
			expires, hashes := 0, map[string]int64{}
			d.keys.Each(func(e *ds.Entry) bool {
				encoding := stringEncoding(e)
				if o := e.Object(); o != nil {
					encoding = o.Encoding()
				}
				keys = append(keys, fmt.Sprintf("shard %d db %d %q %v %s at %d", i, db, e.Key(), kindOf(e), encoding, e.Aux()))
				if e.Aux() != 0 {
					expires++
				}
				if h, ok := e.Object().(*ds.Hash); ok && h.NextDeadline() != 0 {
					hashes[string(e.Key())] = h.NextDeadline()
				}
				return true
			})
			if d.fields != nil {
				d.fields.Each(func(key []byte, at int64) bool {
					if hashes[string(key)] != at {
						panic(fmt.Sprintf("hash %q is in the index at %d, and expires at %d", key, at, hashes[string(key)]))
					}
					delete(hashes, string(key))
					return true
				})
			}
			if len(hashes) > 0 {
				panic(fmt.Sprintf("hashes %v are not in the index", hashes))
			}
			keys = append(keys, fmt.Sprintf("shard %d db %d: %d keys, %d of %d expire", i, db, d.keys.Len(), d.deadlines.Len(), expires))
		}
	}
	slices.Sort(keys)
	return keys
}

// mutate makes one change, or none, on some key of some database. What it does
// depends on rng and the state alone.
func mutate(rng *rand.Rand, tx *Tx) {
	key := fmt.Appendf(nil, "key%d", rng.IntN(16))
	if rng.IntN(4) == 0 {
		tx.Select(rng.IntN(testDBs))
	}
	value := fmt.Appendf(nil, "%d", rng.IntN(1000))
	if rng.IntN(8) == 0 {
		value = make([]byte, rng.IntN(300))
	}
	elem := func() []byte { return fmt.Appendf(nil, "%d", rng.IntN(12)) }
	long := func(n int) [][]byte {
		out := make([][]byte, n)
		for i := range out {
			out[i] = fmt.Appendf(nil, "element%d", rng.IntN(1000))
		}
		return out
	}
	kind, found := tx.Kind(key)
	if !found {
		kind = []Kind{KindString, KindList, KindSet, KindZSet, KindHash, KindStream}[rng.IntN(6)]
	}
	switch n := rng.IntN(40); {
	case kind == KindStream && n > 15:
		mutateStream(rng, tx, key)
	case n == 0 && rng.IntN(3) == 0:
		tx.FlushAll()
	case n == 1:
		tx.FlushDB(rng.IntN(testDBs))
	case n == 2:
		tx.SwapDB(rng.IntN(testDBs), rng.IntN(testDBs))
	case n < 6:
		tx.Del(key)
	case n < 9:
		tx.ExpireAt(key, tx.NowMs()+rng.Int64N(400))
	case n < 10:
		tx.Persist(key)
	case n < 11:
		tx.ExpireDue(1 + rng.IntN(4))
	case n < 15:
		to, db := fmt.Appendf(nil, "key%d", rng.IntN(16)), rng.IntN(testDBs)
		switch {
		case string(to) == string(key) && db == tx.DB():
		case rng.IntN(2) == 0:
			tx.Copy(key, db, to)
		default:
			tx.Move(key, db, to)
		}
	case n < 16 && rng.IntN(2) == 0:
		tx.MarkRaw(key)
		tx.MarkSkiplist(key)
	case n < 16:
		h, limits := ds.NewHash(), tx.Limits()
		for _, f := range long(1 + rng.IntN(300)) {
			h.Set(f, value, &limits)
		}
		tx.Put(key, Value{Object: h}, []int64{0, tx.NowMs() + 100}[rng.IntN(2)])
	case kind == KindString && n < 24:
		_ = tx.SetRange(key, rng.IntN(20), append([]byte("x"), value[:min(len(value), 3)]...))
	case kind == KindString:
		tx.Set(key, value, []int64{0, KeepTTL, tx.NowMs() + 100}[rng.IntN(3)])
	case kind == KindList && n < 20:
		_, _ = tx.PushLeft(key, elem(), elem(), elem())
	case kind == KindList && n < 23:
		_, _ = tx.PushRight(key, long(1+rng.IntN(300))...)
	case kind == KindList && n < 26:
		_, _ = tx.PopLeft(key, 1+rng.IntN(3), nil)
	case kind == KindList && n < 29:
		_, _ = tx.PopRight(key, 1+rng.IntN(200), nil)
	case kind == KindList && n < 31:
		_, _ = tx.LSet(key, rng.IntN(6)-3, elem())
	case kind == KindList && n < 33:
		_, _ = tx.LInsert(key, rng.IntN(2) == 0, elem(), elem())
	case kind == KindList && n < 36:
		_, _ = tx.LRem(key, rng.IntN(5)-2, elem())
	case kind == KindList:
		_ = tx.LTrim(key, rng.IntN(4)-1, rng.IntN(200)-2)
	case kind == KindSet && n < 28:
		_, _ = tx.SAdd(key, elem(), elem())
	case kind == KindSet && n < 31:
		_, _ = tx.SAdd(key, long(1+rng.IntN(600))...)
	case kind == KindSet:
		_, _ = tx.SRem(key, elem(), elem(), elem())
	case kind == KindHash && n < 20:
		at := tx.NowMs() + rng.Int64N(300) - 20
		_ = tx.HExpireAt(key, max(at, 1), [][]byte{elem(), elem(), elem()}, nil, nil)
	case kind == KindHash && n < 22:
		every := rng.IntN(3) == 0
		var fields [][]byte
		if v, err := tx.Hash(key); err == nil {
			v.Each(func(f, _ []byte) bool {
				fields = append(fields, bytes.Clone(f))
				return true
			})
		}
		slices.SortFunc(fields, bytes.Compare) // the order in a table is its own
		if !every {
			fields = fields[:len(fields)/3]
		}
		_ = tx.HExpireAt(key, tx.NowMs()+1+rng.Int64N(200), fields, nil, nil)
	case kind == KindHash && n < 23:
		_ = tx.HPersist(key, [][]byte{elem(), elem()}, nil)
	case kind == KindHash && n < 24:
		_, _ = tx.HSetKeepTTL(key, elem(), value, elem(), value)
	case kind == KindHash && n < 25:
		_, _ = tx.HTake(key, [][]byte{elem(), elem()}, func([]byte, bool) {})
	case kind == KindHash && n < 28:
		_, _ = tx.HSet(key, elem(), value, elem(), value)
	case kind == KindHash && n < 31:
		_, _ = tx.HSet(key, long(2*(1+rng.IntN(150)))...)
	case kind == KindHash:
		_, _ = tx.HDel(key, elem(), elem(), elem())
	case n < 24:
		_, _ = tx.ZAdd(key, Scored{elem(), float64(rng.IntN(9))}, Scored{elem(), rng.NormFloat64()})
	case n < 30:
		members := make([]Scored, 1+rng.IntN(200))
		for i, m := range long(len(members)) {
			members[i] = Scored{m, float64(rng.IntN(100))}
		}
		_, _, _ = tx.ZAddIf(key, ZCond(1<<rng.IntN(4)), members)
	case n < 35:
		_, _ = tx.ZRem(key, elem(), elem())
	default:
		_, _ = tx.ZRemRange(key, rng.IntN(3), 1+rng.IntN(200), rng.IntN(2) == 0, nil)
	}
}

// mutateStream is mutate for a key that holds a stream or nothing.
func mutateStream(rng *rand.Rand, tx *Tx, key []byte) {
	s, _ := tx.Stream(key)
	near := func() StreamID {
		return StreamID{Ms: uint64(max(0, int64(s.LastID().Ms)+rng.Int64N(40)-30)), Seq: uint64(rng.IntN(2))}
	}
	ids := func() (out []StreamID) {
		for range 1 + rng.IntN(6) {
			out = append(out, near())
		}
		return out
	}
	group := fmt.Appendf(nil, "group%d", rng.IntN(3))
	consumer := fmt.Appendf(nil, "consumer%d", rng.IntN(4))
	read := int64(rng.IntN(4)) - 1
	switch rng.IntN(20) {
	case 0, 1, 2, 3, 4, 5:
		for id := s.LastID(); rng.IntN(12) > 0; {
			id.Ms += uint64(rng.IntN(3))
			id.Seq++
			_ = tx.XAdd(key, id, []byte("n"), fmt.Appendf(nil, "%d", rng.IntN(1000)), fmt.Appendf(nil, "m%d", rng.IntN(2)), make([]byte, rng.IntN(300)))
		}
	case 6, 7:
		_, _ = tx.XDel(key, ids())
	case 8:
		_, _ = tx.XTrim(key, StreamTrim{MaxLen: uint64(rng.IntN(60)), Approximate: rng.IntN(2) == 0})
	case 9:
		_, _ = tx.XTrim(key, StreamTrim{ByID: true, MinID: near(), Approximate: rng.IntN(2) == 0, Limit: int64(rng.IntN(200))})
	case 10:
		last := near()
		if top := s.TopID(); last.Less(top) {
			last = top
		}
		maxDeleted := s.MaxDeletedID()
		if m := near(); rng.IntN(2) == 0 && m.Less(last) {
			maxDeleted = m
		}
		_, _ = tx.XSetID(key, last, s.Added()+uint64(rng.IntN(3)), maxDeleted)
	case 11, 12:
		_, _ = tx.XGroupCreate(key, group, near(), read, rng.IntN(2) == 0)
	case 13:
		_, _ = tx.XGroupSetID(key, group, near(), read)
	case 14:
		if rng.IntN(3) == 0 {
			_, _ = tx.XGroupDestroy(key, group)
			return
		}
		_, _ = tx.XGroupCreateConsumer(key, group, consumer)
	case 15:
		_, _, _ = tx.XGroupDelConsumer(key, group, consumer)
	case 16, 17, 18:
		_, _ = tx.XClaim(key, group, Claim{Consumer: consumer, DeliveredMs: tx.NowMs() - rng.Int64N(3), Count: uint64(rng.IntN(3))}, ids()...)
	default:
		_, _ = tx.XAck(key, group, ids())
	}
}
