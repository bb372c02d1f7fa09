// Package pubsub has the commands of channels, patterns and shard channels.
package pubsub

import (
	"kevy/internal/command"
	"kevy/internal/pubsub"
	"kevy/resp"
)

// Session is what these commands need of their session.
type Session interface {
	command.Session
	// InMulti reports whether a transaction is open or runs.
	InMulti() bool
	// Subscriber is that of the connection, to which messages are sent from now on.
	Subscriber() *pubsub.Subscriber
	// Publish hands a message to the subscribers of a channel, of kind Channels or
	// Shard, and returns how many there are. own is called with each message that the
	// connection itself gets.
	Publish(kind pubsub.Kind, channel, payload []byte, own func(m *pubsub.Message)) (receivers int)
	// KeepOrHangUp ends the connection if its user's rights have changed since the
	// command was admitted, so that it would not be now.
	KeepOrHangUp(spec *command.Spec, args [][]byte)
	// Replies is where the connection's replies go, also while a script runs, whose calls have others.
	Replies() *resp.Writer
	// Show says that the replies so far show the message m.
	Show(m *pubsub.Message)
}

// family is what the handlers share.
type family struct{ hub *pubsub.Hub }

// Commands returns the family, on a hub.
func Commands(hub *pubsub.Hub) []*command.Spec {
	f := &family{hub: hub}
	return []*command.Spec{
		f.subscribe(), f.psubscribe(), f.ssubscribe(), f.unsubscribe(), f.punsubscribe(), f.sunsubscribe(),
		f.publish(), f.spublish(), f.pubsub(),
	}
}

var errNoConnection = resp.Errorf("ERR", "subscribing needs a connection")

// subscriptionFlags are those of the commands that change subscriptions.
const subscriptionFlags = command.PubSub | command.NoScript | command.Loading | command.Stale | command.Unlocked

// confirm writes what a change of subscriptions is answered with; name is nil where
// there was none to end.
func confirm(w *resp.Writer, word string, name []byte, kind pubsub.Kind, s *pubsub.Subscriber) {
	w.Push(3)
	w.BulkString(word)
	if name == nil {
		w.Null()
	} else {
		w.Bulk(name)
	}
	channels, patterns, shard := s.Counts()
	if kind == pubsub.Shard {
		w.Int(shard)
	} else {
		w.Int(channels + patterns)
	}
}

// show writes a message among the connection's replies.
func show(c *command.Ctx, m *pubsub.Message) {
	s := c.Session.(Session)
	w := s.Replies()
	w.Raw(m.AppendTo(nil, w.Proto()))
	s.Show(m)
}
