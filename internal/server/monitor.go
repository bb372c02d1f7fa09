package server

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"kevy/internal/config"
	"kevy/internal/exec"
)

// Connections in MONITOR are shown each command that runs, as a line. Who runs it
// appends the line to a buffer for each of them, under the locks of the command's
// shards: the order of lines is one in which the commands could have run one by one.
// Each connection has a goroutine that sends its buffer, and is ended where it takes
// too little: nobody waits for it.

// monitorBytes is what may wait for a connection in MONITOR where
// client-output-buffer-limit has no bound for its class.
const monitorBytes = 64 << 20

// monitors are the connections in MONITOR.
type monitors struct {
	count atomic.Int64

	mu   sync.Mutex
	list []*monitor // guarded by mu
}

func (m *monitors) any() bool { return m.count.Load() > 0 }

// monitor is what waits for a connection in MONITOR.
type monitor struct {
	c       *client
	wake    chan struct{} // has room for one
	quit    chan struct{}
	waiting atomic.Int64 // bytes in lines, or taken and not yet sent

	lines []byte // guarded by monitors.mu
	over  bool   // nothing is added any more; guarded by monitors.mu

	spare []byte // for who has the connection's turn
}

// Monitor implements admin.Session.
func (c *client) Monitor() bool {
	if c.monitor.Load() != nil {
		return false
	}
	// No line may come before the reply, which flush sends.
	r := c.receive()
	if !c.hasTurn {
		r.turn <- struct{}{}
		c.hasTurn = true
	}
	m := &monitor{c: c, wake: make(chan struct{}, 1), quit: make(chan struct{})}
	c.monitor.Store(m)
	all := &c.srv.observed.monitors
	all.mu.Lock()
	all.list = append(all.list, m)
	all.count.Add(1)
	all.mu.Unlock()
	r.running.Go(m.sendWhenWoken)
	_ = c.srv.observeCommands()
	return true
}

// endMonitor ends what Monitor began. The goroutine ends by itself.
func (c *client) endMonitor() {
	m := c.monitor.Swap(nil)
	if m == nil {
		return
	}
	all := &c.srv.observed.monitors
	all.mu.Lock()
	i := slices.Index(all.list, m)
	all.list = slices.Delete(all.list, i, i+1)
	all.count.Add(-1)
	m.over, m.lines = true, nil
	all.mu.Unlock()
	close(m.quit)
	_ = c.srv.observeCommands()
}

// showCommand is exec.Observation.Ran.
func (s *Server) showCommand(es *exec.Session, args [][]byte, more bool) {
	c, ok := es.Self().(*client)
	if !ok {
		return
	}
	c.shown = c.appendCommand(c.shown, es.Context() == exec.InScript, args)
	limit := s.monitorLimit()
	if more && int64(len(c.shown)) <= limit {
		return
	}
	// What is longer than the limit nobody gets whole: it ends every monitor, and is not
	// gathered until the transaction ends, however much a script in it calls.
	s.observed.monitors.add(c.shown, limit)
	if c.shown = c.shown[:0]; cap(c.shown) > keptSenderBytes {
		c.shown = nil
	}
}

// appendCommand writes the line: when, database, source, and the arguments, quoted.
func (c *client) appendCommand(dst []byte, script bool, args [][]byte) []byte {
	us := time.Now().UnixMicro()
	dst = append(dst, '+')
	dst = strconv.AppendInt(dst, us/1e6, 10)
	fraction := strconv.Itoa(int(1e6 + us%1e6))
	dst = append(append(dst, '.'), fraction[1:]...)
	dst = append(dst, " ["...)
	dst = strconv.AppendInt(dst, int64(c.es.DB()), 10)
	dst = append(dst, ' ')
	dst = append(dst, c.source(script)...)
	dst = append(dst, ']')
	for _, a := range args {
		dst = appendQuoted(append(dst, ' '), a)
	}
	return append(dst, "\r\n"...)
}

// source names where a command came from.
func (c *client) source(script bool) string {
	if script {
		return "lua"
	}
	if c.unix {
		return "unix:" + strings.TrimSuffix(c.addr, ":0")
	}
	return c.addr
}

// appendQuoted writes an argument as one word, of printable characters alone.
func appendQuoted(dst, arg []byte) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	for _, b := range arg {
		switch b {
		case '\\', '"':
			dst = append(dst, '\\', b)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		case '\a':
			dst = append(dst, `\a`...)
		case '\b':
			dst = append(dst, `\b`...)
		default:
			if b >= ' ' && b <= '~' {
				dst = append(dst, b)
			} else {
				dst = append(dst, '\\', 'x', digits[b>>4], digits[b&15])
			}
		}
	}
	return append(dst, '"')
}

// monitorLimit is how many bytes may wait for a connection in MONITOR.
func (s *Server) monitorLimit() int64 {
	if hard := s.cfg.ClientOutputBuffer.Load(config.ClientNormal).HardBytes; hard > 0 {
		return hard
	}
	return monitorBytes
}

// add hands lines to every monitor, and ends those that have more than limit waiting.
func (m *monitors) add(lines []byte, limit int64) {
	m.mu.Lock()
	var over []*monitor
	for _, one := range m.list {
		if one.over {
			continue
		}
		if one.waiting.Add(int64(len(lines))) > limit {
			one.over, one.lines = true, nil
			over = append(over, one)
			continue
		}
		one.lines = append(one.lines, lines...)
		select {
		case one.wake <- struct{}{}:
		default:
		}
	}
	m.mu.Unlock()
	for _, one := range over {
		one.c.cutOff(one.waiting.Load())
	}
}

func (m *monitor) sendWhenWoken() {
	c, turn := m.c, m.c.receiver.Load().turn
	for {
		select {
		case <-m.wake:
		case <-m.quit:
			return
		}
		select {
		case turn <- struct{}{}:
		case <-m.quit:
			return
		}
		m.send()
		c.EndTurn()
	}
}

// send sends what has gathered, for who has the turn. It reports whether the
// connection can go on.
func (m *monitor) send() bool {
	all := &m.c.srv.observed.monitors
	all.mu.Lock()
	lines := m.lines
	m.lines = m.spare
	all.mu.Unlock()
	m.spare = nil
	if len(lines) == 0 {
		return true
	}
	ok := m.c.push(lines)
	m.waiting.Add(-int64(len(lines)))
	if cap(lines) <= flushBytes {
		m.spare = lines[:0]
	}
	return ok
}
