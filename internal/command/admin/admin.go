// Package admin has the operator's commands: what the server is, how it is
// configured, what it can do, and how to stop it.
package admin

import (
	"kevy/internal/command"
	"kevy/internal/config"
	"kevy/internal/metrics"
	"kevy/resp"
)

// Server is what these commands need of the server.
type Server interface {
	Config() *config.Config
	// RewriteConfig writes the settings and users into the file of settings; all says
	// that what is at its default is written as well.
	RewriteConfig(all bool) error
	// Info returns the sections of INFO in order. tx holds every shard for as
	// long as their fields are asked for.
	Info(tx InfoTx) []Section
	// ResetStats sets the counters of INFO to zero.
	ResetStats()
	// Shutdown begins a clean close.
	Shutdown()
	// Busy returns what is answered while a script has run for too long, nil if none
	// has.
	Busy() *resp.Error
	// Rewrite starts a rewrite of the log in the background.
	Rewrite() error
	// Reload reads the keyspace back from the log, which is rewritten first if save
	// is true. The caller holds no shard.
	Reload(save bool) error
	// Keys returns how many keys there are. The caller holds no shard.
	Keys() int
	// ChangeReplID draws a new replication ID.
	ChangeReplID()
	// Log writes a line to the server's log.
	Log(line string)
	// PauseExpiry stops or resumes the active removal of overdue keys.
	PauseExpiry(pause bool)
	// LetScriptsDebug says whether scripts may call DEBUG.
	LetScriptsDebug(let bool)
	// PauseHousekeeping stops or resumes what the server does from time to time.
	PauseHousekeeping(pause bool)
	// Save writes all keys to an RDB file; StartSave does so in the background.
	Save() error
	StartSave() error
	// Migrate moves keys to another server and replies to c.
	Migrate(c *command.Ctx, m Migration)
	// LastSaveUnix is when the data were last written as a whole.
	LastSaveUnix() int64
	// SlowLog is what SLOWLOG shows, Events what LATENCY does.
	SlowLog() *metrics.SlowLog
	Events() *metrics.Events
	// Latency is how long the calls of a command took, nil if none was counted.
	Latency(spec *command.Spec) *metrics.Histogram
	// Memory is what MEMORY STATS and DOCTOR speak of. tx holds every shard.
	Memory(tx InfoTx) Memory
	// AllocatorStats is what the allocator tells of itself, for people.
	AllocatorStats() string
	// Version is the Redis version that clients are told.
	Version() string
	// FreeMemory gives memory that is not in use back to the system.
	FreeMemory()
}

// Session is what these commands need of their session.
type Session interface {
	command.Session
	// InMulti reports whether a transaction is open or runs.
	InMulti() bool
	// MergeStats makes the server's counters include what the session has run.
	MergeStats()
	// Drain sends the replies so far; HangUp ends the connection after those that
	// are still to come.
	Drain() bool
	HangUp()
	// Monitor makes the session see all commands that run; false: it does already.
	Monitor() bool
}

func session(c *command.Ctx) Session { return c.Session.(Session) }

// Commands returns the family. table yields the table that the family itself
// belongs to.
func Commands(srv Server, table func() *command.Table) []*command.Spec {
	return append(clusterModes(),
		bgRewriteAOF(srv), bgSave(srv), cluster(), commandCommand(table), configCommand(srv), debug(srv), info(srv), lastSave(srv), latency(srv, table), lolwut(srv),
		memory(srv), migrate(srv), module(), monitor(), save(srv), shutdown(srv), slowlog(srv), timeCommand(),
	)
}

// serverFlags are those of most of the commands that ask about the server.
const serverFlags = command.Loading | command.Stale

// helpSub is the subcommand HELP of a container.
func helpSub(since string, lines []string) *command.Spec {
	return &command.Spec{
		Name: "help", Arity: 2, Flags: serverFlags | command.Unlocked, Since: since, Complexity: "O(1)",
		Summary: "Lists the subcommands.",
		Run:     func(c *command.Ctx) { command.Help(c, lines) },
	}
}
