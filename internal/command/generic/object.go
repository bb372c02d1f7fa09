package generic

import (
	"kevy/internal/command"
	"kevy/resp"
	"kevy/shard"
)

func object() *command.Spec {
	return &command.Spec{
		Name: "object", Arity: -2, Group: "generic", Since: "2.2.3",
		Summary: "Looks at how a key is stored.",
		Sub: []*command.Spec{
			{
				Name: "encoding", Arity: 3, Flags: command.ReadOnly, Category: command.CatKeyspace,
				Keys: command.One(2, command.RO), Tips: []string{"nondeterministic_output"},
				Since: "2.2.3", Complexity: "O(1)",
				Syntax:  "key",
				Summary: "Answers the name of the encoding that the key's value has.",
				Run:     func(c *command.Ctx) { replyInfo(c, func(i *shard.Info) { c.W.BulkString(i.Encoding) }) },
			},
			{
				Name: "freq", Arity: 3, Flags: command.ReadOnly, Category: command.CatKeyspace,
				Keys: command.One(2, command.RO), Tips: []string{"nondeterministic_output"},
				Since: "4.0.0", Complexity: "O(1)",
				Syntax:  "key",
				Summary: "Answers how often the key is used, where the eviction policy counts that.",
				Run:     runObjectFreq,
			},
			{
				Name: "help", Arity: 2, Flags: command.Loading | command.Stale | command.Unlocked, Category: command.CatKeyspace,
				Since: "6.2.0", Complexity: "O(1)",
				Summary: "Lists the subcommands.",
				Run:     func(c *command.Ctx) { command.Help(c, objectHelp) },
			},
			{
				Name: "idletime", Arity: 3, Flags: command.ReadOnly, Category: command.CatKeyspace,
				Keys: command.One(2, command.RO), Tips: []string{"nondeterministic_output"},
				Since: "2.2.3", Complexity: "O(1)",
				Syntax:  "key",
				Summary: "Answers for how many seconds the key has not been used.",
				Run:     runObjectIdleTime,
			},
			{
				Name: "refcount", Arity: 3, Flags: command.ReadOnly, Category: command.CatKeyspace,
				Keys: command.One(2, command.RO), Tips: []string{"nondeterministic_output"},
				Since: "2.2.3", Complexity: "O(1)",
				Syntax:      "key",
				Summary:     "Answers in how many places the value is used.",
				Differences: "No two keys share a value; the answer for an integer from 0 to 9999 is that of Redis, which shares those.",
				Run:         func(c *command.Ctx) { replyInfo(c, func(i *shard.Info) { c.W.Int(i.RefCount()) }) },
			},
		},
	}
}

var errNoLFU = &resp.Error{Code: "ERR", Text: "An LFU maxmemory policy is not selected, access frequency not tracked. " +
	"Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust."}

var errLFU = &resp.Error{Code: "ERR", Text: "An LFU maxmemory policy is selected, idle time not tracked. " +
	"Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust."}

func runObjectFreq(c *command.Ctx) {
	replyInfo(c, func(i *shard.Info) {
		if !c.Tx.CountsUses() {
			c.W.Error(errNoLFU)
			return
		}
		c.W.Int(int64(i.Uses))
	})
}

func runObjectIdleTime(c *command.Ctx) {
	replyInfo(c, func(i *shard.Info) {
		if c.Tx.CountsUses() {
			c.W.Error(errLFU)
			return
		}
		c.W.Int(i.IdleSec)
	})
}

// The texts are those that redis-server shows.
var objectHelp = []string{
	"ENCODING <key>",
	"    Return the kind of internal representation used in order to store the value",
	"    associated with a <key>.",
	"FREQ <key>",
	"    Return the access frequency index of the <key>. The returned integer is",
	"    proportional to the logarithm of the recent access frequency of the key.",
	"IDLETIME <key>",
	"    Return the idle time of the <key>, that is the approximated number of",
	"    seconds elapsed since the last access to the key.",
	"REFCOUNT <key>",
	"    Return the number of references of the value associated with the specified",
	"    <key>.",
}

// replyInfo looks at a key without counting as a use of it: null if there is
// none.
func replyInfo(c *command.Ctx, reply func(*shard.Info)) {
	info, exists := c.Tx.Info(c.Args[2])
	if !exists {
		c.W.Null()
		return
	}
	reply(&info)
}
