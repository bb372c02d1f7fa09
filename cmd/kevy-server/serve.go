package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"

	"kevy/internal/config"
	"kevy/internal/server"
)

// serve runs the server until a signal or SHUTDOWN ends it.
func serve(args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	cfg, err := config.Load(args, stdin)
	if err != nil {
		return fmt.Errorf("the settings are not right:\n%w", err)
	}
	log, closeLog, err := openLog(cfg, stdout)
	if err != nil {
		return err
	}
	defer closeLog()
	for _, s := range cfg.GivenWithoutEffect() {
		log.Warn("this setting has no effect", "setting", s.Name, "value", s.Text(), "why", s.Why())
	}

	ctx, stop := closeOnSignal(log)
	defer stop()
	pid := pidFile{path: cfg.PIDFile.Load()}
	if pid.path != "" {
		pid.path = cfg.Path(pid.path)
	}
	defer pid.remove()
	err = server.Run(ctx, cfg, log, func(addr string) {
		if cfg.Port.Load() == 0 {
			fmt.Fprintf(stdout, "listening on %s\n", addr)
		}
		log.Info("ready to accept connections", "address", addr)
		// Only a server that has the directory may say that it is its.
		if err := pid.write(); err != nil {
			log.Warn("the pid file cannot be written", "error", err)
		}
	})
	if err != nil {
		if cfg.LogFile.Load() != "" {
			log.Error("the server has stopped", "error", err)
		}
		return err
	}
	log.Info("closed")
	return nil
}

// closeOnSignal returns a context that ends with the first SIGTERM or SIGINT,
// for a clean close; the second one ends the process.
func closeOnSignal(log *slog.Logger) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		select {
		case s := <-signals:
			log.Info("closing; a second signal ends the process at once", "signal", s.String())
			cancel()
		case <-done:
			return
		}
		select {
		case s := <-signals:
			log.Warn("ended before the close was complete", "signal", s.String())
			os.Exit(exitOfSignal(s))
		case <-done:
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
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
