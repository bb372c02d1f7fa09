package server

import (
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"syscall"

	"kevy/internal/config"
	"kevy/resp"
)

// reservedFiles is how many open files are kept for other things than clients, as
// in Redis.
const reservedFiles = 32

// openFiles returns how many files the process may have open, after it has asked
// the system for so many.
func openFiles(wanted int64) int64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxInt64
	}
	// What the kernel allows at most it may not allow in fact.
	if limit.Cur < uint64(wanted) {
		raised := limit
		raised.Cur = min(uint64(wanted), limit.Max)
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &raised); err == nil {
			limit = raised
		}
	}
	return int64(min(limit.Cur, math.MaxInt64))
}

// fitMaxClients lowers maxclients, at the start, to what the system allows.
func fitMaxClients(cfg *config.Config, log *slog.Logger) error {
	wanted := cfg.MaxClients.Load()
	files := openFiles(wanted + reservedFiles)
	if files >= wanted+reservedFiles {
		return nil
	}
	room := files - reservedFiles
	if room < 1 {
		return fmt.Errorf("the system allows %d open files, which is not enough: raise the limit (ulimit -n) to %d at least", files, reservedFiles+1)
	}
	log.Warn("maxclients is lowered to what the limit of open files allows: raise that (ulimit -n)", "maxclients", room, "wanted", wanted, "open_files", files)
	return cfg.Set([]config.Pair{{Name: "maxclients", Value: strconv.FormatInt(room, 10)}})
}

// checkMaxClients answers CONFIG SET maxclients.
func (s *Server) checkMaxClients() error {
	wanted := s.cfg.MaxClients.Load()
	if files := openFiles(wanted + reservedFiles); files < wanted+reservedFiles {
		return &resp.Error{Text: fmt.Sprintf("The operating system is not able to handle the specified number of clients, try with %d", files-reservedFiles)}
	}
	return nil
}
