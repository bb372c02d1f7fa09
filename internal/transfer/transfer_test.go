package transfer

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kevy/aof"
	"kevy/internal/ds"
	"kevy/internal/engine"
	"kevy/internal/rdb"
	"kevy/internal/script"
	"kevy/internal/vfs"
	"kevy/shard"
)

const (
	testShards = 3
	testDBs    = 4
	nowMs      = 1_700_000_000_000
)

func seededRand(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("KEVY_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = n
	}
	t.Logf("KEVY_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

func options(fsys vfs.FS, dir string) engine.Options {
	return engine.Options{FS: fsys, Dir: dir, Shards: testShards, DBs: testDBs, Fsync: aof.PolicyEverySec, Version: "test", NowMs: func() int64 { return nowMs }}
}

func importOptions(fsys vfs.FS, dir, file string) ImportOptions {
	return ImportOptions{Store: options(fsys, dir), File: file, DB: EveryDB, CheckLibraries: script.CheckLibraries}
}

// fill makes n random keys and three libraries of functions in a store.
func fill(t testing.TB, rng *rand.Rand, fsys vfs.FS, dir string, n int, prefix string) {
	t.Helper()
	opt := options(fsys, dir)
	opt.Offline = true
	e, err := engine.Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	all, tx := allShards(e.Set()), e.NewTx()
	e.Set().Lock(all)
	tx.Begin(all, 0, nowMs)
	for i := range 3 {
		if err := tx.LoadLibrary(libraryCode(prefix+strconv.Itoa(i), rng.IntN(1000))); err != nil {
			t.Fatal(err)
		}
	}
	e.Commit(tx)
	e.Set().Unlock(all)
	tx.End()
	for i := range n {
		e.Set().Lock(all)
		tx.Begin(all, rng.IntN(testDBs), nowMs)
		key := fmt.Appendf(nil, "%s%d", prefix, i)
		size := 1 + rng.IntN(10)
		if rng.IntN(20) == 0 {
			size = 1000 // so that it is written in several commits
		}
		text := func() []byte { return []byte(strings.Repeat(strconv.Itoa(rng.IntN(1000)), 1+rng.IntN(30))) }
		switch rng.IntN(6) {
		case 0:
			tx.Set(key, text(), 0)
		case 1:
			for range size {
				_, _ = tx.PushRight(key, text())
			}
		case 2:
			for range size {
				_, _ = tx.SAdd(key, text())
			}
		case 3:
			for range size {
				_, _ = tx.HSet(key, text(), text())
			}
			if rng.IntN(2) == 0 {
				_, _ = tx.HSet(key, []byte("field"), text())
				_ = tx.HExpireAt(key, nowMs+rng.Int64N(1e9)+1, [][]byte{[]byte("field")}, nil, nil)
			}
		case 4:
			for range size {
				_, _ = tx.ZAdd(key, shard.Scored{Member: text(), Score: rng.NormFloat64()})
			}
		default:
			_, _ = tx.SAdd(key, strconv.AppendInt(nil, rng.Int64N(1e9), 10))
		}
		switch rng.IntN(4) {
		case 0:
			tx.ExpireAt(key, nowMs+1+rng.Int64N(1e9))
		case 1:
			if rng.IntN(5) == 0 {
				tx.ExpireAt(key, nowMs-1) // overdue, and not gone yet
			}
		}
		e.Commit(tx)
		e.Set().Unlock(all)
		tx.End()
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// content opens a store and returns its digest, which the libraries of functions
// are part of, and its keys, without those that are overdue.
func content(t testing.TB, fsys vfs.FS, dir string) (digest string, keys int) {
	t.Helper()
	d, keys, err := tryContent(fsys, dir)
	if err != nil {
		t.Fatal(err)
	}
	return d, keys
}

func tryContent(fsys vfs.FS, dir string) (digest string, keys int, err error) {
	opt := options(fsys, dir)
	opt.Offline = true
	e, err := engine.Open(opt)
	if err != nil {
		return "", 0, err
	}
	all := allShards(e.Set())
	e.Set().Lock(all)
	snap := e.Set().Freeze()
	e.Set().Unlock(all)
	var d shard.Digester
	_ = snap.Each(func(db, _ int, entry *ds.Entry) error {
		if at := entry.Aux(); at == 0 || at > nowMs {
			d.Add(db, entry)
			keys++
		}
		return nil
	})
	digest = d.Sum().String()
	for _, lib := range snap.Libraries() {
		digest += "\n" + string(lib.Code)
	}
	return digest, keys, e.Close()
}

func TestThereAndBack(t *testing.T) {
	rng := seededRand(t)
	m := vfs.NewMem()
	fill(t, rng, m, "data", 300, "k")
	want, n := content(t, m, "data")
	var told, total int64
	ex, err := Export(ExportOptions{Store: options(m, "data"), File: "dump.rdb", DB: EveryDB, Progress: func(d, n int64) { told, total = d, n }})
	if err != nil {
		t.Fatal(err)
	}
	if int(ex.Keys) != n || ex.Expired == 0 || ex.RDBVersion != 12 || told != total || total == 0 || len(ex.Libraries) != 3 {
		t.Errorf("%+v, progress %d of %d", ex, told, total)
	}
	if info, err := m.Stat("dump.rdb"); err != nil || info.Size != ex.Bytes {
		t.Errorf("%+v %v, the report says %d bytes", info, err, ex.Bytes)
	}
	if _, err := m.Stat("dump.rdb.tmp"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the temporary file: %v", err)
	}
	if after, _ := content(t, m, "data"); after != want {
		t.Error("the export has changed the store")
	}

	im, err := Import(ImportOptions{Store: options(m, "new"), File: "dump.rdb", DB: EveryDB, CheckLibraries: script.CheckLibraries, Progress: func(d, n int64) { told, total = d, n }})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := content(t, m, "new"); got != want {
		t.Error("the imported store is another one")
	}
	if im.Keys != ex.Keys || im.Expiring != ex.Expiring || !im.NewStore || im.Writer != "kevy test" || !slices.Equal(im.Libraries, ex.Libraries) || told != total || total != ex.Bytes {
		t.Errorf("%+v, progress %d of %d", im, told, total)
	}

	// Into a store that has keys: only on request, and then those of the file win.
	_, err = Import(importOptions(m, "new", "dump.rdb"))
	if !errors.Is(err, ErrNotEmpty) {
		t.Errorf("into a store with keys: %v", err)
	}
	fill(t, rng, m, "other", 150, "k")
	fill(t, rng, m, "other", 50, "others")
	if im, err = Import(ImportOptions{Store: options(m, "other"), File: "dump.rdb", DB: EveryDB, CheckLibraries: script.CheckLibraries, Replace: true}); err != nil {
		t.Fatal(err)
	}
	if im.NewStore || im.Keys != ex.Keys {
		t.Errorf("%+v", im)
	}
	if _, err = Import(ImportOptions{Store: options(m, "other"), File: "dump.rdb", DB: EveryDB, CheckLibraries: script.CheckLibraries, Replace: true}); err != nil {
		t.Fatal(err)
	}
	merged, keys := content(t, m, "other")
	if keys <= n || merged == want {
		t.Errorf("the merged store has %d keys, the file %d", keys, n)
	}

	// One database.
	var sum int64
	for db := range testDBs {
		dir := "db" + strconv.Itoa(db)
		im, err := Import(ImportOptions{Store: options(m, dir), File: "dump.rdb", DB: db, CheckLibraries: script.CheckLibraries})
		if err != nil || im.Keys == 0 || im.OtherDBs == 0 || len(im.Libraries) != 3 {
			t.Fatal(im, err)
		}
		sum += im.Keys
		out, err := Export(ExportOptions{Store: options(m, "data"), File: dir + ".rdb", DB: db})
		if err != nil || out.Keys != im.Keys {
			t.Errorf("database %d: %d keys were imported, %+v %v", db, im.Keys, out, err)
		}
	}
	if sum != ex.Keys {
		t.Errorf("all databases together have %d keys of %d", sum, ex.Keys)
	}
}

func TestRefusals(t *testing.T) {
	rng := seededRand(t)
	m := vfs.NewMem()
	fill(t, rng, m, "data", 100, "k")
	if _, err := Export(ExportOptions{Store: options(m, "data"), File: "dump.rdb", DB: EveryDB}); err != nil {
		t.Fatal(err)
	}
	_, err := Export(ExportOptions{Store: options(m, "nothing"), File: "x.rdb", DB: EveryDB})
	if err == nil || !strings.Contains(err.Error(), "holds no store") {
		t.Errorf("export of nothing: %v", err)
	}
	if _, err := m.Stat("nothing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the export of nothing made a directory: %v", err)
	}
	write := func(name string, data []byte) {
		if err := vfs.WriteFileAtomic(m, name, data); err != nil {
			t.Fatal(err)
		}
	}
	write("no.rdb", []byte("no such file at all"))
	_, err = Import(importOptions(m, "fresh", "no.rdb"))
	if err == nil || !strings.Contains(err.Error(), "no RDB file") {
		t.Errorf("import of something else: %v", err)
	}
	if _, err := m.Stat("fresh"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("that made a directory: %v", err)
	}
	few := options(m, "few")
	few.DBs = 1
	_, err = Import(ImportOptions{Store: few, File: "dump.rdb", DB: EveryDB, CheckLibraries: script.CheckLibraries})
	if err == nil || !strings.Contains(err.Error(), "--databases") {
		t.Errorf("too few databases: %v", err)
	}

	// A key that is there twice, as Redis refuses it too.
	twice := "REDIS0010\xfe\x00\x00\x01a\x01x\x00\x01b\x01x\xfe\x01\x00\x01a\x01x\xfe\x00\x00\x01a\x01x\xff\x00\x00\x00\x00\x00\x00\x00\x00"
	write("twice.rdb", []byte(twice))
	_, err = Import(importOptions(m, "twice", "twice.rdb"))
	if err == nil || !strings.Contains(err.Error(), `"a" is there twice in database 0`) {
		t.Errorf("a key twice: %v", err)
	}

	// What is cut short anywhere is refused, and the store is not served.
	data := readAll(t, m, "dump.rdb")
	for n := 1; n < len(data); n += 1 + len(data)/40 {
		write("short.rdb", data[:n])
		dir := "short" + strconv.Itoa(n)
		if _, err := Import(importOptions(m, dir, "short.rdb")); err == nil {
			t.Fatalf("%d of %d bytes were taken", n, len(data))
		}
		if _, err := m.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			continue // not even the head was there
		}
		var unfinished *engine.ImportError
		if _, _, err := tryContent(m, dir); !errors.As(err, &unfinished) || unfinished.From != "short.rdb" {
			t.Fatalf("the store of a failed import: %v", err)
		}
		// The next import puts it right, though the directory is there.
		if n%3 == 0 {
			if im, err := Import(importOptions(m, dir, "dump.rdb")); err != nil || !im.NewStore {
				t.Fatal(im, err)
			}
		}
	}
}

// TestLibrariesThatCannotBeTaken: the error names the one and says why, and the
// store is what it was.
func TestLibrariesThatCannotBeTaken(t *testing.T) {
	rng := seededRand(t)
	m := vfs.NewMem()
	file := func(name string, codes ...[]byte) string {
		var b bytes.Buffer
		w := rdb.NewWriter(&b, 10)
		for _, code := range codes {
			w.Function(code)
		}
		w.Database(0, 1, 0)
		if err := errors.Join(w.Put(0, []byte("key"), shard.Value{Text: []byte("value")}, 0), w.Close(), vfs.WriteFileAtomic(m, name, b.Bytes())); err != nil {
			t.Fatal(err)
		}
		return name
	}
	good, other := libraryCode("good", 1), libraryCode("other", 1)
	for name, tc := range map[string]struct {
		codes [][]byte
		want  []string
	}{
		"syntax":        {[][]byte{good, []byte("#!lua name=bad\nlocal x = = 1")}, []string{`function library "bad"`, "Error compiling function", "user_function:2:"}},
		"no functions":  {[][]byte{good, []byte("#!lua name=bad\nreturn 1")}, []string{`function library "bad"`, "No functions registered"}},
		"fails":         {[][]byte{good, []byte("#!lua name=bad\nredis.call('PING')")}, []string{`function library "bad"`, "Error registering functions"}},
		"loops":         {[][]byte{good, []byte("#!lua name=bad\nwhile true do end")}, []string{`function library "bad"`, "FUNCTION LOAD timeout"}},
		"no name":       {[][]byte{good, []byte("#!lua\nreturn 1")}, []string{`function library "without a name"`, "Library name was not given"}},
		"no line":       {[][]byte{[]byte("return 1"), good}, []string{`function library "without a name"`, "Missing library metadata"}},
		"engine":        {[][]byte{[]byte("#!js name=bad\nreturn 1"), good}, []string{`function library "bad"`, "Engine 'js' not found"}},
		"twice":         {[][]byte{good, good}, []string{`function library "good"`, "Library good already exists"}},
		"same function": {[][]byte{good, bytes.Replace(other, []byte("f_other"), []byte("F_good"), 1)}, []string{`function library "other"`, "Function F_good already exists"}},
	} {
		in := file(name+".rdb", tc.codes...)
		_, err := Import(importOptions(m, "none", in))
		for _, want := range append(tc.want, in, "--leave-out functions") {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q is not in: %v", name, want, err)
			}
		}
		if _, err := m.Stat("none"); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("%s: a directory was made: %v", name, err)
		}
		opt := importOptions(m, "left out "+name, in)
		opt.LeaveOut.Functions = true
		if r, err := Import(opt); err != nil || r.Keys != 1 || len(r.Libraries) != 0 || len(r.Functions) == 0 {
			t.Errorf("%s, without functions: %+v %v", name, r, err)
		}
	}

	// What the store has is in the way.
	fill(t, rng, m, "data", 5, "k")
	before, _ := content(t, m, "data")
	clash := file("clash.rdb", good, bytes.Replace(other, []byte("f_other"), []byte("f_k1"), 1))
	opt := importOptions(m, "data", clash)
	opt.Replace = true
	if _, err := Import(opt); err == nil || !strings.Contains(err.Error(), `function library "other": Function f_k1 already exists`) {
		t.Errorf("a function that the store has in another library: %v", err)
	}
	if after, _ := content(t, m, "data"); after != before { // and it is served
		t.Error("a refused import has changed the store")
	}
	replaced := file("replaced.rdb", good, libraryCode("k1", 5555))
	opt.File = replaced
	if r, err := Import(opt); err != nil || !slices.Equal(r.Libraries, []string{"good", "k1"}) {
		t.Errorf("%+v %v", r, err)
	}
	after, _ := content(t, m, "data")
	if n := strings.Count(after, "#!lua"); n != 4 || !strings.Contains(after, "return 5555 end") {
		t.Errorf("the store has %d libraries: %s", n, after)
	}

	// A store with libraries and no key takes a file, but not a library's place.
	file("only.rdb", good)
	m2 := options(m, "only")
	m2.Offline = true
	e, err := engine.Open(m2)
	if err != nil {
		t.Fatal(err)
	}
	all, tx := allShards(e.Set()), e.NewTx()
	e.Set().Lock(all)
	tx.Begin(all, 0, nowMs)
	if err := tx.LoadLibrary(libraryCode("good", 7)); err != nil {
		t.Fatal(err)
	}
	e.Commit(tx)
	e.Set().Unlock(all)
	tx.End()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	opt = importOptions(m, "only", "only.rdb")
	if _, err := Import(opt); err == nil || !strings.Contains(err.Error(), "Library good already exists") || !strings.Contains(err.Error(), "--replace") {
		t.Errorf("a library that is there: %v", err)
	}
	opt.Replace = true
	if r, err := Import(opt); err != nil || len(r.Libraries) != 1 {
		t.Errorf("%+v %v", r, err)
	}
}

func readAll(t testing.TB, fsys vfs.FS, name string) []byte {
	t.Helper()
	f, err := fsys.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, size)
	if _, err := f.ReadAt(data, 0); err != nil {
		t.Fatal(err)
	}
	return data
}

// TestCrashes ends an import and an export at every step that they take on the
// disk, by kill and by power cut. Afterwards the store is what it was, or what it
// was to become, or is not served until the import has run again.
func TestCrashes(t *testing.T) {
	rng := seededRand(t)
	base := vfs.NewMem()
	fill(t, rng, base, "source", 25, "k")
	if _, err := Export(ExportOptions{Store: options(base, "source"), File: "dump.rdb", DB: EveryDB}); err != nil {
		t.Fatal(err)
	}
	fill(t, rng, base, "store", 15, "k")
	before, _ := content(t, base, "store")
	imported, _ := content(t, base, "source")

	for _, dir := range []string{"new", "store"} {
		t.Run("import into "+dir, func(t *testing.T) {
			run := func(m *vfs.Mem) error {
				_, err := Import(ImportOptions{Store: options(m, dir), File: "dump.rdb", DB: EveryDB, CheckLibraries: script.CheckLibraries, Replace: dir == "store"})
				return err
			}
			whole := base.Clone()
			start := whole.Steps()
			if err := run(whole); err != nil {
				t.Fatal(err)
			}
			steps := whole.Steps() - start
			want, _ := content(t, whole, dir)
			if dir == "new" && want != imported {
				t.Fatal("the whole import is another store")
			}
			outcomes := map[string]int{}
			for step := range steps {
				m := base.Clone()
				m.DieAfter(step, rng.IntN(100))
				_ = run(m) // it may be done but for closing the store
				left := []*vfs.Mem{m.Kill(), m.PowerCut(rng), m.PowerCut(rng)}[rng.IntN(3)]
				if _, err := left.Stat(dir); errors.Is(err, fs.ErrNotExist) {
					outcomes["nothing"]++
					continue
				}
				got, keys, err := tryContent(left, dir)
				var unfinished *engine.ImportError
				switch {
				case errors.As(err, &unfinished):
					outcomes["refused"]++
				case err != nil:
					t.Fatalf("step %d: %v", step, err)
				case got == want:
					outcomes["whole"]++
				case dir == "new" && keys == 0:
					outcomes["empty"]++
				case dir == "store" && got == before:
					outcomes["before"]++
				default:
					t.Fatalf("step %d: the store has %d keys and is neither what it was nor what it was to be", step, keys)
				}
				if err := run(left); err != nil && !(got == want && errors.Is(err, ErrNotEmpty)) {
					t.Fatalf("step %d, again: %v", step, err)
				}
				if got, _ := content(t, left, dir); got != want {
					t.Fatalf("step %d: after another import the store is another one", step)
				}
			}
			t.Logf("%d steps: %v", steps, outcomes)
			if outcomes["refused"] < 3 || outcomes["whole"] == 0 {
				t.Errorf("the crashes had these outcomes: %v", outcomes)
			}
		})
	}

	t.Run("export", func(t *testing.T) {
		old := []byte("what was there")
		if err := vfs.WriteFileAtomic(base, "out.rdb", old); err != nil {
			t.Fatal(err)
		}
		run := func(m *vfs.Mem) error {
			_, err := Export(ExportOptions{Store: options(m, "source"), File: "out.rdb", DB: EveryDB})
			return err
		}
		whole := base.Clone()
		start := whole.Steps()
		if err := run(whole); err != nil {
			t.Fatal(err)
		}
		steps, want := whole.Steps()-start, string(readAll(t, whole, "out.rdb"))
		for step := range steps {
			m := base.Clone()
			m.DieAfter(step, rng.IntN(100))
			_ = run(m)
			left := m.PowerCut(rng)
			if got := string(readAll(t, left, "out.rdb")); got != want && got != string(old) {
				t.Fatalf("step %d: the file holds %d bytes, neither old nor new", step, len(got))
			}
			if got, _ := content(t, left, "source"); got != imported {
				t.Fatalf("step %d: the store is another one", step)
			}
		}
	})
}
