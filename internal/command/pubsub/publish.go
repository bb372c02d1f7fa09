package pubsub

import (
	"kevy/internal/command"
	"kevy/internal/pubsub"
)

const publishFlags = command.PubSub | command.Loading | command.Stale | command.Fast | command.MayReplicate | command.Unlocked

func (f *family) publish() *command.Spec {
	return &command.Spec{
		Name: "publish", Arity: 3, Flags: publishFlags, Group: "pubsub", Since: "2.0.0",
		Channels:   command.Publishes,
		Complexity: "O(N+M) for N subscribers of the channel and M patterns", Syntax: "channel message",
		Summary: "Sends a message to the subscribers of a channel.",
		Differences: "A message is sent once what its publisher has seen is in the log, as the fsync policy has it; " +
			"one that was published in a transaction, behind the commit of that.",
		Run: publishTo(pubsub.Channels),
	}
}

func (f *family) spublish() *command.Spec {
	return &command.Spec{
		Name: "spublish", Arity: 3, Flags: publishFlags, Group: "pubsub", Since: "7.0.0",
		Keys:       []command.KeySpec{command.Range(1, 0, 1, command.NotKey)},
		Channels:   command.Publishes,
		Complexity: "O(N) for N subscribers of the channel", Syntax: "shardchannel message",
		Summary:     "Sends a message to the subscribers of a shard channel.",
		Differences: "As PUBLISH.",
		Run:         publishTo(pubsub.Shard),
	}
}

func publishTo(kind pubsub.Kind) command.Handler {
	return func(c *command.Ctx) {
		session, ok := c.Session.(Session)
		if !ok {
			c.W.Error(errNoConnection)
			return
		}
		// As in Redis what the publisher itself gets stands before the reply.
		n := session.Publish(kind, c.Args[1], c.Args[2], func(m *pubsub.Message) { show(c, m) })
		c.W.Int(int64(n))
	}
}
