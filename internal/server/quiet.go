package server

import "kevy/internal/command/connection"

// quiet is what CLIENT REPLY has made of a connection; its goroutine alone uses it.
type quiet struct {
	mode connection.ReplyMode
	from int  // where the reply begins, in what is gathered, that nobody gets
	skip bool // that of the next command goes too
}

// Reply implements connection.Conn. As in Redis it holds from there on, even in the
// middle of EXEC's reply.
func (c *client) Reply(mode connection.ReplyMode) {
	if mode == connection.ReplySkip {
		if c.quiet == nil {
			c.quiet = &quiet{mode: connection.ReplySkip, from: c.w.Len(), skip: true}
		} else if c.quiet.mode == connection.ReplySkip {
			c.quiet.skip = true
		}
		return
	}
	if mode == connection.ReplyOn {
		c.quiet = nil
		return
	}
	if c.quiet == nil {
		c.quiet = &quiet{from: c.w.Len()}
	}
	c.quiet.mode = connection.ReplyOff
}

// hush drops what the command that has run has replied, but for confirmations of
// subscriptions, which are messages.
func (c *client) hush() {
	q := c.quiet
	if last := c.es.LastCommand(); last == nil || !confirms[last.Name] {
		c.es.Drop(q.from)
		c.unsettled = true
	}
	q.from = c.w.Len()
	if q.mode == connection.ReplySkip {
		if !q.skip {
			c.quiet = nil
		}
		q.skip = false
	}
}

var confirms = map[string]bool{
	"subscribe": true, "psubscribe": true, "ssubscribe": true, "unsubscribe": true, "punsubscribe": true, "sunsubscribe": true,
}
