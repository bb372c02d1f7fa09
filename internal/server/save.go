package server

import (
	"errors"
	"path/filepath"
	"sync"
	"time"

	"kevy/internal/transfer"
	"kevy/internal/vfs"
	"kevy/resp"
)

// saves writes dump.rdb for SAVE and BGSAVE, one at a time. No start reads the file: the
// log has everything.
type saves struct {
	mu      sync.Mutex // guards what follows
	running bool
	ended   bool      // the server ends: none begins any more
	began   time.Time // the one that runs
	last    time.Time // the end of the last one that worked
	lastLSN uint64    // what it had of the log
	took    time.Duration
	err     error // of the last one
	count   int64 // that worked

	work sync.WaitGroup // of who writes
}

var (
	errSaving  = &resp.Error{Code: "ERR", Text: "Background save already in progress"}
	errNoSaves = errors.New("the server ends")
)

// begin notes that one begins.
func (v *saves) begin() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.running:
		return errSaving
	case v.ended:
		return errNoSaves
	}
	v.running, v.began = true, time.Now()
	v.work.Add(1)
	return nil
}

// goOn returns why the one that runs is to end.
func (v *saves) goOn() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ended {
		return errNoSaves
	}
	return nil
}

// end makes none begin any more, and waits for the one that runs.
func (v *saves) end() {
	v.mu.Lock()
	v.ended = true
	v.mu.Unlock()
	v.work.Wait()
}

// Save implements admin.Server.
func (s *Server) Save() error {
	if err := s.saves.begin(); err != nil {
		return err
	}
	return s.save()
}

// StartSave implements admin.Server.
func (s *Server) StartSave() error {
	if err := s.saves.begin(); err != nil {
		return err
	}
	go func() { _ = s.save() }() // INFO and the log have the outcome
	return nil
}

// save writes the file, once begin has let it.
func (s *Server) save() error {
	v := &s.saves
	defer v.work.Done()
	file := filepath.Join(s.cfg.Dir.Load(), s.cfg.DBFileName.Load())
	report, err := transfer.Save(s.store, vfs.OS(), file, Version(), v.goOn)
	v.mu.Lock()
	now := time.Now()
	took := now.Sub(v.began)
	v.running, v.err, v.took = false, err, took
	if err == nil {
		v.last, v.lastLSN = now, report.LSN
		v.count++
	}
	v.mu.Unlock()
	if err != nil {
		s.log.Error("the keys could not be saved", "file", file, "error", err)
	} else {
		s.log.Info("keys saved", "file", file, "keys", report.Keys, "bytes", report.Bytes, "took", took.Round(time.Millisecond).String())
	}
	return err
}

// infoSaves adds the fields of INFO persistence that are about the file. baseLSN is what
// the last rewrite of the log had of it: that counts as saved, too.
func (s *Server) infoSaves(f *fields, last, baseLSN uint64) {
	v := &s.saves
	v.mu.Lock()
	defer v.mu.Unlock()
	saved := max(baseLSN, v.lastLSN) // one may have ended since last was read
	f.num("rdb_changes_since_last_save", int64(max(last, saved)-saved))
	f.flag("rdb_bgsave_in_progress", v.running)
	f.num("rdb_last_save_time", s.lastSaveUnix())
	f.text("rdb_last_bgsave_status", okOrErr(v.err == nil))
	took, current := int64(-1), int64(-1)
	if v.took > 0 {
		took = int64(v.took / time.Second)
	}
	if v.running {
		current = int64(time.Since(v.began) / time.Second)
	}
	f.num("rdb_last_bgsave_time_sec", took)
	f.num("rdb_current_bgsave_time_sec", current)
	f.num("rdb_saves", v.count)
}

// LastSaveUnix implements admin.Server.
func (s *Server) LastSaveUnix() int64 {
	s.saves.mu.Lock()
	defer s.saves.mu.Unlock()
	return s.lastSaveUnix()
}

// lastSaveUnix is LastSaveUnix under the mutex of saves.
func (s *Server) lastSaveUnix() int64 {
	at := s.started
	if st := s.store.RewriteStatus(); st.LastEnd.After(at) {
		at = st.LastEnd
	}
	if s.saves.last.After(at) {
		at = s.saves.last
	}
	return at.Unix()
}
