package aof

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kevy/internal/vfs"
)

// pauseFS stops before one of the steps that are taken through it until it is
// told to go on. Steps of other goroutines pass meanwhile.
type pauseFS struct {
	vfs.FS
	left    atomic.Int64 // steps before the one that stops
	paused  chan string  // gets the name of the step
	release chan struct{}
	once    sync.Once
}

type pauseFile struct {
	vfs.File
	fs *pauseFS
}

func newPauseFS(fs vfs.FS) *pauseFS {
	p := &pauseFS{FS: fs, paused: make(chan string, 1), release: make(chan struct{})}
	p.left.Store(1 << 40)
	return p
}

// goOn lets the step that was stopped be taken.
func (p *pauseFS) goOn() { p.once.Do(func() { close(p.release) }) }

func (p *pauseFS) step(name string) {
	if p.left.Add(-1) == -1 {
		p.paused <- name
		<-p.release
	}
}

func (p *pauseFS) file(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &pauseFile{f, p}, nil
}

func (p *pauseFS) Create(name string) (vfs.File, error) {
	p.step("create " + name)
	return p.file(p.FS.Create(name))
}

func (p *pauseFS) OpenAppend(name string) (vfs.File, error) { return p.file(p.FS.OpenAppend(name)) }

func (p *pauseFS) Rename(from, to string) error {
	p.step("rename to " + to)
	return p.FS.Rename(from, to)
}

func (p *pauseFS) Remove(name string) error {
	p.step("remove " + name)
	return p.FS.Remove(name)
}

func (p *pauseFS) SyncDir(dir string) error {
	p.step("sync directory " + dir)
	return p.FS.SyncDir(dir)
}

func (f *pauseFile) Write(b []byte) (int, error) {
	f.fs.step("write " + f.Name())
	return f.File.Write(b)
}

func (f *pauseFile) Truncate(size int64) error {
	f.fs.step("truncate " + f.Name())
	return f.File.Truncate(size)
}

func (f *pauseFile) Sync() error {
	f.fs.step("sync " + f.Name())
	return f.File.Sync()
}

func (f *pauseFile) SyncData() error {
	f.fs.step("sync " + f.Name())
	return f.File.SyncData()
}

func (f *pauseFile) Close() error {
	f.fs.step("close " + f.Name())
	return f.File.Close()
}

// checkListed compares the manifest with what the log takes for its segments.
func checkListed(t *testing.T, l *Log) {
	t.Helper()
	l.dir.manifestMu.Lock()
	defer l.dir.manifestMu.Unlock()
	l.dir.segMu.Lock()
	defer l.dir.segMu.Unlock()
	var listed, known []int64
	for _, e := range l.dir.manifest.segments {
		listed = append(listed, e.seq)
	}
	for _, s := range l.dir.segments {
		// What a rewrite has not put away yet lies below its base.
		if s.seq != 0 && s.first > l.dir.base.cut {
			known = append(known, s.seq)
		}
	}
	if !slices.Equal(listed, known) {
		t.Fatalf("segments %v are listed, and %v are in use", listed, known)
	}
}

// A rewrite ends at every step of a change of files, and a change of files takes
// place at every step of a rewrite's end: what was acknowledged stays.
func TestChangeOfFilesBesideRewrite(t *testing.T) {
	for _, pauseRewrite := range []bool{false, true} {
		steps := map[string]bool{}
		for before := int64(0); ; before++ {
			fs := newPauseFS(vfs.NewMem())
			l := longLog(t, testOptions(fs), 8)
			t.Cleanup(fs.goOn)
			cut, err := l.Cut()
			if err != nil {
				t.Fatal(err)
			}
			l.set(1, "behind", "1")
			l.mustWrite()
			rewrite := func() error { return rewriteAll(l, cut) }
			change := func() error {
				if _, err := l.Cut(); err != nil {
					return err
				}
				last := l.Append(&testCommit{db: 2, state: &l.state, pairs: [][2]string{{"third", "1"}}})
				return l.WaitDurable(last)
			}
			want := append(slices.Clone(l.ops), "2 third 1")
			first, second := change, rewrite
			if pauseRewrite {
				first, second = rewrite, change
			}
			run := func(f func() error) <-chan error {
				done := make(chan error, 1)
				go func() { done <- f() }()
				return done
			}
			fs.left.Store(before)
			one := run(first)
			var step string
			select {
			case step = <-fs.paused:
			case err := <-one:
				if err != nil {
					t.Fatal(err)
				}
			}
			if step == "" {
				fs.left.Store(1 << 40)
				l.mustClose()
				break
			}
			steps[step] = true
			two := run(second)
			var errs [2]error
			select {
			case errs[1] = <-two:
				fs.goOn()
			case <-time.After(20 * time.Millisecond): // it waits for the first
				fs.goOn()
				errs[1] = <-two
			}
			if errs[0] = <-one; errs[0] != nil || errs[1] != nil {
				t.Fatalf("before %s: %v", step, errs)
			}
			checkListed(t, l.Log)
			// The next change of files lists what the one before listed.
			if _, err := l.Cut(); err != nil {
				t.Fatal(err)
			}
			l.ops = want
			l.set(2, "fourth", "1")
			l.mustWrite()
			checkListed(t, l.Log)
			l.mustClose()
			again, rec := openLog(t, testOptions(fs.FS))
			checkOps(t, "before "+step, slices.Concat(rec.base, rec.ops), l.ops)
			again.mustClose()
		}
		if len(steps) < 8 {
			t.Fatalf("only steps %v", steps)
		}
	}
}

// A base that was begun while another one is being installed would be installed
// in any order.
func TestRewriteRunsUntilItsFilesArePutAway(t *testing.T) {
	for before := int64(0); ; before++ {
		fs := newPauseFS(vfs.NewMem())
		l := longLog(t, testOptions(fs), 3)
		t.Cleanup(fs.goOn)
		cut, err := l.Cut()
		if err != nil {
			t.Fatal(err)
		}
		l.set(1, "behind", "1")
		l.mustWrite()
		done := make(chan error, 1)
		fs.left.Store(before)
		go func() { done <- rewriteAll(l, cut) }()
		var step string
		select {
		case step = <-fs.paused:
			_, err := l.BeginBase(cut)
			check(t, "a second base before "+step, err, ErrBaseRunning)
			fs.goOn()
			err = <-done
			check(t, "the first base", err, nil)
		case err := <-done:
			check(t, "the first base", err, nil)
			fs.left.Store(1 << 40)
		}
		w, err := l.BeginBase(cut)
		if err != nil {
			t.Fatal(err)
		}
		w.Abort()
		l.mustClose()
		if step == "" {
			return
		}
	}
}

// Files change and rewrites end as fast as they can.
func TestChangesOfFilesAndRewrites(t *testing.T) {
	for _, name := range []string{"memory", "disk"} {
		t.Run(name, func(t *testing.T) {
			lasting := 500 * time.Millisecond
			if testing.Short() {
				lasting = 100 * time.Millisecond
			}
			opt := testOptions(vfs.NewMem())
			if name == "disk" {
				opt.FS, opt.Dir = vfs.OS(), t.TempDir()
			}
			opt.SegmentBytes = 8 << 10
			l, _ := openLog(t, opt)
			var stop atomic.Bool
			var writer sync.WaitGroup
			writer.Go(func() {
				value := strings.Repeat("v", 900)
				for i := 0; !stop.Load(); i++ {
					l.Append(&testCommit{state: &l.state, pairs: [][2]string{{fmt.Sprint(i), value}}})
					if err := l.WaitWritten(l.Last()); err != nil {
						t.Error(err)
						return
					}
				}
			})
			// A busy disk takes the time of many for a few: there are some in any case.
			const fewest = 5
			n := 0
			for end := time.Now().Add(lasting); (time.Now().Before(end) || n < fewest) && !t.Failed(); n++ {
				cut, err := l.Cut()
				if err != nil {
					t.Fatal(err)
				}
				w, err := l.BeginBase(cut)
				if err != nil {
					t.Fatal(err)
				}
				if err := w.Commit(); err != nil {
					t.Fatal(err)
				}
				checkListed(t, l.Log)
				l.SetFloor(l.Last())
				l.RemoveDropped()
			}
			stop.Store(true)
			writer.Wait()
			last, base := l.Last(), l.Status().BaseLSN
			l.mustClose()
			again, rec := openLog(t, opt)
			check(t, "last", again.Last(), last)
			check(t, "ops behind the base", uint64(len(rec.ops)), last-base)
			again.mustClose()
			names := mustList(t, opt.FS, filepath.Join(opt.Dir, logDirName))
			check(t, "files "+fmt.Sprint(names), len(names), 2+len(again.dir.manifest.segments))
		})
	}
}
