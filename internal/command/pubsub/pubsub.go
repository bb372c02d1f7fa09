package pubsub

import (
	"kevy/internal/command"
	"kevy/internal/pubsub"
)

func (f *family) pubsub() *command.Spec {
	const flags = command.PubSub | command.Loading | command.Stale | command.Unlocked
	sub := func(name string, arity int, since, syntax, complexity, summary string, run command.Handler) *command.Spec {
		return &command.Spec{
			Name: name, Arity: arity, Flags: flags, Group: "pubsub", Since: since, Syntax: syntax, Complexity: complexity, Summary: summary, Run: run,
		}
	}
	help := sub("help", 2, "6.2.0", "", "O(1)", "Lists the subcommands.", func(c *command.Ctx) { command.Help(c, helpLines) })
	help.Flags &^= command.PubSub
	return &command.Spec{
		Name: "pubsub", Arity: -2, Group: "pubsub", Since: "2.8.0",
		Summary: "Commands about who has subscribed to what.",
		Sub: []*command.Spec{
			sub("channels", -2, "2.8.0", "[pattern]", "O(N) for N channels with subscribers",
				"Lists the channels with subscribers.", f.names(pubsub.Channels)),
			help,
			sub("numpat", 2, "2.8.0", "", "O(1)", "Answers how many patterns are subscribed to.",
				func(c *command.Ctx) { c.W.Int(int64(f.hub.Count(pubsub.Patterns))) }),
			sub("numsub", -2, "2.8.0", "[channel [channel ...]]", "O(N) for N channels asked for",
				"Answers how many subscribers channels have.", f.numbers(pubsub.Channels)),
			sub("shardchannels", -2, "7.0.0", "[pattern]", "O(N) for N shard channels with subscribers",
				"Lists the shard channels with subscribers.", f.names(pubsub.Shard)),
			sub("shardnumsub", -2, "7.0.0", "[shardchannel [shardchannel ...]]", "O(N) for N channels asked for",
				"Answers how many subscribers shard channels have.", f.numbers(pubsub.Shard)),
		},
	}
}

func (f *family) names(kind pubsub.Kind) command.Handler {
	return func(c *command.Ctx) {
		var names []string
		switch len(c.Args) {
		case 2:
			names = f.hub.Topics(kind, nil, true)
		case 3:
			names = f.hub.Topics(kind, c.Args[2], false)
		default:
			c.W.Error(command.SubcommandError(c))
			return
		}
		c.W.Array(len(names))
		for _, name := range names {
			c.W.BulkString(name)
		}
	}
}

func (f *family) numbers(kind pubsub.Kind) command.Handler {
	return func(c *command.Ctx) {
		channels := c.Args[2:]
		c.W.Array(2 * len(channels))
		for _, channel := range channels {
			c.W.Bulk(channel)
			c.W.Int(int64(f.hub.Subscribers(kind, channel)))
		}
	}
}

// The lines are those of redis-server.
var helpLines = []string{
	"CHANNELS [<pattern>]",
	"    Return the currently active channels matching a <pattern> (default: '*').",
	"NUMPAT",
	"    Return number of subscriptions to patterns.",
	"NUMSUB [<channel> ...]",
	"    Return the number of subscribers for the specified channels, excluding",
	"    pattern subscriptions(default: no channels).",
	"SHARDCHANNELS [<pattern>]",
	"    Return the currently active shard level channels matching a <pattern> (default: '*').",
	"SHARDNUMSUB [<shardchannel> ...]",
	"    Return the number of subscribers for the specified shard level channel(s)",
}
