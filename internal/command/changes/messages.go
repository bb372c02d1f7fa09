package changes

import (
	"kevy/feed"
	"kevy/resp"
)

// messages are those of one stream on their way to be sent, in RESP3. RESP2 has
// another first byte in each.
type messages struct {
	name   string // of the stream
	meta   bool
	w      *resp.Writer
	starts []int // where each begins in w
}

// message begins a message of n parts, the first of which is its kind, the second
// the stream.
func (m *messages) message(n int, kind string) {
	m.starts = append(m.starts, m.w.Len())
	m.w.Push(n)
	m.w.BulkString(kind)
	m.w.BulkString(m.name)
}

// changes begins a message up to its frames, of which there are so many.
func (m *messages) changes(at feed.Cursor, frames int) {
	parts := 5
	if m.meta {
		parts++
	}
	m.message(parts, "changes")
	m.w.Int(int64(at.Generation))
	m.w.Int(int64(at.Offset))
	m.w.Array(frames)
}

// complete ends what changes began.
func (m *messages) complete(lsn uint64) {
	if m.meta {
		m.w.Int(int64(lsn))
	}
}

// batch adds the message of a batch that is in memory.
func (m *messages) batch(at feed.Cursor, completeLSN uint64, b *feed.Batch) {
	m.changes(at, b.Len())
	_ = b.Each(func(fr *feed.Frame) error { // in memory, without an error
		m.frame(fr)
		return nil
	})
	m.complete(completeLSN)
}

func (m *messages) frame(fr *feed.Frame) {
	m.frameHeader(fr)
	m.w.Raw(fr.Raw)
	if m.meta {
		writeMeta(m.w, fr)
	}
}

func (m *messages) frameHeader(fr *feed.Frame) {
	if m.meta {
		m.w.Array(3)
	} else {
		m.w.Array(2)
	}
	m.w.Int(int64(fr.Offset))
}

// asRESP2 makes the messages those of RESP2.
func (m *messages) asRESP2() {
	for _, at := range m.starts {
		m.w.Bytes()[at] = '*'
	}
}

// reset drops the messages. The buffer that mostly is enough is used again.
func (m *messages) reset() {
	m.w.Truncate(0)
	m.shrink(2*pushBytes + feed.MaxFollowedBytes)
	m.starts = m.starts[:0]
}

// shrink lets the buffer go if it is larger than most.
func (m *messages) shrink(most int) {
	if cap(m.w.Bytes()) > most {
		m.w = resp.NewWriter(3)
	}
}
