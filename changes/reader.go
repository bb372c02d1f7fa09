package changes

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"kevy/resp"
)

const (
	// DefaultMaxMessageBytes bounds one message unless a Reader or a Consumer is
	// told otherwise. A message holds whole commits, so it also bounds a commit.
	DefaultMaxMessageBytes = 1 << 30

	// mostMessageBytes keeps sums of lengths far from where they overflow.
	mostMessageBytes = 1 << 40

	firstBufferBytes = 8 << 10
	maxBufferBytes   = 256 << 10 // of a buffer that holds no single large op
	keptBuffers      = 4         // that a reusing Reader keeps between messages
	keptFrames       = 1 << 16   // likewise, entries
	argsSlab         = 1024      // arguments that are allocated at once
	maxLineBytes     = 64 << 10  // a status or an error
	maxNumberBytes   = 24        // a line that holds a number
	maxEmptyReads    = 100
	frameBytes       = 128 // what a frame counts for beside its bytes
	argBytes         = 24  // likewise an argument
)

// ErrProtocol is wrapped by the errors that say the server sent something that
// is no message of the feed. The connection is of no use after it.
var ErrProtocol = errors.New("changes: malformed message")

// TooLargeError says that a message is larger than allowed. A message is as
// large as one commit at least: allow more, or write smaller commits.
type TooLargeError struct {
	MaxBytes int64 // what was allowed
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("changes: a message of more than %d bytes: raise MaxMessageBytes, for a commit is delivered whole", e.MaxBytes)
}

// errShort says that what is buffered ends inside a value.
var errShort = errors.New("changes: more bytes are needed")

func protocolError(format string, a ...any) error {
	return fmt.Errorf("%w: %s", ErrProtocol, fmt.Sprintf(format, a...))
}

// Reader decodes what a server sends on a connection that you have opened, and
// on which you have sent SUBSCRIBE or SINCE, both with META. It is what Consumer
// is built on; use it where each allocation counts. It is not safe for
// concurrent use.
//
// Memory follows what has arrived, never what was announced.
type Reader struct {
	// MaxMessageBytes bounds one message; 0 stands for DefaultMaxMessageBytes.
	MaxMessageBytes int64
	// Keep leaves every message to the caller for good. Without it a message, and
	// all bytes in it, is valid until the next call of Next or NextSince, and a
	// Reader that runs evenly allocates nothing.
	Keep bool

	src    io.Reader
	srcErr error
	buf    []byte // what has arrived stands in buf[pos:end]
	pos    int    // of the next value that is not decoded
	end    int
	full   bool // the last read filled what room there was

	used [][]byte // full buffers that the message still refers to, if not Keep
	free [][]byte // buffers to go on in, at most keptBuffers
	args [][]byte // the unused end of slab
	slab [][]byte // arguments that were allocated at once

	spent   int64 // bytes of the message so far
	message Message
	stream  string // the last name seen, so that each is allocated once
}

// NewReader returns a Reader of the messages in src, which needs no buffer of
// its own.
func NewReader(src io.Reader) *Reader { return &Reader{src: src} }

// Buffered returns the number of bytes that were read and not decoded.
func (r *Reader) Buffered() int { return r.end - r.pos }

// Next returns the next message: a push, or an ordinary reply. The error of the
// source is returned as it is, [io.ErrUnexpectedEOF] if it ends inside a
// message; other errors wrap [ErrProtocol] or are a *[TooLargeError]. All are
// final.
func (r *Reader) Next() (*Message, error) { return r.next("") }

// NextSince returns the reply to CHANGES SINCE … META of a stream as a message
// of KindChanges; an error reply is KindReply. Errors are those of Next.
func (r *Reader) NextSince(stream string) (*Message, error) { return r.next(stream) }

func (r *Reader) next(since string) (*Message, error) {
	m := r.begin()
	err := r.ensureByte()
	if err != nil {
		return nil, err
	}
	switch c := r.buf[r.pos]; {
	case c == '>':
		err = r.push(m)
	case c == '*' && since != "":
		m.Kind, m.Stream = KindChanges, since
		if err = r.header('*', 4); err == nil {
			err = r.changes(m)
		}
	default:
		m.Kind = KindReply
		m.Reply, err = r.reply()
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	m.wireBytes = r.spent
	return m, nil
}

// begin makes ready for a message.
func (r *Reader) begin() *Message {
	r.spent = 0
	if r.Keep {
		return &Message{}
	}
	for _, b := range r.used {
		if len(r.free) < keptBuffers && len(b) <= maxBufferBytes {
			r.free = append(r.free, b)
		}
	}
	clear(r.used)
	r.used = r.used[:0]
	if r.pos == r.end {
		if len(r.buf) > maxBufferBytes {
			r.buf = nil
		}
		r.pos, r.end = 0, 0
	}
	r.args = r.slab
	m := &r.message
	frames, bounds, commits := m.frames[:0], m.bounds[:0], m.Commits[:0]
	if cap(frames) > keptFrames {
		frames, bounds, commits = nil, nil, nil
	}
	*m = Message{frames: frames, bounds: bounds, Commits: commits}
	return m
}

// maxBytes is the limit of one message.
func (r *Reader) maxBytes() int64 {
	if r.MaxMessageBytes > 0 {
		return min(r.MaxMessageBytes, mostMessageBytes)
	}
	return DefaultMaxMessageBytes
}

// spend counts n bytes against the limit of the message.
func (r *Reader) spend(n int) error {
	r.spent += int64(n)
	if r.spent > r.maxBytes() {
		return &TooLargeError{MaxBytes: r.maxBytes()}
	}
	return nil
}

// ensureByte makes sure that a byte is buffered.
func (r *Reader) ensureByte() error {
	for r.pos == r.end {
		if err := r.fill(); err != nil {
			return err
		}
	}
	return nil
}

// fill reads once. What is buffered and not decoded stays together, in another
// buffer if this one is full.
func (r *Reader) fill() error {
	if err := r.srcErr; err != nil {
		return err
	}
	if int64(r.end-r.pos)+r.spent > r.maxBytes() {
		return &TooLargeError{MaxBytes: r.maxBytes()}
	}
	if r.end == len(r.buf) {
		r.makeRoom()
	}
	room := r.buf[r.end:]
	for range maxEmptyReads {
		n, err := r.src.Read(room)
		if n > 0 {
			r.end += n
			r.full = n == len(room)
			r.srcErr = err
			return nil
		}
		if err != nil {
			r.srcErr = err
			return err
		}
	}
	return io.ErrNoProgress
}

// makeRoom goes on in another buffer, to which the value that is not whole yet
// moves. A value's bytes at least double between two moves, so the work is
// linear.
func (r *Reader) makeRoom() {
	rest := r.buf[r.pos:r.end]
	size := firstBufferBytes
	if len(r.buf) > 0 {
		size = min(len(r.buf), maxBufferBytes)
		if r.full {
			size = min(4*size, maxBufferBytes)
		}
	}
	if size < 2*len(rest) {
		size = 2 * len(rest)
	}
	var next []byte
	for n := len(r.free); n > 0 && next == nil; n-- {
		if len(r.free[n-1]) >= size {
			next = r.free[n-1]
		}
		r.free = r.free[:n-1] // one that is too small would only be in the way
	}
	if next == nil {
		next = make([]byte, size)
	}
	copy(next, rest)
	if len(r.buf) > 0 && !r.Keep {
		r.used = append(r.used, r.buf)
	}
	r.buf, r.pos, r.end = next, 0, len(rest)
}

// whole fills until the value at pos is buffered to its end, and returns its
// size. Every byte is looked at once.
func (r *Reader) whole() (int, error) {
	values, at := int64(1), 0 // values that are to come, and where the next begins
	for values > 0 {
		line, next, err := lineAt(r.buf[r.pos:r.end], at, maxLineBytes)
		if err == errShort {
			if err := r.fill(); err != nil {
				return 0, err
			}
			continue
		}
		if err != nil {
			return 0, err
		}
		values--
		switch line[0] {
		case '$', '=', '!':
			n, err := length(line)
			if err != nil {
				return 0, err
			}
			if n > r.maxBytes() {
				return 0, &TooLargeError{MaxBytes: r.maxBytes()}
			}
			if n >= 0 {
				next += int(n) + 2
			}
		case '*', '~', '>', '%', '|':
			n, err := length(line)
			if err != nil {
				return 0, err
			}
			if n > r.maxBytes() {
				return 0, &TooLargeError{MaxBytes: r.maxBytes()}
			}
			if n > 0 {
				values += n
				if line[0] == '%' || line[0] == '|' {
					values += n
				}
			}
			if line[0] == '|' {
				values++ // an attribute stands before a value
			}
		case '+', '-', ':', '_', ',', '#', '(':
		default:
			return 0, protocolError("type byte %q", line[0])
		}
		at = next
	}
	for r.end-r.pos < at {
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
	return at, nil
}

// reply decodes an ordinary reply, or a push of which nothing is known.
func (r *Reader) reply() (resp.Reply, error) {
	n, err := r.whole()
	if err != nil {
		return resp.Reply{}, err
	}
	if err := r.spend(n); err != nil {
		return resp.Reply{}, err
	}
	reply, err := resp.ReadReply(bufio.NewReader(bytes.NewReader(r.buf[r.pos : r.pos+n])))
	if err != nil {
		return resp.Reply{}, protocolError("%v", err)
	}
	r.pos += n
	return reply, nil
}

// lineAt returns the line of b at a position, without its end, and where the
// next begins; errShort if it is not whole.
func lineAt(b []byte, at, most int) (line []byte, next int, err error) {
	if at >= len(b) {
		return nil, 0, errShort
	}
	i := bytes.IndexByte(b[at:], '\n')
	switch {
	case i < 0 && len(b)-at > most, i > most:
		return nil, 0, protocolError("a line of more than %d bytes", most)
	case i < 0:
		return nil, 0, errShort
	case i < 2 || b[at+i-1] != '\r':
		return nil, 0, protocolError("line %q", b[at:at+i])
	}
	return b[at : at+i-1], at + i + 1, nil
}

// length returns the length that a line states; -1 of a null.
func length(line []byte) (int64, error) {
	n, ok := decimal(line[1:])
	if !ok || n < -1 || n == -1 && line[0] != '$' && line[0] != '*' {
		return 0, protocolError("length %q", line)
	}
	return n, nil
}

// decimal reads a number without anything beside its digits and sign.
func decimal(b []byte) (int64, bool) {
	if len(b) == 0 || len(b) > 20 {
		return 0, false
	}
	negative := b[0] == '-'
	if negative {
		b = b[1:]
	}
	if len(b) == 0 || len(b) > 19 {
		return 0, false
	}
	var n uint64
	for _, c := range b {
		d := c - '0'
		if d > 9 {
			return 0, false
		}
		n = n*10 + uint64(d)
	}
	if n > 1<<63-1 {
		return 0, false
	}
	if negative {
		return -int64(n), true
	}
	return int64(n), true
}
