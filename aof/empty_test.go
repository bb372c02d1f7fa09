package aof

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A segment has a durable header before kevy lists it.
func TestEmptySegmentIsDamage(t *testing.T) {
	fs, l := rewritten(t)
	for i, name := range []string{segmentName(2), segmentName(3)} {
		c := fs.Clone()
		writeFileText(t, c, logDir+name, "")
		mustBeDamaged(t, name, c, logDir+name)
		check(t, "size", len(readFileText(t, c, logDir+name)), 0)
		for _, mode := range []RecoverMode{RecoverTruncate, RecoverSkip} {
			c := c.Clone()
			again, rec, err := tryOpenLog(t, testOptions(c), mode)
			if err != nil {
				t.Fatal(err)
			}
			if len(again.report.Damaged) == 0 {
				t.Fatalf("%s, mode %d: nothing is reported", name, mode)
			}
			left := l.ops[16:17]
			if i == 0 {
				left = l.ops[17:]
				if mode == RecoverTruncate {
					left = nil
				}
			}
			checkOps(t, fmt.Sprint(name, " mode ", mode), rec.ops, left)
			again.ops = append(l.ops[:16:16], left...)
			lsn := again.set(0, "new", "1")
			again.mustWrite()
			if mode == RecoverSkip {
				cut, err := again.Cut()
				if err == nil {
					again.ops = make([]string, cut) // a base counts its ops on its own
					for i := range again.ops {
						again.ops[i] = "0 k v"
					}
					err = rewriteAll(again, cut)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			again.mustClose()
			// What was left out is not met again.
			again, _ = openLog(t, testOptions(c))
			check(t, "last", again.Last(), lsn)
			check(t, "damaged", len(again.report.Damaged), 0)
			again.mustClose()
		}
	}
}

// An empty file that Redis listed holds nothing and is passed over.
func TestEmptyFileOfRedis(t *testing.T) {
	fs, l := rewritten(t)
	text := strings.TrimPrefix(readFileText(t, fs, theManifest), manifestMark+"\n")
	writeFileText(t, fs, theManifest, text+"file appendonly.aof.4.incr.aof seq 4 type i\n")
	writeFileText(t, fs, logDir+segmentName(4), "")
	again, rec := openLog(t, testOptions(fs))
	checkOps(t, "recovered", rec.ops, l.ops[16:])
	check(t, "foreign", again.report.Foreign, false)
	if _, err := fs.Stat(logDir + segmentName(4)); !errors.Is(err, iofs.ErrNotExist) {
		t.Fatal(err)
	}
	check(t, "manifest", readFileText(t, fs, theManifest), manifestMark+"\n"+text)
	again.set(0, "new", "1")
	again.mustClose()
	again, rec = openLog(t, testOptions(fs))
	check(t, "last op", rec.ops[len(rec.ops)-1], "0 new 1")
	again.mustClose()
}

// Redis lists an empty file when it begins to rewrite, and again when it starts
// with nothing.
func TestRedisLeavesEmptyFiles(t *testing.T) {
	for _, writes := range []bool{false, true} {
		dir := t.TempDir()
		keys := fillForRedis(t, dir)
		r := startRedis(t, dir)
		checkRedis(t, r, keys)
		if writes {
			check(t, "SET", r.do("SET", "of redis", "1"), "+OK")
		}
		check(t, "CONFIG", r.do("CONFIG", "SET", "rdb-key-save-delay", "1000000"), "+OK")
		r.do("BGREWRITEAOF")
		empty := waitForEmptyFile(t, dir)
		r.kill()
		l, rec := openLog(t, diskOptions(dir))
		check(t, "foreign", l.report.Foreign, writes)
		check(t, "last", l.Last(), uint64(720))
		check(t, "foreign commands", len(rec.foreign) > 0, writes)
		l.set(0, "again", "kevy")
		l.mustClose()
		l, rec = openLog(t, diskOptions(dir))
		check(t, "last op", rec.ops[len(rec.ops)-1], "0 again kevy")
		l.mustClose()
		if _, err := os.Stat(empty); err == nil && !writes {
			t.Fatalf("%s is still there", empty)
		}
		r = startRedis(t, dir)
		check(t, "GET", r.do("GET", "again"), "kevy")
		r.kill()
	}
	dir := t.TempDir()
	startRedis(t, dir).kill()
	l, _ := openLog(t, diskOptions(dir))
	l.set(0, "a", "1")
	l.mustClose()
	l, rec := openLog(t, diskOptions(dir))
	checkOps(t, "behind empty files of Redis", rec.ops, []string{"0 a 1"})
	l.mustClose()
}

// waitForEmptyFile returns the last listed file once it is empty.
func waitForEmptyFile(t *testing.T, dir string) string {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		text, err := os.ReadFile(filepath.Join(dir, logDirName, manifestName))
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		name := filepath.Join(dir, logDirName, strings.Fields(lines[len(lines)-1])[1])
		if info, err := os.Stat(name); err == nil && info.Size() == 0 {
			if strings.Contains(string(text), "#kevy") {
				t.Fatalf("Redis keeps the mark:\n%s", text)
			}
			return name
		}
	}
	t.Fatal("redis-server lists no empty file")
	return ""
}

// Redis cuts a torn command at the end of the last whole one, and takes no line
// of ours for one: where the first block of a file is torn nothing is left of it.
func TestRedisEmptiesTheLastFile(t *testing.T) {
	dir := t.TempDir()
	l, _ := openLog(t, diskOptions(dir))
	l.set(0, "a", "1")
	l.mustWrite()
	if _, err := l.Cut(); err != nil {
		t.Fatal(err)
	}
	l.set(0, "b", "2")
	l.mustWrite()
	l.mustClose()
	last := filepath.Join(dir, logDirName, segmentName(2))
	text, err := os.ReadFile(last)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(last, int64(strings.Index(string(text), "select"))); err != nil {
		t.Fatal(err)
	}
	startRedis(t, dir).kill()
	info, err := os.Stat(last)
	if err != nil {
		t.Fatal(err)
	}
	check(t, "size", info.Size(), 0)
	var damage *DamageError
	if _, _, err := tryOpenLog(t, diskOptions(dir), RecoverRefuse); !errors.As(err, &damage) || damage.File != last {
		t.Fatal(err)
	}
	l, rec, err := tryOpenLog(t, diskOptions(dir), RecoverTruncate)
	if err != nil {
		t.Fatal(err)
	}
	checkOps(t, "recovered", rec.ops, []string{"0 a 1"})
	l.mustClose()
	l, _ = openLog(t, diskOptions(dir))
	l.mustClose()
}
