package aof

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"kevy/internal/vfs"
)

// lsnSink notes ops by their LSN, in whatever blocks they come.
type lsnSink struct {
	record
	byLSN map[uint64]string
}

func (s *lsnSink) Block(h BlockHeader, payload []byte) error {
	ops, _, err := opsOf(payload, -1)
	if err != nil {
		return err
	}
	for i, op := range ops {
		lsn := h.FirstLSN + uint64(i)
		if _, twice := s.byLSN[lsn]; twice {
			return fmt.Errorf("LSN %d comes twice", lsn)
		}
		s.byLSN[lsn] = op
	}
	return nil
}

// smallLog writes a log with all that a file can hold and returns its files.
func smallLog(t *testing.T) (fs *vfs.Mem, l *testLog) {
	t.Helper()
	fs = vfs.NewMem()
	opt := testOptions(fs)
	opt.BlockBytes = 200
	opt.FileHeader = func(dst []byte) []byte {
		return append(dst, "#kevy-pos 0 77 0\r\n#kevy-pos 1 78 0\r\n"...)
	}
	l, _ = openLog(t, opt)
	for i := range 4 {
		l.set(i%2, fmt.Sprint("key", i), fmt.Sprint("value", i), "other", "#kevy 1 1 0 1700000000000 10 00000000\r\n")
		if i%2 == 0 {
			l.mustWrite()
		}
		if i == 2 {
			if err := l.Sync(); err != nil {
				t.Fatal(err)
			}
			l.Annotate("#kevy-gen 4711")
		}
	}
	l.set(0, "big", strings.Repeat("x", 300))
	l.mustWrite()
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	l.set(0, "last", "1")
	l.mustWrite()
	l.mustClose()
	return fs, l
}

const firstSegment = "data/appendonlydir/appendonly.aof.1.incr.aof"

// copyTree makes a new file system with the same files.
func copyTree(t testing.TB, from *vfs.Mem, dirs ...string) *vfs.Mem {
	t.Helper()
	to := vfs.NewMem()
	for _, dir := range dirs {
		if err := to.MkdirAll(dir); err != nil {
			t.Fatal(err)
		}
		infos, err := from.List(dir)
		if err != nil {
			continue
		}
		for _, info := range infos {
			if !info.IsDir {
				writeFileText(t, to, dir+"/"+info.Name, readFileText(t, from, dir+"/"+info.Name))
			}
		}
	}
	return to
}

// recoverWith recovers a copy of a tree with one file changed.
func recoverWith(t *testing.T, fs *vfs.Mem, name, text string, mode RecoverMode) (*lsnSink, *Report, error) {
	t.Helper()
	c := copyTree(t, fs, "data/appendonlydir", "data/feed")
	writeFileText(t, c, name, text)
	sink := &lsnSink{byLSN: map[uint64]string{}}
	opt := testOptions(c)
	opt.NowMs = func() int64 { return 1_700_000_000_000 }
	l, report, err := Recover(opt, mode, sink)
	if err != nil {
		return sink, report, err
	}
	check(t, "last", l.Last(), report.LastLSN)
	if _, err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return sink, report, nil
}

// checkPrefix fails unless what was recovered is a beginning of ops.
func checkPrefix(t *testing.T, what string, s *lsnSink, ops []string) int {
	t.Helper()
	for i := range len(s.byLSN) {
		if got, ok := s.byLSN[uint64(i+1)]; !ok || got != ops[i] {
			t.Fatalf("%s: LSN %d is %.50q instead of %.50q", what, i+1, got, ops[i])
		}
	}
	if len(s.foreign) > 0 || len(s.base) > 0 {
		t.Fatalf("%s: foreign commands %q or base ops %q from a log without", what, s.foreign, s.base)
	}
	for _, g := range s.generations {
		if g != [2]uint64{4711, 6} {
			t.Fatalf("%s: a wrong generation: %v", what, g)
		}
	}
	for _, p := range s.positions {
		if p != (Position{0, 77, 0}) && p != (Position{1, 78, 0}) {
			t.Fatalf("%s: a wrong position: %v", what, p)
		}
	}
	return len(s.byLSN)
}

func TestEveryTruncation(t *testing.T) {
	fs, l := smallLog(t)
	text := readFileText(t, fs, firstSegment)
	headerEnd := strings.Index(text, "*") - len("#kevy 1 4 0 1700000000000 000 00000000\r\n")
	most := 0
	for size := 0; size < len(text); size += thin {
		what := fmt.Sprintf("cut to %d of %d bytes", size, len(text))
		sink, report, err := recoverWith(t, fs, firstSegment, text[:size], RecoverRefuse)
		if size < headerEnd {
			var damage *DamageError
			if !errors.As(err, &damage) {
				t.Fatalf("%s, within the header: %v", what, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		n := checkPrefix(t, what, sink, l.ops)
		if n < most {
			t.Fatalf("%s: %d ops, and %d before", what, n, most)
		}
		most = n
		if report.Torn != nil && (report.Torn.Offset+report.Torn.Bytes != int64(size) || report.Torn.Bytes == 0) {
			t.Fatalf("%s: %+v", what, report.Torn)
		}
	}
	check(t, "ops at most", most, len(l.ops)-1)
}

func TestTornTailIsKeptAndCut(t *testing.T) {
	fs, l := smallLog(t)
	text := readFileText(t, fs, firstSegment)
	f, err := fs.OpenAppend(firstSegment)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(int64(len(text) - 3)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	again, rec := openLog(t, testOptions(fs))
	ops := l.ops[:len(l.ops)-1]
	checkOps(t, "recovered", rec.ops, ops)
	torn := again.report.Torn
	if torn == nil || torn.File != firstSegment {
		t.Fatalf("torn: %+v", torn)
	}
	check(t, "quarantined", readFileText(t, fs, torn.Quarantine), text[torn.Offset:len(text)-3])
	check(t, "name", torn.Quarantine, fmt.Sprintf("data/quarantine/appendonly.aof.1.incr.aof.%d.1700000000000", torn.Offset))
	check(t, "file", readFileText(t, fs, firstSegment), text[:torn.Offset])
	again.set(0, "new", "1")
	again.mustWrite()
	again.mustClose()
	third, rec := openLog(t, testOptions(fs))
	checkOps(t, "recovered", rec.ops, append(slices.Clone(ops), again.ops...))
	check(t, "torn", third.report.Torn, nil)
	third.mustClose()
}

func TestEveryFlippedByte(t *testing.T) {
	fs, l := smallLog(t)
	text := readFileText(t, fs, firstSegment)
	// Up to here a later block says that all was durable.
	proved := strings.LastIndex(text, "#kevy ")
	for at := 0; at < len(text); at += thin {
		for _, c := range []byte{text[at] ^ 1, text[at] ^ 0x80, '*', '#', 0, '\n', ' ', '0'} {
			if c == text[at] {
				continue
			}
			flipped := text[:at] + string([]byte{c}) + text[at+1:]
			what := fmt.Sprintf("byte %d is %q instead of %q", at, c, text[at])
			sink, report, err := recoverWith(t, fs, firstSegment, flipped, RecoverRefuse)
			checkPrefix(t, what, sink, l.ops)
			var damage *DamageError
			if err != nil && !errors.As(err, &damage) {
				t.Fatalf("%s: %v", what, err)
			}
			if at < proved && err == nil {
				t.Fatalf("%s: it was durable, and its loss is not noticed: %+v", what, report)
			}
			if at >= proved && err != nil {
				t.Fatalf("%s: taken for damage: %v", what, err)
			}
			if at >= proved && report.Torn == nil {
				t.Fatalf("%s: it is not noticed", what)
			}
		}
	}
}

func TestTruncateAndSkipDamage(t *testing.T) {
	fs, l := smallLog(t)
	text := readFileText(t, fs, firstSegment)
	for at := 0; at < len(text); at += thin {
		flipped := text[:at] + string([]byte{text[at] ^ 4}) + text[at+1:]
		what := fmt.Sprintf("byte %d", at)
		sink, report, err := recoverWith(t, fs, firstSegment, flipped, RecoverTruncate)
		if err != nil {
			t.Fatalf("%s: truncate: %v", what, err)
		}
		n := checkPrefix(t, what, sink, l.ops)
		if n == len(l.ops) || report.Torn == nil && len(report.Damaged) == 0 {
			t.Fatalf("%s: truncate: %d ops, %+v", what, n, report)
		}

		sink, report, err = recoverWith(t, fs, firstSegment, flipped, RecoverSkip)
		if err != nil {
			t.Fatalf("%s: skip: %v", what, err)
		}
		if report.Torn == nil && len(report.Damaged) == 0 {
			t.Fatalf("%s: skip: nothing is reported", what)
		}
		for lsn, op := range sink.byLSN {
			if l.ops[lsn-1] != op {
				t.Fatalf("%s: skip: LSN %d is %q", what, lsn, op)
			}
		}
		if random := strings.Index(text, "\r\n"); at > random+2 && len(sink.byLSN) < 5 {
			t.Fatalf("%s: skip: only %d of %d ops are left", what, len(sink.byLSN), len(l.ops))
		}
	}
}

// A log that is cut at a block's border looks whole. Only who knows better can
// tell.
func TestKnownDurable(t *testing.T) {
	fs, l := smallLog(t)
	text := readFileText(t, fs, firstSegment)
	text = text[:strings.LastIndex(text, "#kevy ")]
	c := copyTree(t, fs, "data/appendonlydir")
	writeFileText(t, c, firstSegment, text)
	opt := testOptions(c)
	opt.KnownDurableLSN = uint64(len(l.ops))
	_, _, err := tryOpenLog(t, opt, RecoverRefuse)
	var damage *DamageError
	if !errors.As(err, &damage) || damage.Offset != int64(len(text)) {
		t.Fatalf("the end of the log is missing: %v", err)
	}
	writeFileText(t, c, firstSegment, text+"#kevy 1")
	if _, _, err = tryOpenLog(t, opt, RecoverRefuse); !errors.As(err, &damage) || damage.Offset != int64(len(text)) {
		t.Fatalf("the end of the log is torn: %v", err)
	}
	again, rec, err := tryOpenLog(t, opt, RecoverTruncate)
	if err != nil {
		t.Fatal(err)
	}
	checkOps(t, "recovered", rec.ops, l.ops[:len(l.ops)-1])
	again.mustClose()
}

// A value full of block lines that claim the rest of the file must not cost the
// square of its size.
func TestForgedBlockLines(t *testing.T) {
	fs := vfs.NewMem()
	opt := testOptions(fs)
	opt.BlockBytes = 64 << 10
	l, _ := openLog(t, opt)
	l.set(0, "a", "1")
	l.mustWrite()
	var forged strings.Builder
	for i := 0; forged.Len() < 2<<20; i++ {
		fmt.Fprintf(&forged, "#kevy 3 1 2 1700000000000 %d 00000000\r\n", 1<<20+i)
	}
	// The proof that a search has to find behind all of them.
	l.set(0, "b", forged.String())
	l.mustWrite()
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	l.set(0, "c", "3")
	l.mustWrite()
	l.mustClose()
	text := readFileText(t, fs, firstSegment)
	at := strings.Index(text, "$1\r\nb\r\n")
	_, _, err := recoverWith(t, fs, firstSegment, text[:at]+"$1\r\nB\r\n"+text[at+7:], RecoverRefuse)
	var damage *DamageError
	if !errors.As(err, &damage) {
		t.Fatal(err)
	}
}

// A base that the manifest does not find may be one beside it: it is not removed
// like other leftovers.
func TestBaseUnderAnotherNameIsKept(t *testing.T) {
	fs := vfs.NewMem()
	l, _ := openLog(t, testOptions(fs))
	l.set(0, "a", "1")
	cut, err := l.Cut()
	if err == nil {
		err = rewriteAll(l, cut)
	}
	if err != nil {
		t.Fatal(err)
	}
	l.mustClose()
	base := readFileText(t, fs, "data/appendonlydir/appendonly.aof.1.base.aof")
	manifest := "data/appendonlydir/" + manifestName
	writeFileText(t, fs, manifest, strings.Replace(readFileText(t, fs, manifest), "appendonly.aof.1.base", "appendonly.aof.2.base", 1))
	for _, mode := range []RecoverMode{RecoverRefuse, RecoverTruncate} {
		var damage *DamageError
		if _, _, err := tryOpenLog(t, testOptions(fs), mode); !errors.As(err, &damage) || !strings.Contains(damage.File, "aof.2.base") {
			t.Fatalf("mode %d: %v", mode, err)
		}
	}
	l, _, err = tryOpenLog(t, testOptions(fs), RecoverSkip)
	if err != nil {
		t.Fatal(err)
	}
	l.ops = []string{"0 what is left"}
	if cut, err = l.Cut(); err == nil {
		err = rewriteAll(l, cut)
	}
	if err != nil {
		t.Fatal(err)
	}
	l.mustClose()
	again, _ := openLog(t, testOptions(fs))
	again.mustClose()
	kept := mustList(t, fs, "data/quarantine")
	check(t, "files kept", len(kept), 1)
	check(t, "the file kept", readFileText(t, fs, "data/quarantine/"+kept[0]), base)
}
