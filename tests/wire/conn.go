package wire

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// MaxReplyBytes bounds one bulk of a reply: a server that announces more is at fault.
const MaxReplyBytes = 1 << 30

// maxDepth bounds how deeply replies nest.
const maxDepth = 32

// Conn is a connection on which commands go out and replies come in, in order. It is not safe for
// concurrent use, except that one goroutine may write while another reads.
type Conn struct {
	net.Conn
	r *bufio.Reader
}

// Dial connects to a TCP address.
func Dial(addr string) (*Conn, error) {
	c, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err != nil {
		return nil, err
	}
	return NewConn(c), nil
}

// NewConn wraps a connection, which it then owns.
func NewConn(c net.Conn) *Conn { return &Conn{Conn: c, r: bufio.NewReaderSize(c, 64<<10)} }

// AppendCommand appends a command in the form of the wire, an array of bulks.
func AppendCommand(dst []byte, args ...[]byte) []byte {
	dst = appendHeader(dst, '*', len(args))
	for _, a := range args {
		dst = appendHeader(dst, '$', len(a))
		dst = append(dst, a...)
		dst = append(dst, '\r', '\n')
	}
	return dst
}

// AppendStrings is AppendCommand for strings.
func AppendStrings(dst []byte, args ...string) []byte {
	dst = appendHeader(dst, '*', len(args))
	for _, a := range args {
		dst = appendHeader(dst, '$', len(a))
		dst = append(dst, a...)
		dst = append(dst, '\r', '\n')
	}
	return dst
}

func appendHeader(dst []byte, kind byte, n int) []byte {
	dst = append(dst, kind)
	dst = strconv.AppendInt(dst, int64(n), 10)
	return append(dst, '\r', '\n')
}

// Send writes one command.
func (c *Conn) Send(args ...string) error {
	_, err := c.Write(AppendStrings(nil, args...))
	return err
}

// Do sends one command and reads its reply. An error reply is a Reply, not an error.
func (c *Conn) Do(args ...string) (Reply, error) {
	if err := c.Send(args...); err != nil {
		return Reply{}, err
	}
	return c.ReadReply()
}

// Pipeline sends all commands in one write and reads all their replies.
func (c *Conn) Pipeline(cmds ...[]string) ([]Reply, error) {
	var buf []byte
	for _, cmd := range cmds {
		buf = AppendStrings(buf, cmd...)
	}
	done := make(chan error, 1)
	go func() { _, err := c.Write(buf); done <- err }()
	out := make([]Reply, 0, len(cmds))
	for range cmds {
		r, err := c.ReadReply()
		if err != nil {
			return out, err
		}
		out = append(out, r)
	}
	return out, <-done
}

// Buffered is how many bytes of replies have been received and not yet read.
func (c *Conn) Buffered() int { return c.r.Buffered() }

// Reader is the buffered stream that replies are read from.
func (c *Conn) Reader() *bufio.Reader { return c.r }

// ReadReply reads one reply, push messages included. Attributes are dropped.
func (c *Conn) ReadReply() (Reply, error) { return Read(c.r) }

// Read decodes one reply from a stream.
func Read(r *bufio.Reader) (Reply, error) { return read(r, 0) }

func read(r *bufio.Reader, depth int) (Reply, error) {
	if depth > maxDepth {
		return Reply{}, fmt.Errorf("reply nested deeper than %d", maxDepth)
	}
	line, err := readLine(r)
	if err != nil {
		return Reply{}, err
	}
	if len(line) == 0 {
		return Reply{}, fmt.Errorf("empty reply line")
	}
	kind, rest := Kind(line[0]), line[1:]
	switch kind {
	case Simple, Error, Int, Double, Bool, Big:
		return Reply{Kind: kind, Text: rest}, nil
	case Null:
		return Reply{Kind: kind, Nil: true}, nil
	}
	n, err := strconv.ParseInt(string(rest), 10, 64)
	if err != nil || n < -1 || n > MaxReplyBytes {
		return Reply{}, fmt.Errorf("bad reply line %q", line)
	}
	switch kind {
	case Bulk, Verbatim:
		if n < 0 {
			return Reply{Kind: kind, Nil: true}, nil
		}
		buf := make([]byte, n+2)
		if _, err := io.ReadFull(r, buf); err != nil {
			return Reply{}, err
		}
		if buf[n] != '\r' || buf[n+1] != '\n' {
			return Reply{}, fmt.Errorf("bulk of %d bytes does not end in CRLF", n)
		}
		return Reply{Kind: kind, Text: buf[:n]}, nil
	case '|':
		for i := int64(0); i < 2*n; i++ {
			if _, err := read(r, depth+1); err != nil {
				return Reply{}, err
			}
		}
		return read(r, depth)
	case Map:
		n *= 2
	case Array, Set, Push:
	default:
		return Reply{}, fmt.Errorf("bad reply line %q", line)
	}
	if n < 0 {
		return Reply{Kind: kind, Nil: true}, nil
	}
	out := Reply{Kind: kind, Elems: make([]Reply, 0, min(n, 1024))}
	for i := int64(0); i < n; i++ {
		e, err := read(r, depth+1)
		if err != nil {
			return Reply{}, err
		}
		out.Elems = append(out.Elems, e)
	}
	return out, nil
}

func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 2 || line[len(line)-2] != '\r' {
		return nil, fmt.Errorf("reply line %q does not end in CRLF", line)
	}
	return line[:len(line)-2], nil
}
