package kevy

import (
	"log/slog"

	"kevy/aof"
	"kevy/internal/engine"
	"kevy/shard"
)

// Option changes how a store is opened.
type Option func(*engine.Options)

// Fsync says when a commit is on the disk rather than with the system.
type Fsync int

const (
	// FsyncEverySec fsyncs once a second: a power cut may cost the last second,
	// the end of the process nothing.
	FsyncEverySec Fsync = iota
	// FsyncAlways fsyncs before a write returns.
	FsyncAlways
	// FsyncNo leaves it to the system, but for once in 30 seconds.
	FsyncNo
)

// WithFsync chooses the fsync policy; FsyncEverySec is the default.
func WithFsync(f Fsync) Option {
	return func(o *engine.Options) {
		switch f {
		case FsyncAlways:
			o.Fsync = aof.PolicyAlways
		case FsyncNo:
			o.Fsync = aof.PolicyNo
		default:
			o.Fsync = aof.PolicyEverySec
		}
	}
}

// WithLogger takes the store's own log; by default there is none.
func WithLogger(l *slog.Logger) Option { return func(o *engine.Options) { o.Logger = l } }

// WithoutFeed makes the feed's methods answer ErrFeedDisabled, and Update the
// zero Cursor. Commits do not pay for the feed then; opened with it again, the
// store begins a new generation.
func WithoutFeed() Option { return func(o *engine.Options) { o.NoFeed = true } }

// MaxMemoryPolicy says which keys go where WithMaxMemory has set a bound: the policies of
// the server's maxmemory-policy.
type MaxMemoryPolicy int

const (
	// NoEviction lets no key go: commands that may need memory are answered with an
	// error whose Code is "OOM".
	NoEviction MaxMemoryPolicy = iota
	// AllKeysLRU lets keys go that were not used for long, AllKeysLFU those that are
	// used least, and AllKeysRandom any.
	AllKeysLRU
	AllKeysLFU
	AllKeysRandom
	// The Volatile ones let only keys go that expire; VolatileTTL those first that
	// expire first. Where no such key is left, they are NoEviction.
	VolatileLRU
	VolatileLFU
	VolatileRandom
	VolatileTTL
)

// WithMaxMemory bounds what keys and values occupy, in bytes by the store's own count,
// which is exact and falls at once when keys go; 0 is no bound. What goes beyond it
// is a commit of its own, a DEL whose cause in the feed is that it was evicted.
// The program's heap has more: garbage, and what a rewrite keeps of keys that change under it;
// runtime/debug.SetMemoryLimit is the program's to set. The least recently used keys are
// found by samples, as in Redis.
func WithMaxMemory(bytes int64, policy MaxMemoryPolicy) Option {
	return func(o *engine.Options) {
		o.MaxMemory = engine.MaxMemory{Bytes: bytes, Evict: policy != NoEviction, Tenacity: engine.DefaultTenacity}
		o.MaxMemory.Volatile = policy >= VolatileLRU
		switch policy {
		case AllKeysLFU, VolatileLFU:
			o.MaxMemory.By = shard.EvictByUses
		case AllKeysRandom, VolatileRandom:
			o.MaxMemory.By = shard.EvictAtRandom
		case VolatileTTL:
			o.MaxMemory.By = shard.EvictByTTL
		}
	}
}

// WithDatabases sets the number of databases, 16 by default, at most 65536. Do
// and Update begin in database 0; COPY, MOVE and SWAPDB reach the others. A
// directory that has keys in a database beyond them is not opened.
func WithDatabases(n int) Option { return func(o *engine.Options) { o.DBs = n } }

// Recover says what Open does about damage: bytes that were durable and are not
// what was written any more. A tail that a crash has torn is no damage; it is cut
// in any case, into the quarantine directory.
type Recover int

const (
	// RecoverRefuse makes Open return an error that names the file and the place,
	// and change nothing.
	RecoverRefuse Recover = iota
	// RecoverTruncate keeps what stands before the damage.
	RecoverTruncate
	// RecoverSkip leaves out what is damaged, and what does not fit without it.
	RecoverSkip
)

// WithRecover chooses what to do about damage; RecoverRefuse is the default. The
// others keep a copy of what goes in the quarantine directory, write the log anew
// and begin a new history of the feed, which no old cursor leads to.
func WithRecover(r Recover) Option {
	return func(o *engine.Options) {
		switch r {
		case RecoverTruncate:
			o.Recover = aof.RecoverTruncate
		case RecoverSkip:
			o.Recover = aof.RecoverSkip
		default:
			o.Recover = aof.RecoverRefuse
		}
	}
}

// What a store is opened with.
const (
	databases       = 16
	feedMemoryBytes = 8 << 20
	feedDiskBytes   = 1 << 30
	feedHoldBytes   = 4 << 30
	// How uses are counted where MaxMemoryPolicy asks for it: Redis's defaults.
	lfuLogFactor    = 10
	lfuDecayMinutes = 1
)
