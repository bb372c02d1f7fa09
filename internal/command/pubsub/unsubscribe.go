package pubsub

import (
	"kevy/internal/command"
	"kevy/internal/pubsub"
)

func (f *family) unsubscribe() *command.Spec {
	return &command.Spec{
		Name: "unsubscribe", Arity: -1, Flags: subscriptionFlags, Group: "pubsub", Since: "2.0.0",
		Complexity: "O(N) for N channels", Syntax: "[channel [channel ...]]",
		Summary:     "Ends subscriptions to channels, or all of them.",
		Differences: "All end in the order in which they began, in Redis in that of a hash table.",
		Run:         f.end("unsubscribe", pubsub.Channels),
	}
}

func (f *family) punsubscribe() *command.Spec {
	return &command.Spec{
		Name: "punsubscribe", Arity: -1, Flags: subscriptionFlags, Group: "pubsub", Since: "2.0.0",
		Complexity: "O(N+M) for N patterns and M that anybody has subscribed to", Syntax: "[pattern [pattern ...]]",
		Summary: "Ends subscriptions to patterns, or all of them.",
		Run:     f.end("punsubscribe", pubsub.Patterns),
	}
}

func (f *family) sunsubscribe() *command.Spec {
	return &command.Spec{
		Name: "sunsubscribe", Arity: -1, Flags: subscriptionFlags, Group: "pubsub", Since: "7.0.0",
		Keys:       []command.KeySpec{command.Range(1, -1, 1, command.NotKey)},
		Complexity: "O(N) for N channels", Syntax: "[shardchannel [shardchannel ...]]",
		Summary:     "Ends subscriptions to shard channels, or all of them.",
		Differences: "All end in the order in which they began, in Redis in that of a hash table.",
		Run:         f.end("sunsubscribe", pubsub.Shard),
	}
}

func (f *family) end(word string, kind pubsub.Kind) command.Handler {
	return func(c *command.Ctx) {
		session, ok := c.Session.(Session)
		if !ok {
			c.W.Error(errNoConnection)
			return
		}
		s := session.Subscriber()
		names := c.Args[1:]
		if len(names) == 0 {
			for _, name := range f.hub.Names(s, kind) {
				names = append(names, []byte(name))
			}
		}
		if len(names) == 0 {
			confirm(c.W, word, nil, kind, s)
		}
		for _, name := range names {
			if f.hub.Unsubscribe(s, kind, name) {
				f.last(c, s, kind, name)
			}
			confirm(c.W, word, name, kind, s)
		}
	}
}

// last writes the messages that are still to be sent before the end of a
// subscription can be confirmed. Most have been queued before the replies and are
// sent before them.
func (f *family) last(c *command.Ctx, s *pubsub.Subscriber, kind pubsub.Kind, name []byte) {
	if c.Session.(Session).InMulti() {
		// There is no place for others' messages within the reply of EXEC.
		s.DropHeld(kind, name)
		return
	}
	for _, m := range s.TakeHeld() {
		show(c, m)
	}
}
