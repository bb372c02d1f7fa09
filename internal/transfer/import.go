package transfer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"kevy/internal/ds"
	"kevy/internal/engine"
	"kevy/internal/op"
	"kevy/internal/rdb"
	"kevy/internal/vfs"
	"kevy/shard"
)

// ImportOptions say what to import and where to.
type ImportOptions struct {
	// Store is the store: its directory, and the numbers of shards and databases
	// of a new one.
	Store engine.Options
	File  string
	// DB is the one database to take, or EveryDB.
	DB int
	// Replace lets keys of the file take the place of those of the same name in a
	// store that has keys; others stay. Without it, such a store is an error.
	Replace  bool
	LeaveOut rdb.LeaveOut
	// CheckLibraries returns why a store with the libraries of functions kept cannot
	// take those of codes, in the place of those of the same name with replace.
	CheckLibraries func(kept, codes [][]byte, replace bool) error
	Progress       Progress // in bytes of the file
}

// ImportReport says what was imported.
type ImportReport struct {
	File       string `json:"file"`
	Dir        string `json:"dir"`
	Bytes      int64  `json:"bytes"`
	RDBVersion int    `json:"rdb_version"`
	// Writer is what the file says of who wrote it, empty if it does not.
	Writer string `json:"written_by,omitempty"`
	// NewStore says that the store was made, rather than added to.
	NewStore bool  `json:"new_store"`
	Keys     int64 `json:"keys"`
	Expiring int64 `json:"expiring_keys"`
	// Expired, Empty and OtherDBs count the keys that were passed over: overdue
	// ones, collections without elements, and those of databases not asked for.
	Expired  int64 `json:"expired_keys_skipped"`
	Empty    int   `json:"empty_keys_skipped"`
	OtherDBs int64 `json:"keys_of_other_databases_skipped"`
	// Libraries are the names of the libraries of functions that were taken.
	Libraries []string `json:"libraries"`
	// Functions, Modules and ModuleKeys are what was left out on request; Functions
	// are names of libraries.
	Functions  []string `json:"functions_left_out"`
	Modules    []string `json:"modules_left_out"`
	ModuleKeys int      `json:"module_keys_left_out"`
	Seconds    float64  `json:"seconds"`
}

// ErrNotEmpty is wrapped by the error of an import into a store that has keys.
var ErrNotEmpty = errors.New("the store is not empty")

// Import fills a store from an RDB file. A new store has either all of the file
// afterwards or nothing. One that exists gets it in many commits, which readers
// of its feed see like any others; if that fails in the middle, a part of the
// file is there. In both cases a store whose import did not end is not served
// until another one has, or its file IMPORTING is removed.
//
// The libraries of functions come first, whatever the database. One that cannot be
// loaded is an error before anything is changed.
//
// Beside the largest value, and the store if it existed before, memory holds
// some 20 bytes a key.
func Import(opt ImportOptions) (*ImportReport, error) {
	start := time.Now()
	if opt.Store.FS == nil {
		opt.Store.FS = vfs.OS()
	}
	file, size, reader, err := openRDB(&opt)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	libraries, err := readLibraries(&opt, reader)
	if err != nil {
		return nil, err
	}
	storeOptions := offline(opt.Store)
	storeOptions.Import = true
	store, err := engine.Open(storeOptions)
	if err != nil {
		return nil, err
	}
	im := &importer{opt: &opt, store: store, reader: reader, libraries: libraries, seen: newSeenKeys()}
	im.report = ImportReport{
		File: opt.File, Dir: opt.Store.Dir, Bytes: size, RDBVersion: reader.Version(),
		NewStore: store.Importable(), Libraries: []string{}, Functions: []string{}, Modules: []string{},
	}
	err = im.run()
	if closeErr := store.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, err
	}
	im.report.Seconds = time.Since(start).Seconds()
	return &im.report, nil
}

func openRDB(opt *ImportOptions) (_ vfs.File, size int64, reader *rdb.Reader, err error) {
	file, err := opt.Store.FS.Open(opt.File)
	if err != nil {
		return nil, 0, nil, err
	}
	size, err = file.Size()
	if err == nil {
		reader, err = rdb.NewReader(file, size, ds.DefaultLimits(), opt.LeaveOut)
	}
	if err != nil {
		_ = file.Close()
		return nil, 0, nil, fmt.Errorf("%s: %w", opt.File, err)
	}
	return file, size, reader, nil
}

// readLibraries returns the libraries of functions of a file, which can be loaded.
func readLibraries(opt *ImportOptions, reader *rdb.Reader) ([]shard.Library, error) {
	codes, err := reader.Libraries()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", opt.File, err)
	}
	if len(codes) == 0 {
		return nil, nil
	}
	if err := opt.CheckLibraries(nil, codes, false); err != nil {
		return nil, fmt.Errorf("%s: %w. Mend or delete it where the file comes from (FUNCTION DELETE), or leave functions out (--leave-out functions)", opt.File, err)
	}
	var libraries []shard.Library
	for _, code := range codes {
		name, err := op.LibraryName(code)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", opt.File, err)
		}
		libraries = append(libraries, shard.Library{Name: string(name), Code: code})
	}
	return libraries, nil
}

type importer struct {
	opt       *ImportOptions
	store     *engine.Engine
	reader    *rdb.Reader
	libraries []shard.Library
	seen      *seenKeys
	report    ImportReport
	number    int64 // of the key in the file, from 1
}

func (im *importer) run() error {
	isNew := im.store.Importable()
	if keys := im.store.Report().Keys; !isNew && keys > 0 && !im.opt.Replace {
		return fmt.Errorf("%w: %s holds %d keys. Import into another directory (--dir), or let the keys of the file replace those of the same name (--replace)",
			ErrNotEmpty, im.opt.Store.Dir, keys)
	}
	if err := im.checkKept(); !isNew && err != nil {
		return fmt.Errorf("%s: %w. Delete it there or in the store (FUNCTION DELETE), let libraries of the file replace those of the same name (--replace), or leave functions out (--leave-out functions)", im.opt.File, err)
	}
	if err := im.store.BeginImport(im.opt.File); err != nil {
		return err
	}
	var err error
	if isNew {
		err = im.store.ImportBase(im.writeBase)
	} else {
		err = im.commitAll()
	}
	if err == nil {
		err = im.store.EndImport()
	}
	if err != nil {
		held := "a part of the file: run the import again with --replace, or remove"
		if isNew {
			held = "nothing of the file: run the import again, or remove"
		}
		return fmt.Errorf("%s: %w (the store holds %s %s/IMPORTING to serve it as it is)", im.opt.File, err, held, im.opt.Store.Dir)
	}
	im.note()
	return nil
}

// checkKept asks whether the libraries go with those that the store has.
func (im *importer) checkKept() error {
	all, tx := allShards(im.store.Set()), im.store.NewTx()
	im.store.Set().Lock(all)
	tx.Begin(all, 0, im.store.NowMs())
	kept, _ := tx.Libraries()
	tx.End()
	im.store.Set().Unlock(all)
	if len(kept) == 0 || len(im.libraries) == 0 {
		return nil
	}
	return im.opt.CheckLibraries(codesOf(kept), codesOf(im.libraries), im.opt.Replace)
}

func codesOf(libraries []shard.Library) (codes [][]byte) {
	for _, lib := range libraries {
		codes = append(codes, lib.Code)
	}
	return codes
}

// note completes the report with what the reader knows.
func (im *importer) note() {
	r := im.reader
	for _, lib := range im.libraries {
		im.report.Libraries = append(im.report.Libraries, lib.Name)
	}
	im.report.Empty, im.report.ModuleKeys = r.EmptyKeys, r.ModuleKeys
	im.report.Functions = append(im.report.Functions, r.Functions...)
	im.report.Modules = append(im.report.Modules, r.Modules...)
	for _, name := range []string{"redis", "valkey", "kevy"} {
		if v := r.Aux[name+"-ver"]; v != "" {
			im.report.Writer = name + " " + v
		}
	}
}

// each calls fn for every key that is to be imported.
func (im *importer) each(fn func(e *rdb.Entry) error) error {
	nowMs := im.store.NowMs()
	for {
		e, err := im.reader.Next()
		if errors.Is(err, io.EOF) {
			im.opt.Progress.tell(im.report.Bytes, im.report.Bytes)
			return nil
		}
		if err != nil {
			return err
		}
		if im.number++; im.number%tellEvery == 0 {
			im.opt.Progress.tell(im.reader.Offset(), im.report.Bytes)
		}
		switch {
		case im.opt.DB != EveryDB && e.DB != im.opt.DB:
			im.report.OtherDBs++
			continue
		case e.AtMs != 0 && e.AtMs <= nowMs:
			im.report.Expired++
			continue
		case e.DB >= im.store.Set().DBs():
			return fmt.Errorf("it has keys in database %d, and the store has %d databases: set --databases to %d or more, here and for the server",
				e.DB, im.store.Set().DBs(), e.DB+1)
		}
		if im.seen.add(e.DB, e.Key) {
			if twice, err := im.wasBefore(e); err != nil || twice {
				return errors.Join(err, fmt.Errorf("the key %.100q is there twice in database %d", e.Key, e.DB))
			}
		}
		if err := fn(e); err != nil {
			return err
		}
		im.report.Keys++
		if e.AtMs != 0 {
			im.report.Expiring++
		}
	}
}

// wasBefore reads the file again up to the key e and reports whether e's name is
// there before.
func (im *importer) wasBefore(e *rdb.Entry) (bool, error) {
	file, _, reader, err := openRDB(im.opt)
	if err != nil {
		return false, err
	}
	defer file.Close()
	for n := int64(1); n < im.number; n++ {
		other, err := reader.Next()
		if err != nil {
			return false, err
		}
		if other.DB == e.DB && bytes.Equal(other.Key, e.Key) {
			return true, nil
		}
	}
	return false, nil
}

// batchBytes is about how much is handed to the log at once.
const batchBytes = 64 << 10

// writeBase writes the ops that rebuild every library and every key.
func (im *importer) writeBase(add func(payload []byte, ops int) error) error {
	var c op.Commit
	var payload []byte
	ops, db := 0, -1
	var failed error
	flush := func() {
		if failed == nil {
			failed = add(payload, ops)
		}
		payload, ops = payload[:0], 0
	}
	take := func() {
		large := len(c.Bytes()) >= batchBytes
		if large && ops > 0 {
			flush()
		}
		if large && len(payload) == 0 && failed == nil {
			failed = add(c.Bytes(), c.Ops()) // without a copy
		} else {
			payload = append(payload, c.Bytes()...)
			ops += c.Ops()
		}
		c.Reset()
		if len(payload) >= batchBytes {
			flush()
		}
		if cap(payload) > 16*batchBytes {
			payload = nil
		}
	}
	for _, lib := range im.libraries {
		shard.RebuildLibrary(&c, lib)
		take()
	}
	if failed != nil {
		return failed
	}
	err := im.each(func(e *rdb.Entry) error {
		if e.DB != db {
			db = e.DB
			payload = op.AppendSelect(payload, db)
		}
		shard.RebuildValue(&c, db, 0, e.Key, e.Value, e.AtMs, take)
		take()
		return failed
	})
	if err == nil && ops > 0 {
		flush()
		err = failed
	}
	return err
}

// commitAll adds libraries and keys to the store, these in commits of about
// batchBytes.
func (im *importer) commitAll() error {
	w := &committer{store: im.store, all: allShards(im.store.Set()), tx: im.store.NewTx()}
	w.begin()
	err := w.load(im.libraries)
	if err == nil {
		err = im.each(func(e *rdb.Entry) error { return w.put(e) })
	}
	if err == nil {
		err = w.commit()
	}
	w.end()
	return err
}

// committer makes commits of bounded size. Between begin and end it holds every
// shard: nobody else is there.
type committer struct {
	store *engine.Engine
	all   []int
	tx    *shard.Tx
	piece op.Commit
}

func (w *committer) begin() {
	w.store.Set().Lock(w.all)
	w.tx.Begin(w.all, 0, w.store.NowMs())
}

func (w *committer) end() {
	w.tx.End()
	w.store.Set().Unlock(w.all)
}

// commit writes what has been recorded, if anything has.
func (w *committer) commit() error {
	if w.tx.Commit().Ops() == 0 {
		return nil
	}
	if err := w.store.Admit(); err != nil {
		return err
	}
	lsn := w.store.Commit(w.tx)
	w.end()
	w.begin()
	return w.store.Wait(lsn)
}

func (w *committer) commitIfFull() error {
	if len(w.tx.Commit().Bytes()) < batchBytes {
		return nil
	}
	return w.commit()
}

// load keeps libraries, all in one commit.
func (w *committer) load(libraries []shard.Library) error {
	for _, lib := range libraries {
		if err := w.tx.LoadLibrary(lib.Code); err != nil {
			return err
		}
	}
	return w.commit()
}

// put makes a key hold what the file has, a large value in several commits.
func (w *committer) put(e *rdb.Entry) error {
	w.tx.Select(e.DB)
	if e.Value.Object == nil || e.Value.Object.MemBytes() <= batchBytes {
		w.tx.Put(e.Key, e.Value, e.AtMs)
		return w.commitIfFull()
	}
	w.tx.Del(e.Key)
	var failed error
	apply := func() {
		if failed == nil {
			failed = w.apply(e.DB)
		}
		w.piece.Reset()
	}
	shard.RebuildValue(&w.piece, e.DB, 0, e.Key, e.Value, e.AtMs, apply)
	apply()
	return failed
}

// apply makes the changes that piece says.
func (w *committer) apply(db int) error {
	var s op.Scanner
	s.Reset(w.piece.Bytes(), db)
	for {
		f, err := s.Next()
		if err != nil {
			return err
		}
		if f == nil {
			return w.commitIfFull()
		}
		if err := w.tx.Apply(f); err != nil {
			return err
		}
	}
}
