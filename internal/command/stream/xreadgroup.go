package stream

import (
	"kevy/internal/command"
	"kevy/resp"
	"kevy/shard"
)

func xReadGroup() *command.Spec {
	return &command.Spec{
		Name: "xreadgroup", Arity: -7, Flags: command.Write | command.TellsMisses | command.Blocking, Category: command.CatStream,
		Keys:  []command.KeySpec{{Flags: command.RO | command.Access, Keyword: "STREAMS", StartFrom: 4, Last: -1, Step: 1, Limit: 2}},
		Group: "stream", Since: "5.0.0", Complexity: "O(log N + M) for each stream of N entries of which M are answered",
		Syntax:      "GROUP group consumer [COUNT count] [BLOCK milliseconds] [NOACK] STREAMS key [key ...] id [id ...]",
		Summary:     "Reads streams as a consumer of a group: entries that nobody of it was given, or those that the consumer has pending.",
		Differences: "The error for keys without ids is that of Redis 7.4.",
		Run:         runXReadGroup,
	}
}

// groupRead is one stream that an XREADGROUP reads.
type groupRead struct {
	// history: the consumer's pending entries above the id. Otherwise those above
	// what was delivered last.
	history bool
	after   shard.StreamID
}

func parseGroupRead(arg []byte) (g groupRead, err *resp.Error) {
	switch string(command.CText(arg)) {
	case "$":
		return g, errDollar
	case ">":
		return g, nil
	}
	id, ok := parseID(arg, 0)
	if !ok {
		return g, errID
	}
	// Redis takes the greatest id for ">".
	return groupRead{history: id != shard.MaxStreamID, after: id}, nil
}

func runXReadGroup(c *command.Ctx) {
	r, parseErr := parseReading(c, true)
	if parseErr != nil {
		c.W.Error(parseErr)
		return
	}
	var few [fewStreams]groupRead
	reads := few[:0]
	for i, key := range r.keys {
		s, err := c.Tx.Stream(key)
		if err != nil {
			c.W.Err(err)
			return
		}
		if _, ok := s.Group(r.group); !ok {
			c.W.Error(errNoGroup(key, r.group, " in XREADGROUP with GROUP option"))
			return
		}
		read, parseErr := parseGroupRead(r.ids[i])
		if parseErr != nil {
			c.W.Error(parseErr)
			return
		}
		reads = append(reads, read)
	}
	m, n := c.W.Begin(), 0
	for i, key := range r.keys {
		s, _ := c.Tx.Stream(key) // it is one, and has the group
		g, _ := s.Group(r.group)
		switch {
		case reads[i].history:
			replyStream(c.W, key)
			r.replyHistory(c, key, reads[i].after)
			n++
		case s.Len() > 0 && g.LastID().Less(s.TopID()):
			replyStream(c.W, key)
			r.replyNew(c, key)
			n++
		}
	}
	switch {
	case n > 0:
		c.W.EndMapEntries(m, n)
	case r.block:
		waiting := r // r itself needs no memory
		waiting.wait(c, true, waiting.tryGroup)
	default:
		c.W.NullArray()
	}
}

var (
	errStreamGone = &resp.Error{Code: "UNBLOCKED", Text: "the stream key no longer exists"}
	errGroupGone  = &resp.Error{Code: "NOGROUP", Text: "the consumer group this client was blocked on no longer exists"}
)

// tryGroup serves one who waits from a stream that has had an entry above what
// its group has read, even if that has gone again.
func (r *reading) tryGroup(c *command.Ctx, key []byte) bool {
	s, err := c.Tx.Stream(key)
	if err != nil || !s.Exists() {
		c.W.Error(errStreamGone)
		return true
	}
	g, ok := s.Group(r.group)
	if !ok {
		c.W.Error(errGroupGone)
		return true
	}
	if !g.LastID().Less(s.LastID()) {
		return false
	}
	m := c.W.Begin()
	replyStream(c.W, key)
	r.replyNew(c, key)
	c.W.EndMapEntries(m, 1)
	return true
}

// consumerOf makes sure that there is the consumer of a key's group, notes that
// it was there, and returns the stream and the group.
func (r *reading) consumerOf(c *command.Ctx, key []byte) (s shard.StreamView, g shard.GroupView) {
	s, _ = c.Tx.Stream(key) // it is one, and has the group
	g, _ = s.Group(r.group)
	if _, ok := g.Consumer(r.consumer); ok {
		c.Tx.XSeen(key, r.group, r.consumer)
	} else {
		_, _ = c.Tx.XGroupCreateConsumer(key, r.group, r.consumer)
		c.Tx.Notify(shard.OfStreams, "xgroup-createconsumer", key)
	}
	s, _ = c.Tx.Stream(key)
	g, _ = s.Group(r.group)
	return s, g
}

// fewDelivered is how many entries are delivered without memory for their ids.
const fewDelivered = 32

// replyNew replies with the entries above those that a group has read, which
// are then read, and pending unless they need no acknowledgement.
func (r *reading) replyNew(c *command.Ctx, key []byte) {
	s, g := r.consumerOf(c, key)
	last, read := g.LastID(), g.EntriesRead()
	var few [fewDelivered]shard.StreamID
	ids := few[:0]
	from, _ := last.Next()
	m, n := c.W.Begin(), int64(0)
	s.Each(from, shard.MaxStreamID, false, func(e *shard.StreamEntry) bool {
		read = g.ReadNext(read, e.ID)
		last = e.ID
		replyEntry(c.W, e)
		if !r.noAck {
			ids = append(ids, e.ID)
		}
		n++
		return n < r.count
	})
	c.W.EndArray(m, int(n))
	if n == 0 {
		return
	}
	x := shard.Claim{Consumer: r.consumer, DeliveredMs: c.Tx.NowMs(), Count: 1}
	_, _ = c.Tx.XClaim(key, r.group, x, ids...) // there is the group
	_, _ = c.Tx.XGroupSetID(key, r.group, last, read)
}

// replyHistory replies with the consumer's pending entries above an id, which
// are delivered once more; those that are gone are null.
func (r *reading) replyHistory(c *command.Ctx, key []byte, after shard.StreamID) {
	s, g := r.consumerOf(c, key)
	consumer, _ := g.Consumer(r.consumer)
	from, _ := after.Next()
	t := taker{c: c, deliveredMs: c.Tx.NowMs()}
	m, n := c.W.Begin(), int64(0)
	consumer.EachPending(from, func(p shard.Pending) bool {
		there := false
		s.Each(p.ID, p.ID, false, func(e *shard.StreamEntry) bool {
			replyEntry(c.W, e)
			there = true
			return true
		})
		if there {
			t.take(p.ID, p.Count+1)
		} else {
			c.W.Array(2)
			replyID(c.W, p.ID)
			c.W.NullArray()
		}
		n++
		return n < r.count
	})
	c.W.EndArray(m, int(n))
	t.flushTo(key, r.group, r.consumer)
}
