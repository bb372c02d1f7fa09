package chaos

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"kevy/resp"
)

const (
	dialTimeout = 10 * time.Second
	// maxPending bounds the commands of a connection whose replies have not come.
	maxPending = 1 << 17
	// maxConnections bounds the connections at one time.
	maxConnections = 4096
)

// Proxy stands before a server.
type Proxy struct {
	options Options
	random  random
	cursors cursors
	slots   chan struct{}

	connections, messages, drops, redeliveries, stalls, resyncs atomic.Uint64
}

// New returns a proxy.
func New(o Options) (*Proxy, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Proxy{options: o, random: random{rng: rand.New(rand.NewPCG(o.Seed, 0))}, slots: make(chan struct{}, maxConnections)}, nil
}

// Counts returns what the proxy has done so far.
func (p *Proxy) Counts() Counts {
	return Counts{
		Connections: p.connections.Load(), Messages: p.messages.Load(), Drops: p.drops.Load(),
		Redeliveries: p.redeliveries.Load(), Stalls: p.stalls.Load(), Resyncs: p.resyncs.Load(),
	}
}

// Serve takes connections from a listener until ctx ends; then it closes all,
// and the listener. Everything that it has started has ended when it returns.
func (p *Proxy) Serve(ctx context.Context, l net.Listener) error {
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	serving, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		select {
		case p.slots <- struct{}{}:
		default:
			p.options.Log.Warn("a connection was refused, since there are too many", "most", maxConnections)
			conn.Close()
			continue
		}
		p.connections.Add(1)
		wg.Go(func() {
			defer func() { <-p.slots }()
			p.carry(serving, conn)
		})
	}
}

// carry carries one connection until either end closes it, or chance does.
func (p *Proxy) carry(ctx context.Context, down net.Conn) {
	defer down.Close()
	dialing, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var up net.Conn
	var err error
	if p.options.TLS != nil {
		up, err = (&tls.Dialer{Config: p.options.TLS}).DialContext(dialing, "tcp", p.options.To)
	} else {
		up, err = (&net.Dialer{}).DialContext(dialing, "tcp", p.options.To)
	}
	if err != nil {
		p.options.Log.Warn("the server cannot be reached", "to", p.options.To, "error", err)
		return
	}
	defer up.Close()
	stop := context.AfterFunc(ctx, func() { down.Close(); up.Close() })
	defer stop()
	c := &carried{proxy: p, down: down, up: up, ctx: ctx}
	var upward sync.WaitGroup
	upward.Go(func() {
		defer down.Close()
		defer up.Close()
		c.commands()
	})
	c.replies()
	down.Close()
	up.Close()
	upward.Wait()
}

// carried is a connection.
type carried struct {
	proxy    *Proxy
	down, up net.Conn
	ctx      context.Context

	mu      sync.Mutex
	pending []asked // guarded by mu; commands without a reply, oldest first
	plain   bool    // guarded by mu; replies cannot be told apart any more: all passes as it is
}

// asked is a command whose reply is to come.
type asked struct {
	kind   kind
	stream string
	// of a resync: the replies that were there already
	tail *resp.Reply
}

type kind uint8

const (
	other     kind = iota // a reply that passes
	positions             // TAIL, OLDEST, AT: a cursor of stream
	since                 // a batch of stream
	confirm               // SUBSCRIBE, CREDIT, UNSUBSCRIBE: answered by a message or an error
	resyncTail
	resyncOldest
)

// commands passes on what the client sends.
func (c *carried) commands() {
	in := resp.NewReader(c.down, resp.Limits{})
	var out []byte
	for {
		for {
			args, ok, err := in.Next()
			if err != nil {
				return // the server would end the connection too
			}
			if !ok {
				break
			}
			if out, ok = c.command(out, args); !ok {
				return
			}
		}
		if len(out) > 0 {
			if _, err := c.up.Write(out); err != nil {
				return
			}
			out = out[:0]
		}
		if err := in.Fill(); err != nil {
			return
		}
	}
}

// command appends what is sent in the place of a command, and notes what is to
// come back.
func (c *carried) command(out []byte, args [][]byte) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.plain {
		return resp.AppendCommand(out, args...), true
	}
	if len(c.pending) >= maxPending {
		return out, false
	}
	name := strings.ToUpper(string(args[0]))
	switch name {
	case "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE", "MONITOR", "SYNC", "PSYNC", "MULTI":
		// Their replies are not one a command; what such a connection does is not the
		// feed's.
		c.plain = true
		return resp.AppendCommand(out, args...), true
	case "CLIENT":
		if len(args) > 1 && strings.EqualFold(string(args[1]), "REPLY") {
			c.plain = true
			return resp.AppendCommand(out, args...), true
		}
	}
	if name != "CHANGES" || len(args) < 3 {
		// CHANGES UNSUBSCRIBE without a stream is confirmed once for each, and by
		// messages that answer nothing.
		if name == "CHANGES" && len(args) == 2 && strings.EqualFold(string(args[1]), "UNSUBSCRIBE") {
			c.pending = append(c.pending, asked{kind: confirm})
			return resp.AppendCommand(out, args...), true
		}
		c.pending = append(c.pending, asked{})
		return resp.AppendCommand(out, args...), true
	}
	stream := strings.ToUpper(string(args[2]))
	switch sub := strings.ToUpper(string(args[1])); sub {
	case "TAIL", "OLDEST", "AT":
		c.pending = append(c.pending, asked{kind: positions, stream: stream})
	case "CREDIT", "UNSUBSCRIBE":
		c.pending = append(c.pending, asked{kind: confirm, stream: stream})
	case "SINCE", "SUBSCRIBE":
		what := since
		if sub == "SUBSCRIBE" {
			what = confirm
		}
		at, ok := readCursor(args)
		switch {
		case ok && c.proxy.random.chance(c.proxy.options.Resync):
			c.proxy.resyncs.Add(1)
			c.proxy.options.Log.Info("resync", "stream", stream, "cursor", at.String())
			c.pending = append(c.pending, asked{kind: resyncTail, stream: stream}, asked{kind: resyncOldest, stream: stream})
			out = resp.AppendCommand(out, "CHANGES", "TAIL", stream)
			return resp.AppendCommand(out, "CHANGES", "OLDEST", stream), true
		case ok && c.proxy.random.chance(c.proxy.options.Redeliver):
			if older, found := c.proxy.cursors.before(stream, at, c.proxy.random.int); found {
				c.proxy.redeliveries.Add(1)
				c.proxy.options.Log.Info("redelivery", "stream", stream, "cursor", at.String(), "from", older.String())
				rest := append(words("CHANGES", sub, stream, strconv.FormatUint(older.generation, 10), strconv.FormatUint(older.offset, 10)), args[5:]...)
				c.pending = append(c.pending, asked{kind: what, stream: stream})
				return resp.AppendCommand(out, rest...), true
			}
		}
		c.pending = append(c.pending, asked{kind: what, stream: stream})
	default:
		c.pending = append(c.pending, asked{})
	}
	return resp.AppendCommand(out, args...), true
}

func (c cursor) String() string { return fmt.Sprintf("%d:%d", c.generation, c.offset) }

// readCursor reads that of SINCE and SUBSCRIBE; ok is false for TAIL, OLDEST and
// SNAPSHOT.
func readCursor(args [][]byte) (at cursor, ok bool) {
	if len(args) < 5 {
		return cursor{}, false
	}
	g, err1 := strconv.ParseUint(string(args[3]), 10, 63)
	o, err2 := strconv.ParseUint(string(args[4]), 10, 63)
	return cursor{g, o}, err1 == nil && err2 == nil
}

func words(text ...string) [][]byte {
	args := make([][]byte, len(text))
	for i, t := range text {
		args[i] = []byte(t)
	}
	return args
}

// replies passes on what the server sends, message by message.
func (c *carried) replies() {
	in := bufio.NewReaderSize(c.up, 64<<10)
	var out []byte
	for {
		c.mu.Lock()
		plain := c.plain && len(c.pending) == 0
		c.mu.Unlock()
		if plain {
			_, _ = io.Copy(c.down, in) // either end has closed
			return
		}
		r, err := resp.ReadReply(in)
		if err != nil {
			return
		}
		send, ok := c.reply(&r)
		if !ok {
			return
		}
		if send == nil {
			continue
		}
		c.proxy.messages.Add(1)
		if out = appendReply(out[:0], send); !c.send(out) {
			return
		}
	}
}

// reply takes a message and returns what is sent in its place: nil for nothing
// yet.
func (c *carried) reply(r *resp.Reply) (*resp.Reply, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if name, ok := messageName(r); ok {
		c.noteMessage(name, r)
		return r, true
	}
	if r.Type == '>' {
		return r, true
	}
	if len(c.pending) == 0 {
		return r, c.plain // a reply to nothing: the protocol is not what it should be
	}
	first := &c.pending[0]
	c.pending = c.pending[1:]
	switch first.kind {
	case positions:
		c.noteCursor(first.stream, r.Elems)
	case since:
		if len(r.Elems) >= 3 {
			c.noteCursor(first.stream, r.Elems[:2])
		}
	case resyncTail:
		if r.Err() != nil { // no such stream, no permission: the second says the same
			return nil, true
		}
		if len(c.pending) > 0 && c.pending[0].kind == resyncOldest {
			c.pending[0].tail = r
		}
		return nil, true
	case resyncOldest:
		if r.Err() != nil || first.tail == nil || len(r.Elems) != 2 || len(first.tail.Elems) != 2 {
			return r, true
		}
		text := fmt.Sprintf("FEEDRESYNC %s %s %s %s evicted", number(first.tail.Elems[0]), number(first.tail.Elems[1]), number(r.Elems[0]), number(r.Elems[1]))
		return &resp.Reply{Type: '-', Str: []byte(text)}, true
	}
	return r, true
}

// messageName returns the kind of a message of a subscription, which comes as a
// push, or in RESP2 as an array.
func messageName(r *resp.Reply) (string, bool) {
	if r.Type != '>' && r.Type != '*' || len(r.Elems) < 2 || r.Elems[0].Type != '$' {
		return "", false
	}
	name := string(r.Elems[0].Str)
	return name, name == "changes" || strings.HasPrefix(name, "changes-")
}

// noteMessage learns from a message. c.mu is held.
func (c *carried) noteMessage(name string, r *resp.Reply) {
	stream := string(r.Elems[1].Str)
	switch name {
	case "changes-subscribe", "changes-credit", "changes-unsubscribe":
		// Confirmations come in the place of a reply. Those of one UNSUBSCRIBE for
		// all come one after the other, of which the first answers it.
		if len(c.pending) > 0 && c.pending[0].kind == confirm && (c.pending[0].stream == "" || c.pending[0].stream == stream) {
			c.pending = c.pending[1:]
		}
		if name == "changes-subscribe" && len(r.Elems) == 4 {
			c.noteCursor(stream, r.Elems[2:])
		}
	case "changes", "changes-snapshot-end":
		if len(r.Elems) >= 4 {
			c.noteCursor(stream, r.Elems[2:4])
		}
	}
}

func (c *carried) noteCursor(stream string, pair []resp.Reply) {
	if len(pair) != 2 {
		return
	}
	g, err1 := strconv.ParseUint(number(pair[0]), 10, 63)
	o, err2 := strconv.ParseUint(number(pair[1]), 10, 63)
	if err1 == nil && err2 == nil {
		c.proxy.cursors.give(stream, cursor{g, o})
	}
}

func number(r resp.Reply) string {
	if r.Type == ':' {
		return strconv.FormatInt(r.Int, 10)
	}
	return string(r.Str)
}

// send sends a message as chance has it. It returns false when the connection is
// to end.
func (c *carried) send(message []byte) bool {
	p := c.proxy
	if p.random.chance(p.options.Stall) {
		p.stalls.Add(1)
		pause := time.Duration(p.random.int(int(p.options.StallMax)) + 1)
		p.options.Log.Info("stall", "client", c.down.RemoteAddr().String(), "for", pause.String())
		timer := time.NewTimer(pause)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.ctx.Done():
			return false
		}
	}
	if p.random.chance(p.options.Drop) {
		p.drops.Add(1)
		n := p.random.int(len(message) + 1)
		p.options.Log.Info("drop", "client", c.down.RemoteAddr().String(), "bytes", n, "of", len(message))
		_, _ = c.down.Write(message[:n]) // it is cut in any case
		return false
	}
	_, err := c.down.Write(message)
	return err == nil && !errors.Is(c.ctx.Err(), context.Canceled)
}

// appendReply encodes a reply as it was received.
func appendReply(dst []byte, r *resp.Reply) []byte {
	length := func(n int) { dst = append(strconv.AppendInt(append(dst, r.Type), int64(n), 10), '\r', '\n') }
	switch r.Type {
	case '*', '~', '>', '%':
		if r.Null {
			return append(dst, "*-1\r\n"...)
		}
		n := len(r.Elems)
		if r.Type == '%' {
			n /= 2
		}
		length(n)
		for i := range r.Elems {
			dst = appendReply(dst, &r.Elems[i])
		}
		return dst
	case '$', '=', '!':
		if r.Null {
			return append(dst, "$-1\r\n"...)
		}
		length(len(r.Str))
		dst = append(dst, r.Str...)
	case ':':
		dst = strconv.AppendInt(append(dst, ':'), r.Int, 10)
	case '#':
		dst = append(dst, '#', "ft"[r.Int&1])
	case '_':
		dst = append(dst, '_')
	default: // + - , (
		dst = append(append(dst, r.Type), r.Str...)
	}
	return append(dst, '\r', '\n')
}
