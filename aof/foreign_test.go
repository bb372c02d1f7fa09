package aof

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"strings"
	"testing"

	"kevy/internal/vfs"
)

// logWith recovers a log whose only segment is text.
func logWith(t *testing.T, text string, mode RecoverMode) (l *testLog, rec *record, fs *vfs.Mem, err error) {
	t.Helper()
	fs = vfs.NewMem()
	if err := fs.MkdirAll("data/appendonlydir"); err != nil {
		t.Fatal(err)
	}
	writeFileText(t, fs, firstSegment, text)
	writeFileText(t, fs, "data/appendonlydir/"+manifestName, "file appendonly.aof.1.incr.aof seq 1 type i\n")
	l, rec, err = tryOpenLog(t, testOptions(fs), mode)
	return l, rec, fs, err
}

func commandText(args ...string) string { return string(appendCommand(nil, args...)) }

// ownLog is a segment with one op.
func ownLog(t *testing.T) string {
	t.Helper()
	fs := vfs.NewMem()
	l, _ := openLog(t, testOptions(fs))
	l.set(0, "own", "1")
	l.mustWrite()
	l.mustClose()
	return readFileText(t, fs, firstSegment)
}

func TestForeignCommands(t *testing.T) {
	own := ownLog(t)
	set, multi, exec := commandText("set", "k", "v\r\n#kevy 1"), commandText("multi"), commandText("EXEC")
	for _, c := range []struct {
		name    string
		text    string
		foreign int // commands
		torn    string
		damaged string
	}{
		{"nothing", "", 0, "", ""},
		{"commands", set + set, 2, "", ""},
		{"times", "#TS:1700000000\r\n" + set + "#TS:1700000001\r\n" + set, 2, "", ""},
		{"a time alone", "#TS:1700000000\r\n", 0, "", ""},
		{"transactions", multi + set + exec + set + multi + exec, 6, "", ""},
		{"an incomplete command", set + set[:len(set)-3], 1, set[:len(set)-3], ""},
		{"a command's first byte", set + "*", 1, "*", ""},
		{"an incomplete command alone", set[:5], 0, set[:5], ""},
		{"an incomplete time", set + "#TS:17", 1, "#TS:17", ""},
		{"an open transaction", set + multi + set, 1, multi + set, ""},
		{"an incomplete transaction", multi + set + exec + multi + set + set[:5], 3, multi + set + set[:5], ""},
		{"a malformed command", set + "*2\r\n$1\r\nab\r\n", 1, "", "*2\r\n$1\r\nab\r\n"},
		{"no count", set + "*\r\n", 1, "", "*\r\n"},
		{"a count of 0", set + "*0\r\n", 1, "", "*0\r\n"},
		{"a negative length", set + "*1\r\n$-1\r\n", 1, "", "*1\r\n$-1\r\n"},
		{"a length that overflows", set + "*1\r\n$9999999999999999999\r\n", 1, "", "*1\r\n$9999999999999999999\r\n"},
		{"a length beyond the end", set + "*1\r\n$999999999999999999\r\n", 1, "*1\r\n$999999999999999999\r\n", ""},
		{"zeros", set + "\x00\x00\x00", 1, "", "\x00\x00\x00"},
		{"a strange line", set + "#hello\r\n", 1, "", "#hello\r\n"},
	} {
		for _, pure := range []bool{false, true} {
			t.Run(fmt.Sprint(c.name, " pure=", pure), func(t *testing.T) {
				text := own + c.text
				if pure {
					text = c.text
				}
				l, rec, fs, err := logWith(t, text, RecoverRefuse)
				check(t, "commands", len(rec.foreign), c.foreign)
				if c.damaged != "" {
					var damage *DamageError
					if !errors.As(err, &damage) || damage.Offset != int64(len(text)-len(c.damaged)) {
						t.Fatalf("recovery: %v", err)
					}
					check(t, "file", readFileText(t, fs, firstSegment), text)
					if l, rec, fs, err = logWith(t, text, RecoverTruncate); err != nil {
						t.Fatal(err)
					}
					check(t, "commands", len(rec.foreign), c.foreign)
					check(t, "damaged", len(l.report.Damaged), 1)
					c.torn = c.damaged
				} else if err != nil {
					t.Fatal(err)
				} else if c.torn != "" {
					check(t, "quarantined", readFileText(t, fs, l.report.Torn.Quarantine), c.torn)
				} else {
					check(t, "torn", l.report.Torn, nil)
				}
				check(t, "foreign", l.report.Foreign, c.foreign > 0)
				if left := text[:len(text)-len(c.torn)]; left != "" {
					check(t, "file", readFileText(t, fs, firstSegment), left)
				} else if _, err := fs.Stat(firstSegment); !errors.Is(err, iofs.ErrNotExist) {
					t.Fatalf("an empty file: %v", err)
				}

				// The log goes on, and the same commands come again.
				l.set(0, "new", "1")
				l.mustWrite()
				l.mustClose()
				again, rec := openLog(t, testOptions(fs))
				check(t, "commands", len(rec.foreign), c.foreign)
				check(t, "last op", rec.ops[len(rec.ops)-1], "0 new 1")
				again.mustClose()
			})
		}
	}
}

// A file in which one of the servers went on where it could not have.
func TestForeignInTheMiddle(t *testing.T) {
	own := ownLog(t)
	set, multi := commandText("set", "k", "v"), commandText("multi")
	block := "#kevy 2 0 0 1700000000000 0 00000000\r\n"
	for _, text := range []string{
		own + multi + set + block, // a transaction that a block interrupts
		set + block,               // a file that kevy did not begin
		set + own,
	} {
		var damage *DamageError
		if _, _, _, err := logWith(t, text, RecoverRefuse); !errors.As(err, &damage) {
			t.Errorf("%q: %v", text, err)
		}
		l, rec, _, err := logWith(t, text, RecoverSkip)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if len(l.report.Damaged) == 0 || strings.Contains(fmt.Sprint(rec.foreign), "multi") {
			t.Errorf("%q: %+v, foreign %v", text, l.report, rec.foreign)
		}
		l.mustClose()
	}
}

// Foreign commands are handed on in pieces of whole commands, whatever their
// size.
func TestForeignChunks(t *testing.T) {
	var text strings.Builder
	n := 0
	for text.Len() < 3*foreignChunkBytes {
		text.WriteString(commandText("set", fmt.Sprint("k", n), strings.Repeat("v", n%5000)))
		n++
	}
	text.WriteString(commandText("set", "large", strings.Repeat("v", 2*foreignChunkBytes)))
	text.WriteString(commandText("set", "last", "v"))
	l, rec, _, err := logWith(t, text.String(), RecoverRefuse)
	if err != nil {
		t.Fatal(err)
	}
	check(t, "commands", len(rec.foreign), n+2)
	check(t, "last", rec.foreign[n+1], "[set last v]")
	l.mustClose()
}

// A torn block of ours behind which Redis went on is told from a torn tail by
// how it selects.
func TestTakenOverIsNotGuessed(t *testing.T) {
	own := ownLog(t)
	redis := commandText("SELECT", "0") + commandText("set", "redis", "1")
	header := "#kevy 2 9 0 1700000000000 999 00000000\r\n"
	torn, multi, exec := commandText("SET", "torn", "1"), commandText("MULTI"), commandText("EXEC")
	ours := commandText("select", "0") + torn
	for _, c := range []struct {
		text    string
		foreign int
	}{
		{own + header + ours + redis, 4},
		{own + "#kevy 2 9" + redis, 2},
		{own + "#ke" + redis, 2},
		{own + header + ours, 0},
		{own + header + redis, 2},
		{own + header + commandText("SELECT", "1") + torn + redis, 4},
		{own + header + torn + redis, 0},
		{own + header + ours + "#x\r\n" + commandText("DEL", "torn") + redis, 5},
		{own + header + ours + redis[:len(redis)-2], 3},
		{own + header + ours + redis[:8], 0},
		// Redis has dropped the open transaction of ours, and left it in the file.
		{own + header + commandText("select", "0") + multi + torn + redis, 3},
		{own + header + ours + multi + torn + exec + torn + multi + torn + "#x\r\n" + torn + redis, 8},
		{own + header + commandText("select", "0") + multi + commandText("select", "1") + torn + redis + multi + torn + exec, 6},
		{own + header + commandText("select", "0") + multi + torn + redis + multi + torn, 3},
		{own + "#nokevy" + redis, 0},
		{own + "#kevy 2" + "*2\r\n$6\r\nSELECT\r\n1\r\n0\r\n", 0},
	} {
		l, rec, fs, err := logWith(t, c.text, RecoverRefuse)
		if err != nil {
			t.Fatalf("%q: %v", c.text, err)
		}
		check(t, fmt.Sprintf("commands of %q", c.text), len(rec.foreign), c.foreign)
		check(t, "foreign", l.report.Foreign, c.foreign > 0)
		if c.foreign == 0 {
			check(t, "file", readFileText(t, fs, firstSegment), own)
		}
		l.mustClose()
		again, rec := openLog(t, testOptions(fs))
		check(t, "commands the next time", len(rec.foreign), c.foreign)
		again.mustClose()
	}
}

// A segment of ours in which nothing but another server's commands, or damage,
// stands begins behind any cut: a base has to take its place all the same.
func TestBaseReplacesASegmentWithoutOps(t *testing.T) {
	fs := vfs.NewMem()
	l, _ := openLog(t, testOptions(fs))
	l.set(0, "own", "1")
	cut, err := l.Cut()
	if err == nil {
		err = rewriteAll(l, cut)
	}
	if err != nil {
		t.Fatal(err)
	}
	l.mustClose()
	const name = "data/appendonlydir/appendonly.aof.2.incr.aof"
	own := readFileText(t, fs, name)
	for what, text := range map[string]string{
		"commands": own + commandText("SELECT", "0") + commandText("INCR", "n"),
		"damage":   strings.Replace(own, "#kevy-file", "#kevy-fool", 1),
	} {
		t.Run(what, func(t *testing.T) {
			fs := fs.Clone()
			writeFileText(t, fs, name, text)
			l, _, err := tryOpenLog(t, testOptions(fs), RecoverSkip)
			if err != nil {
				t.Fatal(err)
			}
			l.ops = []string{"0 own 1", "0 left out"}
			cut, err := l.Cut()
			if err == nil {
				err = rewriteAll(l, cut)
			}
			if err != nil {
				t.Fatal(err)
			}
			l.mustClose()
			if manifest := readFileText(t, fs, "data/appendonlydir/"+manifestName); strings.Contains(manifest, "aof.2.incr") {
				t.Errorf("the manifest lists it:\n%s", manifest)
			}
			again, rec := openLog(t, testOptions(fs))
			check(t, "commands", len(rec.foreign), 0)
			again.mustClose()
		})
	}
}

// The log of a Redis before 7 is not taken for nothing; beside one of Redis 7 it
// is what that left behind.
func TestSingleFileIsRefused(t *testing.T) {
	fs := vfs.NewMem()
	if err := fs.MkdirAll("data"); err != nil {
		t.Fatal(err)
	}
	writeFileText(t, fs, "data/appendonly.aof", commandText("SET", "k", "v"))
	if _, _, err := tryOpenLog(t, testOptions(fs), RecoverSkip); !errors.Is(err, ErrSingleFile) || !strings.Contains(err.Error(), "data/appendonly.aof: ") {
		t.Fatal(err)
	}
	writeFileText(t, fs, "data/appendonlydir/appendonly.aof.1.incr.aof", commandText("SET", "k", "v"))
	writeFileText(t, fs, "data/appendonlydir/"+manifestName, "file appendonly.aof.1.incr.aof seq 1 type i\n")
	l, rec := openLog(t, testOptions(fs))
	check(t, "commands", len(rec.foreign), 1)
	l.mustClose()
	fs = vfs.NewMem()
	if err := fs.MkdirAll("data"); err != nil {
		t.Fatal(err)
	}
	writeFileText(t, fs, "data/appendonly.aof", "")
	l, _ = openLog(t, testOptions(fs))
	l.mustClose()
}
