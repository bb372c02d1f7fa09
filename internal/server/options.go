package server

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	"kevy/aof"
	"kevy/internal/command"
	"kevy/internal/command/all"
	"kevy/internal/command/hyperloglog"
	"kevy/internal/config"
	"kevy/internal/ds"
	"kevy/internal/engine"
	"kevy/internal/exec"
	"kevy/resp"
	"kevy/shard"
)

func engineOptions(cfg *config.Config, log *slog.Logger) engine.Options {
	return engine.Options{
		Dir: cfg.Dir.Load(), Shards: int(cfg.Shards.Load()), DBs: int(cfg.Databases.Load()),
		NoFile: !cfg.AppendOnly.Load(), Fsync: fsyncPolicy(cfg), NoFeed: !cfg.Feed.Load(),
		FeedMemoryBytes: cfg.FeedBacklogBytes.Load(), FeedDiskBytes: cfg.FeedRetentionBytes.Load(), FeedAgeMs: cfg.FeedRetentionMs.Load(),
		FeedHoldBytes: cfg.FeedHoldMaxBytes.Load(),
		Recover:       recoverMode(cfg), Rewrite: rewriteRule(cfg), Foreign: exec.RunForeign(all.Table()), Logger: log, Version: Version(),
		MaxMemory:        maxMemory(cfg),
		SnapshotMaxBytes: cfg.FeedSnapshotMaxBytes.Load(), SnapshotLogBytes: cfg.FeedSnapshotLogBytes.Load(),
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
	if !cfg.AOFLoadTruncated.Load() {
		return aof.RecoverWhole
	}
	return aof.RecoverRefuse
}

func rewriteRule(cfg *config.Config) engine.RewriteRule {
	return engine.RewriteRule{Percentage: cfg.AutoAOFRewritePercentage.Load(), MinBytes: cfg.AutoAOFRewriteMinBytes.Load()}
}

// setLimits makes clients be held to what the settings say.
func (s *Server) setLimits() {
	lim := resp.DefaultLimits()
	lim.MaxBulkBytes = command.StringLimit() // no more than a key can hold, whatever the setting
	lim.MaxQueryBytes = s.cfg.ClientQueryBufferBytes.Load()
	s.limits.Store(&lim)
}

// watchConfig makes CONFIG SET take effect where a setting is not read each time
// it is needed.
func (s *Server) watchConfig() error {
	cfg := s.cfg
	encodings := func() error {
		s.store.Set().SetLimits(ds.Limits{
			HashMaxListpackEntries: int(cfg.HashMaxListpackEntries.Load()), HashMaxListpackValue: int(cfg.HashMaxListpackValueBytes.Load()),
			ZSetMaxListpackEntries: int(cfg.ZSetMaxListpackEntries.Load()), ZSetMaxListpackValue: int(cfg.ZSetMaxListpackValueBytes.Load()),
			SetMaxIntsetEntries: int(cfg.SetMaxIntsetEntries.Load()), ListMaxListpackSize: int(cfg.ListMaxListpackSize.Load()),
			StreamNodeMaxBytes: int(cfg.StreamNodeMaxBytes.Load()), StreamNodeMaxEntries: int(cfg.StreamNodeMaxEntries.Load()),
		})
		return nil
	}
	cfg.OnChange(encodings, &cfg.HashMaxListpackEntries, &cfg.HashMaxListpackValueBytes, &cfg.ZSetMaxListpackEntries,
		&cfg.ZSetMaxListpackValueBytes, &cfg.SetMaxIntsetEntries, &cfg.ListMaxListpackSize,
		&cfg.StreamNodeMaxBytes, &cfg.StreamNodeMaxEntries)
	cfg.OnChange(func() error { s.store.SetPolicy(fsyncPolicy(cfg)); return nil }, &cfg.AppendFsync)
	cfg.OnChange(func() error { s.store.SetRewriteRule(rewriteRule(cfg)); return nil }, &cfg.AutoAOFRewritePercentage, &cfg.AutoAOFRewriteMinBytes)
	lengths := func() error {
		command.MaxStringBytes.Store(cfg.ProtoMaxBulkBytes.Load())
		s.setLimits()
		return nil
	}
	cfg.OnChange(lengths, &cfg.ProtoMaxBulkBytes, &cfg.ClientQueryBufferBytes)
	uses := func() error {
		var lfu *shard.LFU
		if cfg.MaxMemoryPolicy.Load().CountsUses() {
			lfu = &shard.LFU{LogFactor: int(cfg.LFULogFactor.Load()), DecayMinutes: int(cfg.LFUDecayMinutes.Load())}
		}
		s.store.Set().SetLFU(lfu)
		return nil
	}
	slow := func() error {
		s.exec.SetBusyAfter(time.Duration(min(cfg.BusyReplyThresholdMs.Load(), math.MaxInt64/int64(time.Millisecond))) * time.Millisecond)
		return nil
	}
	cfg.OnChange(slow, &cfg.BusyReplyThresholdMs)
	cfg.OnChange(uses, &cfg.MaxMemoryPolicy, &cfg.LFULogFactor, &cfg.LFUDecayMinutes)
	memory := func() error { s.boundMemory(); return nil }
	cfg.OnChange(memory, &cfg.MaxMemoryBytes, &cfg.MaxMemoryPolicy, &cfg.MaxMemorySamples, &cfg.MaxMemoryTenacity, &cfg.MaxMemoryClients)
	sketches := func() error { hyperloglog.SparseMaxBytes.Store(cfg.HLLSparseMaxBytes.Load()); return nil }
	cfg.OnChange(sketches, &cfg.HLLSparseMaxBytes)
	cfg.OnChange(s.observeCommands, &cfg.SlowlogMicros, &cfg.SlowlogMaxEntries, &cfg.LatencyMonitorMs, &cfg.LatencyTracking)
	cfg.OnChange(func() error { s.users.SetPassword(cfg.RequirePass.Load()); return nil }, &cfg.RequirePass)
	events := func() error { s.store.Set().SetEvents(eventClasses(cfg.NotifyKeyspaceEvents.Load())); return nil }
	cfg.OnChange(events, &cfg.NotifyKeyspaceEvents)
	cfg.OnChange(func() error { s.tracking.trim(trimmedInTurn, 0); return nil }, &cfg.TrackingTableMaxKeys)
	cfg.OnChange(s.checkMaxClients, &cfg.MaxClients)
	cfg.OnChange(s.loadTLS, &cfg.TLSPort, &cfg.HTTPTLSPort, &cfg.TLSCertFile, &cfg.TLSKeyFile, &cfg.TLSKeyFilePass, &cfg.TLSCACertFile,
		&cfg.TLSCACertDir, &cfg.TLSAuthClients, &cfg.TLSProtocols, &cfg.TLSCiphers, &cfg.TLSCipherSuites, &cfg.TLSSessionCaching)
	cfg.OnChange(func() error { return s.rebind(byTCP) }, &cfg.Bind, &cfg.Port)
	cfg.OnChange(func() error { return s.rebind(byTLS) }, &cfg.Bind, &cfg.TLSPort)
	cfg.OnChange(s.rebindHTTP, &cfg.Bind, &cfg.HTTPPort, &cfg.HTTPTLSPort)
	return errors.Join(slow(), s.loadTLS(), lengths(), encodings(), uses(), sketches(), s.observeCommands(), memory(), events())
}

// renameCommands gives the table the names that the settings ask for.
func renameCommands(cfg *config.Config, table *command.Table) error {
	for _, l := range cfg.Renames() {
		if err := table.Rename(l.Words[0], l.Words[1]); err != nil {
			return fmt.Errorf("%s: rename-command %.80q: %w", l.Origin, l.Words[0], err)
		}
	}
	return nil
}

// RewriteConfig implements admin.Server. Users are in the file of settings where they
// have none of their own.
func (s *Server) RewriteConfig(all bool) error {
	users := [][]string{}
	if !s.HasUserFile() {
		for _, u := range s.users.All() {
			users = append(users, strings.Split(u.Line(), " ")[1:])
		}
	}
	err := s.cfg.Rewrite(map[string][][]string{"user": users}, all)
	switch {
	case err == nil:
		s.log.Info("the configuration file was rewritten", "file", s.cfg.File())
	case !errors.Is(err, config.ErrNoFile):
		s.log.Warn("the configuration file cannot be rewritten", "file", s.cfg.File(), "error", err)
	}
	return err
}
