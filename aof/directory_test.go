package aof

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"kevy/internal/vfs"
)

const (
	logDir      = "data/appendonlydir/"
	theManifest = logDir + manifestName
)

// rewritten is a log with a base, feed segments and two segments behind the
// base.
func rewritten(t *testing.T) (*vfs.Mem, *testLog) {
	t.Helper()
	fs := vfs.NewMem()
	l := longLog(t, testOptions(fs), 8)
	cut, err := l.Cut()
	if err != nil {
		t.Fatal(err)
	}
	l.set(1, "behind", "1")
	l.mustWrite()
	if err := rewriteAll(l, cut); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Cut(); err != nil {
		t.Fatal(err)
	}
	l.set(2, "last", "1")
	l.mustWrite()
	l.mustClose()
	check(t, "manifest", readFileText(t, fs, theManifest), "#kevy-log 1\nfile appendonly.aof.1.base.aof seq 1 type b\n"+
		"file appendonly.aof.2.incr.aof seq 2 type i\nfile appendonly.aof.3.incr.aof seq 3 type i\n")
	return fs, l
}

func mustBeDamaged(t *testing.T, what string, fs *vfs.Mem, file string) {
	t.Helper()
	var damage *DamageError
	if _, _, err := tryOpenLog(t, testOptions(fs), RecoverRefuse); !errors.As(err, &damage) || file != "" && damage.File != file {
		t.Fatalf("%s: %v", what, err)
	}
}

func TestEveryFaultInABase(t *testing.T) {
	fs, l := rewritten(t)
	base := logDir + baseName(1)
	text := readFileText(t, fs, base)
	cut := uint64(16)
	try := func(what, changed string) {
		t.Helper()
		_, _, err := recoverWith(t, fs, base, changed, RecoverRefuse)
		var damage *DamageError
		if !errors.As(err, &damage) || damage.File != base {
			t.Fatalf("%s: %v", what, err)
		}
		_, _, err = recoverWith(t, fs, base, changed, RecoverTruncate)
		if !errors.As(err, &damage) {
			t.Fatalf("%s: a base cannot be truncated: %v", what, err)
		}
		sink, report, err := recoverWith(t, fs, base, changed, RecoverSkip)
		if err != nil {
			t.Fatalf("%s: skip: %v", what, err)
		}
		if len(report.Damaged) == 0 {
			t.Fatalf("%s: skip: nothing is reported", what)
		}
		left := l.ops[:cut]
		for _, op := range sink.base {
			i := slices.Index(left, op)
			if i < 0 {
				t.Fatalf("%s: skip: %q is in no base", what, op)
			}
			left = left[i+1:]
		}
		if len(sink.byLSN) != len(l.ops)-int(cut) || len(sink.foreign) > 0 {
			t.Fatalf("%s: skip: %d ops behind the base, foreign %q", what, len(sink.byLSN), sink.foreign)
		}
	}
	for at := 0; at < len(text); at += thin {
		for _, c := range []byte{text[at] ^ 1, '*', 0} {
			if c != text[at] {
				try(fmt.Sprintf("byte %d is %q instead of %q", at, c, text[at]), text[:at]+string([]byte{c})+text[at+1:])
			}
		}
	}
	for size := 1; size < len(text); size += thin {
		try(fmt.Sprint("cut to ", size), text[:size])
	}
	try("bytes behind the end", text+"#")
	mustBeDamaged(t, "an empty base", func() *vfs.Mem { c := fs.Clone(); writeFileText(t, c, base, ""); return c }(), "")
}

func TestMissingFiles(t *testing.T) {
	fs, l := rewritten(t)
	for _, name := range []string{baseName(1), segmentName(2), segmentName(3), manifestName} {
		c := fs.Clone()
		if err := c.Remove(logDir + name); err != nil {
			t.Fatal(err)
		}
		before := mustList(t, c, "data/appendonlydir")
		mustBeDamaged(t, name, c, logDir+name)
		check(t, "files", fmt.Sprint(mustList(t, c, "data/appendonlydir")), fmt.Sprint(before))
	}
	// A segment that is not listed and not the next one.
	c := fs.Clone()
	writeFileText(t, c, theManifest, "file appendonly.aof.1.base.aof seq 1 type b\nfile appendonly.aof.3.incr.aof seq 3 type i\n")
	mustBeDamaged(t, "a segment that is not listed", c, logDir+segmentName(3))

	c = fs.Clone()
	if err := c.Remove(logDir + segmentName(2)); err != nil {
		t.Fatal(err)
	}
	again, rec, err := tryOpenLog(t, testOptions(c), RecoverTruncate)
	if err != nil {
		t.Fatal(err)
	}
	checkOps(t, "truncate: base", rec.base, l.ops[:16])
	check(t, "truncate: ops behind the base", len(rec.ops), 0)
	check(t, "truncate: what is left out", len(again.report.Damaged), 2)
	again.set(0, "new", "1")
	again.mustWrite()
	again.mustClose()
	again, rec = openLog(t, testOptions(c))
	checkOps(t, "after it", rec.ops, []string{"0 new 1"})
	again.mustClose()

	c = fs.Clone()
	if err := c.Remove(logDir + segmentName(2)); err != nil {
		t.Fatal(err)
	}
	again, rec, err = tryOpenLog(t, testOptions(c), RecoverSkip)
	if err != nil {
		t.Fatal(err)
	}
	checkOps(t, "skip", rec.ops, l.ops[len(l.ops)-1:])
	check(t, "skip: last LSN", again.Last(), uint64(len(l.ops)))
	check(t, "skip: oldest LSN", again.OldestLSN(), uint64(len(l.ops)))
	cut, err := again.Cut()
	if err != nil {
		t.Fatal(err)
	}
	again.ops = l.ops
	if err := rewriteAll(again, cut); err != nil {
		t.Fatal(err)
	}
	again.mustClose()
	again, rec = openLog(t, testOptions(c))
	checkOps(t, "after a rewrite", rec.base, l.ops)
	again.mustClose()
}

// A file was fsynced before the next one came to be, so that no crash leaves a
// fault in it.
func TestFaultBeforeTheLastFile(t *testing.T) {
	fs, _ := rewritten(t)
	text := readFileText(t, fs, logDir+segmentName(2))
	closing := strings.LastIndex(text, "#kevy ")
	for _, changed := range []string{text[:len(text)-1], text[:closing] + "?", text + "?"} {
		c := fs.Clone()
		writeFileText(t, c, logDir+segmentName(2), changed)
		mustBeDamaged(t, "listed", c, logDir+segmentName(2))
		writeFileText(t, c, theManifest, "file appendonly.aof.1.base.aof seq 1 type b\nfile appendonly.aof.2.incr.aof seq 2 type i\n")
		mustBeDamaged(t, "followed by one that is not listed", c, logDir+segmentName(2))
	}
}

// A segment whose manifest was lost goes on where the log ends.
func TestAdoption(t *testing.T) {
	fs, l := rewritten(t)
	writeFileText(t, fs, theManifest, "file appendonly.aof.1.base.aof seq 1 type b\nfile appendonly.aof.2.incr.aof seq 2 type i\n")
	again, rec := openLog(t, testOptions(fs))
	checkOps(t, "recovered", rec.ops, l.ops[16:])
	if text := readFileText(t, fs, theManifest); !strings.HasSuffix(text, "file appendonly.aof.3.incr.aof seq 3 type i\n") {
		t.Fatalf("manifest %q", text)
	}
	again.set(0, "new", "1")
	again.mustClose()

	// Without any manifest it must be the first one of all.
	fs = vfs.NewMem()
	l = longLog(t, testOptions(fs), 3)
	l.mustClose()
	if err := fs.Remove(theManifest); err != nil {
		t.Fatal(err)
	}
	again, rec = openLog(t, testOptions(fs))
	checkOps(t, "recovered", rec.ops, l.ops)
	again.mustClose()
}

func TestLeftovers(t *testing.T) {
	fs, l := rewritten(t)
	strange := vfs.NewMem()
	other := longLog(t, testOptions(strange), 3)
	other.mustClose()
	stranger := readFileText(t, strange, firstSegment)
	for name, text := range map[string]string{
		segmentName(7):           "",
		segmentName(8):           "#kevy-file 1 1",
		segmentName(9):           stranger,
		baseName(9):              "anything",
		tempPrefix + baseName(4): "anything",
		manifestName + ".tmp":    "anything",
		"temp-rewriteaof-9.aof":  "of a redis-server",
		"notes.txt":              "of a person",
	} {
		writeFileText(t, fs, logDir+name, text)
	}
	again, rec := openLog(t, testOptions(fs))
	checkOps(t, "recovered", rec.ops, l.ops[16:])
	check(t, "files", fmt.Sprint(mustList(t, fs, "data/appendonlydir")), fmt.Sprint([]string{
		baseName(1), segmentName(2), segmentName(3), manifestName, "notes.txt", "temp-rewriteaof-9.aof"}))
	quarantined := mustList(t, fs, "data/quarantine")
	check(t, "quarantined", len(quarantined), 2)
	if readFileText(t, fs, "data/quarantine/"+quarantined[1]) != stranger {
		t.Fatalf("%q", quarantined)
	}
	// Numbers that were in use are not given out again.
	if _, err := again.Cut(); err != nil {
		t.Fatal(err)
	}
	again.set(0, "new", "1")
	again.mustWrite()
	if text := readFileText(t, fs, theManifest); !strings.HasSuffix(text, segmentName(10)+" seq 10 type i\n") {
		t.Fatalf("manifest %q", text)
	}
	again.mustClose()
}

func TestManifestDamage(t *testing.T) {
	fs, _ := rewritten(t)
	for _, text := range []string{"", "file", "file a.aof seq 1 type i", strings.Repeat("#\n", maxManifestBytes/2+1)} {
		c := fs.Clone()
		writeFileText(t, c, theManifest, text)
		mustBeDamaged(t, fmt.Sprintf("%.20q", text), c, theManifest)
	}
}

func TestNewerFormat(t *testing.T) {
	fs, _ := rewritten(t)
	for _, name := range []string{baseName(1), segmentName(2)} {
		c := fs.Clone()
		line := appendLine(nil, 0xabcdef01, 0, []byte("#kevy-file 2 1 abcdef01"))
		writeFileText(t, c, logDir+name, string(line))
		var newer *FormatError
		if _, _, err := tryOpenLog(t, testOptions(c), RecoverRefuse); !errors.As(err, &newer) || newer.Format != 2 {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

// A file that a newer minor version wrote can hold lines that this one does not
// know. What checks is passed over.
func TestUnknownLines(t *testing.T) {
	text := ownLog(t)
	line, _, _, err := readFileLine(&window{f: openText(t, text), size: int64(len(text))})
	if err != nil {
		t.Fatal(err)
	}
	extra := appendLine(nil, line.random, 1, []byte("#kevy-weather sunny 25"))
	h := BlockHeader{FirstLSN: 2}
	start := len(extra)
	extra = appendBlockLine(extra, &h)
	extra = appendChecksum(extra, blockChecksum(line.random, extra[start:], nil))
	l, rec, _, err := logWith(t, text+string(extra), RecoverRefuse)
	if err != nil {
		t.Fatal(err)
	}
	check(t, "ops", len(rec.ops), 1)
	check(t, "torn", l.report.Torn, nil)
	l.mustClose()
	extra[start-4] ^= 1
	l, _, _, err = logWith(t, text+string(extra), RecoverRefuse)
	if err != nil {
		t.Fatal(err)
	}
	check(t, "torn bytes", l.report.Torn.Bytes, int64(len(extra)))
	l.mustClose()
}

func openText(t *testing.T, text string) vfs.File {
	t.Helper()
	fs := vfs.NewMem()
	writeFileText(t, fs, "x", text)
	f, err := fs.Open("x")
	if err != nil {
		t.Fatal(err)
	}
	return f
}
