package stream

import (
	"kevy/internal/command"
	"kevy/resp"
	"kevy/shard"
)

func xGroup() *command.Spec {
	return &command.Spec{
		Name: "xgroup", Arity: -2, Group: "stream", Since: "5.0.0",
		Summary: "Makes and changes consumer groups.",
		Sub: []*command.Spec{
			{
				Name: "create", Arity: -5, Flags: command.Write | command.DenyOOM, Category: command.CatStream,
				Keys:  command.One(2, command.RW|command.Insert),
				Since: "5.0.0", Complexity: "O(1)",
				Syntax:  "key group <id | $> [MKSTREAM] [ENTRIESREAD entries-read]",
				Summary: "Adds a group that reads the entries above an id, or those that come from now on.",
				Run:     runGroupCreate,
			},
			{
				Name: "createconsumer", Arity: 5, Flags: command.Write | command.DenyOOM, Category: command.CatStream,
				Keys:  command.One(2, command.RW|command.Insert),
				Since: "6.2.0", Complexity: "O(log N) of N consumers",
				Syntax:  "key group consumer",
				Summary: "Adds a consumer to a group; answers if there was none of that name.",
				Run:     runGroupCreateConsumer,
			},
			{
				Name: "delconsumer", Arity: 5, Flags: command.Write, Category: command.CatStream,
				Keys:  command.One(2, command.RW|command.Delete),
				Since: "5.0.0", Complexity: "O(N log M) for N pending entries of the consumer, of M of the group",
				Syntax:  "key group consumer",
				Summary: "Removes a consumer with its pending entries; answers how many these were.",
				Run:     runGroupDelConsumer,
			},
			{
				Name: "destroy", Arity: 4, Flags: command.Write, Category: command.CatStream,
				Keys:  command.One(2, command.RW|command.Delete),
				Since: "5.0.0", Complexity: "O(1)",
				Syntax:  "key group",
				Summary: "Removes a group with its consumers and pending entries; answers if there was one.",
				Run:     runGroupDestroy,
			},
			{
				Name: "help", Arity: 2, Flags: command.Loading | command.Stale | command.Unlocked, Category: command.CatStream,
				Since: "5.0.0", Complexity: "O(1)",
				Summary: "Lists the subcommands.",
				Run:     func(c *command.Ctx) { command.Help(c, groupHelp) },
			},
			{
				Name: "setid", Arity: -5, Flags: command.Write, Category: command.CatStream,
				Keys:  command.One(2, command.RW|command.Update),
				Since: "5.0.0", Complexity: "O(1)",
				Syntax:  "key group <id | $> [ENTRIESREAD entries-read]",
				Summary: "Sets up to which entry a group has read.",
				Run:     runGroupSetID,
			},
		},
	}
}

// The texts are those that redis-server shows.
var groupHelp = []string{
	"CREATE <key> <groupname> <id|$> [option]",
	"    Create a new consumer group. Options are:",
	"    * MKSTREAM",
	"      Create the empty stream if it does not exist.",
	"    * ENTRIESREAD entries_read",
	"      Set the group's entries_read counter (internal use).",
	"CREATECONSUMER <key> <groupname> <consumer>",
	"    Create a new consumer in the specified group.",
	"DELCONSUMER <key> <groupname> <consumer>",
	"    Remove the specified consumer.",
	"DESTROY <key> <groupname>",
	"    Remove the specified group.",
	"SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
	"    Set the current group ID and entries_read counter.",
}

var (
	errEntriesRead = &resp.Error{Code: "ERR", Text: "value for ENTRIESREAD must be positive or -1"}
	errNoStream    = &resp.Error{Code: "ERR", Text: "The XGROUP subcommand requires the key to exist. " +
		"Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically."}
	errBusyGroup = &resp.Error{Code: "BUSYGROUP", Text: "Consumer Group name already exists"}
)

func errNoGroupOf(key, group []byte) *resp.Error {
	return resp.Errorf("NOGROUP", "No such consumer group '%s' for key name '%s'", command.CText(group), command.CText(key))
}

// groupOptions are those of CREATE and SETID.
type groupOptions struct {
	mkStream bool
	read     int64
}

func parseGroupOptions(c *command.Ctx, create bool) (o groupOptions, err *resp.Error) {
	o.read = shard.UnknownRead
	a := c.Scan(5)
	for a.More() {
		switch {
		case create && a.Is("MKSTREAM"):
			o.mkStream = true
		case a.Len() > 1 && a.Is("ENTRIESREAD"):
			if o.read = a.Int(); o.read < 0 && o.read != shard.UnknownRead {
				a.Fail(errEntriesRead)
			}
		default:
			a.Fail(command.SubcommandError(c))
		}
	}
	return o, a.Err()
}

// groupStream returns the stream whose group a subcommand is about, whose key
// must exist unless it is made; otherwise it replies with the error.
func groupStream(c *command.Ctx, made bool) (s shard.StreamView, ok bool) {
	s, err := c.Tx.Stream(c.Key(2))
	switch {
	case err != nil:
		c.W.Err(err)
		return s, false
	case !made && !s.Exists():
		c.W.Error(errNoStream)
		return s, false
	}
	return s, true
}

// groupOf is groupStream of a subcommand whose group must exist as well.
func groupOf(c *command.Ctx) (s shard.StreamView, g shard.GroupView, ok bool) {
	s, ok = groupStream(c, false)
	if !ok {
		return s, g, false
	}
	if g, ok = s.Group(c.Args[3]); !ok {
		c.W.Error(errNoGroupOf(c.Key(2), c.Args[3]))
	}
	return s, g, ok
}

// mostCreateArgs and setIDArgs are how many arguments Redis takes.
const mostCreateArgs = 8

func runGroupCreate(c *command.Ctx) {
	o, parseErr := parseGroupOptions(c, true)
	if parseErr != nil {
		c.W.Error(parseErr)
		return
	}
	s, ok := groupStream(c, o.mkStream)
	if !ok {
		return
	}
	if len(c.Args) > mostCreateArgs {
		c.W.Error(command.SubcommandError(c))
		return
	}
	id := s.LastID()
	if string(command.CText(c.Args[4])) != "$" {
		if id, ok = parseID(c.Args[4], 0); !ok {
			c.W.Error(errID)
			return
		}
	}
	created, err := c.Tx.XGroupCreate(c.Key(2), c.Args[3], id, o.read, o.mkStream)
	switch {
	case err != nil:
		c.W.Err(err)
	case !created:
		c.W.Error(errBusyGroup)
	default:
		c.Tx.Notify(shard.OfStreams, "xgroup-create", c.Key(2))
		c.W.OK()
	}
}

func runGroupSetID(c *command.Ctx) {
	o, parseErr := parseGroupOptions(c, false)
	if parseErr != nil {
		c.W.Error(parseErr)
		return
	}
	s, _, ok := groupOf(c)
	if !ok {
		return
	}
	if n := len(c.Args); n != 5 && n != 7 {
		c.W.Error(command.SubcommandError(c))
		return
	}
	id := s.LastID()
	if string(command.CText(c.Args[4])) != "$" {
		if id, ok = parseRangeID(c.Args[4], 0); !ok {
			c.W.Error(errID)
			return
		}
	}
	if _, err := c.Tx.XGroupSetID(c.Key(2), c.Args[3], id, o.read); err != nil {
		c.W.Err(err)
		return
	}
	c.Tx.Notify(shard.OfStreams, "xgroup-setid", c.Key(2))
	c.W.OK()
}

func runGroupDestroy(c *command.Ctx) {
	if _, ok := groupStream(c, false); !ok {
		return
	}
	destroyed, err := c.Tx.XGroupDestroy(c.Key(2), c.Args[3])
	if destroyed {
		c.Tx.Notify(shard.OfStreams, "xgroup-destroy", c.Key(2))
	}
	replyDone(c, destroyed, err)
}

func runGroupCreateConsumer(c *command.Ctx) {
	if _, _, ok := groupOf(c); !ok {
		return
	}
	created, err := c.Tx.XGroupCreateConsumer(c.Key(2), c.Args[3], c.Args[4])
	if created {
		c.Tx.Notify(shard.OfStreams, "xgroup-createconsumer", c.Key(2))
	}
	replyDone(c, created, err)
}

func runGroupDelConsumer(c *command.Ctx) {
	if _, _, ok := groupOf(c); !ok {
		return
	}
	pending, deleted, err := c.Tx.XGroupDelConsumer(c.Key(2), c.Args[3], c.Args[4])
	if err != nil {
		c.W.Err(err)
		return
	}
	if deleted {
		c.Tx.Notify(shard.OfStreams, "xgroup-delconsumer", c.Key(2))
	}
	c.W.Int(int64(pending))
}

// replyDone replies with 1 if something was done.
func replyDone(c *command.Ctx, done bool, err error) {
	switch {
	case err != nil:
		c.W.Err(err)
	case done:
		c.W.Int(1)
	default:
		c.W.Int(0)
	}
}
