package engine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kevy/aof"
	"kevy/feed"
	"kevy/internal/vfs"
	"kevy/persist"
)

// TestDamage flips a byte somewhere in the files of a store that was closed, or
// killed, and holds the start to the rules: what was durable and does not check
// stops it, with the file named and nothing changed; told to truncate or to skip
// it goes on with what stands before the damage, or with all else, as a new
// history of the feed, and what it leaves needs no flag any more. Of what was
// never known to be durable a prefix is kept.
func TestDamage(t *testing.T) {
	seed, schedules := crashSeed(t), crashSchedules(t, 150)
	counts := map[string]int{}
	for i := range schedules {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, seed, i)
			w.retainBytes, w.retainMs = -1, 0
			defer func() {
				if w.e != nil {
					w.closeAll()
				}
			}()
			w.damage(counts)
			if t.Failed() {
				t.Logf("schedule %d of KEVY_SEED=%d, policy %v:\n%s", i, seed, w.policy, strings.Join(w.steps, "\n"))
			}
		})
		if t.Failed() {
			return
		}
	}
	t.Log(counts)
	for _, what := range []string{"refused", "truncated", "skipped", "tail cut", "sidecar refused", "no effect"} {
		if counts[what] == 0 && schedules >= 500 {
			t.Errorf("never %s: %v", what, counts)
		}
	}
}

// fill makes commits, now and then durable, and rewrites.
func (w *world) fill(n int) {
	first := uint64(len(w.ops)) + 1
	tx := w.e.NewTx()
	for range n {
		time.Sleep(time.Duration(w.rng.IntN(300)) * time.Millisecond)
		lsn := w.commit(w.rng, tx)
		switch w.rng.IntN(10) {
		case 0:
			if err := w.e.Rewrite(); err != nil {
				w.fail("rewrite: %v", err)
			}
		case 1, 2, 3:
			if err := w.e.log.Sync(); err != nil {
				w.fail("sync: %v", err)
			}
		case 4, 5, 6:
			if err := w.e.Wait(lsn); err != nil {
				w.fail("wait: %v", err)
			}
		case 7:
			w.e.tend()
		}
	}
	w.gather(first)
}

func (w *world) damage(counts map[string]int) {
	w.open(0, false)
	if w.t.Failed() {
		return
	}
	for i := range 1 + w.rng.IntN(2) {
		if i > 0 {
			w.crash(false)
		}
		w.fill(5 + w.rng.IntN(40))
	}
	if err := w.e.Wait(uint64(len(w.ops))); err != nil {
		w.fail("wait: %v", err)
	}
	w.catchUpAll()
	closed := w.rng.IntN(3) == 0
	if closed {
		if err := w.e.Close(); err != nil {
			w.fail("close: %v", err)
		}
		w.e = nil
	} else {
		left := w.fs.Kill()
		w.closeAll()
		w.fs = left
	}
	if w.t.Failed() {
		return
	}
	file := w.flip()
	before := snapshot(w.fs)
	e, err := Open(w.options(w.fs))
	if err == nil {
		w.e = e
		w.undisturbed(file, closed, counts)
		return
	}
	if open := w.fs.OpenFiles(); len(open) > 0 {
		w.fail("files are still open: %v", open)
	}
	if !strings.Contains(err.Error(), filepath.Base(file)) && !strings.Contains(err.Error(), "data/appendonlydir/") {
		w.fail("%s is damaged, and the error is %v", file, err)
	}
	for name, data := range snapshot(w.fs) {
		if name != "data/MANIFEST" && name != "data/LOCK" && !bytes.Equal(before[name], data) {
			w.fail("the start that was refused has changed %s", name)
		}
		delete(before, name)
	}
	if len(before) > 0 {
		w.fail("the start that was refused has removed %v", slices.Sorted(maps.Keys(before)))
	}
	var damage *aof.DamageError
	var bad *persist.FileError
	var newerLog *aof.FormatError
	var newer *persist.FormatError
	switch {
	case errors.As(err, &newerLog), errors.As(err, &newer):
		counts["newer format refused"]++ // a format is all that is read of it
	case errors.As(err, &damage) && strings.HasSuffix(damage.File, "manifest"):
		counts["manifest refused"]++
	case errors.As(err, &damage):
		counts["refused"]++
		w.goOn(aof.RecoverTruncate, counts)
		w.goOn(aof.RecoverSkip, counts)
	case errors.As(err, &bad) && filepath.Base(file) != "MANIFEST":
		counts["sidecar refused"]++
		w.goOn([]aof.RecoverMode{aof.RecoverTruncate, aof.RecoverSkip}[w.rng.IntN(2)], counts)
	case errors.As(err, &bad):
		counts["manifest refused"]++
	default:
		w.fail("%s is damaged, and the error is %T: %v", file, err, err)
	}
}

// catchUpAll lets every follower read to the end.
func (w *world) catchUpAll() {
	for s := range crashShards + 1 {
		oldest, err := w.e.source.Oldest(s)
		if err != nil {
			w.fail("oldest: %v", err)
			return
		}
		f := &follower{stream: s, at: oldest, next: w.e.log.OldestLSN()}
		w.catchUp(f, uint64(len(w.ops)))
		w.followers = append(w.followers, f)
	}
}

// flip changes a byte of some file, and returns its name.
func (w *world) flip() string {
	files := snapshot(w.fs)
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(files)), func(name string) bool {
		return len(files[name]) == 0 || strings.HasSuffix(name, "LOCK") || strings.HasPrefix(name, "data/quarantine/")
	})
	// The log is where it matters.
	name := names[w.rng.IntN(len(names))]
	if logs := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !strings.HasSuffix(n, ".aof") }); w.rng.IntN(4) > 0 {
		name = logs[w.rng.IntN(len(logs))]
	}
	data := bytes.Clone(files[name])
	at := w.rng.IntN(len(data))
	if w.rng.IntN(2) == 0 {
		data[at] ^= 1 << w.rng.IntN(8)
	} else {
		data[at] = byte(w.rng.Uint32())
	}
	w.step("%s of %d bytes is changed at offset %d, from %q to %q", name, len(data), at, files[name][at], data[at])
	overwrite(w.t, w.fs, name, data)
	return name
}

// overwrite changes a file's content and keeps its inode.
func overwrite(t *testing.T, fsys vfs.FS, name string, data []byte) {
	f, err := fsys.OpenAppend(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if err := f.Truncate(0); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
}

// snapshot returns all files of a store.
func snapshot(fsys vfs.FS) map[string][]byte {
	out := map[string][]byte{}
	var walk func(dir string)
	walk = func(dir string) {
		infos, err := fsys.List(dir)
		if err != nil {
			return
		}
		for _, info := range infos {
			name := filepath.Join(dir, info.Name)
			if info.IsDir {
				walk(name)
				continue
			}
			f, err := fsys.Open(name)
			if err != nil {
				continue
			}
			data, _ := io.ReadAll(f)
			_ = f.Close()
			out[name] = data
		}
	}
	walk("data")
	return out
}

// undisturbed checks a store that opened over a changed byte.
func (w *world) undisturbed(file string, closed bool, counts map[string]int) {
	w.e.PauseExpiry(true)
	last := w.e.log.Last()
	w.step("open at LSN %d of %d, %s; resumed %v (%s)", last, len(w.ops), w.e.report.Verdict(), w.e.report.Resumed, w.e.report.Reason)
	lost := last < uint64(len(w.ops))
	switch {
	case lost && closed:
		w.fail("the log was closed at LSN %d, and it is found to end at %d", len(w.ops), last)
	case lost && last < w.durableStated(file):
		w.fail("LSN %d was durable, as the log says, and it is found to end at %d", w.durableStated(file), last)
	case lost && w.e.report.Log.Torn == nil:
		w.fail("the log ends at LSN %d of %d, and no tail is cut", last, len(w.ops))
	case lost:
		counts["tail cut"]++
	default:
		counts["no effect"]++
	}
	if last > 0 && (last > uint64(len(w.ops)) || !w.ops[last-1].last) {
		w.fail("the log ends at LSN %d, inside a commit", last)
		return
	}
	for ; w.modelled < last; w.modelled++ {
		w.model.apply(w.t, &w.ops[w.modelled].frame)
	}
	if w.modelled > last {
		w.model, w.modelled = newModelSet(), 0
		for ; w.modelled < last; w.modelled++ {
			w.model.apply(w.t, &w.ops[w.modelled].frame)
		}
	}
	if w.digest() != w.model.set.Digest() {
		w.fail("at LSN %d the keyspace is not what the ops up to there make", last)
	}
	// Followers go on, but where the tail is cut.
	// Recovery does not read the history in feed/: its readers find the damage.
	w.followOn(func(f *follower) bool { return w.e.report.Log.Torn != nil || strings.Contains(file, "/feed/") })
}

// followOn lets every follower read on. Nothing may have two names; and who is
// told to resync must be one who may.
func (w *world) followOn(may func(*follower) bool) {
	for _, f := range w.followers {
		for range 1000 {
			at := f.at
			var b feed.Batch
			err := w.e.source.Since(w.t.Context(), &feed.Request{Stream: f.stream, Cursor: f.at, Count: 100}, &b)
			var resync *feed.ResyncError
			if errors.As(err, &resync) {
				if !may(f) {
					w.fail("a reader of stream %d at %v, which has seen everything below LSN %d, is told to resync: %v", f.stream, f.at, f.next, err)
				}
				f.at, f.next, f.seen = resync.Oldest, 0, nil
				continue
			}
			if err != nil {
				w.fail("read stream %d at %v: %v", f.stream, f.at, err)
				break
			}
			_ = b.Each(func(fr *feed.Frame) error {
				w.saw(frameID{f.stream, f.at.Generation, fr.Offset}, f, fr)
				return nil
			})
			f.at = feed.Cursor{Generation: b.Generation, Offset: b.Next}
			b.Release()
			if f.at == at {
				break
			}
		}
	}
}

// durableStated returns the highest LSN that a block of the log calls durable,
// leaving out the file that was changed.
func (w *world) durableStated(changed string) (lsn uint64) {
	for name, data := range snapshot(w.fs) {
		if name == changed || !strings.HasSuffix(name, ".incr.aof") {
			continue
		}
		for _, line := range bytes.Split(data, []byte("\r\n")) {
			var first, ops, durable uint64
			if n, _ := fmt.Sscanf(string(line), "#kevy %d %d %d", &first, &ops, &durable); n == 3 {
				lsn = max(lsn, durable)
			}
		}
	}
	return lsn
}

// goOn opens a copy in spite of the damage.
func (w *world) goOn(mode aof.RecoverMode, counts map[string]int) {
	fs := w.fs.Clone()
	opt := w.options(fs)
	opt.Recover = mode
	e, err := Open(opt)
	if err != nil {
		if mode != aof.RecoverTruncate || !strings.Contains(err.Error(), "only skipped") {
			w.fail("mode %d: %v", mode, err)
		}
		counts["base not truncated"]++
		return
	}
	e.PauseExpiry(true)
	r := e.report
	w.step("mode %d: open at LSN %d of %d, %s, %+v; misfits %d; resumed %v (%s)", mode, e.log.Last(), len(w.ops), r.Verdict(), r.Log.Damaged, r.Misfits, r.Resumed, r.Reason)
	if r.Resumed {
		w.fail("mode %d: the generation goes on", mode)
	}
	got := digestOf(e)
	if mode == aof.RecoverTruncate {
		counts["truncated"]++
		m := newModelSet()
		for i := range min(e.log.Last(), uint64(len(w.ops))) {
			m.apply(w.t, &w.ops[i].frame)
		}
		if last := e.log.Last(); last > 0 && (last > uint64(len(w.ops)) || !w.ops[last-1].last) || got != m.set.Digest() {
			w.fail("mode %d: the keyspace is not that after LSN %d", mode, last)
		}
	} else {
		counts["skipped"]++
		if want, ok := w.without(&r); ok && got != want {
			w.fail("mode %d: the keyspace is not what all ops but those left out make", mode)
		}
	}
	old := w.e
	w.e = e
	followers := w.followers
	w.followers = nil
	for _, f := range followers {
		f := *f
		w.followers = append(w.followers, &f)
	}
	w.followOn(func(*follower) bool { return true })
	for _, f := range w.followers {
		if f.next != 0 {
			w.fail("mode %d: a reader of stream %d is not told that frames are missing", mode, f.stream)
		}
	}
	w.followers, w.e = followers, old
	// The log is whole again, whatever ends the process now.
	left := fs.Kill()
	e.beginClose()
	close(e.stop)
	e.background.Wait()
	e.abandon()
	e, err = Open(w.options(left))
	if err != nil {
		w.fail("mode %d, the start after it: %v", mode, err)
		return
	}
	e.PauseExpiry(true)
	if digestOf(e) != got || e.report.Verdict() != "whole" {
		w.fail("mode %d: the start after it finds another keyspace, or more to do: %s", mode, e.report.Verdict())
	}
	if err := e.Close(); err != nil {
		w.fail("close: %v", err)
	}
}

// without returns the digest that the ops make without those of the blocks that
// were left out, if that can be told: not where part of a base is missing.
func (w *world) without(r *Report) (d [32]byte, ok bool) {
	gone := map[uint64]bool{}
	for _, cut := range r.Log.Damaged {
		if !strings.Contains(cut.File, ".incr.aof") {
			return d, false
		}
		// What was cut begins at a block or an annotation; which LSNs it held shows in
		// what is left: the blocks before and behind it.
		data := snapshot(w.fs)[cut.File]
		before := nextLSN(data[:cut.Offset])
		behind := uint64(len(w.ops)) + 1
		if rest := data[cut.Offset+cut.Bytes:]; len(rest) > 0 {
			if n, _ := fmt.Sscanf(string(rest), "#kevy %d ", &behind); n != 1 {
				return d, false
			}
		} else if next := w.fileAfter(cut.File); next != nil {
			if n, _ := fmt.Sscanf(string(next), "#kevy-file 1 %d ", &behind); n != 1 {
				return d, false
			}
		}
		if before == 0 {
			return d, false
		}
		for lsn := before; lsn < behind; lsn++ {
			gone[lsn] = true
		}
	}
	m := newModelSet()
	for i := range w.ops {
		if !gone[uint64(i+1)] {
			_ = m.tx.Apply(&w.ops[i].frame) // what does not fit is left out too
		}
	}
	return m.set.Digest(), true
}

// nextLSN returns the LSN behind the last block of data, 0 if there is none.
func nextLSN(data []byte) uint64 {
	lines := bytes.Split(data, []byte("\r\n"))
	for i := len(lines) - 1; i >= 0; i-- {
		var first, ops uint64
		if n, _ := fmt.Sscanf(string(lines[i]), "#kevy %d %d ", &first, &ops); n == 2 {
			return first + ops
		}
	}
	return 0
}

// fileAfter returns the segment behind one.
func (w *world) fileAfter(name string) []byte {
	var seq int
	if n, _ := fmt.Sscanf(filepath.Base(name), "appendonly.aof.%d.incr.aof", &seq); n != 1 {
		return nil
	}
	files := snapshot(w.fs)
	for next := seq + 1; next < seq+5; next++ {
		if data := files[filepath.Join(filepath.Dir(name), fmt.Sprintf("appendonly.aof.%d.incr.aof", next))]; len(data) > 0 {
			return data
		}
	}
	return nil
}

func digestOf(e *Engine) [32]byte {
	e.set.Lock(e.all)
	defer e.set.Unlock(e.all)
	return e.set.Digest()
}
