package pipe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"kevy/changes"
	"kevy/internal/changejson"
	"kevy/internal/vfs"
)

func fileTarget(t *testing.T, fsys vfs.FS, query string) *Target {
	t.Helper()
	spec := target(t, "file:///out/changes.jsonl"+query)
	spec.FS = fsys
	return spec
}

func openFileSink(t *testing.T, spec *Target) *fileSink {
	t.Helper()
	s, err := Open(spec)
	if err != nil {
		t.Fatal(err)
	}
	return s.(*fileSink)
}

// readFrames reads the frames of all files of a sink, oldest file first.
func readFrames(t *testing.T, fsys vfs.FS) (frames []changejson.Frame, files int) {
	t.Helper()
	entries, err := fsys.List("/out")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name, "changes.jsonl.2") {
			names = append(names, e.Name)
		}
	}
	for _, name := range append(names, "changes.jsonl") {
		f, err := fsys.Open("/out/" + name)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		for line := range bytes.Lines(data) {
			if frame, err := changejson.ParseFrame(line); err == nil {
				frames = append(frames, frame)
			} else if !bytes.Contains(line, []byte(`"event"`)) {
				t.Fatalf("%s: %q: %v", name, line, err)
			}
		}
	}
	return frames, len(names) + 1
}

// TestFileIsExactOverCrashes writes commits of two streams, whose files are put
// aside again and again, and kills the process or cuts the power at any moment,
// also while a sink is opened: each frame is there once, in order.
func TestFileIsExactOverCrashes(t *testing.T) {
	rng := testRand(t)
	crashes, rotations := 0, 0
	for round := range 40 {
		fsys := vfs.NewMem()
		streams := []string{"0", "1"}
		const total = 60
		for attempt := 0; ; attempt++ {
			if attempt > 400 {
				t.Fatal("it does not end")
			}
			if attempt < 100 {
				fsys.DieAfter(rng.IntN(60), rng.IntN(200))
			}
			done := func() bool {
				s := openFileSink(t, fileTarget(t, fsys, "?rotate-size=3000"))
				defer s.Close(context.Background())
				at, ok, err := s.Resume(t.Context())
				if err != nil {
					return false
				}
				if !ok {
					t.Fatal("lines of JSON keep their cursor")
				}
				next := map[string]uint64{}
				for _, stream := range streams {
					next[stream] = at[stream].Offset
				}
				for next["0"] < total || next["1"] < total {
					var batch []*changes.Commit
					for range 1 + rng.IntN(4) {
						stream := streams[rng.IntN(2)]
						if next[stream] >= total {
							continue
						}
						c := oneCommit(stream, next[stream], []string{"SET a 1", "SET b 2", "DEL c"}[:1+rng.IntN(3)]...)
						next[stream] = c.Last + 1
						batch = append(batch, c)
					}
					if len(batch) > 0 {
						if err := s.Write(t.Context(), batch); err != nil {
							return false
						}
					}
				}
				return true
			}()
			if done {
				break
			}
			crashes++
			if rng.IntN(2) == 0 {
				fsys = fsys.Kill()
			} else {
				fsys = fsys.PowerCut(rng)
			}
		}
		frames, files := readFrames(t, fsys)
		rotations += files - 1
		next := map[string]uint64{}
		for _, f := range frames {
			if f.Offset != next[f.Stream] {
				t.Fatalf("round %d: stream %s has offset %d where %d is due", round, f.Stream, f.Offset, next[f.Stream])
			}
			next[f.Stream]++
		}
		if next["0"] < total || next["1"] < total {
			t.Fatalf("round %d: the files end at %v", round, next)
		}
	}
	t.Logf("%d crashes, %d files put aside", crashes, rotations)
	if crashes < 100 || rotations < 100 {
		t.Errorf("%d crashes and %d files put aside are too few to tell", crashes, rotations)
	}
}

func TestFileIsPutAside(t *testing.T) {
	fsys := vfs.NewMem()
	s := openFileSink(t, fileTarget(t, fsys, "?rotate-age=1h&keep=2"))
	now := time.UnixMilli(1_700_000_000_000)
	s.now = func() time.Time { return now }
	if _, _, err := s.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range uint64(5) {
		if err := s.Write(t.Context(), []*changes.Commit{oneCommit("ALL", i, "SET a 1")}); err != nil {
			t.Fatal(err)
		}
		now = now.Add(61 * time.Minute)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	entries, err := fsys.List("/out")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name)
	}
	if got, want := fmt.Sprint(names), "[changes.jsonl changes.jsonl.20231115T011620.000Z changes.jsonl.20231115T021720.000Z changes.jsonl.lock]"; got != want {
		t.Errorf("the directory holds %s, want %s", got, want)
	}
}

func TestFileSnapshotIsWholeOrAnew(t *testing.T) {
	fsys := vfs.NewMem()
	ctx := t.Context()
	s := openFileSink(t, fileTarget(t, fsys, ""))
	if _, _, err := s.Resume(ctx); err != nil {
		t.Fatal(err)
	}
	part := &changes.SnapshotPart{Stream: "ALL", Token: "x", N: 1, Ops: [][][]byte{{[]byte("SET"), []byte("a"), []byte("1")}}}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.Write(ctx, []*changes.Commit{oneCommit("ALL", 1, "SET a 1")}))
	must(s.SnapshotStart(ctx, "ALL", "x"))
	must(s.SnapshotPart(ctx, part))
	must(s.Close(ctx))
	s = openFileSink(t, fileTarget(t, fsys, ""))
	if _, _, err := s.Resume(ctx); err == nil || !strings.Contains(err.Error(), "start with --snapshot") {
		t.Errorf("half a snapshot: %v", err)
	}
	must(s.Close(ctx))
	spec := fileTarget(t, fsys, "")
	spec.Snapshot = true
	s = openFileSink(t, spec)
	if at, _, err := s.Resume(ctx); err != nil || len(at) > 0 {
		t.Errorf("half a snapshot with --snapshot: %v %v", at, err)
	}
	must(s.SnapshotStart(ctx, "ALL", "y"))
	must(s.SnapshotEnd(ctx, "ALL", changes.Cursor{Generation: 7, Offset: 3}))
	must(s.Close(ctx))
	s = openFileSink(t, fileTarget(t, fsys, ""))
	if at, _, err := s.Resume(ctx); err != nil || at["ALL"] != (changes.Cursor{Generation: 7, Offset: 3}) {
		t.Errorf("after the snapshot: %v %v", at, err)
	}
	other := openFileSink(t, fileTarget(t, fsys, ""))
	if _, _, err := other.Resume(ctx); err == nil || !strings.Contains(err.Error(), "another pipe writes to") {
		t.Errorf("two pipes: %v", err)
	}
	must(s.Close(ctx))
}

func TestFileOfAnotherIsLeftAlone(t *testing.T) {
	fsys := vfs.NewMem()
	if err := fsys.MkdirAll("/out"); err != nil {
		t.Fatal(err)
	}
	const text = "dear diary\n"
	if err := vfs.WriteFileAtomic(fsys, "/out/changes.jsonl", []byte(text)); err != nil {
		t.Fatal(err)
	}
	s := openFileSink(t, fileTarget(t, fsys, ""))
	if _, _, err := s.Resume(t.Context()); err == nil || !strings.Contains(err.Error(), "is not a file of this pipe") {
		t.Errorf("a diary: %v", err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	f, err := fsys.Open("/out/changes.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if data, err := io.ReadAll(f); err != nil || string(data) != text {
		t.Errorf("it now reads %q, %v", data, err)
	}
}

func TestFileTargetIsChecked(t *testing.T) {
	for raw, want := range map[string]string{
		"file:///":                               "names no file",
		"file:///a?rotate-size=0":                `"0" is no size`,
		"file:///a?rotate-size=9e9":              `"9e9" is no size`,
		"file:///a?rotate-size=99999999999999gb": "is no size",
		"file:///a?rotate-age=x":                 "the option rotate-age takes a time",
		"file:///a?keep=-1":                      "the option keep takes the number",
		"file:///a?kep=1":                        `file targets have no option "kep"`,
	} {
		if _, err := Open(target(t, raw)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", raw, err, want)
		}
	}
	for raw, want := range map[string]string{"file:a.jsonl": "a.jsonl", "file:///x/a": "/x/a", "file://a/b": "a/b"} {
		s, err := Open(target(t, raw))
		if err != nil {
			t.Fatal(err)
		}
		if got := s.(*fileSink).path; got != want {
			t.Errorf("%s is %s, want %s", raw, got, want)
		}
	}
}

func TestFileDamageIsFound(t *testing.T) {
	fsys := vfs.NewMem()
	s := openFileSink(t, fileTarget(t, fsys, ""))
	if _, _, err := s.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range uint64(3) {
		if err := s.Write(t.Context(), []*changes.Commit{oneCommit("ALL", i, "SET a 1")}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	f, err := fsys.Open("/out/changes.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(f)
	f.Close()
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Count(data, []byte(`"lsn":1`)) != 1 {
		t.Fatalf("%s", data)
	}
	for _, test := range []struct {
		what, old, new string
		offset         uint64 // where it resumes; 0: not at all
	}{
		{"nothing", "", "", 3},
		{"a batch within", `"lsn":1`, `"lsn":8`, 0},
		{"the last batch", `"lsn":2`, `"lsn":8`, 2},
	} {
		fsys := vfs.NewMem()
		if err := fsys.MkdirAll("/out"); err != nil {
			t.Fatal(err)
		}
		if err := vfs.WriteFileAtomic(fsys, "/out/changes.jsonl", bytes.Replace(data, []byte(test.old), []byte(test.new), 1)); err != nil {
			t.Fatal(err)
		}
		s := openFileSink(t, fileTarget(t, fsys, ""))
		at, _, err := s.Resume(t.Context())
		if test.offset == 0 && !errors.Is(err, errDamaged) {
			t.Errorf("%s: %v, %v", test.what, at, err)
		}
		if test.offset > 0 && (err != nil || at["ALL"].Offset != test.offset) {
			t.Errorf("%s: %v, %v, want %d", test.what, at, err, test.offset)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
