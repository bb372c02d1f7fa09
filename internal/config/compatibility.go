package config

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// registerCompatibility adds the settings of redis-server 7.0 that nothing
// here follows, so that its configuration files and the CONFIG SET of its
// clients and tests are understood. A setting that promises safety or opens
// the server in another way keeps its default; the others take any value.
func (c *Config) registerCompatibility() {
	t := &table{c: c}

	integer := func(name string, def, low, high int64) *Setting {
		return t.int(new(Int), name, def, low, high, "").noEffect(t.why)
	}
	bytes := func(name string, def, low, high int64) *Setting {
		return t.bytes(new(Int), name, def, low, high, "").noEffect(t.why)
	}
	flag := func(name string, def bool) *Setting {
		return t.bool(new(Bool), name, def, "").noEffect(t.why)
	}
	text := func(name, def string) *Setting {
		return t.text(new(Text), name, def, "").noEffect(t.why)
	}
	words := func(name, def, form string, check func([]string) error) *Setting {
		return t.words(&Words{form: form, check: check}, name, def, "").noEffect(t.why)
	}
	choice := func(name, def string, names ...string) *Setting {
		choices := make([]Choice[int], len(names))
		for i, n := range names {
			choices[i] = Choice[int]{n, i}
		}
		return enum(t, new(Enum[int]), name, slices.Index(names, def), choices, "").noEffect(t.why)
	}

	t.group = "Redis: network and process"
	text("bind-source-addr", "").noEffect("it is for connections to a master and to a cluster, and there are none")
	integer("socket-mark-id", 0, 0, math.MaxUint32).startOnly().noEffect("sockets are not marked")
	integer("io-threads", 1, 1, 128).startOnly().noEffect("connections are spread over all cores")
	flag("io-threads-do-reads", false).startOnly().noEffect("connections are spread over all cores")
	flag("daemonize", false).startOnly().defaultOnly("the server stays in the foreground; let a service manager or the shell put it in the background")
	choice("supervised", "no", "no", "upstart", "systemd", "auto").startOnly().defaultOnly("the server does not signal a supervisor")
	flag("syslog-enabled", false).startOnly().defaultOnly("logs go to standard output or logfile")
	text("syslog-ident", "redis").startOnly().noEffect("logs go to standard output or logfile")
	choice("syslog-facility", "local0", "user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7").startOnly().noEffect("logs go to standard output or logfile")
	flag("always-show-logo", false).startOnly().noEffect("there is no logo")
	flag("set-proc-title", true).startOnly().noEffect("the title of the process stays as it is")
	text("proc-title-template", "{title} {listen-addr} {server-mode}").noEffect("the title of the process stays as it is")
	choice("oom-score-adj", "no", "no", "yes", "relative", "absolute").noEffect("the oom_score_adj of the process stays as it is")
	words("oom-score-adj-values", "0 200 800", "three integers, -2000 to 2000", checkOOMScores).noEffect("the oom_score_adj of the process stays as it is")
	flag("disable-thp", true).startOnly().noEffect("how the system uses huge pages is left to it and to Go")
	text("server_cpulist", "").startOnly().noEffect("threads are not bound to processors")
	text("bio_cpulist", "").startOnly().noEffect("threads are not bound to processors")
	text("aof_rewrite_cpulist", "").startOnly().noEffect("threads are not bound to processors")
	text("bgsave_cpulist", "").startOnly().noEffect("threads are not bound to processors")
	flag("crash-log-enabled", true).noEffect("a crash always shows where it was")
	flag("crash-memcheck-enabled", true).noEffect("memory is not tested after a crash")
	words("ignore-warnings", "", "", nil).noEffect("the fault of systems that it is about is one of fork, which is not used")
	hz := &Int{settle: func(n int64) int64 { return min(max(n, 1), 500) }}
	t.int(hz, "hz", 10, 0, maxInt32, "").noEffect("work in the background is not driven by a fixed rate")
	flag("dynamic-hz", true).noEffect("work in the background is not driven by a fixed rate")
	integer("shutdown-timeout", 10, 0, maxInt32).noEffect("there are no replicas to wait for")
	shutdown := anyOf("default", "save", "nosave", "now", "force")
	words("shutdown-on-sigint", "default", "one or more of default, save, nosave, now, force", shutdown).noEffect("a first signal is a clean close, another one more than a second later ends the process at once")
	words("shutdown-on-sigterm", "default", "one or more of default, save, nosave, now, force", shutdown).noEffect("a first signal is a clean close, another one more than a second later ends the process at once")
	flag("enable-protected-configs", false).startOnly().noEffect("settings marked so in Redis are set at the start only")
	flag("enable-module-command", false).startOnly().noEffect("there are no modules")

	t.group = "Redis: snapshots and log"
	t.words(&Words{form: "pairs of seconds and changes", check: checkSavePoints, adds: true}, "save", "", "").noEffect("RDB files are written by SAVE and BGSAVE alone; what keeps every write is the log, with appendonly yes")
	flag("rdbcompression", true).noEffect("strings are always compressed where that makes them smaller")
	flag("rdbchecksum", true).startOnly().noEffect("files always have a checksum")
	flag("rdb-save-incremental-fsync", true).noEffect("a file is synced once it is whole")
	flag("rdb-del-sync-files", false).noEffect("there are no replicas that RDB files are sent to")
	choice("sanitize-dump-payload", "no", "no", "yes", "clients").noEffect("payloads are always checked in full")
	flag("stop-writes-on-bgsave-error", true).noEffect("writes stop when the log cannot advance")
	text("appendfilename", "appendonly.aof").startOnly().defaultOnly("the log's names are fixed, as Redis has them by default")
	text("appenddirname", "appendonlydir").startOnly().defaultOnly("the log's names are fixed, as Redis has them by default")
	flag("no-appendfsync-on-rewrite", false).noEffect("a rewrite does not hold up an fsync")
	flag("aof-use-rdb-preamble", false).noEffect("a rewrite writes commands")
	flag("aof-rewrite-incremental-fsync", true).noEffect("what a rewrite writes is always synced in steps")
	flag("aof-timestamp-enabled", false).noEffect("every block of the log carries its time")
	flag("aof-disable-auto-gc", false).noEffect("what a rewrite has replaced goes once no reader of the feed may need it")

	t.group = "Redis: memory and data"
	flag("lazyfree-lazy-eviction", false).noEffect("memory is returned in the background")
	flag("lazyfree-lazy-expire", false).noEffect("memory is returned in the background")
	flag("lazyfree-lazy-server-del", false).noEffect("memory is returned in the background")
	flag("lazyfree-lazy-user-del", false).noEffect("memory is returned in the background")
	flag("lazyfree-lazy-user-flush", false).noEffect("memory is returned in the background")
	flag("activerehashing", true).noEffect("tables grow in small steps")
	integer("active-expire-effort", 1, 1, 10).noEffect("keys expire in the order of their deadlines")
	flag("activedefrag", false).noEffect("Go's memory is not defragmented")
	integer("active-defrag-cycle-min", 1, 1, 99).noEffect("Go's memory is not defragmented")
	integer("active-defrag-cycle-max", 25, 1, 99).noEffect("Go's memory is not defragmented")
	bytes("active-defrag-ignore-bytes", 100*mib, 1, maxInt64).noEffect("Go's memory is not defragmented")
	integer("active-defrag-max-scan-fields", 1000, 1, maxInt64).noEffect("Go's memory is not defragmented")
	integer("active-defrag-threshold-lower", 10, 0, 1000).noEffect("Go's memory is not defragmented")
	integer("active-defrag-threshold-upper", 100, 0, 1000).noEffect("Go's memory is not defragmented")
	flag("jemalloc-bg-thread", true).noEffect("memory is Go's, not that of jemalloc")
	integer("list-compress-depth", 0, 0, maxInt32).noEffect("lists are not compressed in memory")

	t.group = "Redis: scripts, events and diagnostics"
	choice("propagation-error-behavior", "ignore", "ignore", "panic", "panic-on-replicas").noEffect("there are no replicas that commands are sent to")

	flag("use-exit-on-panic", false).noEffect("it is for tests of redis-server").hide()
	flag("lua-enable-deprecated-api", false).startOnly().noEffect("scripts never have getfenv, newproxy and setfenv").hide()
	integer("rdb-key-save-delay", 0, math.MinInt32, maxInt32).noEffect("it is for tests of redis-server").hide()
	integer("key-load-delay", 0, math.MinInt32, maxInt32).noEffect("it is for tests of redis-server").hide()
	// Redis takes no period that its cron could not keep: two of its ticks.
	watchdog := &Int{settle: func(n int64) int64 {
		if n > 0 {
			return max(n, 200)
		}
		return 0
	}}
	t.int(watchdog, "watchdog-period", 0, 0, maxInt32, "").noEffect("there is no watchdog").hide()
	integer("loading-process-events-interval-bytes", 2*mib, 1024, maxInt32).noEffect("clients come in once everything is loaded").hide()

	t.group, t.why = "Redis: replication", "there are no replicas, and the server is none"
	replicaof := t.words(new(Words), "replicaof", "", "").startOnly().defaultOnly("the server does not replicate another one")
	t.alias(replicaof, "slaveof")
	text("masterauth", "")
	text("masteruser", "")
	t.alias(flag("replica-serve-stale-data", true), "slave-serve-stale-data")
	t.alias(flag("replica-read-only", true), "slave-read-only")
	t.alias(flag("replica-ignore-maxmemory", true), "slave-ignore-maxmemory")
	t.alias(flag("replica-lazy-flush", false), "slave-lazy-flush")
	t.alias(integer("replica-priority", 100, 0, maxInt32), "slave-priority")
	t.alias(text("replica-announce-ip", ""), "slave-announce-ip")
	t.alias(integer("replica-announce-port", 0, 0, 65535), "slave-announce-port")
	flag("replica-announced", true)
	flag("replica-ignore-disk-write-errors", false)
	backlog := &Int{settle: func(n int64) int64 { return max(n, 16*kib) }}
	t.bytes(backlog, "repl-backlog-size", mib, 1, maxInt64, "").noEffect(t.why)
	integer("repl-backlog-ttl", 3600, 0, maxInt64)
	integer("repl-timeout", 60, 1, maxInt32)
	t.alias(integer("repl-ping-replica-period", 10, 1, maxInt32), "repl-ping-slave-period")
	flag("repl-disable-tcp-nodelay", false)
	flag("repl-diskless-sync", true)
	integer("repl-diskless-sync-delay", 5, 0, maxInt32)
	integer("repl-diskless-sync-max-replicas", 0, 0, maxInt32)
	choice("repl-diskless-load", "disabled", "disabled", "on-empty-db", "swapdb")

	t.group, t.why = "Redis: cluster", "the server is not part of a cluster"
	flag("cluster-enabled", false).startOnly().defaultOnly("the server is not part of a cluster")
	text("cluster-config-file", "nodes.conf").startOnly()
	integer("cluster-port", 0, 0, 65535).startOnly()
	integer("cluster-node-timeout", 15000, 0, maxInt64)
	integer("cluster-migration-barrier", 1, 0, maxInt32)
	t.alias(integer("cluster-replica-validity-factor", 10, 0, maxInt32), "cluster-slave-validity-factor")
	t.alias(flag("cluster-replica-no-failover", false), "cluster-slave-no-failover")
	flag("cluster-require-full-coverage", true)
	flag("cluster-allow-reads-when-down", false)
	flag("cluster-allow-pubsubshard-when-down", true)
	flag("cluster-allow-replica-migration", true)
	bytes("cluster-link-sendbuf-limit", 0, 0, maxInt64)
	text("cluster-announce-ip", "")
	text("cluster-announce-hostname", "")
	integer("cluster-announce-port", 0, 0, 65535)
	integer("cluster-announce-tls-port", 0, 0, 65535)
	integer("cluster-announce-bus-port", 0, 0, 65535)
	choice("cluster-preferred-endpoint-type", "ip", "ip", "hostname", "unknown-endpoint")

	t.group, t.why = "Redis: TLS", ""
	flag("tls-replication", false).noEffect("there are no replicas, and the server is none")
	flag("tls-cluster", false).noEffect("the server is not part of a cluster")
	for _, name := range []string{"tls-client-cert-file", "tls-client-key-file", "tls-client-key-file-pass"} {
		text(name, "").noEffect("the server makes no connections of its own")
	}
	text("tls-dh-params-file", "").noEffect("keys are agreed on over elliptic curves")
	flag("tls-prefer-server-ciphers", false).noEffect("the server chooses, by what the machine is good at")
	integer("tls-session-cache-size", 20480, 0, maxInt32).noEffect("clients keep their sessions themselves, in tickets")
	integer("tls-session-cache-timeout", 300, 0, maxInt32).noEffect("a ticket is good for a week, or until the TLS settings change")
}

// obsolete settings are read from files and forgotten, as Redis does.
var obsolete = map[string]bool{
	"list-max-ziplist-entries": true,
	"list-max-ziplist-value":   true,
}

func anyOf(names ...string) func([]string) error {
	return func(words []string) error {
		for _, w := range words {
			if !containsFold(names, w) {
				return bound("argument(s) must be one of the following: " + strings.Join(names, ", "))
			}
		}
		return nil
	}
}

func containsFold(names []string, word string) bool {
	for _, n := range names {
		if strings.EqualFold(n, word) {
			return true
		}
	}
	return false
}

func checkSavePoints(words []string) error {
	const bad refusal = "Invalid save parameters"
	if len(words)%2 != 0 {
		return bad
	}
	for i, w := range words {
		n, err := strconv.ParseInt(w, 10, 32)
		if err != nil || n < 0 || i%2 == 0 && n < 1 {
			return bad
		}
	}
	return nil
}

func checkFileName(text string) (string, error) {
	if strings.Contains(text, "/") {
		return "", refusal("dbfilename can't be a path, just a filename")
	}
	// The store has files of its own beside it.
	if text == "" || text == "." || text == ".." || text == "MANIFEST" || text == "LOCK" || text == "appendonlydir" || strings.HasPrefix(text, "feed") {
		return "", refusal("dbfilename must be a name that the data directory has no other use for")
	}
	return text, nil
}

func checkOctal(text string) (string, error) {
	n, err := strconv.ParseUint(text, 8, 32)
	if err != nil {
		return "", refusal("argument couldn't be parsed as an octal number")
	}
	if n > 0o777 {
		return "", bound("argument must be between 0 and 777 inclusive")
	}
	return strconv.FormatUint(n, 8), nil
}

func checkOOMScores(words []string) error {
	if len(words) != 3 {
		return refusal("wrong number of arguments")
	}
	for _, w := range words {
		if n, err := strconv.Atoi(w); err != nil || n < -2000 || n > 2000 {
			return refusal("Invalid oom-score-adj-values, elements must be between -2000 and 2000.")
		}
	}
	return nil
}

func checkMemoryOrPercent(text string) (string, error) {
	const bad refusal = "argument must be a memory or percent value"
	if digits, percent := strings.CutSuffix(text, "%"); percent {
		n, err := strconv.ParseUint(digits, 10, 63)
		if err != nil {
			return "", bad
		}
		if n > 100 {
			return "", refusal("percentage argument must be less or equal to 100")
		}
		return strconv.FormatUint(n, 10) + "%", nil
	}
	n, err := ParseMemory(text)
	if err != nil {
		return "", bad
	}
	return strconv.FormatUint(n, 10), nil
}

// checkPercentiles takes numbers, which have six places at most and no zeros at their end.
func checkPercentiles(words []string) error {
	for i, w := range words {
		n, err := strconv.ParseFloat(w, 64)
		if err != nil || math.IsNaN(n) {
			return refusal("Invalid latency-tracking-info-percentiles parameters")
		}
		if n < 0 || n > 100 {
			return refusal("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]")
		}
		words[i] = strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(n, 'f', 6, 64), "0"), ".")
	}
	return nil
}
