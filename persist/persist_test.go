package persist

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"kevy/internal/vfs"
)

func TestSecondLockNamesTheHolder(t *testing.T) {
	for name, fsys := range map[string]vfs.FS{"os": vfs.OS(), "memory": vfs.NewMem()} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			if err := fsys.MkdirAll(dir); err != nil {
				t.Fatal(err)
			}
			held, err := Lock(fsys, dir)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Lock(fsys, dir)
			var locked *LockedError
			if !errors.As(err, &locked) || locked.PID != os.Getpid() || locked.Dir != dir {
				t.Fatalf("second lock: %v", err)
			}
			for _, part := range []string{dir, strconv.Itoa(os.Getpid()), "--dir"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
			if err := held.Close(); err != nil {
				t.Fatal(err)
			}
			again, err := Lock(fsys, dir)
			if err != nil {
				t.Fatalf("after the first was given back: %v", err)
			}
			if err := again.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestLockHolderUnknown(t *testing.T) {
	mem := vfs.NewMem()
	must(t, mem.MkdirAll("data"))
	for _, content := range []string{"", "pid\n", "pid x\n", "pid -4\n", strings.Repeat("p", maxFactFileBytes+1)} {
		writeRaw(t, mem, "data/LOCK", content)
		if pid := lockHolder(mem, "data/LOCK"); pid != 0 {
			t.Errorf("%.20q names process %d", content, pid)
		}
	}
	if got := (&LockedError{Dir: "d"}).Error(); !strings.Contains(got, "another process") {
		t.Error(got)
	}
}

func TestManifestRoundTrip(t *testing.T) {
	mem := vfs.NewMem()
	must(t, mem.MkdirAll("data"))
	if _, err := ReadManifest(mem, "data"); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("no manifest: %v", err)
	}
	want := Manifest{Shards: 16, CreatedMs: 1790000000123, Runs: 7, LastOpenMs: 1790000009999, LastVersion: "0.1.0-dev"}
	must(t, WriteManifest(mem, "data", want))
	// Durable: a power cut right after must not take it back.
	cut := mem.PowerCut(rand.New(rand.NewPCG(1, 1)))
	got, err := ReadManifest(cut, "data")
	if err != nil || got != want {
		t.Fatalf("got %+v %v", got, err)
	}
	want.LastVersion = ""
	if m, err := parseManifest("M", want.encode()); err != nil || m.LastVersion != "unknown" {
		t.Fatalf("no version: %+v %v", m, err)
	}
	for _, n := range []int{0, -1, MaxShards + 1} {
		if err := WriteManifest(cut, "data", Manifest{Shards: n}); err == nil {
			t.Errorf("%d shards were accepted", n)
		}
	}
}

// sealed returns a fact file with a right checksum around text.
func sealed(text string) string { return string((&factWriter{buf: []byte(text)}).seal()) }

func TestFilesAreRefusedByName(t *testing.T) {
	manifest := string((&Manifest{Shards: 3}).encode())
	stream := &Stream{Generation: 500, FirstLSN: 10, Lineage: []Past{{Generation: 400, FirstLSN: 4, EndLSN: 9, End: 6, Why: Crash}}}
	gen := string(encodeStream(stream, 1, 2))
	meta := string(encodeClose(closeMark{generation: 501, next: 3, tail: Tail{LSN: 12, CRC: 0xab, Inode: 9}}, 1, 2))
	const genHead = "kevy-feed-generation 1\nstream 1 2\n"
	const metaHead = "kevy-feed-close 1\nstream 1 2\n"
	parse := map[string]func(string) error{
		"MANIFEST":    func(s string) error { _, err := parseManifest("MANIFEST", []byte(s)); return err },
		"feed-1.gen":  func(s string) error { _, err := parseStream("feed-1.gen", []byte(s), 1, 2); return err },
		"feed-1.meta": func(s string) error { _, err := parseClose("feed-1.meta", []byte(s), 1, 2); return err },
	}
	for _, tc := range []struct{ file, text, want string }{
		{"MANIFEST", "", "does not begin"},
		{"MANIFEST", "kevy-manifest", "does not begin"},
		{"MANIFEST", "kevy-manifest x\n", "not a number"},
		{"MANIFEST", "kevy-manifest 0\n", "no format 0"},
		{"MANIFEST", "kevy-manifest 1\n", "cut short"},
		{"MANIFEST", "kevy-manifest 2\nwhatever", "format 2"},
		{"MANIFEST", strings.Replace(manifest, "3", "4", 1), "checksum"},
		{"MANIFEST", manifest[:len(manifest)-1], "checksum"},
		{"MANIFEST", sealed("kevy-manifest 1\nshards 0\n"), "how many shards"},
		{"MANIFEST", sealed("kevy-manifest 1\nshards 99999\n"), "not a number from 0 to 16384"},
		{"MANIFEST", sealed("kevy-manifest 1\nshards 3\nother 1\n"), "no fact"},
		{"MANIFEST", sealed("kevy-manifest 1\nshards 3 4\n"), "2 values instead of 1"},
		{"MANIFEST", sealed("kevy-manifest 1\nshards 3"), "checksum"},
		{"feed-1.gen", gen + "x", "checksum"},
		{"feed-1.gen", gen[:len(gen)/2], "checksum"},
		{"feed-1.gen", "kevy-feed-generation 9\n", "format 9"},
		{"feed-1.gen", sealed("kevy-feed-generation 1\nstream 1 2\n"), "lines of facts"},
		{"feed-1.gen", sealed("kevy-feed-generation 1\nstream 2 2\ncurrent 5 1\n"), "not stream 1 of 2"},
		{"feed-1.gen", sealed("kevy-feed-generation 1\nstream all 1\ncurrent 5 1\n"), "not stream 1 of 2"},
		{"feed-1.gen", sealed("kevy-feed-generation 1\nshards 1 2\ncurrent 5 1\n"), "where the stream belongs"},
		{"feed-1.gen", sealed(genHead + "current 5\n"), "1 values instead of 2"},
		{"feed-1.gen", sealed(genHead + "past 5 1 2 3 crash\n"), "where the current generation belongs"},
		{"feed-1.gen", sealed(genHead + "current 1 1\n"), "too small"},
		{"feed-1.gen", sealed(genHead + "current 9007199254740992 1\n"), "not a number from"},
		{"feed-1.gen", sealed(genHead + "current 5 0\n"), "no LSN 0"},
		{"feed-1.gen", sealed(genHead + "current 05 1\n"), "not a number"},
		{"feed-1.gen", sealed(genHead + "past 4 1 9 5 bored\ncurrent 5 10\n"), "no reason"},
		{"feed-1.gen", sealed(genHead + "past 4 1 9 5\ncurrent 5 10\n"), "4 values instead of 5"},
		{"feed-1.gen", sealed(genHead + "past 4 1 9 10 crash\ncurrent 5 10\n"), "do not fit"},
		{"feed-1.gen", sealed(genHead + "past 4 9 7 0 crash\ncurrent 5 8\n"), "do not fit"},
		{"feed-1.gen", sealed(genHead + "past 4 1 9 5 crash\ncurrent 5 11\n"), "does not go on"},
		{"feed-1.gen", sealed(genHead + "past 5 1 9 5 crash\ncurrent 5 10\n"), "does not go on"},
		{"feed-1.gen", sealed(genHead + "future 4 1 9 5 crash\ncurrent 5 10\n"), "where a past generation"},
		{"feed-1.gen", sealed(genHead + strings.Repeat("past 4 1 9 5 crash\n", MaxPast+1) + "current 5 10\n"), "lines of facts"},
		{"feed-1.meta", meta[1:], "does not begin"},
		{"feed-1.meta", strings.Replace(meta, "next-offset 3", "next-offset 4", 1), "checksum"},
		{"feed-1.meta", "kevy-feed-close 2\n", "format 2"},
		{"feed-1.meta", sealed(metaHead), "lines of facts"},
		{"feed-1.meta", sealed(metaHead + "generation 1\nnext-offset 1\ntail-lsn 1\ntail-inode 1\ntail-crc32c 00000001\n"), "belongs"},
		{"feed-1.meta", sealed(metaHead + "generation 1\nnext-offset 1\ntail-lsn 1\ntail-crc32c 1\ntail-inode 1\n"), "not a checksum"},
		{"feed-1.meta", sealed(metaHead + "generation 1\nnext-offset -1\ntail-lsn 1\ntail-crc32c 00000001\ntail-inode 1\n"), "not a number"},
	} {
		err := parse[tc.file](tc.text)
		if err == nil {
			t.Errorf("%s accepted %q", tc.file, tc.text)
			continue
		}
		if !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), tc.file) {
			t.Errorf("%s with %.60q: %q does not say %q", tc.file, tc.text, err, tc.want)
		}
		var newer *FormatError
		var bad *FileError
		if !errors.As(err, &newer) && !errors.As(err, &bad) {
			t.Errorf("%T is neither a FileError nor a FormatError", err)
		}
	}
	if err := parse["MANIFEST"](manifest); err != nil {
		t.Error(err)
	}
	// No cut and no changed byte of a sidecar passes.
	for name, text := range map[string]string{"feed-1.gen": gen, "feed-1.meta": meta} {
		if err := parse[name](text); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i := range text {
			if parse[name](text[:i]) == nil {
				t.Errorf("%s cut at %d is accepted", name, i)
			}
			if parse[name](text[:i]+string(text[i]^1)+text[i+1:]) == nil {
				t.Errorf("%s with byte %d changed is accepted", name, i)
			}
		}
	}
}

// The texts on disk are pinned: a change needs a new format number.
func TestFileTextsArePinned(t *testing.T) {
	for name, tc := range map[string]struct{ got, want string }{
		"manifest": {
			string((&Manifest{Shards: 16, CreatedMs: 5, Runs: 2, LastOpenMs: 6, LastVersion: "1.0"}).encode()),
			"kevy-manifest 1\nshards 16\ncreated-unix-ms 5\nruns 2\nlast-open-unix-ms 6\nlast-version 1.0\ncrc32c 93fa17c5\n",
		},
		"gen": {
			string(encodeStream(&Stream{Generation: 502, FirstLSN: 10, Lineage: []Past{{402, 4, 9, 6, FlushAll}}}, 2, 2)),
			"kevy-feed-generation 1\nstream all 2\npast 402 4 9 6 flushall\ncurrent 502 10\ncrc32c cec9007a\n",
		},
		"meta": {
			string(encodeClose(closeMark{501, 3, Tail{12, 0xab, 9}}, 1, 2)),
			"kevy-feed-close 1\nstream 1 2\ngeneration 501\nnext-offset 3\ntail-lsn 12\ntail-crc32c 000000ab\ntail-inode 9\ncrc32c 0c5d3385\n",
		},
	} {
		if tc.got != tc.want {
			t.Errorf("%s:\n%s", name, tc.got)
		}
	}
}

func TestOversizedFileIsRefused(t *testing.T) {
	mem := vfs.NewMem()
	must(t, mem.MkdirAll("data"))
	writeRaw(t, mem, "data/MANIFEST", strings.Repeat("x", maxFactFileBytes+1))
	var bad *FileError
	if _, err := ReadManifest(mem, "data"); !errors.As(err, &bad) || !strings.Contains(err.Error(), "larger") {
		t.Fatal(err)
	}
}

func TestDraw(t *testing.T) {
	const now = 1_790_000_000
	last := uint64(0)
	for range 1000 {
		d, err := Draw(now, last, MaxShards)
		if err != nil {
			t.Fatal(err)
		}
		if d <= last+MaxShards || d+MaxShards > MaxGeneration || d>>randomBits != (d+MaxShards)>>randomBits {
			t.Fatalf("after %d came %d", last, d)
		}
		if s := d >> randomBits; s != max(now, last>>randomBits+1) {
			t.Fatalf("seconds %d after %d", s, last>>randomBits)
		}
		last = d
	}
	// The clock may stand before 1970 or go back; the numbers still rise.
	if d, err := Draw(-5, last, 16); err != nil || d <= last {
		t.Fatalf("%d %v", d, err)
	}
	if d, err := Draw(maxSeconds, 0, 16); err != nil || d>>32 == 0 || d > MaxGeneration {
		t.Fatalf("the last second: %d %v", d, err)
	}
	for name, err := range map[string]error{
		"clock": second(Draw(maxSeconds+1, 0, 16)),
		"last":  second(Draw(now, MaxGeneration-5, 16)),
		"huge":  second(Draw(now, 1<<63, 16)),
	} {
		if !errors.Is(err, ErrGenerationsUsedUp) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDrawsOfOneSecondDiffer(t *testing.T) {
	seen := map[uint64]bool{}
	for range 64 {
		d, err := Draw(1_790_000_000, 0, 16)
		must(t, err)
		seen[d] = true
	}
	// 64 of two million values: two equal ones have a chance of one in a thousand.
	if len(seen) < 62 {
		t.Fatalf("%d different numbers of 64", len(seen))
	}
}

func TestDrawOf(t *testing.T) {
	if d, ok := DrawOf(105, 5); !ok || d != 100 {
		t.Error(d, ok)
	}
	for _, g := range []uint64{0, 4, 5, MaxGeneration + 1} {
		if _, ok := DrawOf(g, 5); ok {
			t.Errorf("%d was accepted", g)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func writeRaw(t *testing.T, fsys vfs.FS, name, content string) {
	t.Helper()
	f, err := fsys.Create(name)
	must(t, err)
	_, err = f.Write([]byte(content))
	must(t, err)
	must(t, f.Sync())
	must(t, f.Close())
}
