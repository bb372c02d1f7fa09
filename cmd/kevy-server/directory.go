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
		file := filepath.Join(dir, snapshot)
		log.Warn("an RDB file is not read at the start: the data in this one is not served", "file", file,
			"import", fmt.Sprintf("stop this server, run kevy-server import %s --dir %s, and start it again", file, dir))
	}
	return nil
}
