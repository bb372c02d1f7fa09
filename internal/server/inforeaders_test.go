package server

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// forms are what a field may look like to who reads it.
var forms = map[string]*regexp.Regexp{
	"integer":  regexp.MustCompile(`^-?\d+$`),
	"number":   regexp.MustCompile(`^-?\d+(\.\d+)?$`), // by parseFloat, or parseInt, which stops at the point
	"text":     regexp.MustCompile(`^\S.*$`),
	"human":    regexp.MustCompile(`^\d+(\.\d\d)?[BKMGTP]$`),
	"status":   regexp.MustCompile(`^(ok|err)$`),
	"version":  regexp.MustCompile(`^[67]\.\d+\.\d+$`), // Sidekiq compares it as text with 6.2.0 and 7.0.0
	"master":   regexp.MustCompile(`^master$`),
	"mode":     regexp.MustCompile(`^standalone$`),
	"policy":   regexp.MustCompile(`^noeviction$`),
	"hex":      regexp.MustCompile(`^[0-9a-f]{40}$`),
	"not zero": regexp.MustCompile(`^[\d.]*[1-9][\d.]*$`),
	"keyspace": regexp.MustCompile(`^keys=\d+,expires=\d+,avg_ttl=\d+$`),
	"calls":    regexp.MustCompile(`^calls=\d+,usec=\d+,usec_per_call=\d+\.\d\d,rejected_calls=\d+,failed_calls=\d+$`),
	"errors":   regexp.MustCompile(`^count=\d+$`),
	"quantile": regexp.MustCompile(`^p50=\d+\.\d{3},p99=\d+\.\d{3},p99\.9=\d+\.\d{3}$`),
}

// infoReaders are the fields that programs look for: by section, of INFO all, what
// they must look like.
var infoReaders = []struct {
	// source is where the program reads them.
	source, section, form, fields string
}{
	// --bigkeys, --memkeys and --hotkeys read no field: they ask DBSIZE, SCAN, TYPE, the length of keys, MEMORY
	// USAGE and OBJECT FREQ. --stat is TestStatOfRedisCLI below.
	{"redis-cli --cluster (redis-cli.c, clusterManagerNodeIsCluster)", "Cluster", "integer", "cluster_enabled"},

	{"RedisInsight (database-info.provider.ts)", "Server", "version", "redis_version"},
	{"RedisInsight (database-info.provider.ts)", "Server", "integer", "uptime_in_seconds"},
	{"RedisInsight (database-info.provider.ts)", "Replication", "master", "role"},
	{"RedisInsight (database-info.provider.ts)", "Memory", "integer", "used_memory number_of_cached_scripts"},
	{"RedisInsight (database-info.provider.ts)", "Clients", "integer", "connected_clients"},
	{"RedisInsight (database-info.provider.ts)", "Stats", "integer", "keyspace_hits keyspace_misses"},
	{"RedisInsight (database-info.provider.ts)", "Keyspace", "keyspace", "db0 db3"},
	{"RedisInsight (database-overview.provider.ts)", "Stats", "number", "instantaneous_ops_per_sec instantaneous_input_kbps instantaneous_output_kbps"},
	// It takes zero for a server that does not say.
	{"RedisInsight (database-overview.provider.ts)", "CPU", "not zero", "used_cpu_sys used_cpu_user"},

	{"redis_exporter (exporter.go, metricMapGauges)", "Server", "integer", "uptime_in_seconds process_id"},
	{"redis_exporter (exporter.go, metricMapGauges)", "Clients", "integer",
		"connected_clients blocked_clients tracking_clients client_recent_max_output_buffer client_recent_max_input_buffer"},
	{"redis_exporter (exporter.go, metricMapGauges)", "Memory", "number",
		`allocator_active allocator_allocated allocator_resident allocator_frag_ratio allocator_frag_bytes allocator_rss_ratio allocator_rss_bytes
		used_memory used_memory_rss used_memory_peak used_memory_lua used_memory_overhead used_memory_startup used_memory_dataset used_memory_scripts
		maxmemory mem_fragmentation_ratio mem_fragmentation_bytes mem_clients_slaves mem_clients_normal mem_not_counted_for_evict
		lazyfree_pending_objects active_defrag_running total_system_memory`},
	{"redis_exporter (exporter.go, metricMapGauges)", "Persistence", "integer",
		`loading rdb_changes_since_last_save rdb_bgsave_in_progress rdb_last_save_time rdb_last_bgsave_time_sec rdb_current_bgsave_time_sec
		rdb_last_cow_size aof_enabled aof_rewrite_in_progress aof_rewrite_scheduled aof_last_rewrite_time_sec aof_current_rewrite_time_sec
		aof_last_cow_size aof_current_size aof_base_size aof_pending_rewrite aof_buffer_length aof_pending_bio_fsync aof_delayed_fsync
		module_fork_in_progress module_fork_last_cow_size`},
	{"redis_exporter (exporter.go, metricMapGauges)", "Persistence", "status", "rdb_last_bgsave_status aof_last_bgrewrite_status aof_last_write_status"},
	{"redis_exporter (exporter.go, metricMapGauges)", "Stats", "number",
		`pubsub_channels pubsub_patterns latest_fork_usec migrate_cached_sockets active_defrag_hits active_defrag_misses active_defrag_key_hits
		active_defrag_key_misses expired_time_cap_reached_count expired_stale_perc slave_expires_tracked_keys sync_full sync_partial_ok sync_partial_err`},
	{"redis_exporter (exporter.go, metricMapGauges)", "Replication", "integer",
		"connected_slaves repl_backlog_size repl_backlog_active repl_backlog_first_byte_offset repl_backlog_histlen master_repl_offset second_repl_offset"},
	{"redis_exporter (exporter.go, metricMapCounters)", "Stats", "integer",
		`total_connections_received total_commands_processed rejected_connections total_net_input_bytes total_net_output_bytes expired_keys evicted_keys
		keyspace_hits keyspace_misses`},
	{"redis_exporter (exporter.go, metricMapCounters)", "CPU", "number", "used_cpu_sys used_cpu_user used_cpu_sys_children used_cpu_user_children"},
	{"redis_exporter (info.go, handleMetricsServer)", "Server", "integer", "hz configured_hz"},
	{"redis_exporter (info.go, labels of instance_info)", "Server", "text", "redis_build_id os"},
	{"redis_exporter (info.go, labels of instance_info)", "Server", "version", "redis_version"},
	{"redis_exporter (info.go, labels of instance_info)", "Server", "mode", "redis_mode"},
	{"redis_exporter (info.go, labels of instance_info)", "Server", "integer", "tcp_port process_id"},
	{"redis_exporter (info.go, labels of instance_info)", "Server", "hex", "run_id"},
	{"redis_exporter (info.go, labels of instance_info)", "Replication", "hex", "master_replid"},
	{"redis_exporter (info.go, labels of instance_info)", "Replication", "master", "role"},
	{"redis_exporter (info.go, labels of instance_info)", "Memory", "policy", "maxmemory_policy"},
	{"redis_exporter (info.go, parseDBKeyspaceString)", "Keyspace", "keyspace", "db0 db3"},
	{"redis_exporter (info.go, parseMetricsCommandStats)", "Commandstats", "calls", "cmdstat_get cmdstat_set cmdstat_lpush cmdstat_config|resetstat"},
	{"redis_exporter (info.go, parseMetricsLatencyStats)", "Latencystats", "quantile", "latency_percentiles_usec_get latency_percentiles_usec_set"},
	{"redis_exporter (info.go, handleMetricsErrorStats)", "Errorstats", "errors", "errorstat_WRONGTYPE"},

	{"Sidekiq (cli.rb)", "Server", "version", "redis_version"},
	{"Sidekiq (cli.rb)", "Memory", "policy", "maxmemory_policy"},
	{"Sidekiq (web/application.rb, REDIS_KEYS)", "Server", "integer", "uptime_in_days"},
	{"Sidekiq (web/application.rb, REDIS_KEYS)", "Clients", "integer", "connected_clients"},
	{"Sidekiq (web/application.rb, REDIS_KEYS)", "Memory", "human", "used_memory_human used_memory_peak_human"},
}

// TestInfoForItsReaders: what redis-cli, RedisInsight, redis_exporter and Sidekiq look
// for is there, in the section where they look and as they read it. The oracle, where
// there is one, shows that the list itself is right.
func TestInfoForItsReaders(t *testing.T) {
	holdToReaders(t, "kevy-server", start(t).conn())
	_, redis, _ := oracle(t)
	redis.expect("CONFIG SET appendonly yes", "+OK")
	eventually(t, "the log of redis-server", func() bool { return redis.infoInt("persistence", "aof_enabled") == 1 })
	holdToReaders(t, "redis-server", redis)
}

func holdToReaders(t *testing.T, name string, c *conn) {
	t.Helper()
	c.expect("CONFIG RESETSTAT", "+OK")
	c.do("SELECT 3")
	c.do("SET k v EX 1000")
	c.do("SELECT 0")
	c.do("SET k v")
	c.do("LPUSH k x")
	c.do("GET k")
	var info map[string]map[string]string
	eventually(t, "processor time was counted", func() bool {
		info = infoSections(t, string(c.do("INFO all").Text))
		return forms["not zero"].MatchString(info["CPU"]["used_cpu_sys"]) && forms["not zero"].MatchString(info["CPU"]["used_cpu_user"])
	})
	looked := 0
	for _, r := range infoReaders {
		for _, field := range strings.Fields(r.fields) {
			looked++
			value, ok := info[r.section][field]
			switch {
			case !ok:
				t.Errorf("%s: section %s has no %s, which %s reads", name, r.section, field, r.source)
			case !forms[r.form].MatchString(value):
				t.Errorf("%s: %s is %q, and must be as %q is for %s", name, field, value, r.form, r.source)
			}
		}
	}
	if looked < 110 {
		t.Errorf("%d fields were looked at", looked)
	}
}

// infoSections returns the fields by section, as programs split them: at lines that
// begin with "# ", and at the first colon.
func infoSections(t *testing.T, text string) map[string]map[string]string {
	t.Helper()
	sections, section := map[string]map[string]string{}, ""
	for line := range strings.SplitSeq(text, "\r\n") {
		switch title, isTitle := strings.CutPrefix(line, "# "); {
		case isTitle:
			section = title
			sections[section] = map[string]string{}
		case line != "":
			name, value, ok := strings.Cut(line, ":")
			if !ok || section == "" {
				t.Fatalf("a line of INFO is %q", line)
			}
			sections[section][name] = value
		}
	}
	return sections
}

// TestStatOfRedisCLI reads INFO as redis-cli --stat does (redis-cli.c, statMode and
// getLongInfoField): the number one byte behind the first place where a name stands,
// in whatever line and section. A field of ours whose name ends like one of these, or
// holds it, before the right one would be read in its place.
func TestStatOfRedisCLI(t *testing.T) {
	c := start(t).conn()
	c.do("SELECT 3")
	c.do("MSET a 1 b 2")
	text := string(c.do("INFO").Text)
	sections := infoSections(t, text)
	for name, field := range map[string][2]string{
		"used_memory": {"Memory", "used_memory"}, "connected_clients": {"Clients", "connected_clients"},
		"blocked_clients": {"Clients", "blocked_clients"}, "total_commands_processed": {"Stats", "total_commands_processed"},
		"total_connections_received": {"Stats", "total_connections_received"}, "bgsave_in_progress": {"Persistence", "rdb_bgsave_in_progress"},
		"aof_rewrite_in_progress": {"Persistence", "aof_rewrite_in_progress"}, "loading": {"Persistence", "loading"}, "db3:keys": {"Keyspace", "db3"},
	} {
		_, behind, found := strings.Cut(text, name)
		line, _, _ := strings.Cut(behind, "\r\n")
		want := sections[field[0]][field[1]]
		if name == "db3:keys" {
			want = strings.TrimPrefix(want, "keys")[1:]
		}
		if !found || line == "" || line[1:] != want {
			t.Errorf("redis-cli --stat reads %q for %s, which is %q", line, name, want)
		}
		digits, _, _ := strings.Cut(want, ",")
		if _, err := strconv.ParseInt(digits, 10, 64); err != nil {
			t.Errorf("%s is %q", name, want)
		}
	}
	if titles := []string{"Server", "Clients", "Memory", "Persistence", "Stats", "Replication", "CPU", "Modules", "Errorstats", "Cluster", "Keyspace"}; slices.ContainsFunc(titles, func(s string) bool { return sections[s] == nil }) {
		t.Errorf("the sections are %v, of %v", sections, titles)
	}
}
