package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// testSeed is drawn anew for each run of a random test, and printed when it fails.
func testSeed(t *testing.T) uint64 {
	seed := rand.Uint64()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	return seed
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// dump tells all that can be seen of a file system, inodes included.
func dump(t testing.TB, fsys FS, dir string) string {
	t.Helper()
	infos, err := fsys.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, info := range infos {
		name := path.Join(dir, info.Name)
		if info.IsDir {
			fmt.Fprintf(&b, "%s/ #%d\n%s", name, info.Inode, dump(t, fsys, name))
			continue
		}
		data, err := readFile(fsys, name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s #%d %s\n", name, info.Inode, show(data))
	}
	return b.String()
}

// do runs the lines of a script on m and wants each to succeed.
func do(t testing.TB, m *Mem, lines string) *script {
	t.Helper()
	s := newScript(m, "/")
	for line := range strings.Lines(lines) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if got := s.run(line); strings.HasPrefix(got, "error") {
			t.Fatalf("%s: %s", line, got)
		}
	}
	return s
}

// TestPowerCutOutcomes says for each history of calls what a power cut can leave, exactly: every outcome listed comes up
// and no other. An outcome is the name and contents of every file.
func TestPowerCutOutcomes(t *testing.T) {
	const seeds = 1000
	for _, test := range []struct {
		name  string
		calls string
		want  []string
	}{
		{"nothing done", ``, []string{""}},
		{"file without its name", `
			create f a
			write f A
			sync f`,
			[]string{"", "a=A"}},
		{"name without its contents", `
			create f a
			syncdir .
			write f A`,
			[]string{"a=", "a=A", "a=0"}},
		{"all synced", `
			create f a
			write f A
			sync f
			syncdir .`,
			[]string{"a=A"}},
		{"fdatasync is enough for contents", `
			create f a
			syncdir .
			write f A
			syncdata f`,
			[]string{"a=A"}},
		{"sync through another handle", `
			create f a
			syncdir .
			write f A
			open g a
			sync g`,
			[]string{"a=A"}},
		{"close syncs nothing", `
			create f a
			write f A
			close f`,
			[]string{"", "a=", "a=A", "a=0"}},

		// One write of two sectors: the size is 0, one or two sectors, and each sector is there or zeros.
		{"torn write", `
			create f a
			syncdir .
			write f A*1024`,
			[]string{
				"a=", "a=AA", "a=A", "a=0", "a=00", "a=A0", "a=0A",
			}},
		{"second write kept without the first", `
			create f a
			syncdir .
			write f A*512
			write f B*512`,
			[]string{
				"a=", "a=A", "a=AB", "a=0", "a=00", "a=A0", "a=0B",
			}},
		{"synced part is not touched", `
			create f a
			write f A*512
			sync f
			syncdir .
			write f B*512`,
			[]string{"a=A", "a=AB", "a=A0"}},
		{"truncate", `
			create f a
			write f A*1024
			sync f
			syncdir .
			truncate f 512`,
			[]string{"a=AA", "a=A", "a=A0"}},
		{"truncate in the middle of a sector clears the rest of it", `
			create f a
			write f AB*4
			sync f
			syncdir .
			truncate f 2`,
			[]string{"a=ABABABAB", "a=AB000000", "a=AB"}},
		// Nothing orders a truncate before what is written after it.
		{"truncate and write", `
			create f a
			write f A*512
			sync f
			syncdir .
			truncate f 0
			write f B*512`,
			[]string{"a=A", "a=", "a=0", "a=B"}},
		{"truncate synced before the write", `
			create f a
			write f A*512
			sync f
			syncdir .
			truncate f 0
			sync f
			write f B*512`,
			[]string{"a=", "a=0", "a=B"}},
		{"emptied by create", `
			create f a
			write f A*512
			sync f
			syncdir .
			create g a`,
			[]string{"a=A", "a=", "a=0"}},

		{"two names are independent", `
			create f a
			create g b`,
			[]string{"", "a=", "b=", "a= b="}},
		{"rename", `
			create f a
			syncdir .
			rename a b`,
			[]string{"a=", "b="}},
		{"rename synced", `
			create f a
			syncdir .
			rename a b
			syncdir .`,
			[]string{"b="}},
		{"rename over a file", `
			create f a
			write f A
			sync f
			create g b
			write g B
			sync g
			syncdir .
			rename a b`,
			[]string{"a=A b=B", "b=A"}},
		{"rename before the contents", `
			create f a
			create g b
			write g B
			sync g
			syncdir .
			write f A
			rename a b`,
			[]string{"a= b=B", "a=0 b=B", "a=A b=B", "b=", "b=0", "b=A"}},
		{"rename needs the create that it follows", `
			create f a
			rename a b`,
			[]string{"", "a=", "b="}},
		{"old name taken again", `
			create f a
			write f A
			sync f
			syncdir .
			rename a b
			create g a`,
			[]string{"a=A", "b=A", "a= b=A"}},
		{"chain", `
			create f a
			syncdir .
			rename a b
			rename b c`,
			[]string{"a=", "b=", "c="}},
		{"remove", `
			create f a
			write f A
			sync f
			syncdir .
			remove a`,
			[]string{"a=A", ""}},
		{"remove synced", `
			create f a
			syncdir .
			remove a
			syncdir .`,
			[]string{""}},
		{"replaced by a new file", `
			create f a
			write f A
			sync f
			syncdir .
			remove a
			create g a
			write g B
			sync g`,
			[]string{"a=A", "", "a=B"}},
		{"remove overtakes a rename", `
			create f old
			create g tmp
			syncdir .
			rename tmp new
			remove old`,
			[]string{"old= tmp=", "new= old=", "new=", "tmp="}},
		{"link", `
			create f a
			syncdir .
			link a b`,
			[]string{"a=", "a= b="}},
		{"link and remove", `
			create f a
			syncdir .
			link a b
			remove a`,
			[]string{"a=", "a= b=", "", "b="}},
		{"written through a link", `
			create f a
			link a b
			syncdir .
			write f A
			open g b
			sync g`,
			[]string{"a=A b=A"}},
		{"lock file", `
			lock l LOCK`,
			[]string{"", "LOCK="}},

		{"mkdir is durable", `
			mkdir d/e
			create f d/e/a
			syncdir d/e`,
			[]string{"d/e/a="}},
		{"mkdir where a file was", `
			create f d
			syncdir .
			remove d
			mkdir d
			create g d/a
			syncdir d`,
			[]string{"d/a="}},
		{"syncdir of the parent is not enough", `
			mkdir d
			create f d/a
			syncdir .`,
			[]string{"", "d/a="}},
		{"rename between directories", `
			mkdir d
			mkdir e
			create f d/a
			syncdir d
			rename d/a e/a`,
			[]string{"d/a=", "e/a=", "d/a= e/a="}},
		{"rename between directories, new one synced", `
			mkdir d
			mkdir e
			create f d/a
			syncdir d
			rename d/a e/a
			syncdir e`,
			[]string{"e/a=", "d/a= e/a="}},
		{"rename between directories, old one synced", `
			mkdir d
			mkdir e
			create f d/a
			syncdir d
			rename d/a e/a
			syncdir d`,
			[]string{"d/a=", "e/a=", "d/a= e/a="}},
		{"rename between directories, both synced", `
			mkdir d
			mkdir e
			create f d/a
			syncdir d
			rename d/a e/a
			syncdir e
			syncdir d`,
			[]string{"e/a="}},
		{"rename between directories, both synced, the old one first", `
			mkdir d
			mkdir e
			create f d/a
			syncdir d
			rename d/a e/a
			syncdir d
			syncdir e`,
			[]string{"e/a="}},
		{"rename between directories, old name taken again and synced", `
			mkdir d
			mkdir e
			create f d/a
			write f A
			sync f
			syncdir d
			rename d/a e/a
			create g d/a
			syncdir d`,
			[]string{"d/a= e/a=A"}},
		{"directory renamed", `
			mkdir d
			create f d/a
			syncdir d
			rename d e
			create g e/b
			syncdir e`,
			[]string{"e/a= e/b="}},
		{"directory renamed, unsynced", `
			mkdir d
			create f d/a
			syncdir d
			rename d e
			create g x`,
			[]string{"d/a=", "e/a=", "e/a= x="}},
		{"directory removed", `
			mkdir d
			create f d/a
			write f A
			sync f
			syncdir d
			rename d/a b
			remove d
			create g d
			syncdir .`,
			[]string{"b=A d="}},
		{"directory removed, unsynced", `
			mkdir d
			create f d/a
			syncdir d
			rename d/a b
			remove d`,
			[]string{"d/a=", "b= d/a=", "b="}},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := NewMem()
			do(t, m, test.calls)
			got := map[string]int{}
			for seed := range uint64(seeds) {
				got[outcomeOf(t, m.PowerCut(newRand(seed)))]++
			}
			for _, want := range test.want {
				if got[want] == 0 {
					t.Errorf("never left: %q", want)
				}
				delete(got, want)
			}
			for _, text := range slices.Sorted(maps.Keys(got)) {
				t.Errorf("left %d times: %q", got[text], text)
			}
		})
	}
}

// outcomeOf writes files as "name=contents". A whole sector of one byte is written as that byte, and 0 stands for a zero.
func outcomeOf(t testing.TB, m *Mem) string {
	var files []string
	var walk func(dir string)
	walk = func(dir string) {
		infos, err := m.List(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, info := range infos {
			name := path.Join(dir, info.Name)
			if info.IsDir {
				walk(name)
				continue
			}
			data, err := readFile(m, name)
			if err != nil {
				t.Fatal(err)
			}
			data = bytes.ReplaceAll(data, []byte{0}, []byte{'0'})
			var text strings.Builder
			for len(data) >= sectorBytes && bytes.Count(data[:sectorBytes], data[:1]) == sectorBytes {
				text.WriteByte(data[0])
				data = data[sectorBytes:]
			}
			text.Write(data)
			files = append(files, strings.TrimPrefix(name, "/")+"="+text.String())
		}
	}
	walk("/")
	return strings.Join(files, " ")
}

// TestFailedSyncLosesForGood is the case that a retried fsync hides: success, and the data is not there.
func TestFailedSyncLosesForGood(t *testing.T) {
	for _, test := range []struct {
		name   string
		before string // succeeds
		after  string // follows the failed sync of f
		want   []string
	}{
		{"second sync succeeds", `
			create f a
			syncdir .
			write f A*512`, `
			sync f`,
			[]string{"a="}},
		{"nothing more is done", `
			create f a
			syncdir .
			write f A*512`, ``,
			[]string{"a="}},
		{"later data is synced behind the hole", `
			create f a
			syncdir .
			write f A*512`, `
			write f B*512
			sync f`,
			[]string{"a=0B"}},
		{"later data in the same sector", `
			create f a
			syncdir .
			write f AA`, `
			write f BB
			sync f`,
			[]string{"a=00BB"}},
		{"later data unsynced", `
			create f a
			syncdir .
			write f A*512`, `
			write f B*512`,
			[]string{"a=", "a=0", "a=00", "a=0B"}},
		{"what was synced before stays", `
			create f a
			write f S*512
			sync f
			syncdir .
			write f A*512`, `
			sync f`,
			[]string{"a=S"}},
		{"through another handle", `
			create f a
			syncdir .
			write f A*512`, `
			open g a
			sync g`,
			[]string{"a="}},
		{"a pending truncate stays pending", `
			create f a
			write f S*1024
			sync f
			syncdir .
			truncate f 512
			write f A*512`, ``,
			[]string{"a=SS", "a=S", "a=S0"}},
		{"a pending truncate is synced later", `
			create f a
			write f S*1024
			sync f
			syncdir .
			truncate f 512
			write f A*512`, `
			sync f`,
			[]string{"a=S"}},
		{"emptied and written anew", `
			create f a
			syncdir .
			write f A*512`, `
			truncate f 0
			sync f
			write f B*512
			sync f`,
			[]string{"a=B"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := NewMem()
			s := do(t, m, test.before)
			before := outcomeOf(t, m)
			m.Inject(Fault{Op: OpSync, Times: 1})
			if got := s.run("sync f"); got != "error: i/o error" {
				t.Fatal(got)
			}
			if got := outcomeOf(t, m); got != before {
				t.Errorf("reads %q after the failed sync, %q before it", got, before)
			}
			for line := range strings.Lines(test.after) {
				if line = strings.TrimSpace(line); line == "" {
					continue
				}
				if got := s.run(line); strings.HasPrefix(got, "error") {
					t.Fatal(line, got)
				}
			}
			cached := outcomeOf(t, m)
			if got := outcomeOf(t, m.Kill()); got != cached {
				t.Errorf("a killed process leaves %q, want %q", got, cached)
			}
			got := map[string]bool{}
			for seed := range uint64(500) {
				got[outcomeOf(t, m.PowerCut(newRand(seed)))] = true
			}
			if got := slices.Sorted(maps.Keys(got)); !slices.Equal(got, slices.Sorted(slices.Values(test.want))) {
				t.Errorf("left %q, want %q", got, test.want)
			}
		})
	}
}

// model follows a Mem's calls in its own way: every version that a file's contents and a name's inode had since they
// were last synced.
type model struct {
	files map[uint64]*modelFile
	names map[string][]uint64 // inodes, 0 for none; the first is the one on disk
	// doomed are inodes that a remove or a replacing rename may have ended.
	doomed map[uint64]bool
}

type modelFile struct {
	versions [][]byte
}

func (f *modelFile) now() []byte { return f.versions[len(f.versions)-1] }

// allowed says why data cannot be what a power cut left, or "".
func (f *modelFile) allowed(data []byte) string {
	if len(f.versions) == 1 && !bytes.Equal(data, f.versions[0]) {
		return "synced contents changed"
	}
	least, most := len(f.now()), 0
	sizes := map[int]bool{}
	for _, v := range f.versions {
		sizes[len(v)] = true
		least, most = min(least, len(v)), max(most, len(v))
	}
	if n := len(data); n < least || n > most || !sizes[n] && n%sectorBytes != 0 {
		return fmt.Sprintf("size %d", n)
	}
	for at := 0; at < len(data); at += sectorBytes {
		end := min(at+sectorBytes, len(data))
		if !slices.ContainsFunc(f.versions, func(v []byte) bool {
			sector := make([]byte, sectorBytes)
			if at < len(v) {
				copy(sector, v[at:])
			}
			return bytes.Equal(sector[:end-at], data[at:end])
		}) {
			return fmt.Sprintf("sector at %d holds what no version had", at)
		}
	}
	return ""
}

// TestPowerCutRandom drives a Mem with random calls, crashes it, and holds what is left against the model; then goes on
// from what is left.
func TestPowerCutRandom(t *testing.T) {
	seed := testSeed(t)
	rng := newRand(seed)
	kept := struct{ cuts, shorter, undone, torn int }{}
	for range 15 {
		m := NewMem()
		mod := &model{files: map[uint64]*modelFile{}, names: map[string][]uint64{}, doomed: map[uint64]bool{}}
		for range 25 {
			mod.drive(t, m, rng, 1+rng.IntN(30))
			var cut *Mem
			for range 1 + rng.IntN(4) {
				cut = m.PowerCut(rng)
				kept.cuts++
				for name, inodes := range mod.names {
					info, err := cut.Stat(name)
					if err != nil && !errors.Is(err, syscall.ENOENT) {
						t.Fatal(err)
					}
					if !slices.Contains(inodes, info.Inode) {
						t.Fatalf("%s is inode %d, possible are %v", name, info.Inode, inodes)
					}
					if info.Inode != inodes[len(inodes)-1] {
						kept.undone++
					}
				}
				present := map[uint64]bool{}
				infos, err := cut.List("/")
				if err != nil {
					t.Fatal(err)
				}
				for _, info := range infos {
					present[info.Inode] = true
					data, err := readFile(cut, info.Name)
					if err != nil {
						t.Fatal(err)
					}
					f := mod.files[info.Inode]
					if why := f.allowed(data); why != "" {
						t.Fatalf("%s: %s", info.Name, why)
					}
					if len(data) < len(f.now()) {
						kept.shorter++
					} else if !bytes.Equal(data, f.now()) {
						kept.torn++
					}
				}
				for name, inodes := range mod.names {
					if n := inodes[0]; n != 0 && !mod.doomed[n] && !present[n] {
						t.Fatalf("%s, synced and never removed, is gone", name)
					}
				}
			}
			left := dump(t, cut, "/")
			m = cut.PowerCut(rng)
			if again := dump(t, m, "/"); again != left {
				t.Fatalf("what a power cut left is not synced: the next one takes\n%sto\n%s", left, again)
			}
			mod.restart(t, m)
		}
	}
	if kept.shorter < 100 || kept.undone < 100 || kept.torn < 100 {
		t.Errorf("%+v: the test has lost its teeth", kept)
	}
}

// drive makes random calls on m, all of which have to succeed, and follows them.
func (mod *model) drive(t *testing.T, m *Mem, rng *rand.Rand, calls int) {
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	current := func(name string) uint64 {
		if v := mod.names[name]; len(v) > 0 {
			return v[len(v)-1]
		}
		return 0
	}
	set := func(name string, inode uint64) {
		if len(mod.names[name]) == 0 {
			mod.names[name] = []uint64{0}
		}
		mod.names[name] = append(mod.names[name], inode)
	}
	for range calls {
		name := string(rune('a' + rng.IntN(6)))
		inode := current(name)
		switch rng.IntN(12) {
		case 0:
			f, err := m.Create(name)
			check(err)
			n, err := f.Inode()
			check(err)
			check(f.Close())
			if inode == 0 {
				mod.files[n] = &modelFile{versions: [][]byte{nil}}
				set(name, n)
			} else if n != inode {
				t.Fatalf("create changed inode %d to %d", inode, n)
			} else {
				mod.files[n].versions = append(mod.files[n].versions, nil)
			}
		case 1:
			other := string(rune('a' + rng.IntN(6)))
			if inode == 0 || other == name {
				continue
			}
			check(m.Rename(name, other))
			if n := current(other); n != 0 {
				mod.doomed[n] = true
			}
			set(name, 0)
			set(other, inode)
		case 2:
			if inode == 0 {
				continue
			}
			check(m.Remove(name))
			mod.doomed[inode] = true
			set(name, 0)
		case 3:
			check(m.SyncDir("/"))
			for name, v := range mod.names {
				mod.names[name] = v[len(v)-1:]
			}
		default:
			if inode == 0 {
				continue
			}
			mod.driveFile(t, m, rng, name, mod.files[inode])
		}
	}
}

func (mod *model) driveFile(t *testing.T, m *Mem, rng *rand.Rand, name string, file *modelFile) {
	f, err := m.OpenAppend(name)
	if err == nil {
		now := file.now()
		switch rng.IntN(5) {
		case 0:
			err = f.Sync()
			file.versions = [][]byte{now}
		case 1:
			size := rng.IntN(len(now) + 600)
			err = f.Truncate(int64(size))
			next := make([]byte, size)
			copy(next, now)
			file.versions = append(file.versions, next)
		default:
			p := make([]byte, 1+rng.IntN([]int{20, 600, 4000}[rng.IntN(3)]))
			for i := range p {
				p[i] = byte(1 + rng.IntN(255))
			}
			_, err = f.Write(p)
			clear(p[: len(p)/2 : len(p)/2]) // the writer's buffer is its own again
			rest := p[len(p)/2:]
			full, readErr := readFile(m, name)
			err = errors.Join(err, readErr)
			if !bytes.HasPrefix(full, now) || !bytes.HasSuffix(full, rest) {
				t.Fatal("write does not read back")
			}
			file.versions = append(file.versions, full)
		}
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// restart makes what m holds the model's only version.
func (mod *model) restart(t *testing.T, m *Mem) {
	mod.files = map[uint64]*modelFile{}
	mod.names = map[string][]uint64{}
	mod.doomed = map[uint64]bool{}
	infos, err := m.List("/")
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		data, err := readFile(m, info.Name)
		if err != nil {
			t.Fatal(err)
		}
		mod.files[info.Inode] = &modelFile{versions: [][]byte{data}}
		mod.names[info.Name] = []uint64{info.Inode}
	}
}

func TestPowerCutIsDeterministic(t *testing.T) {
	seed := testSeed(t)
	run := func(cutSeed uint64) string {
		m := NewMem()
		rng := newRand(seed)
		mod := &model{files: map[uint64]*modelFile{}, names: map[string][]uint64{}, doomed: map[uint64]bool{}}
		var all strings.Builder
		for i := range uint64(20) {
			mod.drive(t, m, rng, 30)
			m = m.PowerCut(newRand(cutSeed + i))
			mod.restart(t, m)
			all.WriteString(dump(t, m, "/"))
		}
		return all.String()
	}
	first := run(1)
	if again := run(1); again != first {
		t.Errorf("one seed, two outcomes:\n%s\n%s", first, again)
	}
	if other := run(2); other == first {
		t.Error("another seed has the same outcome")
	}
}

// TestOutcomesAreIndependent writes to one survivor and looks at the others.
func TestOutcomesAreIndependent(t *testing.T) {
	m := NewMem()
	do(t, m, `
		create f a
		write f A*100
		sync f
		syncdir .
		write f B*100`)
	killed := m.Kill()
	clone := killed.Clone()
	full := killed.Kill() // killed is dead now, but can still be asked
	for seed := range uint64(50) {
		cut := killed.PowerCut(newRand(seed))
		was := dump(t, cut, "/")
		do(t, killed.Kill(), "append f a\nwrite f C*1000\ntruncate f 3\nrename a b")
		do(t, clone, "append f a\nwrite f D*1000\ntruncate f 5")
		if got := dump(t, cut, "/"); got != was {
			t.Fatalf("%s\nbecame\n%s", was, got)
		}
		s := do(t, cut, "append f a\ntruncate f 100\nwrite f E*100")
		if got := s.run("cat a"); got != `"[A*100][E*100]"` {
			t.Fatal(got)
		}
	}
	if got := newScript(full, "/").run("cat a"); got != `"[A*100][B*100]"` {
		t.Errorf("a killed process leaves %s", got)
	}
}

func TestDeadAnswersErrDead(t *testing.T) {
	for name, crash := range map[string]func(m *Mem){
		"kill":      func(m *Mem) { m.Kill() },
		"power cut": func(m *Mem) { m.PowerCut(newRand(1)) },
		"die after": func(m *Mem) { m.DieAfter(0, 0); m.Remove("nope") },
	} {
		t.Run(name, func(t *testing.T) {
			m := NewMem()
			do(t, m, "mkdir d")
			f, err := m.Create("f")
			if err != nil {
				t.Fatal(err)
			}
			closed, err := m.Open("f")
			if err != nil {
				t.Fatal(err)
			}
			if err := closed.Close(); err != nil {
				t.Fatal(err)
			}
			lock, err := m.Lock("LOCK")
			if err != nil {
				t.Fatal(err)
			}
			crash(m)

			buf := make([]byte, 1)
			fileErr := func(_ File, err error) error { return err }
			intErr := func(_ int, err error) error { return err }
			for call, err := range map[string]error{
				"Create":          fileErr(m.Create("x")),
				"Create existing": fileErr(m.Create("f")),
				"Open":            fileErr(m.Open("f")),
				"Open missing":    fileErr(m.Open("x")),
				"OpenAppend":      fileErr(m.OpenAppend("f")),
				"OpenAppend new":  fileErr(m.OpenAppend("x")),
				"Rename":          m.Rename("f", "g"),
				"Link":            m.Link("f", "g"),
				"Remove":          m.Remove("f"),
				"MkdirAll":        m.MkdirAll("x/y"),
				"MkdirAll same":   m.MkdirAll("d"),
				"List":            func() error { _, err := m.List("/"); return err }(),
				"Stat":            func() error { _, err := m.Stat("f"); return err }(),
				"SyncDir":         m.SyncDir("/"),
				"Lock":            func() error { _, err := m.Lock("x"); return err }(),
				"WriteFileAtomic": WriteFileAtomic(m, "f", nil),
				"Read":            intErr(f.Read(buf)),
				"Read nothing":    intErr(f.Read(nil)),
				"ReadAt":          intErr(f.ReadAt(buf, 0)),
				"Write":           intErr(f.Write(buf)),
				"Write nothing":   intErr(f.Write(nil)),
				"Sync":            f.Sync(),
				"SyncData":        f.SyncData(),
				"Truncate":        f.Truncate(0),
				"Size":            func() error { _, err := f.Size(); return err }(),
				"Inode":           func() error { _, err := f.Inode(); return err }(),
				"closed Write":    intErr(closed.Write(buf)),
				"closed Close":    closed.Close(),
				"Unlock":          lock.Close(),
				"Close":           f.Close(),
				"Close again":     f.Close(),
			} {
				if !errors.Is(err, ErrDead) {
					t.Errorf("%s: %v", call, err)
				}
			}
			if f.Name() != "f" {
				t.Error("name", f.Name())
			}
			if got := outcomeOf(t, m.Kill()); got != "LOCK= f=" {
				t.Errorf("the dead changed it to %q", got)
			}
		})
	}
}

func TestKillFreesLocksAndKeepsInodes(t *testing.T) {
	m := NewMem()
	do(t, m, `
		lock l LOCK
		create f a
		write f A
		mkdir d
		link a d/b`)
	was := dump(t, m, "/")
	for _, left := range []*Mem{m.Kill(), m.Kill().Kill()} {
		if got := dump(t, left, "/"); got != was {
			t.Errorf("%s\nbecame\n%s", was, got)
		}
		s := do(t, left, "lock l LOCK\nrename a c\ncreate n new")
		if got := s.run("same c d/b"); got != "true" {
			t.Error("two names of a file have become two files")
		}
		if got := s.run("inode n a"); got != "error: not exist" {
			t.Error(got)
		}
		fresh, err := s.files["n"].Inode()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(was, fmt.Sprintf("#%d ", fresh)) {
			t.Errorf("a new file has the inode %d of an old one", fresh)
		}
	}
	// A killed process does not make its writes durable.
	lost := false
	for seed := range uint64(50) {
		lost = lost || outcomeOf(t, m.Kill().PowerCut(newRand(seed))) == ""
	}
	if !lost {
		t.Error("no power cut after a kill loses what was never synced")
	}
}

func TestCloneIsAnotherHistory(t *testing.T) {
	m := NewMem()
	s := do(t, m, `
		mkdir d/e
		create f d/a
		write f A*600
		link d/a d/e/b
		create g d/c`)
	m.SetQuota(5000)
	clone := m.Clone()
	if was, is := outcomeOf(t, m), outcomeOf(t, clone); was != is {
		t.Errorf("%q was copied as %q", was, is)
	}
	for seed := range uint64(100) {
		if was, is := outcomeOf(t, m), outcomeOf(t, clone.Clone().PowerCut(newRand(seed))); was != is {
			t.Fatalf("a power cut takes %q to %q: a copy is synced", was, is)
		}
	}
	if got := do(t, clone, "stat d/a").run("same d/a d/e/b"); got != "true" {
		t.Error("two names of a file were copied as two files")
	}
	inodes := map[uint64]string{}
	for _, fsys := range []*Mem{m, clone, clone.Clone()} {
		for _, name := range []string{"d", "d/e", "d/a", "d/c"} {
			info, err := fsys.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			inodes[info.Inode] = name
		}
	}
	if len(inodes) != 3*4 {
		t.Errorf("%d inodes in 3 copies of 4 files: %v", len(inodes), inodes)
	}
	if got := s.run("write f still-alive"); got != "11" {
		t.Error(got)
	}
}

// TestWriteFileAtomicSurvives crashes WriteFileAtomic at each of its steps, in many ways.
func TestWriteFileAtomicSurvives(t *testing.T) {
	if found := findLoss(t, WriteFileAtomic); found != "" {
		t.Error(found)
	}
}

// TestCrashesFindMistakes makes the usual mistakes and wants each found.
func TestCrashesFindMistakes(t *testing.T) {
	write := func(fsys FS, name string, data []byte, sync bool) error {
		f, err := fsys.Create(name)
		if err != nil {
			return err
		}
		_, err = f.Write(data)
		if err == nil && sync {
			err = f.Sync()
		}
		return errors.Join(err, f.Close())
	}
	for name, mistake := range map[string]func(fsys FS, name string, data []byte) error{
		"written in place": func(fsys FS, name string, data []byte) error {
			return errors.Join(write(fsys, name, data, true), fsys.SyncDir("/"))
		},
		"contents not synced": func(fsys FS, name string, data []byte) error {
			return errors.Join(write(fsys, name+".tmp", data, false), fsys.Rename(name+".tmp", name), fsys.SyncDir("/"))
		},
		"directory not synced": func(fsys FS, name string, data []byte) error {
			return errors.Join(write(fsys, name+".tmp", data, true), fsys.Rename(name+".tmp", name))
		},
		"directory synced too early": func(fsys FS, name string, data []byte) error {
			return errors.Join(write(fsys, name+".tmp", data, true), fsys.SyncDir("/"), fsys.Rename(name+".tmp", name))
		},
		"removed first": func(fsys FS, name string, data []byte) error {
			return errors.Join(write(fsys, name+".tmp", data, true), fsys.Remove(name), fsys.Rename(name+".tmp", name), fsys.SyncDir("/"))
		},
		"sync tried again": func(fsys FS, name string, data []byte) error {
			f, err := fsys.Create(name + ".tmp")
			if err != nil {
				return err
			}
			_, err = f.Write(data)
			if err == nil && f.Sync() != nil {
				err = f.Sync()
			}
			if err = errors.Join(err, f.Close()); err != nil {
				return err
			}
			if err := fsys.Rename(name+".tmp", name); err != nil {
				return err
			}
			return fsys.SyncDir("/")
		},
	} {
		t.Run(name, func(t *testing.T) {
			found := findLoss(t, mistake)
			if found == "" {
				t.Error("not found")
			}
			t.Log(found)
		})
	}
}

// findLoss replaces a file's contents with replace, crashes it at every step, with and without an error before, and
// returns how the contents were lost, or "".
func findLoss(t *testing.T, replace func(fsys FS, name string, data []byte) error) string {
	const name = "data"
	old, new := bytes.Repeat([]byte("old"), 500), bytes.Repeat([]byte("new!"), 600)
	faults := []Fault{{}}
	for op := OpOpen; op <= OpLock; op++ {
		if op.isStep() {
			faults = append(faults, Fault{Op: op, Times: 1}, Fault{Op: op, Times: 1, Bytes: 700})
		}
	}
	for _, fault := range faults {
		for steps := 0; ; steps++ {
			m := NewMem()
			if err := WriteFileAtomic(m, name, old); err != nil {
				t.Fatal(err)
			}
			m.Inject(fault)
			m.DieAfter(steps, 700)
			err := replace(m, name, new)
			for seed := range uint64(40) {
				left := m.Kill()
				if seed > 0 {
					left = m.PowerCut(newRand(seed))
				}
				data, readErr := readFile(left, name)
				if err == nil && !bytes.Equal(data, new) {
					return fmt.Sprintf("%v fails, success, seed %d: %s, %v", fault.Op, seed, show(data[:min(8, len(data))]), readErr)
				}
				if !bytes.Equal(data, old) && !bytes.Equal(data, new) {
					return fmt.Sprintf("%v fails, %d steps, seed %d: neither old nor new: %d bytes, %v", fault.Op, steps, seed, len(data), readErr)
				}
			}
			if steps > m.Steps() {
				break
			}
		}
	}
	return ""
}

// TestDieAfter ends a run at each of its steps.
func TestDieAfter(t *testing.T) {
	const calls = `
		mkdir d/e
		create f d/a
		write f ABCDEF
		truncate f 5
		sync f
		syncdata f
		link d/a d/b
		rename d/b d/c
		remove d/c
		syncdir d
		append g d/new
		lock l d/LOCK`
	const steps = 13 // two of mkdir, none of stat and reads
	m := NewMem()
	do(t, m, calls).run("cat d/a")
	if got := m.Steps(); got != steps {
		t.Fatalf("%d steps, want %d", got, steps)
	}
	seen := map[string]bool{}
	for after := range 2 * (steps + 1) {
		after, torn := after/2, after%2*2
		m := NewMem()
		m.DieAfter(after, torn)
		s := newScript(m, "/")
		died := ""
		for line := range strings.Lines(calls) {
			if line = strings.TrimSpace(line); line == "" {
				continue
			}
			if got := s.run(line); got == "error: dead" {
				died = line
				break
			} else if strings.HasPrefix(got, "error") {
				t.Fatal(line, got)
			}
		}
		if (died == "") != (after == steps) {
			t.Errorf("after %d steps it died in %q", after, died)
		}
		left := outcomeOf(t, m.Kill())
		if want := "d/a=" + "AB"[:torn]; died == "write f ABCDEF" && left != want {
			t.Errorf("a write cut short after %d bytes leaves %q", torn, left)
		}
		seen[left] = true
	}
	for _, want := range []string{"", "d/a=", "d/a=AB", "d/a=ABCDEF", "d/a=ABCDE", "d/a=ABCDE d/b=ABCDE", "d/a=ABCDE d/c=ABCDE",
		"d/a=ABCDE d/new=", "d/LOCK= d/a=ABCDE d/new="} {
		if !seen[want] {
			t.Errorf("no crash left %q", want)
		}
	}
}

// A sync at which the machine died may have reached the disk, or not.
func TestDieInSync(t *testing.T) {
	m := NewMem()
	s := do(t, m, "create f a\nsyncdir .\nwrite f A*512")
	m.DieAfter(0, 0)
	if got := s.run("sync f"); got != "error: dead" {
		t.Fatal(got)
	}
	got := map[string]bool{}
	for seed := range uint64(100) {
		got[outcomeOf(t, m.PowerCut(newRand(seed)))] = true
	}
	if !got["a="] || !got["a=A"] {
		t.Errorf("left %v", got)
	}
}

func TestReadAllOfDead(t *testing.T) {
	m := NewMem()
	do(t, m, "create f a\nwrite f A*512")
	f, err := m.Open("a")
	if err != nil {
		t.Fatal(err)
	}
	m.Kill()
	if data, err := io.ReadAll(f); len(data) > 0 || !errors.Is(err, ErrDead) {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}
