package pubsub

import "strconv"

// Invalidations tell a connection which keys it must not keep values of any more. They
// wait in a Subscriber's queue as messages of channels do, under the same bounds; no
// subscription is needed for them.

// invalidationChannel is the channel that they come by in RESP2.
const invalidationChannel = "__redis__:invalidate"

// The kinds of messages that no subscription brings.
const (
	invalidation Kind = kinds + iota
	brokenRedirection
)

// NewInvalidation returns a message that names keys, which it copies, or, if there are
// none, all keys; it shows what is in the log up to lsn. It is a push in RESP3. In RESP2
// it is one of the channel, or nothing if asMessage is false: who takes no messages could
// not tell it from a reply.
func NewInvalidation(keys [][]byte, lsn uint64, asMessage bool) *Message {
	const headers = 16
	m := &Message{kind: invalidation, lsn: lsn}
	if asMessage {
		m.name = invalidationChannel
	}
	if len(keys) == 0 {
		return m
	}
	size := headers
	for _, k := range keys {
		size += len(k) + headers
	}
	m.body = appendLength(make([]byte, 0, size), array, len(keys))
	for _, k := range keys {
		m.body = appendBulk(m.body, k)
	}
	return m
}

// NewBrokenRedirection returns the message to one who is not told of keys any more,
// because the connection has ended that was to be told. In RESP2 it is nothing.
func NewBrokenRedirection(to uint64) *Message {
	m := &Message{kind: brokenRedirection, body: []byte(">2\r\n")}
	m.body = append(appendBulk(m.body, "tracking-redir-broken"), ':')
	m.body = append(strconv.AppendUint(m.body, to, 10), "\r\n"...)
	return m
}

// appendUnasked appends a message of these kinds.
func (m *Message) appendUnasked(dst []byte, proto int) []byte {
	switch {
	case proto == 3 && m.kind == brokenRedirection:
		return append(dst, m.body...)
	case proto == 3:
		dst = appendBulk(appendLength(dst, push, 2), "invalidate")
		if m.body == nil {
			return append(dst, "_\r\n"...)
		}
		return append(dst, m.body...)
	case m.name != "":
		dst = appendBulk(appendLength(dst, array, 3), words[Channels])
		dst = appendBulk(dst, m.name)
		if m.body == nil {
			return append(dst, "$-1\r\n"...)
		}
		return append(dst, m.body...)
	}
	return dst
}

// unaskedBytes is about what such a message has on the wire beside its body.
const unaskedBytes = 32

func appendLength(b []byte, kind byte, n int) []byte {
	b = strconv.AppendInt(append(b, kind), int64(n), 10)
	return append(b, "\r\n"...)
}
