package transfer

import (
	"errors"
	"fmt"
	"path/filepath"

	"kevy/internal/ds"
	"kevy/internal/engine"
	"kevy/internal/rdb"
	"kevy/internal/vfs"
	"kevy/shard"
)

// SaveReport says what was saved.
type SaveReport struct {
	Keys  int64
	Bytes int64
	// LSN is up to where the log is in the file.
	LSN uint64
}

// Save writes the keys of an open store, as they are now, to an RDB file in its
// directory, as SAVE does. Commits go on meanwhile. The file is there whole or not at
// all; one of that name is replaced. goOn is asked now and then, and ends it with its
// error.
func Save(store *engine.Engine, fsys vfs.FS, file, version string, goOn func() error) (report SaveReport, err error) {
	view, err := store.View()
	if err != nil {
		return report, err
	}
	report.LSN = view.LSN
	temp := file + tempSuffix
	out, err := fsys.Create(temp)
	if err != nil {
		view.Release()
		return report, fmt.Errorf("write %s: %w", file, err)
	}
	err = writeView(out, view, version, goOn, &report)
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err == nil {
		err = fsys.Rename(temp, file)
	}
	if err != nil {
		_ = fsys.Remove(temp)
	} else {
		err = fsys.SyncDir(filepath.Dir(file))
	}
	if err != nil {
		return report, fmt.Errorf("write %s: %w", file, err)
	}
	return report, nil
}

// writeView writes a view, which it releases.
func writeView(out vfs.File, view *engine.View, version string, goOn func() error, report *SaveReport) error {
	ver := rdb.Version(view.EachValue)
	w := rdb.NewWriter(out, ver, [2]string{"kevy-ver", version}, rdb.Fact("redis-bits", 64), rdb.Fact("ctime", view.NowMs/1000))
	for _, lib := range view.Libraries() {
		w.Function(lib.Code)
	}
	begun := make([]bool, len(view.DBs))
	err := view.Walk(func(db int, e *ds.Entry) error {
		if err := goOn(); err != nil {
			return err
		}
		at := e.Aux()
		if at != 0 && at <= view.NowMs {
			return nil
		}
		if !begun[db] {
			begun[db] = true
			w.Database(db, view.DBs[db].Keys, view.DBs[db].Expires)
		}
		report.Keys++
		return w.Put(db, e.Key(), shard.ValueOf(e), at)
	})
	if err == nil {
		err = w.Close()
	}
	report.Bytes = w.Written()
	return err
}
