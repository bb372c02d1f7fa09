package connection

import (
	"strings"

	"kevy/internal/command"
	"kevy/resp"
)

// subFlags are those of every subcommand of CLIENT but HELP.
const subFlags = command.NoScript | command.Loading | command.Stale | command.Unlocked

func client(srv Server) *command.Spec {
	return &command.Spec{
		Name: "client", Arity: -2, Group: "connection", Since: "2.4.0",
		Summary:     "Commands about connections.",
		Differences: "SETINFO and NO-TOUCH are those of Redis 7.2.",
		Sub: []*command.Spec{
			clientCaching(), clientGetName(), clientGetRedir(), clientHelp(), clientID(), clientInfo(), clientKill(srv), clientList(srv), clientNoEvict(), clientNoTouch(), clientPause(srv), clientReply(),
			clientSetInfo(), clientSetName(), clientTracking(srv), clientTrackingInfo(), clientUnblock(srv), clientUnpause(srv),
		},
	}
}

func clientGetName() *command.Spec {
	return &command.Spec{
		Name: "getname", Arity: 2, Flags: subFlags, Category: command.CatConnection, Since: "2.6.9", Complexity: "O(1)",
		Summary: "Answers the name of this connection.",
		Run: func(c *command.Ctx) {
			if name := conn(c).Name(); name != "" {
				c.W.BulkString(name)
			} else {
				c.W.Null()
			}
		},
	}
}

func clientID() *command.Spec {
	return &command.Spec{
		Name: "id", Arity: 2, Flags: subFlags, Category: command.CatConnection, Since: "5.0.0", Complexity: "O(1)",
		Summary: "Answers the number of this connection, which no other one gets.",
		Run:     func(c *command.Ctx) { c.W.Int(int64(c.Session.ID())) },
	}
}

func clientSetName() *command.Spec {
	return &command.Spec{
		Name: "setname", Arity: 3, Flags: subFlags, Category: command.CatConnection, Since: "2.6.9", Complexity: "O(1)",
		Syntax:  "connection-name",
		Summary: "Names this connection.",
		Run: func(c *command.Ctx) {
			if !printable(c.Args[2]) {
				c.W.Error(errBadName)
				return
			}
			conn(c).SetName(string(c.Args[2]))
			c.W.OK()
		},
	}
}

func clientSetInfo() *command.Spec {
	return &command.Spec{
		Name: "setinfo", Arity: 4, Flags: subFlags, Category: command.CatConnection, Since: "7.2.0", Complexity: "O(1)",
		Syntax:  "<LIB-NAME libname | LIB-VER libver>",
		Summary: "Notes the client library of this connection.",
		Run: func(c *command.Ctx) {
			name, value := c.Args[2], c.Args[3]
			var attribute LibAttribute
			switch {
			case command.EqualFold(name, "LIB-NAME"):
				attribute = LibName
			case command.EqualFold(name, "LIB-VER"):
				attribute = LibVersion
			default:
				c.W.Error(resp.Errorf("ERR", "Unrecognized option '%s'", command.CText(name)))
				return
			}
			if !printable(value) {
				c.W.Error(resp.Errorf("ERR", "%s cannot contain spaces, newlines or special characters.", name))
				return
			}
			conn(c).SetLib(attribute, string(value))
			c.W.OK()
		},
	}
}

func clientInfo() *command.Spec {
	return &command.Spec{
		Name: "info", Arity: 2, Flags: subFlags, Category: command.CatConnection, Since: "6.2.0", Complexity: "O(1)",
		Tips:    []string{"nondeterministic_output"},
		Summary: "Describes this connection.",
		Run: func(c *command.Ctx) {
			var b strings.Builder
			me := conn(c).Describe()
			me.appendTo(&b)
			c.W.Verbatim("txt", b.String())
		},
	}
}

func clientHelp() *command.Spec {
	return &command.Spec{
		Name: "help", Arity: 2, Flags: command.Loading | command.Stale | command.Unlocked, Category: command.CatConnection,
		Since: "5.0.0", Complexity: "O(1)",
		Summary: "Lists the subcommands.",
		Run:     func(c *command.Ctx) { command.Help(c, clientHelpLines) },
	}
}

// The lines are those of redis-server; SETINFO's and NO-TOUCH's are of 7.2.
var clientHelpLines = []string{
	"CACHING (YES|NO)",
	"    Enable/disable tracking of the keys for next command in OPTIN/OPTOUT modes.",
	"GETREDIR",
	"    Return the client ID we are redirecting to when tracking is enabled.",
	"GETNAME",
	"    Return the name of the current connection.",
	"ID",
	"    Return the ID of the current connection.",
	"INFO",
	"    Return information about the current client connection.",
	"KILL <ip:port>",
	"    Kill connection made from <ip:port>.",
	"KILL <option> <value> [<option> <value> [...]]",
	"    Kill connections. Options are:",
	"    * ADDR (<ip:port>|<unixsocket>:0)",
	"      Kill connections made from the specified address",
	"    * LADDR (<ip:port>|<unixsocket>:0)",
	"      Kill connections made to specified local address",
	"    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
	"      Kill connections by type.",
	"    * USER <username>",
	"      Kill connections authenticated by <username>.",
	"    * SKIPME (YES|NO)",
	"      Skip killing current connection (default: yes).",
	"LIST [options ...]",
	"    Return information about client connections. Options:",
	"    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
	"      Return clients of specified type.",
	"UNPAUSE",
	"    Stop the current client pause, resuming traffic.",
	"PAUSE <timeout> [WRITE|ALL]",
	"    Suspend all, or just write, clients for <timeout> milliseconds.",
	"REPLY (ON|OFF|SKIP)",
	"    Control the replies sent to the current connection.",
	"SETINFO <option> <value>",
	"    Set client meta attr. Options are:",
	"    * LIB-NAME: the client lib name.",
	"    * LIB-VER: the client lib version.",
	"SETNAME <name>",
	"    Assign the name <name> to the current connection.",
	"UNBLOCK <clientid> [TIMEOUT|ERROR]",
	"    Unblock the specified blocked client.",
	"TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [...]]",
	"         [OPTIN] [OPTOUT] [NOLOOP]",
	"    Control server assisted client side caching.",
	"TRACKINGINFO",
	"    Report tracking status for the current connection.",
	"NO-EVICT (ON|OFF)",
	"    Protect current client connection from eviction.",
	"NO-TOUCH (ON|OFF)",
	"    Will not touch LRU/LFU stats when this mode is on.",
}
