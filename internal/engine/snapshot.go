package engine

import (
	"os"
	"path/filepath"

	"kevy/feed"
	"kevy/internal/alarm"
	"kevy/internal/ds"
	"kevy/internal/op"
	"kevy/persist"
	"kevy/shard"
)

// spoolDirName is the directory of the feed's snapshots; the log keeps segments
// there.
const spoolDirName = "feed"

// openSnapshots lets readers of the feed take the state to begin with.
func (e *Engine) openSnapshots() {
	if e.opt.NoFeed {
		return
	}
	spool := persist.SpoolOptions{FS: e.opt.FS, Dir: filepath.Join(e.opt.Dir, spoolDirName), MaxBytes: e.opt.SnapshotMaxBytes}
	if e.opt.NoFile {
		spool.Dir, spool.Unnamed = os.TempDir(), true
	}
	e.source.OpenSnapshots(feed.SnapshotOptions{
		Freezer: freezer{e}, Spool: spool, MaxLogBytes: e.opt.SnapshotLogBytes, DiskFull: e.diskFull, Logger: e.opt.Logger,
	})
}

// removeSpools removes the files of snapshots that a crash has left.
func (e *Engine) removeSpools() error {
	removed, err := persist.RemoveSpools(e.opt.FS, filepath.Join(e.opt.Dir, spoolDirName))
	for _, name := range removed {
		e.opt.Logger.Info("put in order", "what", name+" is of a snapshot that a crash has ended, and is removed")
	}
	return err
}

// freezer shows the store to the feed, which takes snapshots of it.
type freezer struct{ e *Engine }

// Freeze implements feed.Freezer. All commits stand still for microseconds.
func (f freezer) Freeze(cut func()) (feed.Frozen, error) {
	e := f.e
	if e.closing.Load() {
		return nil, errClosing
	}
	e.set.Lock(e.all)
	defer e.set.Unlock(e.all)
	cut()
	return frozen{e, e.set.Freeze()}, nil
}

type frozen struct {
	e    *Engine
	snap *shard.Snapshot
}

// snapshotPartBytes closes a part of a snapshot.
const snapshotPartBytes = 32 << 10

// Write implements feed.Frozen.
func (f frozen) Write(add func(shard, db, ops int, payload []byte) error) error {
	w := partWriter{add: add, rest: f.e.newRest()}
	defer w.rest.Close()
	// The libraries of functions are in every stream, so with the parts of every
	// shard.
	begun := 0
	begin := func(upTo int) {
		for ; begun <= upTo && len(f.snap.Libraries()) > 0; begun++ {
			w.flush()
			w.db, w.shard = 0, begun
			for _, lib := range f.snap.Libraries() {
				shard.RebuildLibrary(&w.ops, lib)
			}
		}
	}
	err := walk(f.snap, w.rest, func(db, stream int, entry *ds.Entry) error {
		if f.e.closing.Load() {
			return errClosing
		}
		begin(stream)
		if db != w.db || stream != w.shard {
			w.flush()
			w.db, w.shard = db, stream
		}
		shard.RebuildValue(&w.ops, db, stream, entry.Key(), shard.ValueOf(entry), entry.Aux(), w.flush)
		if len(w.ops.Bytes()) >= snapshotPartBytes {
			w.flush()
		}
		return w.err
	})
	if err == nil {
		begin(len(f.e.all) - 1)
		w.flush()
		err = w.err
	}
	return err
}

// partWriter gathers ops of one shard and database.
type partWriter struct {
	add       func(shard, db, ops int, payload []byte) error
	rest      *alarm.Rest
	ops       op.Commit
	shard, db int
	err       error // the first one
}

// flush hands on what has gathered; nothing after an error.
func (w *partWriter) flush() {
	if w.ops.Ops() == 0 {
		return
	}
	if w.err == nil {
		w.err = w.add(w.shard, w.db, w.ops.Ops(), w.ops.Bytes())
	}
	w.ops.Reset()
	w.rest.Look() // a large value is many parts
}
