package server

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"syscall"
	"time"

	"kevy/internal/command/admin"
	"kevy/internal/config"
)

// Config implements admin.Server.
func (s *Server) Config() *config.Config { return s.cfg }

// Rewrite implements admin.Server.
func (s *Server) Rewrite() error { return s.store.StartRewrite() }

// PauseExpiry implements admin.Server.
func (s *Server) PauseExpiry(pause bool) { s.store.PauseExpiry(pause) }

// LastSaveUnix implements admin.Server.
func (s *Server) LastSaveUnix() int64 {
	if st := s.store.RewriteStatus(); !st.LastEnd.IsZero() {
		return st.LastEnd.Unix()
	}
	return s.started.Unix()
}

// ResetStats implements admin.Server.
func (s *Server) ResetStats() {
	s.stats.connections.Store(0)
	s.stats.rejected.Store(0)
	s.stats.inputBytes.Store(0)
	s.stats.outputBytes.Store(0)
	s.exec.Stats().Reset()
	s.store.Set().ResetExpired()
}

// fields gathers the lines of a section.
type fields []admin.Field

func (f *fields) text(name, value string) { *f = append(*f, admin.Field{Name: name, Value: value}) }
func (f *fields) num(name string, n int64) {
	f.text(name, strconv.FormatInt(n, 10))
}
func (f *fields) flag(name string, on bool) {
	if on {
		f.num(name, 1)
	} else {
		f.num(name, 0)
	}
}

// Info implements admin.Server. The sections and fields are Redis's where it
// has them; those that stand for a mechanism that is not here are fixed.
func (s *Server) Info(tx admin.InfoTx) []admin.Section {
	return []admin.Section{
		{Name: "Server", Fields: s.infoServer()},
		{Name: "Clients", Fields: s.infoClients()},
		{Name: "Memory", Fields: s.infoMemory()},
		{Name: "Persistence", Fields: s.infoPersistence()},
		{Name: "Stats", Fields: s.infoStats()},
		{Name: "Replication", Fields: s.infoReplication()},
		{Name: "CPU", Fields: infoCPU()},
		{Name: "Modules"},
		{Name: "Errorstats"},
		{Name: "Cluster", Fields: []admin.Field{{Name: "cluster_enabled", Value: "0"}}},
		{Name: "Feed", Fields: s.infoFeed()},
		{Name: "Keyspace", Fields: infoKeyspace(tx)},
	}
}

func (s *Server) infoServer() (f fields) {
	now := time.Now()
	up := int64(now.Sub(s.started) / time.Second)
	f.text("redis_version", redisVersion)
	f.text("kevy_version", Version())
	f.text("redis_git_sha1", "00000000")
	f.text("redis_git_dirty", "0")
	f.text("redis_build_id", "0")
	f.text("redis_mode", "standalone")
	f.text("os", operatingSystem())
	f.num("arch_bits", strconv.IntSize)
	f.text("monotonic_clock", "Go runtime")
	f.text("multiplexing_api", "Go netpoll")
	f.text("go_version", runtime.Version())
	f.num("process_id", int64(pid()))
	f.text("process_supervised", "no")
	f.text("run_id", s.runID)
	f.num("tcp_port", s.port())
	f.num("server_time_usec", now.UnixMicro())
	f.num("uptime_in_seconds", up)
	f.num("uptime_in_days", up/86400)
	f.num("hz", 10)
	f.num("configured_hz", 10)
	f.num("lru_clock", now.Unix()&(1<<24-1))
	exe, _ := os.Executable()
	f.text("executable", exe)
	f.text("config_file", s.cfg.File())
	f.num("io_threads_active", 0)
	return f
}

// Version returns kevy's own version, as the build recorded it.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return strings.TrimPrefix(info.Main.Version, "v")
	}
	return "0.1.0-dev"
}

func (s *Server) infoClients() (f fields) {
	f.num("connected_clients", int64(s.ConnectedClients()))
	f.num("cluster_connections", 0)
	f.num("maxclients", s.cfg.MaxClients.Load())
	f.num("client_recent_max_input_buffer", 0)
	f.num("client_recent_max_output_buffer", 0)
	f.num("blocked_clients", s.stats.blocked.Load())
	f.num("tracking_clients", 0)
	f.num("clients_in_timeout_table", 0)
	return f
}

func (s *Server) infoMemory() (f fields) {
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(samples)
	used := int64(samples[0].Value.Uint64())
	resident := int64(samples[1].Value.Uint64() - samples[2].Value.Uint64())
	for peak := s.stats.peakMemory.Load(); used > peak && !s.stats.peakMemory.CompareAndSwap(peak, used); {
		peak = s.stats.peakMemory.Load()
	}
	peak := max(used, s.stats.peakMemory.Load())
	bytes := func(name string, n int64) {
		f.num(name, n)
		f.text(name+"_human", humanBytes(n))
	}
	bytes("used_memory", used)
	bytes("used_memory_rss", resident)
	bytes("used_memory_peak", peak)
	f.text("used_memory_peak_perc", fmt.Sprintf("%.2f%%", 100*float64(used)/float64(max(peak, 1))))
	f.num("used_memory_overhead", 0)
	f.num("used_memory_startup", 0)
	f.num("used_memory_dataset", used)
	f.text("used_memory_dataset_perc", "100.00%")
	bytes("total_system_memory", totalSystemMemory())
	f.num("used_memory_lua", 0)
	f.num("used_memory_vm_eval", 0)
	f.text("used_memory_lua_human", "0B")
	f.num("used_memory_scripts_eval", 0)
	f.num("number_of_cached_scripts", 0)
	f.num("number_of_functions", 0)
	f.num("number_of_libraries", 0)
	bytes("maxmemory", s.cfg.MaxMemoryBytes.Load())
	f.text("maxmemory_policy", s.cfg.MaxMemoryPolicy.String())
	f.text("mem_fragmentation_ratio", fmt.Sprintf("%.2f", float64(resident)/float64(max(used, 1))))
	f.num("mem_fragmentation_bytes", resident-used)
	f.num("mem_aof_buffer", s.store.LogStatus().UnwrittenBytes)
	f.text("mem_allocator", "go")
	f.num("active_defrag_running", 0)
	f.num("lazyfree_pending_objects", 0)
	f.num("lazyfreed_objects", 0)
	return f
}

// humanBytes writes a size as Redis does.
func humanBytes(n int64) string {
	const units = "BKMGTP"
	f, i := float64(n), 0
	for f >= 1024 && i < len(units)-1 {
		f /= 1024
		i++
	}
	if i == 0 {
		return strconv.FormatInt(n, 10) + "B"
	}
	return fmt.Sprintf("%.2f%c", f, units[i])
}

func (s *Server) infoPersistence() (f fields) {
	log, rw, report := s.store.LogStatus(), s.store.RewriteStatus(), s.store.Report()
	f.num("loading", 0)
	f.num("async_loading", 0)
	f.num("rdb_changes_since_last_save", int64(log.Last-log.BaseLSN))
	f.num("rdb_bgsave_in_progress", 0)
	f.num("rdb_last_save_time", s.LastSaveUnix())
	f.text("rdb_last_bgsave_status", "ok")
	f.num("rdb_last_bgsave_time_sec", -1)
	f.num("rdb_current_bgsave_time_sec", -1)
	f.num("rdb_saves", 0)
	f.num("rdb_last_cow_size", 0)
	f.num("rdb_last_load_keys_expired", 0)
	f.num("rdb_last_load_keys_loaded", int64(report.Keys))
	f.flag("aof_enabled", !s.store.InMemory())
	f.flag("aof_rewrite_in_progress", rw.Running)
	f.num("aof_rewrite_scheduled", 0)
	f.num("aof_last_rewrite_time_sec", rw.LastSeconds())
	f.num("aof_current_rewrite_time_sec", rw.CurrentSeconds())
	f.text("aof_last_bgrewrite_status", okOrErr(rw.LastErr == nil))
	f.num("aof_rewrites", rw.Count)
	f.num("aof_rewrites_consecutive_failures", rw.Failures)
	f.text("aof_last_write_status", okOrErr(log.Err == nil))
	f.num("aof_last_cow_size", 0)
	if !s.store.InMemory() {
		f.num("aof_current_size", log.BaseBytes+log.LogBytes)
		f.num("aof_base_size", log.BaseBytes)
		f.num("aof_pending_rewrite", 0)
		f.num("aof_buffer_length", log.UnwrittenBytes)
		f.num("aof_pending_bio_fsync", 0)
		f.num("aof_delayed_fsync", 0)
	}
	f.num("kevy_last_lsn", int64(log.Last))
	f.num("kevy_written_lsn", int64(log.Written))
	f.num("kevy_durable_lsn", int64(log.Durable))
	f.text("kevy_recovery", report.Verdict())
	if log.Err != nil {
		f.text("kevy_log_error", strings.ReplaceAll(log.Err.Error(), "\n", " "))
	}
	return f
}

func okOrErr(ok bool) string {
	if ok {
		return "ok"
	}
	return "err"
}

func (s *Server) infoStats() (f fields) {
	st := s.exec.Stats()
	f.num("total_connections_received", s.stats.connections.Load())
	f.num("total_commands_processed", st.Commands.Load())
	f.num("instantaneous_ops_per_sec", s.stats.opsPerSecond.Load())
	f.num("total_net_input_bytes", s.stats.inputBytes.Load())
	f.num("total_net_output_bytes", s.stats.outputBytes.Load())
	f.text("instantaneous_input_kbps", "0.00")
	f.text("instantaneous_output_kbps", "0.00")
	f.num("rejected_connections", s.stats.rejected.Load())
	f.num("sync_full", 0)
	f.num("sync_partial_ok", 0)
	f.num("sync_partial_err", 0)
	f.num("expired_keys", s.store.Set().Expired())
	f.text("expired_stale_perc", "0.00")
	f.num("evicted_keys", 0)
	f.num("evicted_clients", 0)
	f.num("keyspace_hits", st.KeyspaceHits.Load())
	f.num("keyspace_misses", st.KeyspaceMisses.Load())
	f.num("pubsub_channels", 0)
	f.num("pubsub_patterns", 0)
	f.num("pubsubshard_channels", 0)
	f.num("latest_fork_usec", 0)
	f.num("total_forks", 0)
	f.num("tracking_total_keys", 0)
	f.num("unexpected_error_replies", 0)
	f.num("total_error_replies", st.Errors.Load())
	f.num("kevy_handler_panics", s.exec.Panics())
	return f
}

func (s *Server) infoReplication() (f fields) {
	f.text("role", "master")
	f.num("connected_slaves", 0)
	f.text("master_failover_state", "no-failover")
	f.text("master_replid", s.runID)
	f.text("master_replid2", strings.Repeat("0", 40))
	f.num("master_repl_offset", 0)
	f.num("second_repl_offset", -1)
	f.num("repl_backlog_active", 0)
	f.num("repl_backlog_size", 0)
	f.num("repl_backlog_first_byte_offset", 0)
	f.num("repl_backlog_histlen", 0)
	return f
}

func infoCPU() (f fields) {
	var use, children syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &use)
	_ = syscall.Getrusage(syscall.RUSAGE_CHILDREN, &children)
	sec := func(t syscall.Timeval) string { return fmt.Sprintf("%d.%06d", t.Sec, t.Usec) }
	f.text("used_cpu_sys", sec(use.Stime))
	f.text("used_cpu_user", sec(use.Utime))
	f.text("used_cpu_sys_children", sec(children.Stime))
	f.text("used_cpu_user_children", sec(children.Utime))
	return f
}

func infoKeyspace(tx admin.InfoTx) (f fields) {
	for db, st := range tx.Stats() {
		if st.Keys > 0 {
			f.text("db"+strconv.Itoa(db), fmt.Sprintf("keys=%d,expires=%d,avg_ttl=0", st.Keys, st.Expires))
		}
	}
	return f
}
