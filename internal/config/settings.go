package config

import (
	"errors"
	"fmt"
	"math"
)

const (
	kib = int64(1) << 10
	mib = int64(1) << 20
	gib = int64(1) << 30

	maxInt32 = int64(math.MaxInt32)
	maxInt64 = int64(math.MaxInt64)
)

// Bounds that are ours, not Redis's.
const (
	maxBindAddresses = 16
	maxDatabases     = 16384
	// Commands on the whole keyspace take every shard's lock.
	maxShards = 1024
	// The feed reads whole blocks of the log, so its memory holds at least one.
	minFeedBacklogBytes = 64 * kib
)

// register adds the settings that this program acts on.
func (c *Config) register() {
	t := &table{c: c, group: "Network and clients"}
	c.Bind.form = fmt.Sprintf("1 to %d addresses; a leading - marks one that may be missing, * is every IPv4 address, ::* every IPv6 one", maxBindAddresses)
	c.Bind.check = checkBind
	t.words(&c.Bind, "bind", "127.0.0.1", "Addresses to listen on.")
	t.int(&c.Port, "port", 6379, 0, 65535, "TCP port. 0: none; CONFIG SET closes it, even if there is no other way in. But a start with 0 and neither tls-port nor unixsocket takes a free port and prints it, and 0 stands for that one until the end.")
	t.int(&c.TCPBacklog, "tcp-backlog", 511, 0, maxInt32, "Connections that may wait to be accepted; the system may allow fewer.").startOnly()
	c.UnixSocket.form = "path"
	t.text(&c.UnixSocket, "unixsocket", "", "Path of a Unix socket to listen on too, relative to dir. Empty: none. What an ended server left there is replaced.").startOnly()
	c.UnixSocketPerm.form, c.UnixSocketPerm.check = "octal number, 0 to 777", checkOctal
	t.text(&c.UnixSocketPerm, "unixsocketperm", "0", "Permissions of that socket. 0: as the umask has them.").startOnly()
	t.bool(&c.ProtectedMode, "protected-mode", true, "Serve clients from this host only, as long as the default user has no password. With no, whoever reaches an address of bind is served.")
	t.int(&c.TimeoutSeconds, "timeout", 0, 0, maxInt32, "Seconds after which an idle client is disconnected. 0: never.")
	t.int(&c.TCPKeepaliveSeconds, "tcp-keepalive", 300, 0, maxInt32, "Seconds between TCP keepalive probes. 0: none.")
	t.int(&c.MaxClients, "maxclients", 10000, 1, math.MaxUint32, "Clients connected at once; more are refused.")
	t.bytes(&c.ProtoMaxBulkBytes, "proto-max-bulk-len", 512*mib, mib, maxInt64, "Largest single argument, and largest string value.")
	t.bytes(&c.ClientQueryBufferBytes, "client-query-buffer-limit", gib, mib, maxInt64, "Bytes of one unfinished command at which a client is disconnected.")
	t.outputLimits(&c.ClientOutputBuffer, "client-output-buffer-limit", [clientClasses]OutputLimit{
		ClientReplica: {HardBytes: 256 * mib, SoftBytes: 64 * mib, SoftSeconds: 60},
		ClientPubSub:  {HardBytes: 32 * mib, SoftBytes: 8 * mib, SoftSeconds: 60},
	}, "Bytes of unread replies at which a client of a class is disconnected: at once above the hard bound, after the given seconds above the soft one. 0: no bound. A client that does not read is not served on, so that it costs one reply at most; all clients are of the class normal.")

	t.group = "TLS"
	t.int(&c.TLSPort, "tls-port", 0, 0, 65535, "TCP port for TLS, on the addresses of bind. 0: none. CONFIG SET of any setting of this group reads the files anew; connections stay as they are.")
	c.TLSCertFile.form, c.TLSKeyFile.form, c.TLSCACertFile.form, c.TLSCACertDir.form = "path", "path", "path", "path"
	t.text(&c.TLSCertFile, "tls-cert-file", "", "The server's certificate, with those between it and the authority behind it, as PEM; the path is relative to dir.")
	t.text(&c.TLSKeyFile, "tls-key-file", "", "Its key, as PEM; relative to dir.")
	t.text(&c.TLSKeyFilePass, "tls-key-file-pass", "", "Password of the key, if it is encrypted.")
	t.text(&c.TLSCACertFile, "tls-ca-cert-file", "", "Certificates of the authorities whose clients are let in, as PEM; relative to dir.")
	t.text(&c.TLSCACertDir, "tls-ca-cert-dir", "", "Directory of such files, relative to dir.")
	enum(t, &c.TLSAuthClients, "tls-auth-clients", TLSClientsYes, []Choice[TLSClients]{
		{"no", TLSClientsNo}, {"yes", TLSClientsYes}, {"optional", TLSClientsOptional},
	}, "Whether clients must show a certificate of one of these authorities. optional: they may, and a wrong one is refused.")
	c.TLSProtocols.form = "a combination of TLSv1, TLSv1.1, TLSv1.2 and TLSv1.3 without a gap"
	t.text(&c.TLSProtocols, "tls-protocols", "", "Versions of the protocol. Empty: TLSv1.2 and TLSv1.3.")
	c.TLSCiphers.form = "names of OpenSSL's, separated by colons"
	t.text(&c.TLSCiphers, "tls-ciphers", "", "Cipher suites of TLSv1.2 and before; DEFAULT is what is taken by itself, ! or - in front leaves out. An error lists those that can be had.")
	c.TLSCipherSuites.form = "empty, or all three of TLSv1.3"
	t.text(&c.TLSCipherSuites, "tls-ciphersuites", "", "Cipher suites of TLSv1.3, which cannot be chosen: a text that leaves one out is refused.")
	t.bool(&c.TLSSessionCaching, "tls-session-caching", true, "Let clients resume sessions, by tickets.")
	t.int(&c.HTTPTLSPort, "http-tls-port", 0, 0, 65535, "TCP port on which the feed is served over HTTPS, with these certificates; clients are held to tls-auth-clients. 0: none.")

	t.group = "Scripts"
	t.alias(t.int(&c.BusyReplyThresholdMs, "busy-reply-threshold", 5000, 0, maxInt64, "Milliseconds that a script may take until all others are answered with BUSY. 0: for ever."), "lua-time-limit")

	t.group = "Process"
	c.Dir.form, c.Dir.check = "path", checkDir
	t.text(&c.Dir, "dir", "./data", "The data directory, created if it is missing. One server at a time may use it.").protect()
	enum(t, &c.LogLevel, "loglevel", LogNotice, []Choice[LogLevel]{
		{"debug", LogDebug}, {"verbose", LogVerbose}, {"notice", LogNotice}, {"warning", LogWarning},
	}, "The least that is logged.")
	c.LogFile.form = "path"
	t.text(&c.LogFile, "logfile", "", "File that logs go to, relative to dir; opened anew when it is moved away. Empty: standard output.").startOnly()
	c.PIDFile.form = "path"
	t.text(&c.PIDFile, "pidfile", "", "File that holds the process id while the server runs, relative to dir. Empty: none.").startOnly()
	t.int(&c.Databases, "databases", 16, 1, maxDatabases, "Databases that SELECT reaches.").startOnly()
	enum(t, &c.EnableDebugCommand, "enable-debug-command", LocalityNo, []Choice[Locality]{
		{"no", LocalityNo}, {"yes", LocalityYes}, {"local", LocalityLocal},
	}, "Who may use DEBUG: nobody, everybody, or connections from this host.").startOnly()

	t.group = "Users"
	t.text(&c.RequirePass, "requirepass", "", "Password of the default user, who every connection is until it logs in as another. Empty: none is needed. ACL SETUSER, user lines and the aclfile can say otherwise later.")
	c.ACLFile.form = "path"
	t.text(&c.ACLFile, "aclfile", "", "File of users, relative to dir, which ACL LOAD reads and ACL SAVE writes; it must exist. Not together with user lines. Empty: none.").startOnly()
	enum(t, &c.ACLPubSubDefault, "acl-pubsub-default", ResetChannels, []Choice[ChannelDefault]{
		{"allchannels", AllChannels}, {"resetchannels", ResetChannels},
	}, "Which channels a new user may publish and subscribe to unless its rules say so: all, or none.")
	t.int(&c.ACLLogMaxLen, "acllog-max-len", 128, 0, maxInt64, "Entries that ACL LOG keeps.")

	t.group = "Log"
	t.bool(&c.AppendOnly, "appendonly", true, "Keep the data on disk. With no, the data and the feed are in memory only.").keep()
	enum(t, &c.AppendFsync, "appendfsync", FsyncEverySec, []Choice[Fsync]{
		{"everysec", FsyncEverySec}, {"always", FsyncAlways}, {"no", FsyncNo},
	}, "When the log is forced to the disk: always before a reply, everysec, or when the system sees fit. A killed process loses nothing acknowledged under any of them; a power cut may take the last second under everysec.")
	t.int(&c.AutoAOFRewritePercentage, "auto-aof-rewrite-percentage", 100, 0, maxInt32, "Growth of the log since the last rewrite, in percent, that starts a rewrite. 0: none starts by itself.")
	t.bytes(&c.AutoAOFRewriteMinBytes, "auto-aof-rewrite-min-size", 64*mib, 0, maxInt64, "Size below which the log is not rewritten by itself.")
	t.bool(&c.AOFLoadTruncated, "aof-load-truncated", true, "Cut a tail of the log that a crash or a full disk tore, keep a copy of it, and start. With no, such a start is refused and nothing is changed.")
	enum(t, &c.Recover, "recover", RecoverRefuse, []Choice[Recover]{
		{"refuse", RecoverRefuse}, {"truncate", RecoverTruncate}, {"skip", RecoverSkip},
	}, "What a start does with a log that is damaged before its end: refuse and say where; truncate, which keeps what stands before the damage; or skip, which leaves out the damaged blocks. A copy of what goes is kept. A torn tail is no damage: aof-load-truncated decides about it, and truncate and skip cut it too.").keep()
	t.int(&c.Shards, "shards", 16, 1, maxShards, "Parts of the keyspace, each with a lock and a stream of its own. Fixed when a data directory is created.").keep()

	c.DBFileName.form, c.DBFileName.check = "file name", checkFileName
	t.text(&c.DBFileName, "dbfilename", "dump.rdb", "What SAVE and BGSAVE call their file, in dir. No start reads it.").protect()

	t.group = "Replication"
	t.alias(t.int(&c.MinReplicasToWrite, "min-replicas-to-write", 0, 0, maxInt32, "Replicas without which writes are refused. There is no replication yet, so any but 0 refuses all."), "min-slaves-to-write")
	t.alias(t.int(&c.MinReplicasMaxLag, "min-replicas-max-lag", 10, 0, maxInt32, "Seconds that a replica may lag behind and still count. 0: min-replicas-to-write has no effect."), "min-slaves-max-lag")

	t.group = "Feed"
	t.bool(&c.Feed, "feed", true, "Serve the change feed.").keep()
	t.bytes(&c.FeedBacklogBytes, "feed-backlog-bytes", 16*mib, minFeedBacklogBytes, maxInt64, "Bytes of the newest log kept in memory for readers of the feed; older changes are read from disk. With appendonly no, all that the feed keeps.").keep()
	t.bytes(&c.FeedRetentionBytes, "feed-retention-bytes", gib, 0, maxInt64, "Bytes of log kept on disk for readers of the feed alone, beyond what recovery needs.").keep()
	t.int(&c.FeedRetentionMs, "feed-retention-ms", 0, 0, maxInt64, "Milliseconds for which log is kept for readers of the feed alone. 0: no bound by age.").keep()
	t.bytes(&c.FeedHoldMaxBytes, "feed-hold-max-bytes", 4*gib, 0, maxInt64, "Bytes of log that a hold of the feed (CHANGES HOLD) keeps at most, whatever the retention says. One whose consumer is further behind is broken as soon as nothing else keeps that log, and writes go on. 0: holds keep nothing beyond the retention.").keep()
	t.int(&c.HTTPPort, "http-port", 0, 0, 65535, "TCP port on which the feed is served over HTTP, on the addresses of bind and to whom protected-mode lets in. 0: no HTTP.")
	t.int(&c.HTTPMaxClients, "http-maxclients", 1000, 1, math.MaxUint32, "HTTP connections at once, beside maxclients; more are refused.")

	t.bytes(&c.FeedSnapshotMaxBytes, "feed-snapshot-max-bytes", 64*gib, 0, maxInt64, "Bytes on disk that the state may take which a subscriber with SNAPSHOT begins with; one that would take more ends. 0: no bound but 64 MiB that are left free.").keep()
	t.bytes(&c.FeedSnapshotLogBytes, "feed-snapshot-log-bytes", gib, 0, maxInt64, "Bytes of log written since the cut of a snapshot that are kept for its readers, and for a minute after; beyond them it ends. 0: no bound. With appendonly no they are kept in memory.").keep()

	t.group = "Events and client-side caching"
	c.NotifyKeyspaceEvents.form, c.NotifyKeyspaceEvents.check = "letters of Ag$lshzxeKEtmdn", canonicalEvents
	t.text(&c.NotifyKeyspaceEvents, "notify-keyspace-events", "", "Which events of keys are published: K to __keyspace@<db>__:<key>, E to __keyevent@<db>__:<event>; g generic commands, $ strings, l lists, s sets, h hashes, z sorted sets, t streams, x expired, e evicted, A all these, n new keys, m keys that are asked for and missing. Empty: none.")
	t.int(&c.TrackingTableMaxKeys, "tracking-table-max-keys", 1000000, 0, maxInt64, "Keys that are remembered for clients in CLIENT TRACKING; beyond it those who may have one are told to forget it. 0: no bound but that of memory, 512 MiB, which holds always.")

	t.group = "Memory and encodings"
	t.bytes(&c.MaxMemoryBytes, "maxmemory", 0, 0, maxInt64, "Bytes of memory above which keys are evicted, or writes refused. 0: no bound. What is compared with it is used_memory of INFO less mem_not_counted_for_evict: keys, values and clients as they are counted one by one, not the process's heap, so that it is exact and falls at once when keys go. Beyond it the process needs memory for the collector's work, for feed-backlog-bytes, and for what a rewrite or a snapshot keeps of keys that change under it.")
	enum(t, &c.MaxMemoryPolicy, "maxmemory-policy", NoEviction, []Choice[EvictionPolicy]{
		{"volatile-lru", VolatileLRU}, {"volatile-lfu", VolatileLFU}, {"volatile-random", VolatileRandom}, {"volatile-ttl", VolatileTTL},
		{"allkeys-lru", AllKeysLRU}, {"allkeys-lfu", AllKeysLFU}, {"allkeys-random", AllKeysRandom}, {"noeviction", NoEviction},
	}, "Which keys are evicted at maxmemory: any, or only those that expire (volatile); by the time since the last use (lru), by how often they are used (lfu), by chance (random), or those first that expire next (ttl). With noeviction writes are refused that may need memory. The lfu ones count uses, as OBJECT FREQ shows, in place of idle times.")
	t.int(&c.MaxMemorySamples, "maxmemory-samples", 5, 1, maxInt32, "Keys that are looked at for each that is evicted: more find older ones and take longer.")
	t.int(&c.MaxMemoryTenacity, "maxmemory-eviction-tenacity", 10, 0, 100, "How long a command that finds too much in memory evicts before it runs, and leaves the rest to the background: 0 for not at all, 10 for half a millisecond, 15 % longer with each step beyond, 100 until it is done.")
	c.MaxMemoryClients.form, c.MaxMemoryClients.check = "bytes with an optional unit, or a percentage of maxmemory", checkMemoryOrPercent
	t.text(&c.MaxMemoryClients, "maxmemory-clients", "0", "Memory of all clients together, in bytes or as a percentage of maxmemory, at which the largest are disconnected. 0: no bound but those of each client.")
	t.int(&c.LFULogFactor, "lfu-log-factor", 10, 0, maxInt32, "How much more seldom a count of uses grows the higher it is.")
	t.int(&c.LFUDecayMinutes, "lfu-decay-time", 1, 0, maxInt32, "Minutes in which a count of uses falls by one. 0: it does not.")
	t.alias(t.int(&c.HashMaxListpackEntries, "hash-max-listpack-entries", 512, 0, maxInt64, "Fields up to which a hash is packed."), "hash-max-ziplist-entries")
	t.alias(t.bytes(&c.HashMaxListpackValueBytes, "hash-max-listpack-value", 64, 0, maxInt64, "Longest field or value of a packed hash."), "hash-max-ziplist-value")
	t.alias(t.int(&c.ZSetMaxListpackEntries, "zset-max-listpack-entries", 128, 0, maxInt64, "Members up to which a sorted set is packed."), "zset-max-ziplist-entries")
	t.alias(t.bytes(&c.ZSetMaxListpackValueBytes, "zset-max-listpack-value", 64, 0, maxInt64, "Longest member of a packed sorted set."), "zset-max-ziplist-value")
	t.int(&c.SetMaxIntsetEntries, "set-max-intset-entries", 512, 0, maxInt64, "Members up to which a set of integers is packed.")
	t.alias(t.int(&c.ListMaxListpackSize, "list-max-listpack-size", -2, math.MinInt32, maxInt32, "Size of a list's chunks: elements if positive; -1 to -5 for 4, 8, 16, 32 or 64 KiB."), "list-max-ziplist-size")
	t.bytes(&c.StreamNodeMaxBytes, "stream-node-max-bytes", 4*kib, 0, maxInt64, "Size of a stream's blocks, which a trim with ~ removes whole. 0: up to 1 GiB.")
	t.int(&c.StreamNodeMaxEntries, "stream-node-max-entries", 100, 0, maxInt64, "Entries in a stream's block. 0: no bound.")
	t.bytes(&c.HLLSparseMaxBytes, "hll-sparse-max-bytes", 3000, 0, maxInt64, "Bytes up to which a HyperLogLog is packed.")

	t.group = "Diagnostics"
	t.int(&c.SlowlogMicros, "slowlog-log-slower-than", 10000, -1, maxInt64, "Microseconds from which on SLOWLOG keeps a command; below 1000 every command is measured by itself, which costs a little. 0: all of them. -1: none.")
	t.int(&c.SlowlogMaxEntries, "slowlog-max-len", 128, 0, maxInt64, "Commands that SLOWLOG keeps.")
	t.int(&c.LatencyMonitorMs, "latency-monitor-threshold", 0, 0, maxInt64, "Milliseconds from which on LATENCY records what took so long; every command is then measured by itself. 0: nothing is recorded.")
	t.bool(&c.LatencyTracking, "latency-tracking", true, "Count how the durations of each command are spread, for LATENCY HISTOGRAM and INFO latencystats.")
	c.LatencyPercentiles.form, c.LatencyPercentiles.check = "numbers, 0 to 100", checkPercentiles
	t.words(&c.LatencyPercentiles, "latency-tracking-info-percentiles", "50 99 99.9", "Percentiles that INFO latencystats shows.")
}

func checkBind(words []string) error {
	if len(words) == 0 {
		return errors.New("name at least one address")
	}
	if len(words) > maxBindAddresses {
		return refusal("Too many bind addresses specified.")
	}
	for _, w := range words {
		if w == "" || w == "-" {
			return errors.New("an address is empty")
		}
	}
	return nil
}

func checkDir(text string) (string, error) {
	if text == "" {
		return "", errors.New("name a directory")
	}
	return text, nil
}
