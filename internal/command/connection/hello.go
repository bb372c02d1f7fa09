package connection

import (
	"kevy/internal/command"
	"kevy/resp"
)

func hello(srv Server) *command.Spec {
	return &command.Spec{
		Name: "hello", Arity: -1, Category: command.CatConnection,
		Flags: command.NoScript | command.Loading | command.Stale | command.Fast | command.NoAuth | command.AllowBusy | command.Unlocked,
		Group: "connection", Since: "6.0.0", Complexity: "O(1)",
		Syntax:      "[protover [AUTH username password] [SETNAME clientname]]",
		Summary:     "Chooses the protocol version and tells about the server.",
		Differences: "The version is that of the Redis whose commands are spoken; INFO has kevy's own beside it.",
		Secrets: func(args [][]byte, hide func(i int)) {
			for i, a := range args {
				if i > 1 && command.EqualFold(a, "AUTH") {
					hide(i + 1)
					hide(i + 2)
				}
			}
		},
		Run: func(c *command.Ctx) { runHello(c, srv) },
	}
}

// errHelloFirst names the protocol as Redis 7.2 does, where 7.0 leaves it out.
var errHelloFirst = resp.Errorf("NOAUTH", "HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option "+
	"can be used to authenticate the client and select the RESP protocol version at the same time")

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
	// As in Redis each option takes effect even if a later one is wrong.
	for a.More() {
		option := a.Bytes()
		switch {
		case command.EqualFold(option, "AUTH") && a.Len() >= 2:
			if !conn(c).Authenticate(a.Bytes(), a.Bytes()) {
				c.W.Error(resp.Errorf("WRONGPASS", "invalid username-password pair or user is disabled."))
				return
			}
		case command.EqualFold(option, "SETNAME") && a.Len() >= 1:
			name := a.Bytes()
			if !printable(name) {
				c.W.Error(errBadName)
				return
			}
			conn(c).SetName(string(name))
		default:
			c.W.Error(resp.Errorf("ERR", "Syntax error in HELLO option '%s'", command.CText(option)))
			return
		}
	}
	if !conn(c).LoggedIn() {
		c.W.Error(errHelloFirst)
		return
	}
	c.W.SetProto(proto)
	w := c.W
	text := func(name, value string) {
		w.BulkString(name)
		w.BulkString(value)
	}
	w.Map(7)
	text("server", "redis")
	text("version", srv.Version())
	w.BulkString("proto")
	w.Int(int64(proto))
	w.BulkString("id")
	w.Int(int64(c.Session.ID()))
	text("mode", "standalone")
	text("role", "master")
	w.BulkString("modules")
	w.Array(0)
}
