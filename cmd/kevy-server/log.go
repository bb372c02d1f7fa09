package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"kevy/internal/config"
)

// openLog returns the logger that the settings ask for; it follows CONFIG SET
// loglevel.
func openLog(cfg *config.Config, stdout io.Writer) (log *slog.Logger, closeLog func(), err error) {
	out, closeLog := stdout, func() {}
	if name := cfg.LogFile.Load(); name != "" {
		file, err := openLogFile(cfg.Path(name), cfg.Dir.Load())
		if err != nil {
			return nil, nil, fmt.Errorf("the log file cannot be opened, choose another with --logfile: %w", err)
		}
		out, closeLog = file, file.close
	}
	var level slog.LevelVar
	follow := func() error {
		level.Set(cfg.LogLevel.Load().Slog())
		return nil
	}
	_ = follow()
	cfg.OnChange(follow, &cfg.LogLevel)
	log = slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: &level, ReplaceAttr: nameLevel}))
	slog.SetDefault(log)
	return log, closeLog, nil
}

// nameLevel prints verbose as loglevel calls it.
func nameLevel(groups []string, a slog.Attr) slog.Attr {
	if level, ok := a.Value.Any().(slog.Level); ok && len(groups) == 0 && a.Key == slog.LevelKey && level == config.LevelVerbose {
		return slog.String(slog.LevelKey, "VERBOSE")
	}
	return a
}

// logFile is a file that may be moved away or removed while it is written, as
// logrotate does: the next line then goes to a new file of the name.
type logFile struct {
	path string

	mu   sync.Mutex
	file *os.File // guarded by mu
}

// openLogFile opens the file in a directory that exists; the data directory is
// made, as it would be in a moment.
func openLogFile(path, dataDir string) (*logFile, error) {
	if filepath.Dir(path) == filepath.Clean(dataDir) {
		if err := os.MkdirAll(dataDir, 0o755); err != nil {
			return nil, err
		}
	}
	l := &logFile{path: path}
	var err error
	l.file, err = l.open()
	return l, err
}

func (l *logFile) open() (*os.File, error) {
	return os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
}

func (l *logFile) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.moved() {
		// Without a new file the old one is better than none.
		if file, err := l.open(); err == nil {
			_ = l.file.Close()
			l.file = file
		}
	}
	return l.file.Write(line)
}

func (l *logFile) moved() bool {
	named, err := os.Stat(l.path)
	if err != nil {
		return true
	}
	open, err := l.file.Stat()
	return err == nil && !os.SameFile(named, open)
}

func (l *logFile) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.file.Close()
}
