package rdb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"kevy/internal/ds"
	"kevy/shard"
	"kevy/tests/process"
	"kevy/tests/wire"
)

// file puts a file together; its checksum is right.
func file(ver int, parts ...any) []byte {
	b := fmt.Appendf(nil, "REDIS%04d", ver)
	b = append(b, join(parts...)...)
	b = append(b, opEOF)
	if ver >= checksumVersion {
		b = appendChecksum(b, checksum(0, b))
	}
	return b
}

// readFile reads all keys, as "db key kind at".
func readFile(b []byte, leave LeaveOut) (*Reader, []string, error) {
	r, err := NewReader(iotest.HalfReader(bytes.NewReader(b)), int64(len(b)), ds.DefaultLimits(), leave)
	if err != nil {
		return nil, nil, err
	}
	var keys []string
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return r, keys, nil
		}
		if err != nil {
			return r, keys, err
		}
		kind := ds.KindString
		if e.Value.Object != nil {
			kind = e.Value.Object.Kind()
		}
		keys = append(keys, fmt.Sprintf("%d %s %s %d", e.DB, e.Key, kind, e.AtMs))
	}
}

func TestOpcodes(t *testing.T) {
	lib := "#!lua name=mylib\nreturn 1"
	module := join(0x81, binary.BigEndian.AppendUint64(nil, moduleID("ReJSON-RL")))
	contents := join(
		opAux, 9, "redis-ver", 5, "7.0.1", opAux, 3, "num", 0xc0, 7,
		opSelectDB, 0, opResizeDB, 3, 1,
		typeString, 1, "a", 1, "x",
		opExpireSec, 0, 0, 0, 0x7f, typeString, 1, "b", 1, "x",
		opExpireMs, 1, 0, 0, 0, 0, 1, 0, 0, opIdle, 0x41, 0, typeList, 1, "c", 1, 1, "x",
		opSlotInfo, 1, 2, 3, opFreq, 0xff, typeString, 1, "d", 1, "x",
		opSelectDB, 0x40, 200, typeString, 0xc0, 5, 1, "x",
		opExpireMs, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, typeString, 1, "f", 1, "x",
		typeHash, 1, "g", 0, // nothing in it
		opSelectDB, 0, typeSet, 1, "h", 1, 1, "x",
	)
	want := []string{"0 a string 0", "0 b string 2130706432000", "0 c list 1099511627777", "0 d string 0", "200 5 string 0", "200 f string 1", "0 h set 0"}
	for ver := 1; ver <= MaxVersion; ver++ {
		r, keys, err := readFile(file(ver, contents), LeaveOut{})
		if err != nil {
			t.Fatalf("version %d: %v", ver, err)
		}
		if strings.Join(keys, ", ") != strings.Join(want, ", ") {
			t.Errorf("version %d:\n got %v\nwant %v", ver, keys, want)
		}
		if r.Version() != ver || r.Aux["redis-ver"] != "7.0.1" || r.Aux["num"] != "7" || r.EmptyKeys != 1 {
			t.Errorf("%+v", r)
		}
	}

	// What a store does not have, and functions.
	function := join(opFunction, len(lib), lib)
	aux := join(opModuleAux, module, 2, 1, 2, 5, 5, 2, "hi", 4, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 1, 1, 0)
	value := join(typeModule2, 1, "m", module, 5, 2, "{}", 2, 7, 0)
	after := join(typeString, 1, "z", 1, "x")
	for _, tc := range []struct {
		part []byte
		text string
	}{
		{aux, "ReJSON-RL beside the keys"}, {value, "module type ReJSON-RL"},
		{join(opFunctionPreGA, 1, "x", 1, "y"), "release candidates of Redis 7.0"},
		{join(typeModulePreGA, 1, "m", module), "release candidate of Redis 4"},
	} {
		_, keys, err := readFile(file(10, tc.part, after), LeaveOut{})
		var unsupported *Unsupported
		if !errors.As(err, &unsupported) || !strings.Contains(err.Error(), tc.text) || len(keys) > 0 {
			t.Errorf("%s: %v %v", tc.text, err, keys)
		}
	}
	rd, keys, err := readFile(file(10, function, opAux, 1, "a", 1, "x", function, after), LeaveOut{})
	if codes, _ := rd.Libraries(); err != nil || len(keys) != 1 || len(codes) != 2 || string(codes[1]) != lib || rd.Aux["a"] != "x" || len(rd.Functions) != 0 {
		t.Errorf("functions: %v %v %+v", err, keys, rd)
	}
	for _, late := range [][]byte{join(after, function), join(opExpireMs, 0, 0, 0, 0, 0, 1, 0, 0, function, after)} {
		if _, _, err := readFile(file(10, late), LeaveOut{}); !IsDamage(err) || !strings.Contains(err.Error(), "behind a key") {
			t.Errorf("functions behind a key: %v", err)
		}
	}
	r, keys, err := readFile(file(10, function, aux, value, function, value, after), LeaveOut{Functions: true, Modules: true})
	if err != nil || len(keys) != 1 || fmt.Sprint(r.Functions, r.Modules, r.ModuleKeys) != "[mylib] [ReJSON-RL] 2" {
		t.Errorf("left out: %v %v %+v", err, keys, r)
	}
}

// moduleID is the number of a module type's name, with version 1.
func moduleID(name string) (id uint64) {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for _, c := range name {
		id = id<<6 | uint64(strings.IndexRune(letters, c))
	}
	return id<<10 | 1
}

func TestFileRefusals(t *testing.T) {
	key := join(typeString, 1, "a", 1, "x")
	good := file(10, key)
	flipped := bytes.Clone(good)
	flipped[len(flipped)-1] ^= 1
	unsummed := append(bytes.Clone(good[:len(good)-8]), make([]byte, 8)...)
	if _, keys, err := readFile(unsummed, LeaveOut{}); err != nil || len(keys) != 1 {
		t.Errorf("a checksum of 0, which is none: %v", err)
	}
	for _, tc := range []struct {
		name string
		file []byte
		text string
	}{
		{"nothing", nil, "no RDB file"},
		{"something else", []byte("*3\r\n$3\r\nSET\r\n"), "no RDB file"},
		{"no version", []byte("REDISabcd"), `version "abcd"`},
		{"version 0", file(0, key), "version"},
		{"a newer one", file(13, key), "RDB version 13"},
		{"Valkey 9", []byte("VALKEY080\xfe\x00"), "Valkey 9"},
		{"a wrong checksum", flipped, "checksum"},
		{"bytes behind it", append(bytes.Clone(good), "*1\r\n"...), "4 bytes follow"},
		{"an unknown opcode", file(10, 243, key), "no type 243"},
		{"an unknown type", file(10, 30, 1, "a", 0), "no type 30"},
		{"a database that cannot be", file(10, opSelectDB, 0x81, 1, 0, 0, 0, 0, 0, 0, 0), "no database"},
		{"a key that is too long", file(10, typeString, 0x81, 0, 0, 0, 1, 0, 0, 0, 0), "longer than can be"},
		{"a string beyond the end", file(10, typeString, 1, "a", 0x80, 0x10, 0, 0, 0), `key "a" of database 0`},
		{"a length that is an encoding", file(10, typeList, 1, "a", 0xc0, 1), "encoded string"},
	} {
		_, _, err := readFile(tc.file, LeaveOut{})
		if err == nil || !strings.Contains(err.Error(), tc.text) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	for n := range good {
		if _, _, err := readFile(good[:n], LeaveOut{}); err == nil {
			t.Errorf("%d of %d bytes were taken for a file", n, len(good))
		}
	}
}

// TestFileRoundTrip writes values of every kind and reads them back, through a
// reader that gives little at a time.
func TestFileRoundTrip(t *testing.T) {
	rng := seededRand(t)
	var b bytes.Buffer
	var values []shard.Value
	for i := range 300 {
		values = append(values, randomValueOf(rng, kinds[i%len(kinds)], true))
	}
	values = append(values, shard.Value{Text: randomBytes(rng, 3<<20)})
	ver := Version(func(fn func(v shard.Value) bool) {
		for _, v := range values {
			if !fn(v) {
				return
			}
		}
	})
	if ver != fieldExpiryVersion {
		t.Errorf("version %d for fields that expire", ver)
	}
	w := NewWriter(&b, ver, Fact("ctime", 5))
	w.Database(0, len(values), 0)
	for i, v := range values {
		if err := w.Put(i%3, fmt.Appendf(nil, "key%d", i), v, int64(i%2*i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil || w.Written() != int64(b.Len()) {
		t.Fatal(err, w.Written(), b.Len())
	}
	r, err := NewReader(iotest.OneByteReader(bytes.NewReader(b.Bytes())), int64(b.Len()), ds.DefaultLimits(), LeaveOut{})
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range values {
		e, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if e.DB != i%3 || string(e.Key) != fmt.Sprintf("key%d", i) || e.AtMs != int64(i%2*i) || digestOf(e.Value, 0) != digestOf(v, 0) {
			t.Fatalf("key %d came back as %d %s %d %s", i, e.DB, e.Key, e.AtMs, encodingOf(e.Value))
		}
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) || r.Aux["ctime"] != "5" {
		t.Error(err, r.Aux)
	}
	w = NewWriter(failingWriter{}, ver)
	for range 10 {
		_ = w.Put(0, []byte("k"), shard.Value{Text: randomBytes(rng, 1<<20)}, 0)
	}
	if err := w.Close(); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a write that fails: %v", err)
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// TestMemoryOfHostileFiles reads files that promise much: no more is allocated
// than they hold.
func TestMemoryOfHostileFiles(t *testing.T) {
	for name, b := range map[string][]byte{
		"a long string":       file(10, typeString, 1, "a", 0x80, 0x3f, 0xff, 0xff, 0xff),
		"a long compressed":   file(10, typeString, 1, "a", 0xc3, 0x80, 0x3f, 0xff, 0xff, 0xff, 0x80, 0x3f, 0xff, 0xff, 0xff),
		"compressed to a lot": file(10, typeString, 1, "a", 0xc3, 3, 0x80, 0x3f, 0xff, 0xff, 0xff, 0, "x"),
		"a large set":         file(10, typeSet, 1, "a", 0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
		"a large intset":      file(10, typeSetIntset, 1, "a", 8, 2, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f),
	} {
		// The size that the reader is told is what a hostile sender would say.
		for _, size := range []int64{int64(len(b)), 1 << 40} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			r, err := NewReader(bytes.NewReader(b), size, ds.DefaultLimits(), LeaveOut{})
			if err == nil {
				_, err = r.Next()
			}
			if err == nil {
				t.Fatalf("%s: it was taken", name)
			}
			runtime.ReadMemStats(&after)
			allocated := after.TotalAlloc - before.TotalAlloc
			if allocated > 64<<20 {
				t.Errorf("%s: %d bytes were allocated", name, allocated)
			}
		}
	}
}

// assets are files that Redis's own tests keep, where those have been fetched:
// tests/conformance/setup.sh does.
func assets(t *testing.T) string {
	t.Helper()
	root := os.Getenv("CONF")
	if root == "" {
		root = filepath.Join(os.TempDir(), fmt.Sprintf("kevy-conformance-%d", os.Getuid()))
	}
	dir := filepath.Join(root, "src", "redis-7.0.15", "tests", "assets")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("Redis's own tests have not been fetched (tests/conformance/setup.sh)")
	}
	return dir
}

// TestAssets reads the files of Redis's own tests as redis-server does, old
// encodings and damage included.
func TestAssets(t *testing.T) {
	dir := assets(t)
	for name, want := range map[string]struct {
		keys, empty int
		err         string
	}{
		"encodings.rdb":          {13, 0, ""},
		"hash-zipmap.rdb":        {1, 0, ""},
		"hash-ziplist.rdb":       {1, 0, ""},
		"zset-ziplist.rdb":       {1, 0, ""},
		"list-quicklist.rdb":     {2, 0, ""},
		"corrupt_empty_keys.rdb": {0, 9, ""},
		"corrupt_ziplist.rdb":    {0, 0, "ziplist"},
	} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		r, keys, err := readFile(b, LeaveOut{Functions: true})
		switch {
		case want.err != "":
			if err == nil || !strings.Contains(err.Error(), want.err) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		case err != nil:
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(keys) != want.keys || r.EmptyKeys != want.empty {
			t.Errorf("%s: %d keys and %d empty ones: %q", name, len(keys), r.EmptyKeys, keys)
		}
		// What is read here and written again is to redis-server what it reads itself.
		direct := loadDigest(t, b)
		if nothing := strings.Trim(direct, "0") == ""; nothing != (want.keys == 0) {
			t.Errorf("%s: redis-server loads %s", name, direct)
		}
		var again bytes.Buffer
		w := NewWriter(&again, version)
		r, err = NewReader(bytes.NewReader(b), int64(len(b)), ds.DefaultLimits(), LeaveOut{})
		for err == nil {
			var e *Entry
			if e, err = r.Next(); err == nil {
				err = w.Put(e.DB, e.Key, e.Value, e.AtMs)
			}
		}
		if !errors.Is(err, io.EOF) || w.Close() != nil {
			t.Fatal(err)
		}
		if got := loadDigest(t, again.Bytes()); got != direct {
			t.Errorf("%s: written again, redis-server loads another keyspace", name)
		}
	}
}

// loadDigest returns DEBUG DIGEST of a redis-server that has loaded the file.
func loadDigest(t *testing.T, b []byte) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "dump.rdb"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	s := process.Start(t, process.Oracle(t), process.Config{Dir: dir, Args: []string{"--appendonly", "no", "--enable-debug-command", "yes"}})
	defer s.Kill()
	r, err := s.Conn(t).Do("DEBUG", "DIGEST")
	if err != nil {
		t.Fatal(err)
	}
	return string(r.Text)
}

var restored = regexp.MustCompile(`(?i)\brestore\s+\S+\s+0\s+"((?:[^"\\]|\\.)*)"`)

// TestCorruptPayloads restores what Redis's own tests keep of payloads that have
// crashed it. None may panic, and what is taken must be a value like any other.
func TestCorruptPayloads(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(assets(t), "..", "integration", "corrupt-dump.tcl"))
	if err != nil {
		t.Fatal(err)
	}
	limits := ds.DefaultLimits()
	taken, refused := 0, 0
	for _, m := range restored.FindAllSubmatch(text, -1) {
		payload, err := wire.Unescape(string(m[1]))
		if err != nil || len(payload) < trailerBytes {
			t.Fatalf("%s: %v", m[1], err)
		}
		v, err := ParsePayload(sealed(payload[:len(payload)-trailerBytes]), &limits)
		if err != nil {
			refused++
			continue
		}
		taken++
		if replayed(t, v, 0) != digestOf(v, 0) {
			t.Errorf("%s: its ops make another value", m[1])
		}
	}
	t.Logf("%d taken, %d refused", taken, refused)
	if taken+refused < 40 || refused < 30 {
		t.Errorf("%d were taken and %d refused", taken, refused)
	}
}
