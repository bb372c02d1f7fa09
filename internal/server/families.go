package server

import (
	"crypto/rand"
	"encoding/hex"
	"time"

	"kevy/aof"
	"kevy/internal/command"
	"kevy/internal/command/admin"
	"kevy/internal/command/all"
	"kevy/internal/command/changes"
	"kevy/internal/command/connection"
	"kevy/internal/config"
	"kevy/internal/ds"
	"kevy/internal/engine"
	"kevy/internal/exec"
	"log/slog"
)

// redisVersion is the version that clients are told, beside kevy's own: they
// choose by it which commands to use, Sidekiq by comparing text.
const redisVersion = "7.2.4"

// Version implements connection.Server.
func (s *Server) Version() string { return redisVersion }

// commandTable assembles what this server offers: the data commands, those of
// transactions and connections, the feed's and the operator's.
func (s *Server) commandTable() *command.Table {
	var table *command.Table
	table = command.NewTable(
		all.Data(), exec.Commands(), connection.Commands(s), changes.Commands(s.store.Feed(), s.store),
		admin.Commands(s, func() *command.Table { return table }),
	)
	return table
}

func engineOptions(cfg *config.Config, log *slog.Logger) engine.Options {
	return engine.Options{
		Dir: cfg.Dir.Load(), Shards: int(cfg.Shards.Load()), DBs: int(cfg.Databases.Load()),
		NoFile: !cfg.AppendOnly.Load(), Fsync: fsyncPolicy(cfg), NoFeed: !cfg.Feed.Load(),
		FeedMemoryBytes: cfg.FeedBacklogBytes.Load(), FeedDiskBytes: cfg.FeedRetentionBytes.Load(), FeedAgeMs: cfg.FeedRetentionMs.Load(),
		Recover: recoverMode(cfg), Rewrite: rewriteRule(cfg), Foreign: exec.RunForeign(all.Table()), Logger: log,
	}
}

func fsyncPolicy(cfg *config.Config) aof.Policy {
	switch cfg.AppendFsync.Load() {
	case config.FsyncAlways:
		return aof.PolicyAlways
	case config.FsyncNo:
		return aof.PolicyNo
	}
	return aof.PolicyEverySec
}

func recoverMode(cfg *config.Config) aof.RecoverMode {
	switch cfg.Recover.Load() {
	case config.RecoverTruncate:
		return aof.RecoverTruncate
	case config.RecoverSkip:
		return aof.RecoverSkip
	}
	return aof.RecoverRefuse
}

func rewriteRule(cfg *config.Config) engine.RewriteRule {
	return engine.RewriteRule{Percentage: cfg.AutoAOFRewritePercentage.Load(), MinBytes: cfg.AutoAOFRewriteMinBytes.Load()}
}

// watchConfig makes CONFIG SET take effect.
func (s *Server) watchConfig() error {
	cfg := s.cfg
	encodings := func() error {
		s.store.Set().SetLimits(ds.Limits{
			HashMaxListpackEntries: int(cfg.HashMaxListpackEntries.Load()), HashMaxListpackValue: int(cfg.HashMaxListpackValueBytes.Load()),
			ZSetMaxListpackEntries: int(cfg.ZSetMaxListpackEntries.Load()), ZSetMaxListpackValue: int(cfg.ZSetMaxListpackValueBytes.Load()),
			SetMaxIntsetEntries: int(cfg.SetMaxIntsetEntries.Load()), ListMaxListpackSize: int(cfg.ListMaxListpackSize.Load()),
		})
		return nil
	}
	cfg.OnChange(encodings, &cfg.HashMaxListpackEntries, &cfg.HashMaxListpackValueBytes, &cfg.ZSetMaxListpackEntries,
		&cfg.ZSetMaxListpackValueBytes, &cfg.SetMaxIntsetEntries, &cfg.ListMaxListpackSize)
	cfg.OnChange(func() error { s.store.SetPolicy(fsyncPolicy(cfg)); return nil }, &cfg.AppendFsync)
	cfg.OnChange(func() error { s.store.SetRewriteRule(rewriteRule(cfg)); return nil }, &cfg.AutoAOFRewritePercentage, &cfg.AutoAOFRewriteMinBytes)
	bulk := func() error { command.MaxStringBytes.Store(cfg.ProtoMaxBulkBytes.Load()); return nil }
	cfg.OnChange(bulk, &cfg.ProtoMaxBulkBytes)
	if err := bulk(); err != nil {
		return err
	}
	return encodings()
}

func newRunID() string {
	var b [20]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(b[:])
}

// Shutdown stops the server; serve closes the store.
func (s *Server) Shutdown() { s.stopOnce.Do(func() { close(s.shutdown) }) }

// cronEvery is how often idle connections are looked at.
const cronEvery = time.Second

// startCron starts the housekeeping and returns what stops it.
func (s *Server) startCron() (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(cronEvery)
		defer tick.Stop()
		var idle idleMemory
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				idle.giveBack(s.exec.Stats().Commands.Load())
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}
