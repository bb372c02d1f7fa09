package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"time"

	"kevy/aof"
	"kevy/feed"
	"kevy/internal/op"
	"kevy/internal/vfs"
	"kevy/persist"
	"kevy/shard"
)

// Report says what the start found.
type Report struct {
	Keys    int
	Took    time.Duration
	Log     aof.Report
	Misfits int    // ops that were left out because damage was
	New     bool   // there was no store before
	Resumed bool   // the feed's generations go on
	Reason  string // why they do not
}

// Verdict says in a word or two what the log was found like.
func (r *Report) Verdict() string {
	switch {
	case r.repaired():
		return "repaired"
	case r.Log.Torn != nil:
		return "torn tail cut"
	}
	return "whole"
}

func (r *Report) repaired() bool { return len(r.Log.Damaged) > 0 || r.Misfits > 0 }

// ErrNeedsKeyspace answers Open with Options.Divert where another server's
// commands stand in the log, which only run on keys, or where damage was left out
// of it, which a rewrite from the keys makes good. The store is as it was.
var ErrNeedsKeyspace = errors.New("the log cannot be read without a keyspace")

// errDiverted keeps an empty keyspace from becoming the base of the log.
var errDiverted = errors.New("engine: the keys of the log are not in the keyspace")

// MaxDBs bounds the number of databases of a store.
const MaxDBs = 1 << 16

// Open opens the store, or makes a new one if there is none. Whatever it
// returns, it holds no file or goroutine after an error.
func Open(opt Options) (_ *Engine, err error) {
	if opt.FS == nil {
		opt.FS = vfs.OS()
	}
	if opt.NowMs == nil {
		opt.NowMs = func() int64 { return time.Now().UnixMilli() }
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	if opt.Shards < 1 || opt.Shards > shard.MaxShards {
		return nil, fmt.Errorf("a store has 1 to %d shards, not %d", shard.MaxShards, opt.Shards)
	}
	if opt.DBs < 1 || opt.DBs > MaxDBs {
		return nil, fmt.Errorf("a store has 1 to %d databases, not %d", MaxDBs, opt.DBs)
	}
	if opt.Divert != nil && (!opt.Offline || opt.NoFile) {
		return nil, errors.New("engine: only a store of files that is opened offline can be diverted")
	}
	e := &Engine{opt: opt, stop: make(chan struct{}), tendNow: make(chan struct{}, 1), digests: make(chan struct{}, maxDigests)}
	e.policy.Store(int32(opt.Fsync))
	e.SetRewriteRule(opt.Rewrite)
	start := time.Now()
	defer func() {
		if err != nil {
			e.abandon()
		}
	}()
	if opt.NoFile {
		err = e.openMemory()
	} else {
		err = e.openFiles()
	}
	if err != nil {
		return nil, err
	}
	e.set.CountAll()
	e.openEvictor(e.opt.MaxMemory)
	e.openSnapshots()
	e.report.Took = time.Since(start)
	e.logReport()
	if !opt.Offline {
		e.startCron()
	}
	return e, nil
}

// abandon closes what a failed start had opened. It marks no clean close.
func (e *Engine) abandon() {
	if e.source != nil {
		e.source.Close()
	}
	if e.log != nil {
		_, _ = e.log.Close()
	}
	if e.lock != nil {
		_ = e.lock.Close()
	}
}

func (e *Engine) newSet(shards int) {
	e.set = shard.NewSet(shards, e.opt.DBs)
	for i := range shards {
		e.all = append(e.all, i)
	}
}

func (e *Engine) newSource() {
	retain := e.opt.FeedDiskBytes
	if e.opt.NoFeed {
		retain = 0
	}
	e.source = feed.New(feed.Options{
		Shards: e.set.Shards(), RetainBytes: retain, RetainMs: e.opt.FeedAgeMs, NeverDurable: e.opt.NoFile,
	})
}

// memoryBytes is what the log keeps in memory for readers; without a feed there
// are none, and the least will do.
func (e *Engine) memoryBytes() int64 {
	const least = 1 << 20
	if e.opt.NoFeed {
		return least
	}
	return max(e.opt.FeedMemoryBytes, least)
}

func (e *Engine) logOptions() aof.Options {
	opt := aof.Options{
		FS: e.opt.FS, Dir: e.opt.Dir, Policy: e.opt.Fsync, MemoryBytes: e.memoryBytes(), SegmentBytes: e.opt.SegmentBytes, NoFile: e.opt.NoFile,
		NowMs: e.opt.NowMs, Logger: e.opt.Logger, Took: e.took,
	}
	if !e.opt.NoFeed {
		opt.Publish = func(firstLSN uint64, c aof.Encoder) { e.source.Publish(firstLSN, c.(*op.Commit)) }
		opt.FileHeader = func(dst []byte) []byte { return e.source.AppendPositions(dst) }
	}
	if e.opt.tuneLog != nil {
		e.opt.tuneLog(&opt)
	}
	return opt
}

func (e *Engine) openMemory() (err error) {
	e.newSet(e.opt.Shards)
	e.newSource()
	if e.log, _, err = aof.Recover(e.logOptions(), aof.RecoverRefuse, nil); err != nil {
		return err
	}
	history, err := persist.FreshHistory(e.opt.NowMs()/1000, e.set.Shards())
	if err != nil {
		return err
	}
	e.report.Reason = history.Reason
	return e.source.Open(e.archive(), history, nil)
}

func (e *Engine) openFiles() error {
	fsys, dir := e.opt.FS, e.opt.Dir
	if err := fsys.MkdirAll(dir); err != nil {
		return fmt.Errorf("create the data directory: %w", err)
	}
	lock, err := persist.Lock(fsys, dir)
	if err != nil {
		return err
	}
	e.lock = lock
	if err := e.checkImporting(); err != nil {
		return err
	}
	manifest, err := e.readManifest()
	if err != nil {
		return err
	}
	if err := e.removeSpools(); err != nil {
		return err
	}
	e.newSet(manifest.Shards)
	e.newSource()
	sidecars, newHistory, err := e.readSidecars()
	if err != nil {
		return err
	}
	holds, err := e.readHolds()
	if err != nil {
		return err
	}
	counted := feed.NewRecovery(manifest.Shards, sidecars.Starts())
	facts, err := e.recover(counted, max(sidecars.KnownDurableLSN(), holds.DurableLSN))
	if err != nil {
		return err
	}
	if newHistory != "" {
		facts.NewHistory = newHistory
	}
	if e.contract, err = persist.OpenContract(sidecars, facts, e.opt.NowMs()/1000); err != nil {
		return err
	}
	history := e.contract.History()
	e.report.Resumed, e.report.Reason = history.Resumed, history.Reason
	if err := e.source.Open(e.archive(), history, counted); err != nil {
		return err
	}
	if err := e.openHolds(holds); err != nil {
		return err
	}
	if e.report.Log.Foreign || e.report.repaired() {
		// The files hold what no LSN numbers, or faults: a base replaces them.
		if err := e.Rewrite(); err != nil {
			return err
		}
	}
	return nil
}

// readManifest reads the directory's facts, or writes those of a new store.
func (e *Engine) readManifest() (persist.Manifest, error) {
	now := e.opt.NowMs()
	m, err := persist.ReadManifest(e.opt.FS, e.opt.Dir)
	var bad *persist.FileError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		m = persist.Manifest{Shards: e.opt.Shards, CreatedMs: now}
		e.report.New = true
		if info, err := e.opt.FS.Stat(filepath.Join(e.opt.Dir, "dump.rdb")); err == nil && info.Size > 0 && !e.opt.Import {
			e.opt.Logger.Warn("dump.rdb is not read; kevy-server import makes a store of what it holds")
		}
	case errors.As(err, &bad):
		return m, fmt.Errorf("%w (what counts in it is the number of shards, which the second line of feed-0.gen says too: "+
			"remove it and start with that number)", err)
	case err != nil:
		return m, err
	case m.Shards > shard.MaxShards:
		return m, fmt.Errorf("the store in %s has %d shards, and this version of kevy manages %d", e.opt.Dir, m.Shards, shard.MaxShards)
	case m.Shards != e.opt.Shards && !e.opt.Offline:
		e.opt.Logger.Warn("the number of shards is fixed when a store is created: the one asked for is not used", "shards", m.Shards, "asked_for", e.opt.Shards)
	}
	m.Runs++
	m.LastOpenMs, m.LastVersion = now, e.opt.Version
	return m, persist.WriteManifest(e.opt.FS, e.opt.Dir, m)
}

// readSidecars reads what the feed's files say. Where one is damaged nobody can
// tell which cursors are good: newHistory then says why none is, if the start is
// to go on over damage.
func (e *Engine) readSidecars() (s *persist.Sidecars, newHistory string, err error) {
	s, err = persist.ReadSidecars(e.opt.FS, e.opt.Dir, e.set.Shards())
	var bad *persist.FileError
	if errors.As(err, &bad) && (e.opt.Recover == aof.RecoverTruncate || e.opt.Recover == aof.RecoverSkip) {
		e.opt.Logger.Warn("a file of the feed is damaged: the feed begins a new history", "error", bad)
		return persist.NoSidecars(e.opt.FS, e.opt.Dir, e.set.Shards()), bad.Error(), nil
	}
	return s, "", err
}

// recover loads the log, which is known to have been durable up to an LSN, into
// the keyspace and returns what it found.
func (e *Engine) recover(counted *feed.Recovery, knownDurable uint64) (facts persist.Recovered, err error) {
	l := newLoader(e, e.set, counted)
	opt := e.logOptions()
	opt.KnownDurableLSN = knownDurable
	log, report, err := aof.Recover(opt, e.opt.Recover, l)
	if report != nil {
		e.report.Log = *report
	}
	if err != nil {
		return facts, err
	}
	e.log = log
	if e.opt.Divert != nil && (report.Foreign || e.report.repaired()) {
		return facts, ErrNeedsKeyspace
	}
	for _, st := range l.keys() {
		e.report.Keys += st.Keys
	}
	e.report.Misfits = l.misfits
	facts = counted.Finish(report.LastLSN)
	// Where the end of the log is another server's, or was left out, LSNs go on
	// behind the last block that is there.
	facts.Tail = persist.Tail{LSN: report.LastLSN, CRC: report.Tail.CRC, Inode: report.Tail.Inode}
	if report.Foreign {
		facts.NewHistory = "another server wrote to the log"
	}
	if e.report.repaired() && facts.NewHistory == "" {
		facts.NewHistory = "damaged parts of the log were left out"
	}
	return facts, nil
}

func (e *Engine) logReport() {
	r := &e.report
	if e.opt.NoFile {
		e.opt.Logger.Info("the store is in memory only: everything is gone when it closes")
		return
	}
	e.opt.Logger.Info("store open", "log", r.Verdict(), "keys", r.Keys, "ops", r.Log.Ops, "base_ops", r.Log.BaseOps,
		"last_lsn", r.Log.LastLSN, "took", r.Took.Round(time.Millisecond).String())
	if t := r.Log.Torn; t != nil {
		e.opt.Logger.Warn("a torn tail was cut off: the last run did not end cleanly", "file", t.File, "offset", t.Offset,
			"bytes", t.Bytes, "reason", t.Reason, "kept_in", t.Quarantine)
	}
	for _, d := range r.Log.Damaged {
		e.opt.Logger.Warn("damage was left out", "file", d.File, "offset", d.Offset, "bytes", d.Bytes, "reason", d.Reason, "kept_in", d.Quarantine)
	}
	for _, n := range r.Log.Notes {
		e.opt.Logger.Info("put in order", "what", n)
	}
	switch {
	case e.opt.NoFeed:
		e.opt.Logger.Info("the feed is off: nothing can be followed until a start with feed yes")
	case r.New && !r.Log.Foreign:
		e.opt.Logger.Info("a new store: the feed begins")
	case !r.Resumed:
		e.opt.Logger.Info("the feed begins a new generation", "reason", r.Reason)
	}
}
