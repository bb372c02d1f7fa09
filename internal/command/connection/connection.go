// Package connection has the commands that concern the connection they come
// from, and the list of all of them.
package connection

import (
	"kevy/internal/command"
	"kevy/resp"
)

// Conn is what these commands need of their session.
type Conn interface {
	command.Session
	Select(db int)
	DBs() int
	InMulti() bool
	Name() string
	SetName(name string)
	SetLib(attribute, value string)
	Describe() Client
	Reset()
	Close() // after the replies so far
}

// Server is what these commands need of the server.
type Server interface {
	// Version is the Redis version that clients are told.
	Version() string
	// Clients returns every connection in the order of their ids.
	Clients() []Client
	// Kill ends another connection and reports whether there was one.
	Kill(id uint64) bool
}

// Commands returns the family.
func Commands(srv Server) []*command.Spec {
	return []*command.Spec{
		ping(), echo(), selectDB(), quit(), reset(), hello(srv), client(srv),
	}
}

func conn(c *command.Ctx) Conn { return c.Session.(Conn) }

func ping() *command.Spec {
	return &command.Spec{
		Name: "ping", Arity: -1, Flags: command.Fast | command.Unlocked, Category: command.CatConnection,
		Group: "connection", Since: "1.0.0", Complexity: "O(1)", Syntax: "[message]",
		Tips:    []string{"request_policy:all_shards", "response_policy:all_succeeded"},
		Summary: "Answers PONG, or the message.",
		Run: func(c *command.Ctx) {
			switch len(c.Args) {
			case 1:
				c.W.Simple("PONG")
			case 2:
				c.W.Bulk(c.Args[1])
			default:
				c.W.Error(c.Spec.ArityError())
			}
		},
	}
}

func echo() *command.Spec {
	return &command.Spec{
		Name: "echo", Arity: 2, Flags: command.Fast | command.Unlocked, Category: command.CatConnection,
		Group: "connection", Since: "1.0.0", Complexity: "O(1)", Syntax: "message",
		Summary: "Answers the message.",
		Run:     func(c *command.Ctx) { c.W.Bulk(c.Args[1]) },
	}
}

func selectDB() *command.Spec {
	return &command.Spec{
		Name: "select", Arity: 2, Flags: command.Loading | command.Stale | command.Fast | command.Unlocked, Category: command.CatConnection,
		Group: "connection", Since: "1.0.0", Complexity: "O(1)", Syntax: "index",
		Summary: "Changes the database of this connection.",
		Run: func(c *command.Ctx) {
			n, ok := command.ParseInt(c.Args[1])
			switch {
			case !ok || n != int64(int32(n)):
				c.W.Error(resp.Errorf("ERR", "invalid DB index"))
			case n < 0 || n >= int64(conn(c).DBs()):
				c.W.Error(resp.Errorf("ERR", "DB index is out of range"))
			default:
				conn(c).Select(int(n))
				c.W.OK()
			}
		},
	}
}

func quit() *command.Spec {
	return &command.Spec{
		Name: "quit", Arity: -1, Category: command.CatConnection,
		Flags: command.AllowBusy | command.NoScript | command.Loading | command.Stale | command.Fast | command.NoAuth | command.Unlocked,
		Group: "connection", Since: "1.0.0", Complexity: "O(1)",
		Summary: "Closes the connection.",
		Run: func(c *command.Ctx) {
			conn(c).Close()
			c.W.OK()
		},
	}
}

func reset() *command.Spec {
	return &command.Spec{
		Name: "reset", Arity: 1, Category: command.CatConnection,
		Flags: command.NoScript | command.Loading | command.Stale | command.Fast | command.NoAuth | command.AllowBusy | command.Unlocked,
		Group: "connection", Since: "6.2.0", Complexity: "O(1)",
		Summary: "Puts the connection into the state of a new one.",
		Run: func(c *command.Ctx) {
			conn(c).Reset()
			c.W.Simple("RESET")
		},
	}
}

func hello(srv Server) *command.Spec {
	return &command.Spec{
		Name: "hello", Arity: -1, Category: command.CatConnection,
		Flags: command.NoScript | command.Loading | command.Stale | command.Fast | command.NoAuth | command.AllowBusy | command.Unlocked,
		Group: "connection", Since: "6.0.0", Complexity: "O(1)",
		Syntax:  "[protover [AUTH username password] [SETNAME clientname]]",
		Summary: "Chooses the protocol version and tells about the server.",
		Run:     func(c *command.Ctx) { runHello(c, srv) },
	}
}

func runHello(c *command.Ctx, srv Server) {
	proto := c.W.Proto()
	a := c.Scan(1)
	if a.More() {
		n, ok := command.ParseInt(a.Bytes())
		if !ok {
			c.W.Error(resp.Errorf("ERR", "Protocol version is not an integer or out of range"))
			return
		}
		if n != 2 && n != 3 {
			c.W.Error(resp.Errorf("NOPROTO", "unsupported protocol version"))
			return
		}
		proto = int(n)
	}
	name, named := "", false
	for a.More() {
		option := a.Bytes()
		switch {
		case command.EqualFold(option, "AUTH") && a.Len() >= 2:
			// The default user has no password; there is no other user.
			user := a.Bytes()
			a.Bytes()
			if string(user) != "default" {
				c.W.Error(resp.Errorf("WRONGPASS", "invalid username-password pair or user is disabled."))
				return
			}
		case command.EqualFold(option, "SETNAME") && a.Len() >= 1:
			text := a.Bytes()
			if !validName(text) {
				c.W.Error(errBadName)
				return
			}
			name, named = string(text), true
		default:
			c.W.Error(resp.Errorf("ERR", "Syntax error in HELLO option '%s'", option))
			return
		}
	}
	if named {
		conn(c).SetName(name)
	}
	c.W.SetProto(proto)
	c.W.Map(7)
	c.W.BulkString("server")
	c.W.BulkString("redis")
	c.W.BulkString("version")
	c.W.BulkString(srv.Version())
	c.W.BulkString("proto")
	c.W.Int(int64(proto))
	c.W.BulkString("id")
	c.W.Int(int64(c.Session.ID()))
	c.W.BulkString("mode")
	c.W.BulkString("standalone")
	c.W.BulkString("role")
	c.W.BulkString("master")
	c.W.BulkString("modules")
	c.W.Array(0)
}

var errBadName = resp.Errorf("ERR", "Client names cannot contain spaces, newlines or special characters.")

// validName reports whether a name can stand in a line of CLIENT LIST.
func validName(name []byte) bool {
	for _, c := range name {
		if c < '!' || c > '~' {
			return false
		}
	}
	return true
}
