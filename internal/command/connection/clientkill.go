package connection

import (
	"kevy/internal/command"
	"kevy/resp"
)

func clientKill(srv Server) *command.Spec {
	return &command.Spec{
		Name: "kill", Arity: -3, Flags: subFlags | command.Admin, Category: command.CatConnection,
		Since: "2.4.0", Complexity: "O(N) for N connections",
		Syntax: "<ip:port | [ID client-id] [TYPE <NORMAL | MASTER | REPLICA | SLAVE | PUBSUB>] [USER username] [ADDR ip:port] " +
			"[LADDR ip:port] [SKIPME yes/no] [MAXAGE maxage]>",
		Summary: "Ends connections.", Differences: "MAXAGE is that of Redis 7.4.",
		Run: func(c *command.Ctx) { runKill(c, srv) },
	}
}

// killFilter says which connections CLIENT KILL ends; what is not set selects
// all.
type killFilter struct {
	id          uint64
	addr, laddr *string
	kind        clientType
	user        *string
	skipMe      bool
	maxAgeSec   int64 // only connections that are at least so old
}

func (f *killFilter) matches(cl *Client) bool {
	return (f.id == 0 || cl.ID == f.id) && (f.addr == nil || cl.Addr == *f.addr) && (f.laddr == nil || cl.LAddr == *f.laddr) &&
		cl.AgeSec >= f.maxAgeSec && (f.kind == typeAny || f.kind == cl.kind()) && (f.user == nil || cl.User == *f.user)
}

func runKill(c *command.Ctx, srv Server) {
	if len(c.Args) == 3 {
		addr := string(c.Args[2])
		if kill(c, srv, &killFilter{addr: &addr}) == 0 {
			c.W.Error(resp.Errorf("ERR", "No such client"))
			return
		}
		c.W.OK()
		return
	}
	f, err := parseKill(c, srv)
	if err != nil {
		c.W.Error(err)
		return
	}
	c.W.Int(int64(kill(c, srv, f)))
}

func parseKill(c *command.Ctx, srv Server) (*killFilter, *resp.Error) {
	f := &killFilter{skipMe: true}
	a := c.Scan(2)
	for a.More() {
		option := a.Bytes()
		if !a.More() {
			return nil, command.ErrSyntax
		}
		switch value := a.Bytes(); {
		case command.EqualFold(option, "ID"):
			id, ok := command.ParseInt(value)
			if !ok || id < 1 {
				return nil, resp.Errorf("ERR", "client-id should be greater than 0")
			}
			f.id = uint64(id)
		case command.EqualFold(option, "MAXAGE"):
			age, ok := command.ParseInt(value)
			if !ok {
				return nil, resp.Errorf("ERR", "maxage is not an integer or out of range")
			}
			if age <= 0 {
				return nil, resp.Errorf("ERR", "maxage should be greater than 0")
			}
			f.maxAgeSec = age
		case command.EqualFold(option, "TYPE"):
			kind, err := parseType(value)
			if err != nil {
				return nil, err
			}
			f.kind = kind
		case command.EqualFold(option, "ADDR"):
			addr := string(value)
			f.addr = &addr
		case command.EqualFold(option, "LADDR"):
			addr := string(value)
			f.laddr = &addr
		case command.EqualFold(option, "USER"):
			name := string(value)
			if !srv.HasUser(name) {
				return nil, resp.Errorf("ERR", "No such user '%s'", command.CText(value))
			}
			f.user = &name
		case command.EqualFold(option, "SKIPME") && command.EqualFold(value, "YES"):
			f.skipMe = true
		case command.EqualFold(option, "SKIPME") && command.EqualFold(value, "NO"):
			f.skipMe = false
		default:
			return nil, command.ErrSyntax
		}
	}
	return f, nil
}

func kill(c *command.Ctx, srv Server, f *killFilter) (killed int) {
	for _, cl := range srv.Clients() {
		own := cl.ID == c.Session.ID()
		if own && f.skipMe || !f.matches(&cl) {
			continue
		}
		if own {
			conn(c).HangUp()
			killed++
		} else if srv.Kill(cl.ID) {
			killed++
		}
	}
	return killed
}
