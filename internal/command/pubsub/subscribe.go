package pubsub

import (
	"kevy/internal/command"
	"kevy/internal/pubsub"
	"kevy/resp"
)

func (f *family) subscribe() *command.Spec {
	return &command.Spec{
		Name: "subscribe", Arity: -2, Channels: command.Subscribes, Flags: subscriptionFlags, Group: "pubsub", Since: "2.0.0",
		Complexity: "O(N) for N channels", Syntax: "channel [channel ...]",
		Summary: "Has what is published to channels sent to this connection.",
		Run:     f.begin("subscribe", pubsub.Channels),
	}
}

func (f *family) psubscribe() *command.Spec {
	return &command.Spec{
		Name: "psubscribe", Arity: -2, Channels: command.SubscribesToPatterns, Flags: subscriptionFlags, Group: "pubsub", Since: "2.0.0",
		Complexity: "O(N) for N patterns", Syntax: "pattern [pattern ...]",
		Summary: "Has what is published to the channels that match patterns sent to this connection.",
		Run:     f.begin("psubscribe", pubsub.Patterns),
	}
}

func (f *family) ssubscribe() *command.Spec {
	return &command.Spec{
		Name: "ssubscribe", Arity: -2, Channels: command.Subscribes, Flags: subscriptionFlags, Group: "pubsub", Since: "7.0.0",
		Keys:       []command.KeySpec{command.Range(1, -1, 1, command.NotKey)},
		Complexity: "O(N) for N channels", Syntax: "shardchannel [shardchannel ...]",
		Summary: "Has what is published to shard channels sent to this connection.",
		Run:     f.begin("ssubscribe", pubsub.Shard),
	}
}

// errShardInMulti is what a transaction is answered, in which the other two may stand: as in redis-server.
var errShardInMulti = resp.Errorf("ERR", "SSUBSCRIBE isn't allowed for a DENY BLOCKING client")

func (f *family) begin(word string, kind pubsub.Kind) command.Handler {
	return func(c *command.Ctx) {
		session, ok := c.Session.(Session)
		if !ok {
			c.W.Error(errNoConnection)
			return
		}
		if kind == pubsub.Shard && session.InMulti() {
			c.W.Error(errShardInMulti)
			return
		}
		s := session.Subscriber()
		s.Hold()
		for _, name := range c.Args[1:] {
			f.hub.Subscribe(s, kind, name)
			confirm(c.W, word, name, kind, s)
		}
		// Rights that change from now on find the subscriptions.
		session.KeepOrHangUp(c.Spec, c.Args)
	}
}
