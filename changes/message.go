package changes

import "kevy/resp"

// Kind says what a [Message] is.
type Kind uint8

// The kinds of messages, and which fields of a Message each fills.
const (
	// KindReply is an ordinary reply to a command: Reply.
	KindReply Kind = iota + 1
	// KindChanges are commits, or none: how far the server has looked. Stream, At
	// (where to go on behind all of it), Commits, CompleteLSN.
	KindChanges
	// KindSubscribed confirms SUBSCRIBE: Stream, At (where it begins).
	KindSubscribed
	// KindCredited confirms CREDIT: Stream, N.
	KindCredited
	// KindUnsubscribed confirms UNSUBSCRIBE: Stream.
	KindUnsubscribed
	// KindSnapshotStart begins a snapshot: Stream, Token.
	KindSnapshotStart
	// KindSnapshotPart is a piece of it: Stream, N, DB, Ops.
	KindSnapshotPart
	// KindSnapshotEnd ends it: Stream, At (the cut, from which commits follow).
	KindSnapshotEnd
	// KindEnd says that a subscription cannot go on: Stream, Err.
	KindEnd
	// KindPush is a push message of another kind: Reply.
	KindPush
)

// Message is one message from the server. Which fields count stands with its Kind.
type Message struct {
	Kind   Kind
	Stream string
	At     Cursor
	// Commits are whole, and in order.
	Commits []Commit
	// CompleteLSN says that the stream has nothing more at or below it.
	CompleteLSN uint64
	Token       string
	N           uint64
	DB          int
	Ops         [][][]byte
	Err         *resp.Error
	Reply       resp.Reply

	// wireBytes is what the message took on the wire, about what it holds in
	// memory.
	wireBytes int64
	frames    []Frame
	bounds    []bound // of the commits, in frames
}

// bound is where a commit ends in frames.
type bound struct {
	end         int
	first, last uint64
}
