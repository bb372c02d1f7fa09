package connection

import (
	"fmt"
	"strings"

	"kevy/internal/command"
	"kevy/resp"
)

// Client is one connection as CLIENT LIST shows it.
type Client struct {
	ID           uint64
	Addr, LAddr  string
	FD           int
	Name         string
	AgeSec       int64
	IdleSec      int64
	Flags        string
	DB           int
	Multi        int // queued commands, -1 outside MULTI
	Watch        int
	QueryBytes   int
	QueryFree    int
	ArgBytes     int
	MultiBytes   int
	ReplySize    int
	ReplyBytes   int
	TotalBytes   int
	LastCommand  string
	Proto        int
	LibName      string
	LibVersion   string
	Subscribed   int
	PSubscribed  int
	SSubscribed  int
	OutputList   int
	OutputBytes  int
	RedirectedTo int64
}

func (cl *Client) appendTo(b *strings.Builder) {
	flags := cl.Flags
	if flags == "" {
		flags = "N"
	}
	cmd := cl.LastCommand
	if cmd == "" {
		cmd = "NULL"
	}
	fmt.Fprintf(b, "id=%d addr=%s laddr=%s fd=%d name=%s age=%d idle=%d flags=%s db=%d sub=%d psub=%d ssub=%d multi=%d",
		cl.ID, cl.Addr, cl.LAddr, cl.FD, cl.Name, cl.AgeSec, cl.IdleSec, flags, cl.DB, cl.Subscribed, cl.PSubscribed, cl.SSubscribed, cl.Multi)
	fmt.Fprintf(b, " qbuf=%d qbuf-free=%d argv-mem=%d multi-mem=%d rbs=%d rbp=%d obl=%d oll=%d omem=%d tot-mem=%d events=r cmd=%s user=default redir=%d resp=%d lib-name=%s lib-ver=%s\n",
		cl.QueryBytes, cl.QueryFree, cl.ArgBytes, cl.MultiBytes, cl.ReplySize, cl.ReplySize, cl.ReplyBytes, cl.OutputList, cl.OutputBytes, cl.TotalBytes, cmd, cl.RedirectedTo, cl.Proto, cl.LibName, cl.LibVersion)
}

const containerFlags = command.NoScript | command.Loading | command.Stale | command.Unlocked

func client(srv Server) *command.Spec {
	sub := func(name string, arity int, flags command.Flags, since, syntax, summary string, run command.Handler) *command.Spec {
		return &command.Spec{
			Name: name, Arity: arity, Flags: containerFlags | flags, Category: command.CatConnection,
			Since: since, Syntax: syntax, Summary: summary, Complexity: "O(1)", Run: run,
		}
	}
	list := sub("list", -2, command.Admin, "2.4.0", "[TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] [ID client-id [client-id ...]]",
		"Lists the connections.", func(c *command.Ctx) { runList(c, srv) })
	list.Complexity = "O(N) for N connections"
	list.Tips = []string{"nondeterministic_output"}
	kill := sub("kill", -3, command.Admin, "2.4.0", "<ip:port | filter value [filter value ...]>",
		"Ends connections.", func(c *command.Ctx) { runKill(c, srv) })
	kill.Complexity = list.Complexity
	info := sub("info", 2, 0, "6.2.0", "", "Describes this connection.", func(c *command.Ctx) {
		var b strings.Builder
		me := conn(c).Describe()
		me.appendTo(&b)
		c.W.Verbatim("txt", b.String())
	})
	info.Tips = []string{"nondeterministic_output"}
	return &command.Spec{
		Name: "client", Arity: -2, Group: "connection", Since: "2.4.0", Summary: "Commands about connections.",
		Complexity: "Depends on the subcommand.",
		Sub: []*command.Spec{
			sub("getname", 2, 0, "2.6.9", "", "Answers the name of this connection.", func(c *command.Ctx) {
				if name := conn(c).Name(); name != "" {
					c.W.BulkString(name)
				} else {
					c.W.Null()
				}
			}),
			sub("help", 2, 0, "5.0.0", "", "Lists the subcommands.", runHelp),
			sub("id", 2, 0, "5.0.0", "", "Answers the number of this connection.", func(c *command.Ctx) { c.W.Int(int64(c.Session.ID())) }),
			info, kill, list,
			sub("setinfo", 4, 0, "7.2.0", "<LIB-NAME libname | LIB-VER libver>", "Notes the client library of this connection.", runSetInfo),
			sub("setname", 3, 0, "2.6.9", "connection-name", "Names this connection.", func(c *command.Ctx) {
				if !validName(c.Args[2]) {
					c.W.Error(errBadName)
					return
				}
				conn(c).SetName(string(c.Args[2]))
				c.W.OK()
			}),
		},
	}
}

func runHelp(c *command.Ctx) {
	command.Help(c, []string{
		"GETNAME", "    Return the name of the current connection.",
		"ID", "    Return the ID of the current connection.",
		"INFO", "    Return information about the current client connection.",
		"KILL <ip:port>", "    Kill connection made from <ip:port>.",
		"KILL <option> <value> [<option> <value> [...]]", "    Kill connections. Options are:",
		"    * ADDR (<ip:port>|<unixsocket>:0)", "    * LADDR (<ip:port>|<unixsocket>:0)",
		"    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)", "    * USER <username>", "    * SKIPME (YES|NO)", "    * ID <client-id>",
		"LIST [options ...]", "    Return information about client connections. Options:",
		"    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)", "    * ID <client-id> [<client-id> [...]]",
		"SETINFO <option> <value>", "    Set client meta attr: LIB-NAME, LIB-VER.",
		"SETNAME <name>", "    Assign the name <name> to the current connection.",
	})
}

func runSetInfo(c *command.Ctx) {
	attribute, value := c.Args[2], c.Args[3]
	if !command.EqualFold(attribute, "LIB-NAME") && !command.EqualFold(attribute, "LIB-VER") {
		c.W.Error(resp.Errorf("ERR", "Unrecognized option '%s'", attribute))
		return
	}
	if !validName(value) {
		c.W.Error(resp.Errorf("ERR", "%s cannot contain spaces, newlines or special characters.", strings.ToLower(string(attribute))))
		return
	}
	conn(c).SetLib(string(attribute), string(value))
	c.W.OK()
}

// parseType reads the type that a filter names. Every connection is normal
// as long as there is neither replication nor pub/sub.
func parseType(text []byte) (normal bool, err *resp.Error) {
	switch {
	case command.EqualFold(text, "NORMAL"):
		return true, nil
	case command.EqualFold(text, "SLAVE"), command.EqualFold(text, "REPLICA"),
		command.EqualFold(text, "MASTER"), command.EqualFold(text, "PUBSUB"):
		return false, nil
	}
	return false, resp.Errorf("ERR", "Unknown client type '%s'", text)
}

func runList(c *command.Ctx, srv Server) {
	keep := func(*Client) bool { return true }
	switch {
	case len(c.Args) == 4 && command.EqualFold(c.Args[2], "TYPE"):
		normal, err := parseType(c.Args[3])
		if err != nil {
			c.W.Error(err)
			return
		}
		keep = func(*Client) bool { return normal }
	case len(c.Args) > 3 && command.EqualFold(c.Args[2], "ID"):
		ids := make(map[uint64]bool)
		for _, text := range c.Args[3:] {
			id, ok := command.ParseInt(text)
			if !ok || id < 1 {
				c.W.Error(resp.Errorf("ERR", "Invalid client ID"))
				return
			}
			ids[uint64(id)] = true
		}
		keep = func(cl *Client) bool { return ids[cl.ID] }
	case len(c.Args) != 2:
		c.W.Error(command.ErrSyntax)
		return
	}
	var b strings.Builder
	for _, cl := range srv.Clients() {
		if cl.ID == c.Session.ID() {
			cl = conn(c).Describe()
		}
		if keep(&cl) {
			cl.appendTo(&b)
		}
	}
	c.W.Verbatim("txt", b.String())
}

// killFilter says which connections CLIENT KILL ends.
type killFilter struct {
	id          uint64
	addr, laddr string
	typed       bool
	normal      bool
	skipMe      bool
}

func (f *killFilter) matches(cl *Client) bool {
	return (f.id == 0 || cl.ID == f.id) && (f.addr == "" || cl.Addr == f.addr) && (f.laddr == "" || cl.LAddr == f.laddr) &&
		(!f.typed || f.normal)
}

func runKill(c *command.Ctx, srv Server) {
	if len(c.Args) == 3 {
		f := killFilter{addr: string(c.Args[2])}
		if kill(c, srv, &f) == 0 {
			c.W.Error(resp.Errorf("ERR", "No such client"))
			return
		}
		c.W.OK()
		return
	}
	f, err := parseKill(c)
	if err != nil {
		c.W.Error(err)
		return
	}
	c.W.Int(int64(kill(c, srv, f)))
}

func parseKill(c *command.Ctx) (*killFilter, *resp.Error) {
	f := &killFilter{skipMe: true}
	a := c.Scan(2)
	for a.More() {
		option := a.Bytes()
		if !a.More() {
			return nil, command.ErrSyntax
		}
		value := a.Bytes()
		switch {
		case command.EqualFold(option, "ID"):
			id, ok := command.ParseInt(value)
			if !ok {
				return nil, resp.Errorf("ERR", "client-id should be greater than 0")
			}
			if id < 1 {
				return nil, resp.Errorf("ERR", "client-id should be greater than 0")
			}
			f.id = uint64(id)
		case command.EqualFold(option, "TYPE"):
			normal, err := parseType(value)
			if err != nil {
				return nil, err
			}
			f.typed, f.normal = true, normal
		case command.EqualFold(option, "ADDR"):
			f.addr = string(value)
		case command.EqualFold(option, "LADDR"):
			f.laddr = string(value)
		case command.EqualFold(option, "USER"):
			if string(value) != "default" {
				return nil, resp.Errorf("ERR", "No such user '%s'", value)
			}
		case command.EqualFold(option, "SKIPME"):
			switch {
			case command.EqualFold(value, "YES"):
				f.skipMe = true
			case command.EqualFold(value, "NO"):
				f.skipMe = false
			default:
				return nil, command.ErrSyntax
			}
		default:
			return nil, command.ErrSyntax
		}
	}
	return f, nil
}

func kill(c *command.Ctx, srv Server, f *killFilter) int {
	killed := 0
	for _, cl := range srv.Clients() {
		own := cl.ID == c.Session.ID()
		if (own && f.skipMe) || !f.matches(&cl) {
			continue
		}
		if own {
			conn(c).Close()
			killed++
		} else if srv.Kill(cl.ID) {
			killed++
		}
	}
	return killed
}
