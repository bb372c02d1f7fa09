package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"kevy/internal/config"
	"kevy/internal/server"
)

// serve runs the server until a signal or SHUTDOWN ends it.
func serve(args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if err := checkFirstWord(args); err != nil {
		return err
	}
	cfg, err := config.Load(args, stdin)
	if err != nil {
		return fmt.Errorf("the settings are not right:\n%w", err)
	}
	log, closeLog, err := openLog(cfg, stdout)
	if err != nil {
		return err
	}
	defer closeLog()
	if err := run(cfg, log, stdout); err != nil {
		if cfg.LogFile.Load() != "" {
			log.Error("the server has stopped", "error", err)
		}
		return err
	}
	log.Info("closed")
	return nil
}

// checkFirstWord refuses a word that looks like a subcommand and names no file.
func checkFirstWord(args []string) error {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") || strings.ContainsAny(args[0], "./") {
		return nil
	}
	if _, err := os.Stat(args[0]); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("%q was taken for a configuration file, and there is none of that name; the subcommands are serve, import, export and changes, as in kevy-server serve --port 7000", args[0])
}

// run serves; when it has returned, no signal ends the process any more.
func run(cfg *config.Config, log *slog.Logger, stdout io.Writer) error {
	ctx, stop := closeOnSignal(log)
	defer stop()
	log.Info("starting", startFacts(cfg)...)
	for _, s := range cfg.GivenWithoutEffect() {
		warnWithoutEffect(log, s)
	}
	if err := checkDirectory(cfg, log); err != nil {
		return err
	}
	warnOfExposure(cfg, log)
	pid := pidFile{path: cfg.PIDFile.Load()}
	if pid.path != "" {
		pid.path = cfg.Path(pid.path)
	}
	defer pid.remove()
	err := server.Run(ctx, cfg, log, func(addr string) {
		// Only a server that has the directory may say that it is its; and it does so
		// before it says that it is ready, for those who wait for that.
		if err := pid.write(); err != nil {
			log.Warn("the pid file cannot be written", "error", err)
		}
		if cfg.Port.Load() == 0 {
			fmt.Fprintf(stdout, "listening on %s\n", addr)
		}
		log.Info("ready to accept connections", "address", addr)
	})
	return advise(err, cfg.Dir.Load())
}

// startFacts are what a reader of the log asks first.
func startFacts(cfg *config.Config) []any {
	facts := []any{"version", server.Version(), "pid", os.Getpid(), "dir", cfg.Dir.Load()}
	if file := cfg.File(); file != "" {
		facts = append(facts, "file", file)
	}
	if cfg.AppendOnly.Load() {
		facts = append(facts, "appendfsync", cfg.AppendFsync.String())
	} else {
		facts = append(facts, "appendonly", "no")
	}
	return append(facts, "shards", cfg.Shards.Load(), "bind", strings.Join(cfg.Bind.Load(), " "), "port", cfg.Port.Load())
}

func warnWithoutEffect(log *slog.Logger, s *config.Setting) {
	log.Warn("this setting has no effect", "setting", s.Name, "value", s.Text(), "why", s.Why())
}

// repeatWindow is how long after a first signal others count for the same one:
// wrappers and terminals pass on what the process has got as well.
const repeatWindow = time.Second

// closeOnSignal returns a context that ends with the first SIGTERM or SIGINT,
// for a clean close; one later than repeatWindow ends the process. After stop
// none has an effect. SIGHUP, as of a terminal that goes, never has.
func closeOnSignal(log *slog.Logger) (ctx context.Context, stop func()) {
	signal.Ignore(syscall.SIGHUP)
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		var first time.Time
		for {
			var s os.Signal
			select {
			case s = <-signals:
			case <-done:
				return
			}
			select {
			case <-done:
				return
			default:
			}
			switch {
			case first.IsZero():
				first = time.Now()
				log.Info("closing; a signal more than a second from now ends the process at once", "signal", s.String())
				cancel()
			case time.Since(first) >= repeatWindow:
				log.Warn("ended before the close was complete", "signal", s.String())
				os.Exit(exitOfSignal(s))
			}
		}
	}()
	return ctx, func() {
		// The channel stays where signals go, full and read by nobody: the default would
		// end a process that has closed, and so does, where a signal is on its way to
		// another thread, the runtime's change from a channel to ignoring.
		close(done)
		wg.Wait()
		cancel()
	}
}

// exitOfSignal is the status that a shell shows for a process that a signal
// ended.
func exitOfSignal(s os.Signal) int {
	if number, ok := s.(syscall.Signal); ok {
		return 128 + int(number)
	}
	return 1
}

// pidFile names the process to scripts while the server runs.
type pidFile struct {
	path    string // empty: none
	written bool
}

func (p *pidFile) write() error {
	if p.path == "" || p.written {
		return nil
	}
	p.written = true
	return os.WriteFile(p.path, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644)
}

func (p *pidFile) remove() {
	if p.written {
		_ = os.Remove(p.path)
	}
}
