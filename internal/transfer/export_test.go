package transfer

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kevy/internal/command/all"
	"kevy/internal/engine"
	"kevy/internal/exec"
	"kevy/internal/op"
	"kevy/internal/vfs"
	"kevy/shard"
)

// tinySizes sort even a small store several times.
var tinySizes = exportSizes{partitionBytes: 2 << 10, stringBytes: 8 << 10, chunkBytes: 256, fanOut: 4}

// live makes n random commits in a store: changes of every type, whole databases
// that go and are swapped, and a base in the middle. If it is to be expiring, a
// field of a hash expires in the end for sure.
func live(t testing.TB, rng *rand.Rand, fsys vfs.FS, dir string, n int, expiring bool) {
	t.Helper()
	opt := options(fsys, dir)
	opt.Offline = true
	e, err := engine.Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	everyShard, tx := allShards(e.Set()), e.NewTx()
	text := func() []byte { return []byte(strings.Repeat(strconv.Itoa(rng.IntN(1000)), 1+rng.IntN(20))) }
	member := func() []byte { return strconv.AppendInt(nil, rng.Int64N(50), 10) }
	id := uint64(0)
	for range n {
		e.Set().Lock(everyShard)
		tx.Begin(everyShard, rng.IntN(testDBs), nowMs)
		for range 1 + rng.IntN(3) {
			id++
			if rng.IntN(20) == 0 {
				changeLibraries(t, rng, tx)
			}
			kind := rng.IntN(24)
			// Mostly a key of that type; what does not fit is no op.
			key := fmt.Appendf(nil, "k%d", rng.IntN(40))
			if rng.IntN(4) > 0 {
				key = fmt.Appendf(nil, "%c%d", "sssllllSSShhhhhzzxx....."[kind], rng.IntN(10))
			}
			switch kind {
			case 0, 1:
				tx.Set(key, text(), []int64{0, shard.KeepTTL, nowMs + 1000, nowMs - 5}[rng.IntN(4)])
			case 2:
				_ = tx.SetRange(key, rng.IntN(5000), text())
			case 3, 4:
				_, _ = tx.PushRight(key, text(), text())
			case 5:
				_, _ = tx.PushLeft(key, text())
			case 6:
				_, _ = tx.PopRight(key, 1+rng.IntN(3), nil)
			case 7, 8:
				_, _ = tx.SAdd(key, member(), member(), text())
			case 9:
				_, _ = tx.SRem(key, member())
			case 10, 11:
				_, _ = tx.HSet(key, member(), text(), member(), text())
			case 12:
				_ = tx.HExpireAt(key, nowMs+1+rng.Int64N(1e6), [][]byte{member(), member()}, nil, nil)
			case 13:
				_ = tx.HPersist(key, [][]byte{member()}, nil)
			case 14:
				_, _ = tx.HDel(key, member(), member())
			case 15, 16:
				_, _ = tx.ZAdd(key, shard.Scored{Member: member(), Score: rng.NormFloat64()})
			case 17:
				_ = tx.XAdd(key, shard.StreamID{Ms: id}, []byte("field"), text())
			case 18:
				_, _ = tx.XGroupCreate(key, []byte("group"), shard.StreamID{}, 0, true)
				_, _ = tx.XGroupCreateConsumer(key, []byte("group"), []byte("consumer"))
			case 19:
				tx.ExpireAt(key, nowMs-50+rng.Int64N(1000))
			case 20:
				tx.Del(key)
			case 21:
				if tx.Exists(key) {
					tx.Copy(key, rng.IntN(testDBs), fmt.Appendf(nil, "copy%d", rng.IntN(20)))
				}
			case 22:
				if a, b := rng.IntN(testDBs), rng.IntN(testDBs); a != b {
					tx.SwapDB(a, b)
				}
			default:
				switch rng.IntN(n / 10) {
				case 0:
					tx.FlushAll()
				case 1, 2:
					tx.FlushDB(rng.IntN(testDBs))
				}
			}
		}
		changed := tx.Commit().Ops() > 0
		if changed {
			e.Commit(tx)
		}
		e.Set().Unlock(everyShard)
		tx.End()
		if changed && rng.IntN(n/2) == 0 {
			if err := e.Rewrite(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if expiring {
		e.Set().Lock(everyShard)
		tx.Begin(everyShard, 1, nowMs)
		_, _ = tx.HSet([]byte("expiring"), []byte("field"), text())
		_ = tx.HExpireAt([]byte("expiring"), nowMs+1000, [][]byte{[]byte("field")}, nil, nil)
		e.Commit(tx)
		e.Set().Unlock(everyShard)
		tx.End()
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// changeLibraries makes a random change of the libraries of functions.
func changeLibraries(t testing.TB, rng *rand.Rand, tx *shard.Tx) {
	name := fmt.Sprintf("lib%d", rng.IntN(8))
	switch rng.IntN(12) {
	case 0:
		tx.FlushLibraries()
	case 1, 2:
		tx.DeleteLibrary(name)
	default:
		if err := tx.LoadLibrary(libraryCode(name, rng.IntN(1000))); err != nil {
			t.Fatal(err)
		}
	}
}

// libraryCode is a library whose one function has its name.
func libraryCode(name string, answer int) []byte {
	return fmt.Appendf(nil, "#!lua name=%s\nredis.register_function('f_%s', function() return %d end)", name, name, answer)
}

// TestSortedExportEqualsWhole exports random stores by partitions, small ones and
// those of the real size, and from a keyspace that holds all of the store: the
// files hold the same.
func TestSortedExportEqualsWhole(t *testing.T) {
	rng := seededRand(t)
	versions, libraries := map[int]int{}, 0
	for i := range 25 {
		m := vfs.NewMem()
		live(t, rng, m, "data", 20+rng.IntN(300), i%2 == 0)
		db := EveryDB
		if i%5 == 4 {
			db = rng.IntN(testDBs)
		}
		var reports []ExportReport
		var digests []string
		for _, sizes := range []*exportSizes{nil, &tinySizes} {
			r, err := Export(ExportOptions{Store: options(m, "data"), File: "out.rdb", DB: db, sizes: sizes})
			if err != nil {
				t.Fatal(err)
			}
			reports, digests = append(reports, *r), append(digests, imported(t, m, "out.rdb"))
		}
		opt := ExportOptions{Store: options(m, "data"), File: "out.rdb", DB: db}
		ex := &exporter{opt: &opt, report: ExportReport{File: "out.rdb", Dir: "data", Libraries: []string{}}}
		if err := ex.whole(); err != nil {
			t.Fatal(err)
		}
		want, digest := ex.report, imported(t, m, "out.rdb")
		versions[want.RDBVersion]++
		libraries += len(want.Libraries)
		for j, r := range reports {
			// What repeats the selection of a database is longer.
			r.Seconds, r.Bytes, want.Bytes = 0, 0, 0
			if !reflect.DeepEqual(r, want) || digests[j] != digest {
				t.Errorf("store %d, way %d: %+v\nthe whole keyspace: %+v", i, j, r, want)
			}
		}
		if files := m.OpenFiles(); len(files) > 0 {
			t.Fatalf("left open: %q", files)
		}
	}
	if len(versions) < 2 || libraries < 20 {
		t.Errorf("the files are of the versions %v, and have %d libraries of functions", versions, libraries)
	}
}

// imported makes a store of a file and returns what it holds.
func imported(t testing.TB, m *vfs.Mem, file string) string {
	t.Helper()
	dir := fmt.Sprintf("imported%d", m.Steps())
	if _, err := Import(importOptions(m, dir, file)); err != nil {
		t.Fatal(err)
	}
	digest, _ := content(t, m, dir)
	return digest
}

// TestExportSortsUntilItFits has one key with a history larger than all others,
// and strings that a few bytes of log make large.
func TestExportSortsUntilItFits(t *testing.T) {
	rng := seededRand(t)
	m := vfs.NewMem()
	e, err := engine.Open(options(m, "data"))
	if err != nil {
		t.Fatal(err)
	}
	every, tx := allShards(e.Set()), e.NewTx()
	for i := range 3000 {
		e.Set().Lock(every)
		tx.Begin(every, i%testDBs, nowMs)
		tx.Set([]byte("hot"), fmt.Appendf(nil, "%d", i), 0)
		if i < 300 {
			tx.Set(fmt.Appendf(nil, "cold%d", i), []byte("x"), 0)
		}
		if i < 12 {
			_ = tx.SetRange(fmt.Appendf(nil, "large%d", i), 6000+rng.IntN(100), []byte("x"))
		}
		e.Commit(tx)
		e.Set().Unlock(every)
		tx.End()
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	want, keys := content(t, m, "data")

	opt := ExportOptions{Store: options(m, "data"), File: "out.rdb", DB: EveryDB, sizes: &tinySizes}
	ex := &exporter{opt: &opt, sizes: tinySizes, nowMs: nowMs}
	s, err := newSorter(m, "out.rdb.parts.tmp", 4, 256)
	if err != nil {
		t.Fatal(err)
	}
	divert := offline(opt.Store)
	divert.Divert = s.add
	if e, err = engine.Open(divert); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(e.Close(), s.end()); err != nil {
		t.Fatal(err)
	}
	var partitions, many, largest int
	err = ex.eachLoaded(s.parts, true, func(p *partition, set *shard.Set) (bool, error) {
		snap := set.Freeze()
		defer snap.Release()
		n, strings := snap.Keys(), 0
		snap.EachValue(func(v shard.Value) bool { strings += len(v.Text); return true })
		partitions++
		if p.several {
			many++
			largest = max(largest, strings)
			if p.bytes > tinySizes.partitionBytes {
				t.Errorf("%d keys are loaded from %d bytes", n, p.bytes)
			}
		}
		return true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// The last growth that is not looked at is that of one string.
	if partitions < 20 || many == 0 || int64(largest) > 2*tinySizes.stringBytes+6100 {
		t.Errorf("%d partitions, %d of several keys, whose strings have up to %d bytes", partitions, many, largest)
	}
	if files := m.OpenFiles(); len(files) > 0 {
		t.Errorf("left open: %q", files)
	}
	r, err := Export(opt)
	if err != nil || int(r.Keys) != keys {
		t.Fatal(r, err)
	}
	if imported(t, m, "out.rdb") != want {
		t.Error("the file holds something else")
	}
}

// TestExportOfAnotherServersLog: commands that are no ops need a keyspace.
func TestExportOfAnotherServersLog(t *testing.T) {
	rng := seededRand(t)
	m := vfs.NewMem()
	fill(t, rng, m, "data", 30, "k")
	infos, err := m.List("data/appendonlydir")
	if err != nil {
		t.Fatal(err)
	}
	tail := ""
	for _, info := range infos {
		if strings.HasSuffix(info.Name, ".incr.aof") {
			tail = "data/appendonlydir/" + info.Name
		}
	}
	file, err := m.OpenAppend(tail)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.Write([]byte("*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*3\r\n$6\r\nINCRBY\r\n$7\r\nforeign\r\n$2\r\n42\r\n"))
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		t.Fatal(err)
	}
	store := options(m, "data")
	store.Foreign = exec.RunForeign(all.Table())
	before := m.Clone()
	r, err := Export(ExportOptions{Store: store, File: "out.rdb", DB: EveryDB})
	if err != nil {
		t.Fatal(err)
	}
	want, keys := content(t, m, "data")
	if int(r.Keys) != keys || imported(t, m, "out.rdb") != want {
		t.Errorf("%+v of %d keys", r, keys)
	}
	// What the store means is what it would mean without the first attempt.
	plain := store
	plain.FS, plain.Offline = before, true
	e, err := engine.Open(plain)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if got, _ := content(t, before, "data"); got != want {
		t.Error("the store is another one")
	}
}

// TestDivertedStoreIsNotRewritten: the keyspace is empty, and must not become
// what the log holds.
func TestDivertedStoreIsNotRewritten(t *testing.T) {
	rng := seededRand(t)
	m := vfs.NewMem()
	fill(t, rng, m, "data", 30, "k")
	want, _ := content(t, m, "data")
	opt := options(m, "data")
	ops := 0
	opt.Divert = func(*op.Frame) error { ops++; return nil }
	if _, err := engine.Open(opt); err == nil {
		t.Fatal("a store that is served was diverted")
	}
	e, err := engine.Open(offline(opt))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Rewrite(); err == nil || ops == 0 {
		t.Errorf("a rewrite from nothing: %v, after %d ops", err, ops)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if got, _ := content(t, m, "data"); got != want {
		t.Error("the store is another one")
	}
}

// TestExportOnAFullDisk ends with an error that says how much room is needed, and
// leaves nothing behind.
func TestExportOnAFullDisk(t *testing.T) {
	rng := seededRand(t)
	base := vfs.NewMem()
	fill(t, rng, base, "data", 200, "k")
	want, _ := content(t, base, "data")
	base = base.Kill()
	room := base.Clone()
	before := room.Used()
	if _, err := Export(ExportOptions{Store: options(room, "data"), File: "out.rdb", DB: EveryDB, sizes: &tinySizes}); err != nil {
		t.Fatal(err)
	}
	full := map[string]int{}
	for i := range 40 {
		m := base.Clone()
		m.SetQuota(before + int64(i)*before/20)
		_, err := Export(ExportOptions{Store: options(m, "data"), File: "out.rdb", DB: EveryDB, sizes: &tinySizes})
		switch {
		case err == nil:
			full["room enough"]++
		case !errors.Is(err, syscall.ENOSPC):
			t.Fatal(err)
		case strings.Contains(err.Error(), "sort the log into files beside out.rdb"):
			full["sorting"]++
		default:
			full["other"]++
		}
		m.SetQuota(1 << 40)
		if err != nil {
			if _, err := m.Stat("out.rdb"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a file is there: %v", err)
			}
		}
		infos, _ := m.List("/")
		for _, info := range infos {
			if strings.HasSuffix(info.Name, tempSuffix) {
				t.Errorf("%s is left", info.Name)
			}
		}
		if files := m.OpenFiles(); len(files) > 0 {
			t.Fatalf("left open: %q", files)
		}
		if got, _ := content(t, m, "data"); got != want {
			t.Fatal("the store is another one")
		}
	}
	t.Log(full)
	if full["room enough"] == 0 || full["sorting"] == 0 {
		t.Errorf("the outcomes were %v", full)
	}
}

// TestDamagedPartition: what the disk gives back otherwise is not exported.
func TestDamagedPartition(t *testing.T) {
	m := vfs.NewMem()
	p, err := newPartition(m, "parts")
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	var c op.Commit
	shard.RebuildValue(&c, 1, 0, []byte("key"), shard.Value{Text: []byte("value")}, 0, nil)
	f := frames(t, c.Bytes())
	if err := errors.Join(p.add(f, 1<<20), p.flush(0)); err != nil {
		t.Fatal(err)
	}
	raw := make([]byte, p.bytes)
	if _, err := p.file.ReadAt(raw, 0); err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		bad := append([]byte(nil), raw...)
		bad[i] ^= 0x40
		if err := p.file.Truncate(0); err != nil {
			t.Fatal(err)
		}
		if _, err := p.file.Write(bad); err != nil {
			t.Fatal(err)
		}
		if err := p.each(func(*op.Frame) error { return nil }); !errors.Is(err, errChanged) {
			t.Fatalf("byte %d is another one: %v", i, err)
		}
	}
}

func frames(t *testing.T, payload []byte) *op.Frame {
	t.Helper()
	var s op.Scanner
	s.Reset(payload, 0)
	f, err := s.Next()
	if err != nil || f == nil {
		t.Fatal(f, err)
	}
	return f
}

// TestExportMemory has a store of 128 MiB, and bounds the heap of its export far
// below.
func TestExportMemory(t *testing.T) {
	dir := t.TempDir()
	opt := options(vfs.OS(), dir+"/data")
	opt.Offline = true
	e, err := engine.Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	const keys, valueBytes = 300_000, 400
	every, tx := allShards(e.Set()), e.NewTx()
	value := make([]byte, valueBytes)
	for i := range keys {
		if i%1000 == 0 {
			if i > 0 {
				e.Commit(tx)
				e.Set().Unlock(every)
				tx.End()
				if err := e.Admit(); err != nil {
					t.Fatal(err)
				}
			}
			e.Set().Lock(every)
			tx.Begin(every, 0, nowMs)
		}
		copy(value, strconv.Itoa(i*7919))
		tx.Set(fmt.Appendf(nil, "key:%d", i), value, 0)
	}
	e.Commit(tx)
	e.Set().Unlock(every)
	tx.End()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e, tx = nil, nil
	runtime.GC()
	var start, now runtime.MemStats
	runtime.ReadMemStats(&start)
	var peak uint64
	var watching sync.WaitGroup
	stop := make(chan struct{})
	watching.Go(func() {
		for {
			runtime.ReadMemStats(&now)
			peak = max(peak, now.HeapInuse)
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	})
	r, err := Export(ExportOptions{Store: options(vfs.OS(), dir+"/data"), File: dir + "/out.rdb", DB: EveryDB})
	close(stop)
	watching.Wait()
	if err != nil || r.Keys != keys {
		t.Fatal(r, err)
	}
	grown := int64(peak) - int64(start.HeapInuse)
	t.Logf("peak heap %d MiB", grown>>20)
	if limit := int64(keys) * valueBytes * 3 / 4; grown > limit {
		t.Errorf("the heap grew by %d bytes, more than %d", grown, limit)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("beside the store and the file: %v %v", entries, err)
	}
}
