package admin

import (
	"math/rand/v2"
	"strings"
	"time"

	"kevy/internal/command"
	"kevy/internal/config"
	"kevy/internal/glob"
	"kevy/internal/rdb"
	"kevy/resp"
)

const (
	// maxSleep bounds DEBUG SLEEP.
	maxSleep = time.Hour
	// maxPackedThresholdBytes is how much Redis lets QUICKLIST-PACKED-THRESHOLD
	// be at most.
	maxPackedThresholdBytes = 1<<32 - 1<<20
)

// debug is one command: in Redis its subcommands are none of their own. Who may
// use it is decided before it runs.
func debug(srv Server) *command.Spec {
	return &command.Spec{
		Name: "debug", Arity: -2, Group: "server", Since: "1.0.0", Complexity: "Depends on the subcommand.",
		Flags:   command.Admin | command.NoScript | command.Loading | command.Stale,
		Reach:   debugReach,
		Syntax:  "subcommand [argument [argument ...]]",
		Summary: "Commands for tests.",
		Differences: "HELP lists the subcommands that exist; those that crash a server are refused. RELOAD and LOADAOF read the log, " +
			"which lacks nothing, so NOSAVE loses nothing, and serve what came only if it is what was there. While a connection " +
			"sleeps others go on. What POPULATE makes is written to the log. HTSTATS describes our tables. " +
			"QUICKLIST-PACKED-THRESHOLD and REPLYBUFFER have no effect. SET-DISABLE-DENY-SCRIPTS lets scripts call DEBUG, and nothing else that is refused to them.",
		Run: func(c *command.Ctx) { runDebug(c, srv) },
	}
}

// debugCommand is a subcommand of DEBUG.
type debugCommand struct {
	name     string
	min, max int // arguments behind the name; max -1: any number
	reach    reach
	run      func(c *command.Ctx, srv Server)
	help     []string
}

// reach says what a subcommand locks.
type reach uint8

const (
	reachNothing reach = iota
	reachKeys          // those that are its arguments
	reachAll
)

// debugCommands are in the order of HELP, whose lines are those of redis-server.
var debugCommands = []debugCommand{
	{"CHANGE-REPL-ID", 0, 0, reachNothing, debugChangeReplID, []string{
		"CHANGE-REPL-ID",
		"    Change the replication IDs of the instance.",
		"    Dangerous: should be used only for testing the replication subsystem.",
	}},
	{"CONFIG-REWRITE-FORCE-ALL", 0, 0, reachNothing, func(c *command.Ctx, srv Server) { rewriteConfig(c, srv, true) }, []string{
		"CONFIG-REWRITE-FORCE-ALL",
		"    Like CONFIG REWRITE but writes all configuration options, including",
		"    keywords not listed in original configuration file or default values.",
	}},
	{"DIGEST", 0, 0, reachAll, debugDigest, []string{
		"DIGEST",
		"    Output a hex signature representing the current DB content.",
	}},
	{"DIGEST-VALUE", 0, -1, reachKeys, debugDigestValue, []string{
		"DIGEST-VALUE <key> [<key> ...]",
		"    Output a hex signature of the values of all the specified keys.",
	}},
	{"ERROR", 1, 1, reachNothing, debugError, []string{
		"ERROR <string>",
		"    Return a Redis protocol error with <string> as message. Useful for clients",
		"    unit tests to simulate Redis errors.",
	}},
	{"LOG", 1, 1, reachNothing, debugLog, []string{
		"LOG <message>",
		"    Write <message> to the server log.",
	}},
	{"HTSTATS", 1, 1, reachAll, debugHTStats, []string{
		"HTSTATS <dbid>",
		"    Return hash table statistics of the specified Redis database.",
	}},
	{"HTSTATS-KEY", 1, 1, reachKeys, debugHTStatsKey, []string{
		"HTSTATS-KEY <key>",
		"    Like HTSTATS but for the hash table stored at <key>'s value.",
	}},
	{"LOADAOF", 0, -1, reachNothing, debugLoadAOF, []string{
		"LOADAOF",
		"    Flush the AOF buffers on disk and reload the AOF in memory.",
	}},
	{"OBJECT", 1, 1, reachKeys, debugObject, []string{
		"OBJECT <key>",
		"    Show low level info about `key` and associated value.",
	}},
	{"POPULATE", 1, 3, reachAll, debugPopulate, []string{
		"POPULATE <count> [<prefix>] [<size>]",
		"    Create <count> string keys named key:<num>. If <prefix> is specified then",
		"    it is used instead of the 'key' prefix.",
	}},
	{"PROTOCOL", 1, 1, reachNothing, debugProtocol, []string{
		"PROTOCOL <type>",
		"    Reply with a test value of the specified type. <type> can be: string,",
		"    integer, double, bignum, null, array, set, map, attrib, push, verbatim,",
		"    true, false.",
	}},
	{"RELOAD", 0, -1, reachNothing, debugReload, []string{
		"RELOAD [option ...]",
		"    Save the data on disk and reload them back to memory. Valid <option> values:",
		"    * MERGE: conflicting keys will be loaded from the log.",
		"    * NOFLUSH: the existing database will not be removed before load, but",
		"      conflicting keys are an error.",
		"    * NOSAVE: the database will be loaded from the existing log.",
	}},
	{"SDSLEN", 1, 1, reachKeys, debugSDSLen, []string{
		"SDSLEN <key>",
		"    Show low level SDS string info representing `key` and value.",
	}},
	{"SET-ACTIVE-EXPIRE", 1, 1, reachNothing, debugSetActiveExpire, []string{
		"SET-ACTIVE-EXPIRE <0|1>",
		"    Setting it to 0 disables expiring keys in background when they are not",
		"    accessed (otherwise the Redis behavior). Setting it to 1 reenables back the",
		"    default.",
	}},
	{"QUICKLIST-PACKED-THRESHOLD", 1, 1, reachNothing, debugPackedThreshold, []string{
		"QUICKLIST-PACKED-THRESHOLD <size>",
		"    Sets the threshold for elements to be inserted as plain vs packed nodes",
		"    Default value is 1GB, allows values up to 4GB. Setting to 0 restores to default.",
	}},
	{"SET-DISABLE-DENY-SCRIPTS", 1, 1, reachNothing, debugInScripts, []string{
		"SET-DISABLE-DENY-SCRIPTS <0|1>",
		"    Lets scripts call DEBUG, or not.",
	}},
	{"SET-SKIP-CHECKSUM-VALIDATION", 1, 1, reachNothing, debugSkipChecksums, []string{
		"SET-SKIP-CHECKSUM-VALIDATION <0|1>",
		"    Enables or disables checksum checks for RDB files and RESTORE's payload.",
	}},
	{"SLEEP", 1, 1, reachNothing, debugSleep, []string{
		"SLEEP <seconds>",
		"    Stop the server for <seconds>. Decimals allowed.",
	}},
	{"STRINGMATCH-TEST", 0, 0, reachNothing, debugStringMatch, []string{
		"STRINGMATCH-TEST",
		"    Run a fuzz tester against the stringmatchlen() function.",
	}},
	{"LISTPACK", 1, 1, reachKeys, debugListpack, []string{
		"LISTPACK <key>",
		"    Show low level info about the listpack encoding of <key>.",
	}},
	{"QUICKLIST", 1, 2, reachKeys, debugQuicklist, []string{
		"QUICKLIST <key> [<0|1>]",
		"    Show low level info about the quicklist encoding of <key>.",
		"    The optional argument (0 by default) sets the level of detail",
	}},
	{"PAUSE-CRON", 1, 1, reachNothing, debugPauseCron, []string{
		"PAUSE-CRON <0|1>",
		"    Stop periodic cron job processing.",
	}},
	{"REPLYBUFFER", 2, 2, reachNothing, debugReplyBuffer, []string{
		"REPLYBUFFER PEAK-RESET-TIME <NEVER||RESET|time>",
		"    Sets the time (in milliseconds) to wait between client reply buffer peak resets.",
		"    In case NEVER is provided the last observed peak will never be reset",
		"    In case RESET is provided the peak reset time will be restored to the default value",
		"REPLYBUFFER RESIZING <0|1>",
		"    Enable or disable the reply buffer resize cron job",
	}},
}

// crashing lists the subcommands that end a Redis.
var crashing = []string{"ASSERT", "CRASH-AND-RECOVER", "OOM", "PANIC", "RESTART", "SEGFAULT"}

// findDebug returns the subcommand that the arguments call, nil if there is none
// of that name or for so many.
func findDebug(args [][]byte) *debugCommand {
	for i := range debugCommands {
		d := &debugCommands[i]
		if n := len(args) - 2; command.EqualFold(args[1], d.name) && n >= d.min && (n <= d.max || d.max < 0) {
			return d
		}
	}
	return nil
}

func debugReach(args [][]byte) (keys [][]byte, all bool) {
	d := findDebug(args)
	switch {
	case d == nil || d.reach == reachNothing:
		return nil, false
	case d.reach == reachAll:
		return nil, true
	}
	return args[2:], false
}

func runDebug(c *command.Ctx, srv Server) {
	name := c.Args[1]
	if d := findDebug(c.Args); d != nil {
		d.run(c, srv)
		return
	}
	if len(c.Args) == 2 && command.EqualFold(name, "HELP") {
		var lines []string
		for i := range debugCommands {
			lines = append(lines, debugCommands[i].help...)
		}
		command.Help(c, lines)
		return
	}
	for _, crash := range crashing {
		if command.EqualFold(name, crash) {
			c.W.Error(resp.Errorf("ERR", "DEBUG %s is refused: it would end the server", crash))
			return
		}
	}
	c.W.Error(command.SubcommandError(c))
}

// debugSleep takes what is no number as 0, as Redis does.
func debugSleep(c *command.Ctx, _ Server) {
	seconds, ok := command.ParseFloat(c.Args[2])
	if ok && seconds > 0 {
		time.Sleep(time.Duration(min(seconds, maxSleep.Seconds()) * float64(time.Second)))
	}
	c.W.OK()
}

func debugSetActiveExpire(c *command.Ctx, srv Server) {
	srv.PauseExpiry(leadingInt(c.Args[2]) == 0)
	c.W.OK()
}

func debugInScripts(c *command.Ctx, srv Server) {
	srv.LetScriptsDebug(leadingInt(c.Args[2]) != 0)
	c.W.OK()
}

func debugPauseCron(c *command.Ctx, srv Server) {
	srv.PauseHousekeeping(leadingInt(c.Args[2]) != 0)
	c.W.OK()
}

func debugSkipChecksums(c *command.Ctx, _ Server) {
	rdb.SkipChecksums.Store(leadingInt(c.Args[2]) != 0)
	c.W.OK()
}

// debugReplyBuffer takes what Redis takes. The buffer of replies of a connection grows as
// it must, and goes when the connection rests.
func debugReplyBuffer(c *command.Ctx, _ Server) {
	switch value := c.Args[3]; {
	case command.EqualFold(c.Args[2], "PEAK-RESET-TIME"):
		if !command.EqualFold(value, "NEVER") && !command.EqualFold(value, "RESET") {
			if _, ok := command.ParseInt(value); !ok {
				c.W.Error(command.ErrNotInt)
				return
			}
		}
		c.W.OK()
	case command.EqualFold(c.Args[2], "RESIZING"):
		c.W.OK()
	default:
		c.W.Error(command.SubcommandError(c))
	}
}

func debugPackedThreshold(c *command.Ctx, _ Server) {
	if bytes, err := config.ParseMemory(string(c.Args[2])); err != nil || bytes > maxPackedThresholdBytes {
		c.W.Error(resp.Errorf("ERR", "argument must be a memory value bigger than 1 and smaller than 4gb"))
		return
	}
	c.W.OK()
}

func debugChangeReplID(c *command.Ctx, srv Server) {
	srv.ChangeReplID()
	c.W.OK()
}

// debugError answers what it is given as an error, on one line.
func debugError(c *command.Ctx, _ Server) {
	line := strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' {
			return ' '
		}
		return r
	}, string(c.Args[2]))
	c.W.Raw([]byte("-" + line + "\r\n"))
}

func debugLog(c *command.Ctx, srv Server) {
	srv.Log("DEBUG LOG: " + string(c.Args[2]))
	c.W.OK()
}

// debugStringMatch matches random patterns with random texts: that must end and
// harm nothing.
func debugStringMatch(c *command.Ctx, _ Server) {
	const (
		rounds   = 100_000
		maxBytes = 32
		letters  = "ab*?[]^-\\\x00\xff"
	)
	random := func() []byte {
		b := make([]byte, rand.IntN(maxBytes))
		for i := range b {
			b[i] = letters[rand.IntN(len(letters))]
		}
		return b
	}
	for range rounds {
		glob.Match(random(), random())
	}
	c.W.Simple("Apparently Redis did not crash: test passed")
}
