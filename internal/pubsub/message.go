package pubsub

import "strconv"

// Message is what a subscriber is sent: a message, or several to one topic, one
// behind the other. All who get it share it; it does not change once it is
// delivered.
type Message struct {
	kind Kind
	name string // what the receiver has subscribed to
	lsn  uint64
	// body is as RESP2 has it; RESP3 differs in the first byte of each message, which
	// stand at starts.
	body   []byte
	starts []int
}

// The words that messages begin with.
var words = [kinds]string{Channels: "message", Patterns: "pmessage", Shard: "smessage"}

// The bytes that a message begins with.
const (
	array = '*' // in RESP2
	push  = '>' // in RESP3
)

func newMessage(t *topic, channel, payload []byte, lsn uint64) *Message {
	const headers = 64
	m := &Message{kind: t.kind, name: t.name, body: make([]byte, 0, headers+len(t.name)+len(channel)+len(payload))}
	m.add(t, channel, payload, lsn)
	return m
}

// add appends a message to the same topic.
func (m *Message) add(t *topic, channel, payload []byte, lsn uint64) {
	m.lsn = max(m.lsn, lsn)
	m.starts = append(m.starts, len(m.body))
	b := append(m.body, array)
	if t.kind == Patterns {
		b = append(b, "4\r\n"...)
		b = appendBulk(b, words[t.kind])
		b = appendBulk(b, t.name)
	} else {
		b = append(b, "3\r\n"...)
		b = appendBulk(b, words[t.kind])
	}
	b = appendBulk(b, channel)
	m.body = appendBulk(b, payload)
}

func appendBulk[T string | []byte](b []byte, text T) []byte {
	b = append(b, '$')
	b = strconv.AppendInt(b, int64(len(text)), 10)
	b = append(b, "\r\n"...)
	b = append(b, text...)
	return append(b, "\r\n"...)
}

// Len is the length of the message on the wire, in bytes, or about it.
func (m *Message) Len() int {
	if m.kind >= kinds {
		return len(m.body) + unaskedBytes
	}
	return len(m.body)
}

// LSN is up to where the message shows what is in the log.
func (m *Message) LSN() uint64 { return m.lsn }

// AppendTo appends the message as protocol version proto has it.
func (m *Message) AppendTo(dst []byte, proto int) []byte {
	if m.kind >= kinds {
		return m.appendUnasked(dst, proto)
	}
	base := len(dst)
	dst = append(dst, m.body...)
	if proto == 3 {
		for _, at := range m.starts {
			dst[base+at] = push
		}
	}
	return dst
}

// Parts returns the first byte as protocol version proto has it and the rest, which
// is shared and read-only. ok is false if it cannot be had so: use AppendTo.
func (m *Message) Parts(proto int) (first byte, rest []byte, ok bool) {
	if len(m.starts) != 1 {
		return 0, nil, false
	}
	if first = array; proto == 3 {
		first = push
	}
	return first, m.body[1:], true
}
