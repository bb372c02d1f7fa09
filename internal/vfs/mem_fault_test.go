package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestQuota runs calls against a quota of 10 bytes and wants their outcomes and the bytes in use after each.
func TestQuota(t *testing.T) {
	m := NewMem()
	m.SetQuota(10)
	s := newScript(m, "/")
	for _, step := range []struct {
		call, want string
		used       int64
	}{
		{"create f a", "ok", 0},
		{"write f 1234567", "7", 7},
		{"write f 1234567", "error: no space", 10},
		{"cat a", `"1234567123"`, 10},
		{"write f x", "error: no space", 10},
		{"size f", "10", 10},
		{"sync f", "ok", 10},

		// Names cost nothing, and can be had on a full disk.
		{"create g b", "ok", 10},
		{"rename b c", "ok", 10},
		{"mkdir d", "ok", 10},
		{"link c d/c", "ok", 10},
		{"write g x", "error: no space", 10},
		{"truncate g 1", "error: no space", 10},

		// What is cut off is free again.
		{"truncate f 4", "ok", 4},
		{"write g 123", "3", 7},
		{"truncate g 6", "ok", 10},
		{"truncate g 7", "error: no space", 10},
		{"truncate g 2", "ok", 6},

		// A file is free when its last name and its last handle are gone.
		{"remove c", "ok", 6},
		{"remove d/c", "ok", 6},
		{"write g 12", "2", 8},
		{"close g", "ok", 4},
		{"remove a", "ok", 4},
		{"open h a", "error: not exist", 4},
		{"close f", "ok", 0},

		// One that is replaced, or emptied.
		{"create f a", "ok", 0},
		{"write f 123456", "6", 6},
		{"close f", "ok", 6},
		{"create f b", "ok", 6},
		{"write f 12", "2", 8},
		{"close f", "ok", 8},
		{"rename b a", "ok", 2},
		{"create f a", "ok", 0},
		{"atomic a 123456", "ok", 6},
		{"atomic a 123456", "error: no space", 6},
		{"list /", "a:6 d/", 6},
	} {
		if got := s.run(step.call); got != step.want {
			t.Errorf("%s: got %s, want %s", step.call, got, step.want)
		}
		if got := m.Used(); got != step.used {
			t.Errorf("%s: %d bytes in use, want %d", step.call, got, step.used)
		}
	}

	n, err := s.files["f"].Write([]byte("123456789"))
	if n != 4 || !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "a") {
		t.Errorf("%d, %v", n, err)
	}
	m.SetQuota(-1)
	if got := s.run("write f 123456789"); got != "9" {
		t.Error("without a quota:", got)
	}
	m.SetQuota(0)
	if got := s.run("write f 1"); got != "error: no space" {
		t.Error("with a quota below what is used:", got)
	}
}

// TestQuotaSurvives wants the disk to be as full after a crash as what is left on it.
func TestQuotaSurvives(t *testing.T) {
	m := NewMem()
	m.SetQuota(1000)
	do(t, m, `
		create f a
		write f A*300
		link a b
		sync f
		create g c
		write g C*500
		sync g
		syncdir /
		remove c
		create h d
		write h D*100`)
	if got := m.Used(); got != 300+500+100 {
		t.Fatalf("%d bytes in use", got)
	}
	killed := m.Kill() // g, which nothing but a handle kept, goes with the process
	if got := killed.Used(); got != 300+100 {
		t.Errorf("%d bytes in use after a kill", got)
	}
	seen := map[int64]bool{}
	for seed := range uint64(300) {
		cut := m.PowerCut(newRand(seed))
		var want int64
		infos, err := cut.List("/")
		if err != nil {
			t.Fatal(err)
		}
		for _, info := range infos {
			if info.Name != "b" {
				want += info.Size
			}
		}
		if got := cut.Used(); got != want {
			t.Fatalf("seed %d: %d bytes in use, files hold %d", seed, got, want)
		}
		seen[want] = true
		s := do(t, cut, "create x x\nremove a")
		n, err := s.files["x"].Write(make([]byte, 2000))
		if int64(n) != 1000-want || !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("seed %d: wrote %d to a disk of 1000 with %d in use: %v", seed, n, want, err)
		}
	}
	for _, want := range []int64{300, 400, 800, 900} {
		if !seen[want] {
			t.Errorf("no power cut left %d bytes", want)
		}
	}
}

// TestFaultOfEachOp fails each kind of call once: the call says so and does nothing, and the next one works.
func TestFaultOfEachOp(t *testing.T) {
	calls := map[Op][]string{
		OpOpen:     {"open x a", "append x a", "cat a"},
		OpCreate:   {"create x new", "create x a", "append x new", "lock x new"},
		OpRead:     {"read f 1", "readat f 0 1", "cat a"},
		OpWrite:    {"write f x"},
		OpTruncate: {"truncate f 0"},
		OpSync:     {"sync f", "syncdata f"},
		OpClose:    {"close f"},
		OpRename:   {"rename a new"},
		OpLink:     {"link a new"},
		OpRemove:   {"remove a"},
		OpMkdir:    {"mkdir new", "mkdir d/new"},
		OpList:     {"list d"},
		OpStat:     {"stat a"},
		OpSyncDir:  {"syncdir d", "syncdir /"},
		OpLock:     {"lock x new", "lock x a"},
	}
	for op := OpOpen; op <= OpLock; op++ {
		if len(calls[op]) == 0 {
			t.Errorf("%v has no call here", op)
		}
		for _, call := range calls[op] {
			m := NewMem()
			s := do(t, m, `
				create f a
				write f ABC
				mkdir d`)
			was := dump(t, m, "/")
			m.Inject(Fault{Op: op, Times: 1, Err: syscall.EPERM})
			if got := s.run(call); got != "error: not permitted" {
				t.Errorf("%v: %s: %s", op, call, got)
			}
			if is := dump(t, m, "/"); is != was {
				t.Errorf("%v: %s failed, but changed\n%sto\n%s", op, call, was, is)
			}
			if got := s.run(call); op == OpClose && got != "error: closed" || op != OpClose && strings.HasPrefix(got, "error") {
				t.Errorf("%v: %s, again: %s", op, call, got)
			}
		}
		// Other kinds of call are left alone.
		m := NewMem()
		m.Inject(Fault{Op: op, Err: syscall.EPERM})
		s := do(t, m, "")
		if op == OpCreate {
			continue // the other calls need the file
		}
		failed := 0
		for _, call := range strings.Split("create f a,write f x,read f 1,truncate f 0,sync f,stat a,rename a b,link b c,remove c,mkdir d,list d,syncdir d,lock l b,open g b,close g", ",") {
			if op == OpOpen && call == "close g" {
				continue // there is no such handle
			}
			if s.run(call) == "error: not permitted" {
				failed++
			}
		}
		if failed != 1 {
			t.Errorf("%v: %d of the calls failed, want 1", op, failed)
		}
	}
	if got := Op(200).String(); got != "Op(200)" {
		t.Error(got)
	}
}

func TestFaultCounts(t *testing.T) {
	for _, test := range []struct {
		fault Fault
		want  string // one letter for each of ten writes
	}{
		{Fault{}, "EEEEEEEEEE"},
		{Fault{Times: 1}, "E........."},
		{Fault{After: 2}, "..EEEEEEEE"},
		{Fault{After: 3, Times: 2}, "...EE....."},
		{Fault{After: 20}, ".........."},
	} {
		m := NewMem()
		s := do(t, m, "create f a")
		test.fault.Op = OpWrite
		m.Inject(test.fault)
		got := ""
		for range 10 {
			switch out := s.run("write f x"); out {
			case "1":
				got += "."
			case "error: i/o error":
				got += "E"
			default:
				t.Fatal(out)
			}
		}
		if got != test.want {
			t.Errorf("%+v: %s, want %s", test.fault, got, test.want)
		}
	}
}

func TestFaultGlob(t *testing.T) {
	for _, test := range []struct {
		glob, name string
		want       bool
	}{
		{"", "d/a", true},
		{"*", "d/a", true},
		{"a", "d/a", true},
		{"a", "a", true},
		{"a", "/d/a", true},
		{"a", "d/ab", false},
		{"a", "a/b", false},
		{"*.aof", "d/x.aof", true},
		{"d/*", "d/a", true},
		{"d/*", "/d/a", true},
		{"/d/*", "d/a", true},
		{"d/*", "x/d/a", false},
		{"d/*", "d/e/a", false},
		{"/a", "a", true},
		{"/a", "d/a", false},
	} {
		m := NewMem()
		m.Inject(Fault{Op: OpStat, Glob: test.glob})
		_, err := m.Stat(test.name)
		if got := errors.Is(err, syscall.EIO); got != test.want {
			t.Errorf("%q matches %q: %v", test.glob, test.name, got)
		}
	}

	// A rename matches with either name; a handle with the one that it was opened by.
	m := NewMem()
	s := do(t, m, "create f a\ncreate g b")
	m.Inject(Fault{Op: OpRename, Glob: "x"})
	m.Inject(Fault{Op: OpRename, Glob: "b"})
	m.Inject(Fault{Op: OpWrite, Glob: "a"})
	for call, want := range map[string]string{
		"rename a x": "error: i/o error",
		"rename b y": "error: i/o error",
		"rename a c": "ok",
	} {
		if got := s.run(call); got != want {
			t.Errorf("%s: %s, want %s", call, got, want)
		}
	}
	if got := s.run("write f x"); got != "error: i/o error" {
		t.Error(got)
	}
	if got := s.run("write g x"); got != "1" {
		t.Error(got)
	}

	defer func() {
		if recover() == nil {
			t.Error("a malformed glob is taken")
		}
	}()
	m.Inject(Fault{Op: OpRead, Glob: "[a"})
}

func TestFaultShortWrite(t *testing.T) {
	m := NewMem()
	s := do(t, m, "create f a")
	f := s.files["f"]
	remove := m.Inject(Fault{Op: OpWrite, Bytes: 3})
	for _, size := range []int{10, 2} {
		n, err := f.Write(make([]byte, size))
		if n != min(3, size) || !errors.Is(err, syscall.EIO) {
			t.Errorf("%d of %d, %v", n, size, err)
		}
	}
	remove()
	remove()
	if got := s.run("write f x"); got != "1" {
		t.Error(got)
	}
	if got := s.run("size f"); got != "6" {
		t.Error(got)
	}

	// On a disk that is nearly full, whichever is less; the error is the fault's.
	m.SetQuota(m.Used() + 2)
	m.Inject(Fault{Op: OpWrite, Bytes: 3})
	if n, err := f.Write(make([]byte, 10)); n != 2 || !errors.Is(err, syscall.EIO) {
		t.Error(n, err)
	}
}

// A SyncDir that fails has made nothing durable, and the next one makes up for it.
func TestFailedSyncDir(t *testing.T) {
	m := NewMem()
	s := do(t, m, "create f a")
	m.Inject(Fault{Op: OpSyncDir, Times: 1})
	if got := s.run("syncdir /"); got != "error: i/o error" {
		t.Fatal(got)
	}
	left := func() string {
		seen := map[string]bool{}
		for seed := range uint64(50) {
			seen[outcomeOf(t, m.Kill().PowerCut(newRand(seed)))] = true
		}
		return fmt.Sprint(seen)
	}
	if got := left(); got != "map[:true a=:true]" {
		t.Error("after the failure:", got)
	}
	m = m.Kill()
	do(t, m, "syncdir /")
	if got := left(); got != "map[a=:true]" {
		t.Error("after the success:", got)
	}
}

// An error of the file system, a fault's included, names the call and the file.
func TestErrorsNameTheFile(t *testing.T) {
	cause := errors.New("cause")
	m := NewMem()
	f := do(t, m, "create f dir-file").files["f"]
	for op := OpOpen; op <= OpLock; op++ {
		m.Inject(Fault{Op: op, Err: cause})
	}
	var path *fs.PathError
	if err := f.Sync(); !errors.Is(err, cause) || !errors.As(err, &path) || path.Path != "/dir-file" || path.Op != "sync" {
		t.Error(err)
	}
	var link *os.LinkError
	if err := m.Rename("a", "b"); !errors.Is(err, cause) || !errors.As(err, &link) || link.Old != "a" || link.New != "b" {
		t.Error(err)
	}
	if _, err := NewMem().Open("nope"); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "nope") {
		t.Error(err)
	}
}

func TestTrace(t *testing.T) {
	m := NewMem()
	s := do(t, m, "create f before")
	if len(m.Ops()) != 0 {
		t.Error("records without being asked:", m.Ops())
	}
	m.Trace(true)
	m.Inject(Fault{Op: OpSync, Times: 1})
	s.run("sync f")
	do(t, m, `
		mkdir d/e
		create f d/a
		append f d/b
		append f d/b
		open g d/a
		write f hello
		write f !
		readat f 1 2
		truncate f 3
		syncdata f
		rename d/b d/c
		link d/c d/b
		remove d/b
		syncdir d
		stat d
		list d
		lock l d/LOCK
		close f`)
	s.run("open f nope")
	var got []string
	for _, r := range m.Ops() {
		text := r.Op.String() + " " + r.Name
		if r.New != "" {
			text += " " + r.New
		}
		if r.Offset != 0 || r.Bytes != 0 {
			text += fmt.Sprintf(" %d+%d", r.Offset, r.Bytes)
		}
		if r.Err != nil {
			text += " failed"
		}
		got = append(got, text)
	}
	want := strings.Split("sync /before failed,mkdir /d/e,mkdir /d/e,create /d/a,create /d/b,open /d/b,open /d/a,write /d/b 0+5,write /d/b 5+1,"+
		"read /d/b 1+2,truncate /d/b 3+0,sync /d/b,rename /d/b /d/c,link /d/c /d/b,remove /d/b,syncdir /d,stat /d,list /d,lock /d/LOCK,close /d/b,open /nope failed", ",")
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}

	left := m.Kill()
	m.Remove("a")
	if n := len(m.Ops()); n != len(want) {
		t.Errorf("%d records: the dead is still recorded", n)
	}
	do(t, left, "remove d/a")
	if got := left.Ops(); len(got) != 1 {
		t.Errorf("the successor has recorded %v", got)
	}
	left.Trace(false)
	do(t, left, "remove d/c")
	if got := left.Ops(); len(got) != 0 {
		t.Errorf("still recording %v", got)
	}
}

func TestOpenFiles(t *testing.T) {
	m := NewMem()
	s := do(t, m, "create f b\nopen g b\ncreate h a\nlock l LOCK")
	if got := fmt.Sprint(m.OpenFiles()); got != "[/a /b /b]" {
		t.Error(got)
	}
	s.close()
	if got := m.OpenFiles(); len(got) != 0 {
		t.Error(got)
	}
}
