package config

import (
	"log/slog"
	"sync"
)

// Config is the server's settings. Every field may be read at any time from
// any goroutine. Units are in the names.
type Config struct {
	// Network and clients.
	Bind                   Words // addresses; a leading '-' marks one that may be missing, * is every IPv4 address and ::* every IPv6 one
	Port                   Int   // 0: none, or a free one if there was no other way in at the start; see FreePort
	ProtectedMode          Bool
	TimeoutSeconds         Int // 0: idle clients stay
	TCPKeepaliveSeconds    Int // 0: none
	BusyReplyThresholdMs   Int // 0: scripts run as long as they like
	MaxClients             Int
	ProtoMaxBulkBytes      Int
	ClientQueryBufferBytes Int
	ClientOutputBuffer     OutputLimits
	TCPBacklog             Int
	UnixSocket             Text // empty: none; relative to Dir
	UnixSocketPerm         Text // octal; 0: as the umask leaves it

	// TLS.
	TLSPort           Int // 0: none
	TLSCertFile       Text
	TLSKeyFile        Text
	TLSKeyFilePass    Text
	TLSCACertFile     Text
	TLSCACertDir      Text
	TLSAuthClients    Enum[TLSClients]
	TLSProtocols      Text
	TLSCiphers        Text
	TLSCipherSuites   Text
	TLSSessionCaching Bool

	// Process.
	Dir                Text // the data directory; absolute after Load
	LogLevel           Enum[LogLevel]
	LogFile            Text // empty: standard output; relative to Dir
	PIDFile            Text // empty: none; relative to Dir
	Databases          Int
	EnableDebugCommand Enum[Locality]

	// Users.
	RequirePass      Text // the default user's password as it was set last; empty: none
	ACLFile          Text // empty: none; relative to Dir
	ACLPubSubDefault Enum[ChannelDefault]
	ACLLogMaxLen     Int

	// The log.
	AppendOnly               Bool
	AppendFsync              Enum[Fsync]
	AutoAOFRewritePercentage Int // 0: no automatic rewrite
	AutoAOFRewriteMinBytes   Int
	AOFLoadTruncated         Bool
	Recover                  Enum[Recover]
	Shards                   Int

	// The feed.
	Feed               Bool
	FeedBacklogBytes   Int
	FeedRetentionBytes Int
	FeedRetentionMs    Int // 0: no bound by age
	FeedHoldMaxBytes   Int
	HTTPPort           Int // 0: none
	HTTPTLSPort        Int // 0: none
	HTTPMaxClients     Int

	FeedSnapshotMaxBytes Int // 0: no bound
	FeedSnapshotLogBytes Int // 0: no bound

	// Events and client-side caching.
	NotifyKeyspaceEvents Text // letters, in Redis's order; empty: no events
	TrackingTableMaxKeys Int  // 0: no bound of their own

	// Memory and encodings.
	MaxMemoryBytes            Int // 0: no bound
	MaxMemoryPolicy           Enum[EvictionPolicy]
	MaxMemorySamples          Int
	MaxMemoryTenacity         Int
	MaxMemoryClients          Text // bytes, or a percentage of maxmemory; see ClientsLimit
	LFULogFactor              Int
	LFUDecayMinutes           Int
	HashMaxListpackEntries    Int
	HashMaxListpackValueBytes Int
	ZSetMaxListpackEntries    Int
	ZSetMaxListpackValueBytes Int
	SetMaxIntsetEntries       Int
	HLLSparseMaxBytes         Int
	ListMaxListpackSize       Int // above 0 elements, below 0 Redis's size classes -1 (4 KiB) to -5 (64 KiB)
	StreamNodeMaxBytes        Int
	StreamNodeMaxEntries      Int

	// DBFileName is what SAVE calls its file, in Dir.
	DBFileName Text

	// Replication, of which there is none: how many replicas writes want, 0: none; how
	// many seconds behind one may be, 0: as if they wanted none.
	MinReplicasToWrite Int
	MinReplicasMaxLag  Int

	// Diagnostics.
	SlowlogMicros      Int // below 0: nothing is slow
	SlowlogMaxEntries  Int
	LatencyMonitorMs   Int // 0: off
	LatencyTracking    Bool
	LatencyPercentiles Words // numbers from 0 to 100

	settings []*Setting          // in the registry's order; constant after New
	byName   map[string]*Setting // names and aliases in lower case; constant after New
	file     string              // absolute path of the file read, or empty; constant after Load
	given    []*Setting          // set by file or command line, in order; constant after Load
	users    []Line              // constant after Load
	renames  []Line              // constant after Load

	mu    sync.Mutex // one change at a time; hooks run under it
	hooks []hook     // guarded by mu
}

// LogLevel is a level of the setting loglevel.
type LogLevel int

// The levels of loglevel, from the most to the least that is logged.
const (
	LogDebug LogLevel = iota
	LogVerbose
	LogNotice
	LogWarning
)

// LevelVerbose is the level of records that loglevel verbose shows and notice
// does not.
const LevelVerbose = slog.Level(-2)

// Slog returns the least level that is logged.
func (l LogLevel) Slog() slog.Level {
	switch l {
	case LogDebug:
		return slog.LevelDebug
	case LogVerbose:
		return LevelVerbose
	case LogWarning:
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// Fsync is a policy of the setting appendfsync.
type Fsync int

// The policies of appendfsync.
const (
	FsyncEverySec Fsync = iota
	FsyncAlways
	FsyncNo
)

// Recover says what the start does with a damaged log.
type Recover int

// The values of recover.
const (
	RecoverRefuse   Recover = iota // stop and say where
	RecoverTruncate                // keep what stands before the damage
	RecoverSkip                    // leave out the damaged blocks
)

// EvictionPolicy is a value of the setting maxmemory-policy.
type EvictionPolicy int

// The values of maxmemory-policy.
const (
	NoEviction EvictionPolicy = iota
	VolatileLRU
	VolatileLFU
	VolatileRandom
	VolatileTTL
	AllKeysLRU
	AllKeysLFU
	AllKeysRandom
)

// CountsUses reports whether the policy asks how often a key is used.
func (p EvictionPolicy) CountsUses() bool { return p == VolatileLFU || p == AllKeysLFU }

// Locality says who may use a feature.
type Locality int

// The values of enable-debug-command.
const (
	LocalityNo Locality = iota
	LocalityYes
	LocalityLocal // connections from this host
)

// TLSClients is a value of the setting tls-auth-clients: whether clients show a
// certificate.
type TLSClients int

// The values of tls-auth-clients.
const (
	TLSClientsNo TLSClients = iota
	TLSClientsYes
	TLSClientsOptional // none is as good as a right one
)

// FreePort reports whether a port of 0 stands for a free one at the start. Where TLS or a Unix
// socket lets clients in, it is none, as in Redis.
func (c *Config) FreePort() bool { return c.TLSPort.Load() == 0 && c.UnixSocket.Load() == "" }

// ChannelDefault is a value of acl-pubsub-default.
type ChannelDefault int

// The values of acl-pubsub-default.
const (
	ResetChannels ChannelDefault = iota // a new user hears no channel
	AllChannels
)

// Line is a line that sets nothing in the registry.
type Line struct {
	Origin string // file and line, or the option, for errors
	Words  []string
}

// Users returns the lines that define users, of file and command line in their
// order. Nobody may write to them.
func (c *Config) Users() []Line { return c.users }

// Renames returns the lines that rename commands, of two words each.
func (c *Config) Renames() []Line { return c.renames }

// New returns the defaults.
func New() *Config {
	c := &Config{byName: make(map[string]*Setting)}
	c.register()
	c.registerCompatibility()
	return c
}

// Settings returns the registry in its order. Neither the slice nor the rows
// may be modified.
func (c *Config) Settings() []*Setting { return c.settings }

// File returns the absolute path of the configuration file, or "" when the
// server runs without one.
func (c *Config) File() string { return c.file }

// GivenWithoutEffect returns the settings that the file or the command line
// moved from their default although nothing here follows them.
func (c *Config) GivenWithoutEffect() []*Setting {
	var without []*Setting
	for _, s := range c.given {
		if s.Effect == Accepted && s.Text() != s.Default {
			without = append(without, s)
		}
	}
	return without
}
