package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"kevy/internal/config"
)

// checkDirectory says what of the data directory this start would not serve,
// and refuses to go on where that is a store: it would look empty, and what is
// written beside it would be gone at the end.
func checkDirectory(cfg *config.Config, log *slog.Logger) error {
	const manifest, logs = "MANIFEST", "appendonlydir"
	dir := cfg.Dir.Load()
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
	if !cfg.AppendOnly.Load() {
		for _, name := range []string{logs, manifest} {
			if exists(name) {
				return fmt.Errorf("%s holds a store (%s is there), and with appendonly no its data would not be served: start with --appendonly yes, or choose another directory with --dir", dir, name)
			}
		}
		log.Warn("appendonly no: the data is in memory only and gone when the server stops; set appendonly yes to keep it")
	}
	if snapshot := cfg.Lookup("dbfilename").Text(); snapshot != "" && exists(snapshot) && !exists(logs) {
		log.Warn("RDB files are not read yet: the data in this one is not served", "file", filepath.Join(dir, snapshot), "convert", conversion(dir, snapshot))
	}
	return nil
}

// conversion says how a Redis makes a log of a snapshot. It must start without
// a log: with appendonly yes it would read the log that is not there and leave
// the snapshot aside. It refuses to shut down before its first log is complete.
func conversion(dir, snapshot string) string {
	return fmt.Sprintf("stop this server, run redis-server --appendonly no --aof-use-rdb-preamble no --dir %s --dbfilename %s, then redis-cli config set appendonly yes, "+
		"then redis-cli shutdown (again if it is refused: the log is still being written), and start this server again", dir, snapshot)
}
