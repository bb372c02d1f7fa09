package transfer

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"kevy/internal/ds"
	"kevy/internal/engine"
	"kevy/internal/rdb"
	"kevy/internal/vfs"
	"kevy/shard"
)

// ExportOptions say what to export and where to.
type ExportOptions struct {
	Store engine.Options
	File  string
	// DB is the one database to write, or EveryDB.
	DB       int
	Progress Progress // in keys
}

// ExportReport says what was exported.
type ExportReport struct {
	File       string `json:"file"`
	Dir        string `json:"dir"`
	Bytes      int64  `json:"bytes"`
	RDBVersion int    `json:"rdb_version"`
	Keys       int64  `json:"keys"`
	Expiring   int64  `json:"expiring_keys"`
	// Expired counts the keys that were passed over because they are overdue.
	Expired int64   `json:"expired_keys_skipped"`
	Seconds float64 `json:"seconds"`
}

// tempSuffix marks a file that is not complete.
const tempSuffix = ".tmp"

// Export writes a store to an RDB file, as it is after recovery. The file is
// there whole or not at all; one of that name is replaced. Memory holds the store
// and a packed value.
func Export(opt ExportOptions) (_ *ExportReport, err error) {
	start := time.Now()
	if opt.Store.FS == nil {
		opt.Store.FS = vfs.OS()
	}
	if err := checkStore(opt.Store.FS, opt.Store.Dir); err != nil {
		return nil, err
	}
	store, err := engine.Open(offline(opt.Store))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	ex := &exporter{opt: &opt, store: store, nowMs: store.NowMs()}
	ex.report = ExportReport{File: opt.File, Dir: opt.Store.Dir}
	if err := ex.replaceFile(); err != nil {
		return nil, fmt.Errorf("write %s: %w", opt.File, err)
	}
	ex.report.Seconds = time.Since(start).Seconds()
	return &ex.report, nil
}

// checkStore refuses a directory without a store, which opening it would make.
func checkStore(fsys vfs.FS, dir string) error {
	for _, name := range []string{"MANIFEST", "appendonlydir"} {
		_, err := fsys.Stat(filepath.Join(dir, name))
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return fmt.Errorf("%s holds no store: choose the data directory with --dir", dir)
}

type exporter struct {
	opt    *ExportOptions
	store  *engine.Engine
	nowMs  int64
	report ExportReport
}

// replaceFile writes a temporary file and gives it its name once it is durable.
func (ex *exporter) replaceFile() error {
	fsys, temp := ex.opt.Store.FS, ex.opt.File+tempSuffix
	file, err := fsys.Create(temp)
	if err != nil {
		return err
	}
	err = ex.write(file)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = fsys.Rename(temp, ex.opt.File)
	}
	if err != nil {
		_ = fsys.Remove(temp)
		return err
	}
	return fsys.SyncDir(filepath.Dir(ex.opt.File))
}

// write writes the keys as of one moment.
func (ex *exporter) write(file vfs.File) error {
	stats, snap := ex.freeze()
	defer snap.Release()
	ver := rdb.Version(snap.EachValue)
	w := rdb.NewWriter(file, ver,
		[2]string{"kevy-ver", ex.opt.Store.Version}, rdb.Fact("redis-bits", 64), rdb.Fact("ctime", ex.nowMs/1000))
	ex.report.RDBVersion = ver
	begun := make([]bool, len(stats))
	total, done := int64(snap.Keys()), int64(0)
	err := snap.Each(func(db, _ int, e *ds.Entry) error {
		if done++; done%tellEvery == 0 {
			ex.opt.Progress.tell(done, total)
		}
		if ex.opt.DB != EveryDB && db != ex.opt.DB {
			return nil
		}
		at := e.Aux()
		if at != 0 && at <= ex.nowMs {
			ex.report.Expired++
			return nil
		}
		if !begun[db] {
			begun[db] = true
			w.Database(db, stats[db].Keys, stats[db].Expires)
		}
		ex.report.Keys++
		if at != 0 {
			ex.report.Expiring++
		}
		return w.Put(db, e.Key(), shard.ValueOf(e), at)
	})
	if err == nil {
		err = w.Close()
	}
	ex.opt.Progress.tell(total, total)
	ex.report.Bytes = w.Written()
	return err
}

// freeze takes the state of the store.
func (ex *exporter) freeze() ([]shard.DBStats, *shard.Snapshot) {
	all := allShards(ex.store)
	set, tx := ex.store.Set(), ex.store.NewTx()
	set.Lock(all)
	defer set.Unlock(all)
	tx.Begin(all, 0, ex.nowMs)
	defer tx.End()
	return tx.Stats(), set.Freeze()
}
