package server

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"kevy/internal/command"
	"kevy/internal/command/admin"
	"kevy/internal/config"
	"kevy/internal/engine"
	"kevy/internal/pubsub"
)

var _ admin.Server = (*Server)(nil)

// Config implements admin.Server.
func (s *Server) Config() *config.Config { return s.cfg }

// Rewrite implements admin.Server.
func (s *Server) Rewrite() error { return s.store.StartRewrite() }

// PauseExpiry implements admin.Server.
func (s *Server) PauseExpiry(pause bool) { s.store.PauseExpiry(pause) }

// PauseHousekeeping implements admin.Server.
func (s *Server) PauseHousekeeping(pause bool) { s.cronPaused.Store(pause) }

// Reload implements admin.Server.
func (s *Server) Reload(save bool) error {
	if save {
		return s.store.Reload(engine.FromRewrite)
	}
	return s.store.Reload(engine.FromLog)
}

// Keys implements admin.Server.
func (s *Server) Keys() int { return s.store.Keys() }

// ChangeReplID implements admin.Server.
func (s *Server) ChangeReplID() {
	id := newRunID()
	s.replID.Store(&id)
}

// Log implements admin.Server.
func (s *Server) Log(line string) { s.log.Warn(line) }

// ResetStats implements admin.Server.
func (s *Server) ResetStats() {
	s.stats.reset()
	s.exec.Stats().Reset()
	s.store.Set().ResetExpired()
	s.store.Set().ResetEvicted()
	s.store.Set().ResetFreedLater()
	s.store.ResetEvictionExceeded()
}

// Info implements admin.Server. The sections and fields are Redis's, in its
// order; ours begin with kevy_ or feed_. What stands for a mechanism that is not
// here is fixed.
func (s *Server) Info(tx admin.InfoTx) []admin.Section {
	section := func(title string, fill func(*fields)) admin.Section {
		return admin.Section{Title: title, Fields: func() []admin.Field {
			var f fields
			fill(&f)
			return f
		}}
	}
	modules := section("Modules", func(*fields) {})
	modules.Alias = "module_list"
	commands := section("Commandstats", s.infoCommands)
	commands.Kind = admin.OnRequest
	latencies := section("Latencystats", s.infoLatencies)
	latencies.Kind = admin.OnRequest
	return []admin.Section{
		section("Server", s.infoServer),
		section("Clients", s.infoClients),
		section("Memory", func(f *fields) { s.infoMemory(f, tx) }),
		section("Persistence", s.infoPersistence),
		section("Stats", s.infoStats),
		section("Replication", s.infoReplication),
		section("CPU", infoCPU),
		modules,
		commands,
		section("Errorstats", s.infoErrors),
		latencies,
		section("Cluster", func(f *fields) { f.num("cluster_enabled", 0) }),
		section("Feed", s.infoFeed),
		section("Keyspace", func(f *fields) { infoKeyspace(f, tx) }),
	}
}

// fields gathers the lines of a section.
type fields []admin.Field

func (f *fields) text(name, value string) { *f = append(*f, admin.Field{Name: name, Value: value}) }

func (f *fields) num(name string, n int64) { f.text(name, strconv.FormatInt(n, 10)) }

func (f *fields) flag(name string, on bool) {
	if on {
		f.num(name, 1)
	} else {
		f.num(name, 0)
	}
}

// zero adds fields that are always 0.
func (f *fields) zero(names ...string) {
	for _, name := range names {
		f.num(name, 0)
	}
}

// bytes adds a size, and the same for people.
func (f *fields) bytes(name string, n int64) {
	f.num(name, n)
	f.text(name+"_human", humanBytes(n))
}

// ratio adds a quotient with two digits.
func (f *fields) ratio(name string, n, of int64) {
	f.text(name, fmt.Sprintf("%.2f", float64(n)/float64(max(of, 1))))
}

// percent adds a share.
func (f *fields) percent(name string, n, of int64) {
	f.text(name, fmt.Sprintf("%.2f%%", 100*float64(n)/float64(max(of, 1))))
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

func okOrErr(ok bool) string {
	if ok {
		return "ok"
	}
	return "err"
}

func (s *Server) infoServer(f *fields) {
	now, up := time.Now(), int64(s.uptime()/time.Second)
	port := s.ports.number()
	f.text("redis_version", redisVersion)
	f.text("redis_git_sha1", "00000000")
	f.zero("redis_git_dirty")
	f.text("redis_build_id", "0")
	f.text("redis_mode", "standalone")
	f.text("os", operatingSystem())
	f.num("arch_bits", strconv.IntSize)
	f.text("monotonic_clock", "POSIX clock_gettime")
	f.text("multiplexing_api", multiplexing())
	f.text("atomicvar_api", "sync/atomic")
	f.text("gcc_version", "0.0.0")
	f.num("process_id", int64(os.Getpid()))
	f.text("process_supervised", "no")
	f.text("run_id", s.runID)
	f.num("tcp_port", port)
	f.num("server_time_usec", now.UnixMicro())
	f.num("uptime_in_seconds", up)
	f.num("uptime_in_days", up/86400)
	f.num("hz", int64(time.Second/cronEvery))
	f.num("configured_hz", int64(time.Second/cronEvery))
	f.num("lru_clock", now.Unix()&(1<<24-1))
	f.text("executable", executable())
	f.text("config_file", s.cfg.File())
	f.zero("io_threads_active")
	f.text("kevy_version", Version())
	f.text("kevy_go_version", runtime.Version())
}

// multiplexing is what the runtime waits for many connections with.
func multiplexing() string {
	if runtime.GOOS == "linux" {
		return "epoll"
	}
	return "kqueue"
}

func (s *Server) infoClients(f *fields) {
	maxInput, maxOutput := 0, 0
	for _, c := range s.Clients() {
		maxInput = max(maxInput, c.QueryBytes+c.QueryFree)
		maxOutput = max(maxOutput, c.Unsent)
	}
	f.num("connected_clients", int64(s.ConnectedClients()))
	f.zero("cluster_connections")
	f.num("maxclients", s.cfg.MaxClients.Load())
	f.num("client_recent_max_input_buffer", int64(maxInput))
	f.num("client_recent_max_output_buffer", int64(maxOutput))
	blocked, timed := s.exec.Stats().Blocked()
	f.num("blocked_clients", blocked+s.stats.blocked.Load())
	f.num("tracking_clients", int64(s.tracking.clients()))
	f.num("clients_in_timeout_table", timed)
}

// usedMemory is what the server counts that it holds. Beyond it the process has garbage
// that is not collected yet, and the log's window for readers of the feed.
func (s *Server) usedMemory() int64 {
	return s.store.CountedBytes() + s.store.LogStatus().UnwrittenBytes
}

func (s *Server) infoMemory(f *fields, tx admin.InfoTx) {
	m := s.Memory(tx)
	f.bytes("used_memory", m.Used)
	f.bytes("used_memory_rss", m.Resident)
	f.bytes("used_memory_peak", m.Peak)
	f.percent("used_memory_peak_perc", m.Used, m.Peak)
	f.num("used_memory_overhead", m.Overhead)
	f.num("used_memory_startup", m.Startup)
	f.num("used_memory_dataset", m.Dataset())
	f.percent("used_memory_dataset_perc", m.Dataset(), m.Used-min(m.Startup, m.Used))
	f.num("allocator_allocated", m.Allocated)
	f.num("allocator_active", m.Active)
	f.num("allocator_resident", m.AllocatorResident)
	f.bytes("total_system_memory", totalSystemMemory())
	evalBytes, functionBytes := s.scripts.StateBytes()
	f.num("used_memory_lua", evalBytes)
	f.num("used_memory_vm_eval", evalBytes)
	f.text("used_memory_lua_human", humanBytes(evalBytes))
	libs, functions := s.scripts.Counts()
	f.num("used_memory_scripts_eval", m.Scripts)
	f.num("number_of_cached_scripts", int64(m.CachedScripts))
	f.num("number_of_functions", functions)
	f.num("number_of_libraries", libs)
	f.num("used_memory_vm_functions", functionBytes)
	f.bytes("used_memory_vm_total", evalBytes+functionBytes)
	f.num("used_memory_functions", m.Libraries)
	f.bytes("used_memory_scripts", m.Scripts+m.Libraries)
	f.bytes("maxmemory", s.cfg.MaxMemoryBytes.Load())
	f.text("maxmemory_policy", s.cfg.MaxMemoryPolicy.String())
	f.ratio("allocator_frag_ratio", m.Active, m.Allocated)
	f.num("allocator_frag_bytes", m.Active-m.Allocated)
	f.ratio("allocator_rss_ratio", m.AllocatorResident, m.Active)
	f.num("allocator_rss_bytes", m.AllocatorResident-m.Active)
	f.ratio("rss_overhead_ratio", m.Resident, m.AllocatorResident)
	f.num("rss_overhead_bytes", m.Resident-m.AllocatorResident)
	f.ratio("mem_fragmentation_ratio", m.Resident, m.Used)
	f.num("mem_fragmentation_bytes", m.Resident-m.Used)
	f.num("mem_not_counted_for_evict", m.Log)
	f.zero("mem_replication_backlog", "mem_total_replication_buffers", "mem_clients_slaves")
	f.num("mem_clients_normal", m.Clients)
	f.zero("mem_cluster_links")
	f.num("mem_aof_buffer", m.Log)
	f.text("mem_allocator", "go")
	f.zero("active_defrag_running", "lazyfree_pending_objects")
	f.num("lazyfreed_objects", s.store.Set().FreedLater())
	f.num("kevy_log_memory", s.store.LogStatus().MemoryBytes)
}

func (s *Server) infoPersistence(f *fields) {
	log, rw, report := s.store.LogStatus(), s.store.RewriteStatus(), s.store.Report()
	f.zero("loading", "async_loading", "current_cow_peak", "current_cow_size", "current_cow_size_age")
	f.text("current_fork_perc", "0.00")
	f.zero("current_save_keys_processed", "current_save_keys_total")
	s.infoSaves(f, log.Last, log.BaseLSN)
	f.zero("rdb_last_cow_size", "rdb_last_load_keys_expired")
	f.num("rdb_last_load_keys_loaded", int64(report.Keys))
	f.flag("aof_enabled", !s.store.InMemory())
	f.flag("aof_rewrite_in_progress", rw.Running)
	f.zero("aof_rewrite_scheduled")
	f.num("aof_last_rewrite_time_sec", rw.LastSeconds())
	f.num("aof_current_rewrite_time_sec", rw.CurrentSeconds())
	f.text("aof_last_bgrewrite_status", okOrErr(rw.LastErr == nil))
	f.num("aof_rewrites", rw.Count)
	f.num("aof_rewrites_consecutive_failures", rw.Failures)
	f.text("aof_last_write_status", okOrErr(log.Err == nil))
	f.zero("aof_last_cow_size", "module_fork_in_progress", "module_fork_last_cow_size")
	if !s.store.InMemory() {
		f.num("aof_current_size", log.BaseBytes+log.LogBytes)
		f.num("aof_base_size", log.BaseBytes)
		f.zero("aof_pending_rewrite")
		f.num("aof_buffer_length", log.UnwrittenBytes)
		f.zero("aof_pending_bio_fsync", "aof_delayed_fsync")
	}
	f.num("kevy_last_lsn", int64(log.Last))
	f.num("kevy_written_lsn", int64(log.Written))
	f.num("kevy_durable_lsn", int64(log.Durable))
	f.num("kevy_fsyncs", int64(log.Fsyncs))
	f.num("kevy_last_fsync_usec", log.LastFsync.Microseconds())
	f.text("kevy_recovery", report.Verdict())
	if log.Err != nil {
		f.text("kevy_log_error", strings.ReplaceAll(log.Err.Error(), "\n", " "))
	}
}

func (s *Server) infoStats(f *fields) {
	st := s.exec.Stats()
	_, errorReplies := st.Errors()
	kbps := func(name string, r *rate) {
		f.text(name, fmt.Sprintf("%.2f", float64(r.perSecond.Load())/1024))
	}
	f.num("total_connections_received", s.stats.connections.Load())
	f.num("total_commands_processed", st.Commands())
	f.num("instantaneous_ops_per_sec", s.stats.commandRate.perSecond.Load())
	f.num("total_net_input_bytes", s.stats.input.bytes.Load())
	f.num("total_net_output_bytes", s.stats.output.bytes.Load())
	f.zero("total_net_repl_input_bytes", "total_net_repl_output_bytes")
	kbps("instantaneous_input_kbps", &s.stats.inputRate)
	kbps("instantaneous_output_kbps", &s.stats.outputRate)
	f.text("instantaneous_input_repl_kbps", "0.00")
	f.text("instantaneous_output_repl_kbps", "0.00")
	f.num("rejected_connections", s.stats.rejected.Load())
	f.zero("sync_full", "sync_partial_ok", "sync_partial_err")
	f.num("expired_subkeys", s.store.Set().ExpiredFields())
	f.num("expired_keys", s.store.Set().Expired())
	f.text("expired_stale_perc", "0.00")
	f.zero("expired_time_cap_reached_count", "expire_cycle_cpu_milliseconds")
	f.num("evicted_keys", s.store.Set().Evicted())
	f.num("evicted_clients", s.stats.evicted.Load())
	current, total := s.store.EvictionExceeded()
	f.num("total_eviction_exceeded_time", total.Milliseconds())
	f.num("current_eviction_exceeded_time", current.Milliseconds())
	f.num("keyspace_hits", st.KeyspaceHits())
	f.num("keyspace_misses", st.KeyspaceMisses())
	f.num("pubsub_channels", int64(s.hub.Count(pubsub.Channels)))
	f.num("pubsub_patterns", int64(s.hub.Count(pubsub.Patterns)))
	f.num("pubsubshard_channels", int64(s.hub.Count(pubsub.Shard)))
	f.zero("latest_fork_usec", "total_forks", "migrate_cached_sockets",
		"slave_expires_tracked_keys", "active_defrag_hits", "active_defrag_misses", "active_defrag_key_hits", "active_defrag_key_misses",
		"total_active_defrag_time", "current_active_defrag_time")
	keys, items := s.tracking.table.size()
	f.num("tracking_total_keys", keys)
	f.num("tracking_total_items", items)
	f.num("tracking_total_prefixes", int64(s.tracking.prefixCount()))
	f.zero("unexpected_error_replies")
	f.num("total_error_replies", errorReplies)
	f.zero("dump_payload_sanitizations")
	f.num("total_reads_processed", s.stats.input.calls.Load())
	f.num("total_writes_processed", s.stats.output.calls.Load())
	f.zero("io_threaded_reads_processed", "io_threaded_writes_processed", "reply_buffer_shrinks", "reply_buffer_expands")
	f.num("kevy_handler_panics", st.Panics())
}

func (s *Server) infoReplication(f *fields) {
	f.text("role", "master")
	f.zero("connected_slaves")
	f.text("master_failover_state", "no-failover")
	f.text("master_replid", *s.replID.Load())
	f.text("master_replid2", strings.Repeat("0", 40))
	f.zero("master_repl_offset")
	f.num("second_repl_offset", -1)
	f.zero("repl_backlog_active", "repl_backlog_size", "repl_backlog_first_byte_offset", "repl_backlog_histlen")
}

func infoCPU(f *fields) {
	var own, children syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &own)
	_ = syscall.Getrusage(syscall.RUSAGE_CHILDREN, &children)
	seconds := func(name string, t syscall.Timeval) { f.text(name, fmt.Sprintf("%d.%06d", t.Sec, t.Usec)) }
	seconds("used_cpu_sys", own.Stime)
	seconds("used_cpu_user", own.Utime)
	seconds("used_cpu_sys_children", children.Stime)
	seconds("used_cpu_user_children", children.Utime)
	// All threads do what the main thread does in Redis.
	seconds("used_cpu_sys_main_thread", own.Stime)
	seconds("used_cpu_user_main_thread", own.Utime)
}

func (s *Server) infoCommands(f *fields) {
	add := func(spec *command.Spec) {
		st := s.exec.Stats().Command(spec)
		if st.Calls == 0 && st.Rejected == 0 && st.Failed == 0 {
			return
		}
		f.text("cmdstat_"+spec.FullName(), fmt.Sprintf("calls=%d,usec=%d,usec_per_call=%.2f,rejected_calls=%d,failed_calls=%d",
			st.Calls, st.Microseconds, float64(st.Microseconds)/float64(max(st.Calls, 1)), st.Rejected, st.Failed))
	}
	for _, spec := range s.exec.Table().All() {
		add(spec)
		for _, sub := range spec.Sub {
			add(sub)
		}
	}
}

// infoLatencies shows in microseconds which duration so many percent of the calls of
// a command did not pass.
func (s *Server) infoLatencies(f *fields) {
	if !s.cfg.LatencyTracking.Load() {
		return
	}
	percents := s.cfg.LatencyPercentiles.Load()
	add := func(spec *command.Spec) {
		h := s.Latency(spec)
		if h == nil || h.Count() == 0 {
			return
		}
		words := make([]string, len(percents))
		for i, p := range percents {
			n, _ := strconv.ParseFloat(p, 64) // the setting takes nothing else
			words[i] = fmt.Sprintf("p%s=%.3f", p, float64(h.Percentile(n))/1000)
		}
		f.text("latency_percentiles_usec_"+spec.FullName(), strings.Join(words, ","))
	}
	for _, spec := range s.exec.Table().All() {
		add(spec)
		for _, sub := range spec.Sub {
			add(sub)
		}
	}
}

func (s *Server) infoErrors(f *fields) {
	kinds, _ := s.exec.Stats().Errors()
	for _, e := range kinds {
		f.text("errorstat_"+safeName(e.Code), fmt.Sprintf("count=%d", e.Count))
	}
}

// safeName replaces what would break a line of INFO, as Redis does.
func safeName(name string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("#:\n\r", r) {
			return '_'
		}
		return r
	}, name)
}

// infoFeed is the section on the change feed: the stream ALL.
func (s *Server) infoFeed(f *fields) {
	f.flag("feed_enabled", !s.store.FeedDisabled())
	source := s.store.Feed()
	f.num("feed_shards", int64(source.Shards()))
	info, err := source.Info(source.All())
	if err != nil {
		f.text("feed_error", err.Error())
		return
	}
	f.num("feed_generation", int64(info.Generation))
	f.num("feed_next_offset", int64(info.Next))
	f.text("feed_oldest", strconv.FormatUint(info.Oldest.Generation, 10)+" "+strconv.FormatUint(info.Oldest.Offset, 10))
	f.num("feed_memory_bytes", info.MemoryBytes)
	f.num("feed_disk_bytes", info.DiskBytes)
	f.num("feed_waiting_readers", int64(info.Waiting))
	f.num("feed_subscriptions", int64(s.subscriptions()))
	holds, broken := source.Holds().Count()
	f.num("feed_holds", int64(holds))
	f.num("feed_holds_broken", int64(broken))
}

func infoKeyspace(f *fields, tx admin.InfoTx) {
	for db, st := range tx.Stats() {
		if st.Keys > 0 {
			line := fmt.Sprintf("keys=%d,expires=%d,avg_ttl=%d", st.Keys, st.Expires, st.AvgTTLMs)
			if st.FieldExpires > 0 {
				// Redis has it since 7.4; the line of a store without stays that of 7.0.
				line += fmt.Sprintf(",subexpiry=%d", st.FieldExpires)
			}
			f.text("db"+strconv.Itoa(db), line)
		}
	}
}
