package connection

import (
	"fmt"
	"strings"

	"kevy/internal/command"
	"kevy/resp"
)

// Client is one connection as CLIENT LIST shows it. Sizes are in bytes.
type Client struct {
	ID          uint64
	Addr, LAddr string
	FD          int // -1: none
	Name        string
	AgeSec      int64
	IdleSec     int64
	DB          int
	Multi       int // queued commands, -1 outside MULTI
	Flags       ClientFlags
	// Channels, Patterns and ShardChannels are how many are subscribed to.
	Channels, Patterns, ShardChannels int
	QueryBytes                        int // input that is not done with; the command that runs included
	QueryFree                         int // room behind it
	ArgBytes                          int // arguments of the command that runs
	MultiBytes                        int // queued commands
	ReplySize                         int // the buffer of replies
	Gathered                          int // replies in it
	Unsent                            int // replies that wait for the client to read
	TotalBytes                        int
	LastCommand                       string // empty: none yet
	User                              string
	Proto                             int
	Redirect                          int64 // the connection that is told of its keys; 0: it itself, -1: none
	LibName                           string
	LibVersion                        string
}

// ClientFlags are the states that CLIENT LIST shows as letters.
type ClientFlags uint32

const (
	Monitor    ClientFlags = 1 << iota
	Subscribed             // to streams of the feed, or to channels
	InMulti
	Blocked
	Tracking       // of CLIENT TRACKING
	BrokenRedirect // the connection has ended that was told of its keys
	TrackingPrefixes
	WatchTouched // a watched key has changed: EXEC will fail
	Closing      // after its replies
	UnixSocket   // it came by one
	NoEvict      // of CLIENT NO-EVICT
	NoTouch      // of CLIENT NO-TOUCH
)

// letters are in the order of the flags, which is Redis's.
const flagLetters = "OPxbtRBdcUeT"

func (f ClientFlags) String() string {
	var b []byte
	for i := range len(flagLetters) {
		if f&(1<<i) != 0 {
			b = append(b, flagLetters[i])
		}
	}
	if len(b) == 0 {
		return "N"
	}
	return string(b)
}

// appendTo writes the line of CLIENT LIST: the fields of Redis 7.0.15, in its
// order, then lib-name and lib-ver of 7.2.
func (cl *Client) appendTo(b *strings.Builder) {
	cmd := cl.LastCommand
	if cmd == "" {
		cmd = "NULL"
	}
	unsentBlocks, events := 0, "r"
	if cl.Unsent > 0 {
		unsentBlocks, events = 1, "rw"
	}
	fmt.Fprintf(b, "id=%d addr=%s laddr=%s fd=%d name=%s age=%d idle=%d flags=%s db=%d sub=%d psub=%d ssub=%d multi=%d",
		cl.ID, cl.Addr, cl.LAddr, cl.FD, cl.Name, cl.AgeSec, cl.IdleSec, cl.Flags, cl.DB, cl.Channels, cl.Patterns, cl.ShardChannels, cl.Multi)
	fmt.Fprintf(b, " qbuf=%d qbuf-free=%d argv-mem=%d multi-mem=%d rbs=%d rbp=%d obl=%d oll=%d omem=%d tot-mem=%d",
		cl.QueryBytes, cl.QueryFree, cl.ArgBytes, cl.MultiBytes, cl.ReplySize, cl.ReplySize, cl.Gathered, unsentBlocks, cl.Unsent, cl.TotalBytes)
	fmt.Fprintf(b, " events=%s cmd=%s user=%s redir=%d resp=%d lib-name=%s lib-ver=%s\n",
		events, cmd, cl.User, cl.Redirect, cl.Proto, cl.LibName, cl.LibVersion)
}

// Line returns the client's line of CLIENT LIST.
func (cl *Client) Line() string {
	var b strings.Builder
	cl.appendTo(&b)
	return b.String()
}

func clientList(srv Server) *command.Spec {
	return &command.Spec{
		Name: "list", Arity: -2, Flags: subFlags | command.Admin, Category: command.CatConnection,
		Since: "2.4.0", Complexity: "O(N) for N connections", Tips: []string{"nondeterministic_output"},
		Syntax:      "[TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] [ID client-id [client-id ...]]",
		Summary:     "Lists the connections.",
		Differences: "Another connection is shown as of when it last waited for input. The sizes are those of our buffers.",
		Run:         func(c *command.Ctx) { runList(c, srv) },
	}
}

func runList(c *command.Ctx, srv Server) {
	switch {
	case len(c.Args) == 2:
		writeList(c, everyClient(c, srv))
	case len(c.Args) == 4 && command.EqualFold(c.Args[2], "TYPE"):
		t, err := parseType(c.Args[3])
		switch {
		case err != nil:
			c.W.Error(err)
		default:
			var chosen []Client
			for _, cl := range everyClient(c, srv) {
				if cl.kind() == t {
					chosen = append(chosen, cl)
				}
			}
			writeList(c, chosen)
		}
	case len(c.Args) > 3 && command.EqualFold(c.Args[2], "ID"):
		byID := make(map[int64]Client)
		for _, cl := range everyClient(c, srv) {
			byID[int64(cl.ID)] = cl
		}
		var chosen []Client
		for _, text := range c.Args[3:] {
			id, ok := command.ParseInt(text)
			if !ok {
				c.W.Error(resp.Errorf("ERR", "Invalid client ID"))
				return
			}
			if cl, ok := byID[id]; ok {
				chosen = append(chosen, cl)
			}
		}
		writeList(c, chosen)
	default:
		c.W.Error(command.ErrSyntax)
	}
}

// everyClient lists the connections, this one as of now.
func everyClient(c *command.Ctx, srv Server) []Client {
	me := conn(c).Describe()
	all := srv.Clients()
	for i := range all {
		if all[i].ID == me.ID {
			all[i] = me
		}
	}
	return all
}

func writeList(c *command.Ctx, clients []Client) {
	var b strings.Builder
	for i := range clients {
		clients[i].appendTo(&b)
	}
	c.W.Verbatim("txt", b.String())
}

// clientType is the kind of connection that a filter asks for.
type clientType int

const (
	typeAny clientType = iota
	typeNormal
	typePubSub
	typeOther // there is no replication
)

// kind returns the type of a connection, as client-output-buffer-limit has it.
func (cl *Client) kind() clientType {
	if cl.Flags&Subscribed != 0 {
		return typePubSub
	}
	return typeNormal
}

func parseType(text []byte) (clientType, *resp.Error) {
	switch {
	case command.EqualFold(text, "NORMAL"):
		return typeNormal, nil
	case command.EqualFold(text, "PUBSUB"):
		return typePubSub, nil
	case command.EqualFold(text, "SLAVE"), command.EqualFold(text, "REPLICA"), command.EqualFold(text, "MASTER"):
		return typeOther, nil
	}
	return typeAny, resp.Errorf("ERR", "Unknown client type '%s'", command.CText(text))
}
