package transfer

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"kevy/internal/ds"
	"kevy/internal/engine"
	"kevy/internal/op"
	"kevy/internal/rdb"
	"kevy/internal/vfs"
	"kevy/shard"
)

// ExportOptions say what to export and where to.
type ExportOptions struct {
	Store engine.Options
	File  string
	// DB is the one database to write, or EveryDB.
	DB int
	// Progress is in bytes of the log, each of which is worked on twice.
	Progress Progress

	sizes *exportSizes // nil: defaultSizes
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
	Expired int64 `json:"expired_keys_skipped"`
	// Libraries are the names of the libraries of functions, which no database has.
	Libraries []string `json:"libraries"`
	Seconds   float64  `json:"seconds"`
}

// tempSuffix marks a file that is not complete.
const tempSuffix = ".tmp"

// Export writes a store to an RDB file, as it is after recovery. The file is
// there whole or not at all; one of that name is replaced.
//
// The ops of the log are sorted by their keys into temporary files beside the
// file, which then are replayed one after the other. So memory holds the largest
// value, or transaction of the log, and what exportSizes say, however large the
// store is; the disk needs room for the log once more. A log that holds another
// server's commands is replayed as a whole, and memory holds the store.
func Export(opt ExportOptions) (*ExportReport, error) {
	start := time.Now()
	if opt.Store.FS == nil {
		opt.Store.FS = vfs.OS()
	}
	if opt.Store.NowMs == nil {
		opt.Store.NowMs = func() int64 { return time.Now().UnixMilli() }
	}
	if err := checkStore(opt.Store.FS, opt.Store.Dir); err != nil {
		return nil, err
	}
	ex := &exporter{opt: &opt, sizes: defaultSizes}
	if opt.sizes != nil {
		ex.sizes = *opt.sizes
	}
	ex.report = ExportReport{File: opt.File, Dir: opt.Store.Dir, Libraries: []string{}}
	err := ex.sorted()
	if errors.Is(err, engine.ErrNeedsKeyspace) {
		err = ex.whole()
	}
	if err != nil {
		return nil, err
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
	opt      *ExportOptions
	sizes    exportSizes
	nowMs    int64 // of the state that is written
	logBytes int64 // about; the log is worked on twice
	// libraries are the libraries of functions of the store, which no key has.
	libraries []shard.Library
	report    ExportReport
}

// sorted exports by partitions. The store is closed before they are written.
func (ex *exporter) sorted() error {
	fsys := ex.opt.Store.FS
	var err error
	if ex.logBytes, err = logBytes(fsys, ex.opt.Store.Dir); err != nil {
		return err
	}
	s, err := newSorter(fsys, ex.partsName(), ex.partitions(ex.logBytes), ex.sizes.chunkBytes)
	if err != nil {
		return ex.needsSpace(err)
	}
	defer s.close()
	functions := newFunctions(ex.opt.Store.DBs)
	defer functions.tx.End()
	var done, ops int64
	opt := offline(ex.opt.Store)
	opt.Divert = func(f *op.Frame) error {
		done += int64(len(f.Raw))
		if ops++; ops%tellEvery == 0 {
			ex.opt.Progress.tell(min(done, ex.logBytes), 2*ex.logBytes)
		}
		if f.Verb == op.Function {
			return functions.add(f)
		}
		if err := s.add(f); err != nil {
			return ex.needsSpace(err)
		}
		return nil
	}
	store, err := engine.Open(opt)
	if err != nil {
		return err
	}
	ex.nowMs = store.NowMs()
	if err := store.Close(); err != nil {
		return err
	}
	if err := s.end(); err != nil {
		return ex.needsSpace(err)
	}
	ex.libraries, _ = functions.tx.Libraries()
	ver, err := ex.version(s.parts)
	if err != nil {
		return err
	}
	return ex.replaceFile(ver, func(w *fileWriter) error {
		for _, p := range s.parts {
			w.total += p.bytes
		}
		return ex.eachLoaded(s.parts, true, func(p *partition, set *shard.Set) (bool, error) {
			return true, w.add(set, p.bytes)
		})
	})
}

// functions are the libraries of functions, as the ops of a log make them.
type functions struct {
	set *shard.Set // without keys
	tx  *shard.Tx
}

func newFunctions(dbs int) *functions {
	f := &functions{set: shard.NewSet(1, dbs)}
	f.tx = f.set.NewTx(&op.LogPosition{})
	f.tx.BeginReplay([]int{0}, 0)
	return f
}

func (f *functions) add(frame *op.Frame) error { return f.tx.Apply(frame) }

// version returns the lowest version of the format that holds the keys of all
// partitions. Only fields that expire need a higher one.
func (ex *exporter) version(parts []*partition) (int, error) {
	highest := rdb.Version(func(func(v shard.Value) bool) {})
	var expiring []*partition
	for _, p := range parts {
		if p.expiresFields {
			expiring = append(expiring, p)
		}
	}
	err := ex.eachLoaded(expiring, false, func(_ *partition, set *shard.Set) (bool, error) {
		snap := set.Freeze()
		defer snap.Release()
		v := rdb.Version(snap.EachValue)
		more := v == highest
		highest = max(highest, v)
		return more, nil
	})
	return highest, err
}

// whole exports from the keyspace of an open store.
func (ex *exporter) whole() (err error) {
	store, err := engine.Open(offline(ex.opt.Store))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	ex.nowMs = store.NowMs()
	snap := store.Set().Freeze()
	ver := rdb.Version(snap.EachValue)
	ex.libraries = snap.Libraries()
	snap.Release()
	return ex.replaceFile(ver, func(w *fileWriter) error {
		w.total = 1
		return w.add(store.Set(), w.total)
	})
}

// logBytes returns how large the files of a log are together.
func logBytes(fsys vfs.FS, dir string) (sum int64, err error) {
	infos, err := fsys.List(filepath.Join(dir, "appendonlydir"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	for _, info := range infos {
		sum += info.Size
	}
	return sum, err
}

// replaceFile lets write fill a temporary file, and gives it its name once it is
// durable.
func (ex *exporter) replaceFile(ver int, write func(w *fileWriter) error) error {
	fsys, temp := ex.opt.Store.FS, ex.opt.File+tempSuffix
	err := ex.writeFile(temp, ver, write)
	if err == nil {
		err = fsys.Rename(temp, ex.opt.File)
	}
	if err != nil {
		_ = fsys.Remove(temp)
	} else {
		err = fsys.SyncDir(filepath.Dir(ex.opt.File))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", ex.opt.File, err)
	}
	ex.opt.Progress.tell(2*ex.logBytes, 2*ex.logBytes)
	return nil
}

func (ex *exporter) writeFile(name string, ver int, write func(w *fileWriter) error) (err error) {
	file, err := ex.opt.Store.FS.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	w := &fileWriter{ex: ex, begun: make([]bool, ex.opt.Store.DBs), rdb: rdb.NewWriter(file, ver,
		[2]string{"kevy-ver", ex.opt.Store.Version}, rdb.Fact("redis-bits", 64), rdb.Fact("ctime", ex.nowMs/1000))}
	for _, lib := range ex.libraries {
		w.rdb.Function(lib.Code)
		ex.report.Libraries = append(ex.report.Libraries, lib.Name)
	}
	if err := write(w); err != nil {
		return err
	}
	if err := w.rdb.Close(); err != nil {
		return err
	}
	ex.report.RDBVersion, ex.report.Bytes = ver, w.rdb.Written()
	return file.Sync()
}

// fileWriter writes the keys of keyspaces to a file, one after the other.
type fileWriter struct {
	ex    *exporter
	rdb   *rdb.Writer
	begun []bool // whether the file has said how large the database is
	// total is the weight of all keyspaces, done that of those that are written.
	total, done int64
}

// add writes the keys of a keyspace, which nobody else uses, and whose weight is
// that of its ops.
func (w *fileWriter) add(set *shard.Set, weight int64) error {
	ex := w.ex
	stats := databaseStats(set, ex.nowMs)
	snap := set.Freeze()
	total, done := int64(snap.Keys()), int64(0)
	err := snap.Each(func(db, _ int, e *ds.Entry) error {
		if done++; done%tellEvery == 0 {
			w.tell(w.done + share(weight, done, total))
		}
		if ex.opt.DB != EveryDB && db != ex.opt.DB {
			return nil
		}
		at := e.Aux()
		if at != 0 && at <= ex.nowMs {
			ex.report.Expired++
			return nil
		}
		if !w.begun[db] {
			w.begun[db] = true
			// Readers make room for so many keys, and no more depends on it: the part that
			// is known stands for the whole.
			w.rdb.Database(db, int(share(int64(stats[db].Keys), w.total, weight)), int(share(int64(stats[db].Expires), w.total, weight)))
		}
		ex.report.Keys++
		if at != 0 {
			ex.report.Expiring++
		}
		return w.rdb.Put(db, e.Key(), shard.ValueOf(e), at)
	})
	w.done += weight
	w.tell(w.done)
	return err
}

// tell reports the progress of the second half.
func (w *fileWriter) tell(done int64) {
	n := w.ex.logBytes
	w.ex.opt.Progress.tell(n+share(n, done, w.total), 2*n)
}

// share returns n*part/whole, without an overflow.
func share(n, part, whole int64) int64 { return int64(float64(n) * float64(part) / float64(whole)) }

func databaseStats(set *shard.Set, nowMs int64) []shard.DBStats {
	tx := set.NewTx(&op.LogPosition{})
	tx.BeginReplay(allShards(set), nowMs)
	defer tx.End()
	return tx.Stats()
}
