package admin

import (
	"time"

	"kevy/internal/command"
	"kevy/internal/config"
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
		Flags:   command.Admin | command.NoScript | command.Loading | command.Stale | command.Unlocked,
		Syntax:  "subcommand [argument [argument ...]]",
		Summary: "Commands for tests.",
		Differences: "PROTOCOL, QUICKLIST-PACKED-THRESHOLD (which has no effect), SET-ACTIVE-EXPIRE, SLEEP and HELP exist. " +
			"While a connection sleeps others go on.",
		Run: func(c *command.Ctx) { runDebug(c, srv) },
	}
}

func runDebug(c *command.Ctx, srv Server) {
	name := c.Args[1]
	switch n := len(c.Args); {
	case n == 2 && command.EqualFold(name, "HELP"):
		command.Help(c, debugHelp)
	case n == 3 && command.EqualFold(name, "SLEEP"):
		debugSleep(c)
	case n == 3 && command.EqualFold(name, "SET-ACTIVE-EXPIRE"):
		srv.PauseExpiry(leadingInt(c.Args[2]) == 0)
		c.W.OK()
	case n == 3 && command.EqualFold(name, "QUICKLIST-PACKED-THRESHOLD"):
		if bytes, err := config.ParseMemory(string(c.Args[2])); err != nil || bytes > maxPackedThresholdBytes {
			c.W.Error(resp.Errorf("ERR", "argument must be a memory value bigger than 1 and smaller than 4gb"))
			return
		}
		c.W.OK()
	case n == 3 && command.EqualFold(name, "PROTOCOL"):
		debugProtocol(c)
	default:
		c.W.Error(command.SubcommandError(c))
	}
}

// The lines are those of redis-server for the subcommands that are here.
var debugHelp = []string{
	"PROTOCOL <type>",
	"    Reply with a test value of the specified type. <type> can be: string,",
	"    integer, double, bignum, null, array, set, map, attrib, push, verbatim,",
	"    true, false.",
	"SET-ACTIVE-EXPIRE <0|1>",
	"    Setting it to 0 disables expiring keys in background when they are not",
	"    accessed (otherwise the Redis behavior). Setting it to 1 reenables back the",
	"    default.",
	"QUICKLIST-PACKED-THRESHOLD <size>",
	"    Sets the threshold for elements to be inserted as plain vs packed nodes",
	"    Default value is 1GB, allows values up to 4GB. Setting to 0 restores to default.",
	"SLEEP <seconds>",
	"    Stop the server for <seconds>. Decimals allowed.",
}

// debugSleep takes what is no number as 0, as Redis does.
func debugSleep(c *command.Ctx) {
	seconds, ok := command.ParseFloat(c.Args[2])
	if ok && seconds > 0 {
		time.Sleep(time.Duration(min(seconds, maxSleep.Seconds()) * float64(time.Second)))
	}
	c.W.OK()
}

// debugProtocol answers a value of each type of the protocol.
func debugProtocol(c *command.Ctx) {
	w := c.W
	switch kind := c.Args[2]; {
	case command.EqualFold(kind, "STRING"):
		w.BulkString("Hello World")
	case command.EqualFold(kind, "INTEGER"):
		w.Int(12345)
	case command.EqualFold(kind, "DOUBLE"):
		w.Double(3.141)
	case command.EqualFold(kind, "BIGNUM"):
		w.BigNumber("1234567999999999999999999999999999999")
	case command.EqualFold(kind, "NULL"):
		w.Null()
	case command.EqualFold(kind, "ARRAY"):
		w.Array(3)
		for i := range 3 {
			w.Int(int64(i))
		}
	case command.EqualFold(kind, "SET"):
		w.Set(3)
		for i := range 3 {
			w.Int(int64(i))
		}
	case command.EqualFold(kind, "MAP"):
		w.Map(3)
		for i := range 3 {
			w.Int(int64(i))
			w.Bool(i == 1)
		}
	case command.EqualFold(kind, "ATTRIB"):
		if w.Proto() == 3 {
			w.Raw([]byte("|1\r\n"))
			w.BulkString("key-popularity")
			w.Array(2)
			w.BulkString("key:123")
			w.Int(90)
		}
		w.BulkString("Some real reply following the attribute")
	case command.EqualFold(kind, "PUSH"):
		if w.Proto() != 3 {
			w.Error(resp.Errorf("ERR", "RESP2 is not supported by this command"))
			return
		}
		w.Push(2)
		w.BulkString("server-cpu-usage")
		w.Int(42)
		w.BulkString("Some real reply following the push reply")
	case command.EqualFold(kind, "TRUE"):
		w.Bool(true)
	case command.EqualFold(kind, "FALSE"):
		w.Bool(false)
	case command.EqualFold(kind, "VERBATIM"):
		w.Verbatim("txt", "This is a verbatim\nstring")
	default:
		w.Error(resp.Errorf("ERR", "Wrong protocol type name. Please use one of the following: "+
			"string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false"))
	}
}
