package vfs

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write to testdata what the machine's file system answers")

// script runs the lines of a testdata file against a file system. Files live under root; handles and locks have names.
//
//	create h NAME, open h NAME, append h NAME   open a file as h
//	write h TEXT*N, truncate h SIZE, read h N, readat h OFFSET N, sync h, syncdata h, size h, name h, close h
//	rename OLD NEW, link OLD NEW, remove NAME, mkdir DIR, list DIR, stat NAME, syncdir DIR, lock h NAME, unlock h
//	same NAME NAME                              whether two names have one inode
//	inode h NAME                                whether the handle's inode is that of the name
//	atomic NAME TEXT                            WriteFileAtomic
//	cat NAME                                    the whole contents
type script struct {
	fsys  FS
	root  string
	files map[string]File
	locks map[string]io.Closer
}

func newScript(fsys FS, root string) *script {
	return &script{fsys: fsys, root: root, files: map[string]File{}, locks: map[string]io.Closer{}}
}

// close closes what the script left open.
func (s *script) close() {
	for _, f := range s.files {
		f.Close()
	}
	for _, l := range s.locks {
		l.Close()
	}
}

// run executes one line and tells its outcome as text.
func (s *script) run(line string) string {
	args := strings.Fields(line)
	arg := func(i int) string {
		if i >= len(args) {
			panic("script: too few arguments: " + line)
		}
		return args[i]
	}
	num := func(i int) int64 {
		n, err := strconv.ParseInt(arg(i), 10, 64)
		if err != nil {
			panic("script: " + line + ": " + err.Error())
		}
		return n
	}
	file := func() File {
		f := s.files[arg(1)]
		if f == nil {
			panic("script: no such handle: " + line)
		}
		return f
	}
	path := func(i int) string { return filepath.Join(s.root, arg(i)) }

	switch args[0] {
	case "create", "open", "append":
		open := map[string]func(string) (File, error){"create": s.fsys.Create, "open": s.fsys.Open, "append": s.fsys.OpenAppend}
		f, err := open[args[0]](path(2))
		if err == nil {
			s.files[arg(1)] = f
		}
		return outcome("", err)
	case "write":
		n, err := file().Write(expand(arg(2)))
		return outcome(fmt.Sprint(n), err)
	case "truncate":
		return outcome("", file().Truncate(num(2)))
	case "read":
		buf := make([]byte, num(2))
		n, err := file().Read(buf)
		return outcome(show(buf[:n]), err)
	case "readat":
		buf := make([]byte, num(3))
		n, err := file().ReadAt(buf, num(2))
		return outcome(show(buf[:n]), err)
	case "sync":
		return outcome("", file().Sync())
	case "syncdata":
		return outcome("", file().SyncData())
	case "size":
		n, err := file().Size()
		return outcome(fmt.Sprint(n), err)
	case "name":
		rel, err := filepath.Rel(s.root, file().Name())
		return outcome(rel, err)
	case "close":
		return outcome("", file().Close())
	case "rename":
		return outcome("", s.fsys.Rename(path(1), path(2)))
	case "link":
		return outcome("", s.fsys.Link(path(1), path(2)))
	case "remove":
		return outcome("", s.fsys.Remove(path(1)))
	case "mkdir":
		return outcome("", s.fsys.MkdirAll(path(1)))
	case "syncdir":
		return outcome("", s.fsys.SyncDir(path(1)))
	case "list":
		infos, err := s.fsys.List(path(1))
		var texts []string
		for _, info := range infos {
			texts = append(texts, describe(info))
		}
		return outcome(strings.Join(texts, " "), err)
	case "stat":
		info, err := s.fsys.Stat(path(1))
		if err != nil {
			return outcome("", err)
		}
		return describe(info)
	case "same":
		a, errA := s.fsys.Stat(path(1))
		b, errB := s.fsys.Stat(path(2))
		return outcome(fmt.Sprint(a.Inode == b.Inode && a.Inode != 0), errors.Join(errA, errB))
	case "inode":
		n, errN := file().Inode()
		info, err := s.fsys.Stat(path(2))
		return outcome(fmt.Sprint(n == info.Inode && n != 0), errors.Join(errN, err))
	case "lock":
		l, err := s.fsys.Lock(path(2))
		if err == nil {
			s.locks[arg(1)] = l
		}
		return outcome("", err)
	case "unlock":
		return outcome("", s.locks[arg(1)].Close())
	case "atomic":
		return outcome("", WriteFileAtomic(s.fsys, path(1), expand(arg(2))))
	case "cat":
		data, err := readFile(s.fsys, path(1))
		return outcome(show(data), err)
	}
	panic("script: unknown command: " + line)
}

func describe(info Info) string {
	if info.Inode == 0 || info.ModMs == 0 {
		return fmt.Sprintf("incomplete %+v", info)
	}
	if info.IsDir {
		return info.Name + "/"
	}
	return fmt.Sprintf("%s:%d", info.Name, info.Size)
}

// expand turns "ab*3" into "ababab".
func expand(text string) []byte {
	part, times, ok := strings.Cut(text, "*")
	if !ok {
		return []byte(text)
	}
	n, err := strconv.Atoi(times)
	if err != nil {
		panic("script: " + err.Error())
	}
	return []byte(strings.Repeat(part, n))
}

// show writes runs of one byte as "x*n".
func show(data []byte) string {
	var b strings.Builder
	b.WriteByte('"')
	for len(data) > 0 {
		n := 1
		for n < len(data) && data[n] == data[0] {
			n++
		}
		c := strings.Trim(strconv.Quote(string(data[:1])), `"`)
		if n > 4 {
			fmt.Fprintf(&b, "[%s*%d]", c, n)
		} else {
			b.WriteString(strings.Repeat(c, n))
		}
		data = data[n:]
	}
	b.WriteByte('"')
	return b.String()
}

// outcome is a result and the kind of the error, which has to be the same on every file system.
func outcome(result string, err error) string {
	if err == nil {
		if result == "" {
			return "ok"
		}
		return result
	}
	if errors.Is(err, io.EOF) {
		return strings.TrimSpace(result + " eof")
	}
	kinds := []struct {
		err  error
		name string
	}{
		{ErrLocked, "locked"},
		{ErrDead, "dead"},
		{fs.ErrClosed, "closed"},
		{syscall.ENOTEMPTY, "not empty"}, // before ErrExist, which it also is
		{fs.ErrNotExist, "not exist"},
		{fs.ErrExist, "exist"},
		{syscall.EISDIR, "is a directory"},
		{syscall.ENOTDIR, "not a directory"},
		{syscall.EINVAL, "invalid"},
		{syscall.EBADF, "not writable"},
		{syscall.ENOSPC, "no space"},
		{syscall.EIO, "i/o error"},
		{syscall.EPERM, "not permitted"},
	}
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			return "error: " + k.name
		}
	}
	return "error: " + err.Error()
}

func readFile(fsys FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(f)
	return data, errors.Join(err, f.Close())
}

// TestScripts runs each script of testdata on the machine's file system and on Mem: a line "> command" and the outcome
// that both must have.
func TestScripts(t *testing.T) {
	names, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(names) < 5 {
		t.Fatalf("found %d scripts, %v; want at least 5", len(names), err)
	}
	for _, name := range names {
		base := strings.TrimSuffix(filepath.Base(name), ".txt")
		t.Run(base+"/os", func(t *testing.T) { runScript(t, name, OS(), t.TempDir(), *rewrite) })
		t.Run(base+"/mem", func(t *testing.T) { runScript(t, name, NewMem(), "/", false) })
		t.Run(base+"/mem-relative", func(t *testing.T) {
			m := NewMem()
			if err := m.MkdirAll("some/dir"); err != nil {
				t.Fatal(err)
			}
			runScript(t, name, m, "some/dir", false)
		})
		// What a script sees does not depend on crashes between its lines, as long as the machine stays up.
		t.Run(base+"/mem-copied", func(t *testing.T) { runScript(t, name, NewMem().Kill().Clone(), "/", false) })
	}
}

func runScript(t *testing.T, name string, fsys FS, root string, update bool) {
	t.Helper()
	in, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	s := newScript(fsys, root)
	defer s.close()

	var out strings.Builder
	lines := bufio.NewScanner(in)
	for number := 1; lines.Scan(); number++ {
		line := lines.Text()
		command, ok := strings.CutPrefix(line, "> ")
		if !ok {
			fmt.Fprintln(&out, line)
			continue
		}
		got := s.run(command)
		fmt.Fprintf(&out, "%s\n%s\n", line, got)
		lines.Scan()
		number++
		if want := lines.Text(); want != got && !update {
			t.Errorf("%s:%d: %s\n got %s\nwant %s", name, number, command, got, want)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if update {
		if err := os.WriteFile(name, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
