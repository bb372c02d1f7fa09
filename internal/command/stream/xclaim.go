package stream

import (
	"kevy/internal/command"
	"kevy/resp"
	"kevy/shard"
)

func xClaim() *command.Spec {
	return &command.Spec{
		Name: "xclaim", Arity: -6, Flags: command.Write | command.TellsMisses | command.Fast, Category: command.CatStream,
		Keys:  command.One(1, command.RW|command.Update),
		Tips:  []string{"nondeterministic_output"},
		Group: "stream", Since: "5.0.0", Complexity: "O(log N) for each id, of N pending entries",
		Syntax:  "key group consumer min-idle-time id [id ...] [IDLE ms] [TIME unix-milliseconds] [RETRYCOUNT count] [FORCE] [JUSTID] [LASTID id]",
		Summary: "Makes pending entries those of a consumer and answers them.",
		Run:     runXClaim,
	}
}

// claim is what an XCLAIM says.
type claim struct {
	minIdle     int64
	ids         []shard.StreamID
	deliveredMs int64
	retryCount  int64 // below 0 if it is not given
	force       bool
	justID      bool
	lastID      shard.StreamID
}

var (
	errClaimIdle  = &resp.Error{Code: "ERR", Text: "Invalid IDLE option argument for XCLAIM"}
	errClaimTime  = &resp.Error{Code: "ERR", Text: "Invalid TIME option argument for XCLAIM"}
	errClaimCount = &resp.Error{Code: "ERR", Text: "Invalid RETRYCOUNT option argument for XCLAIM"}
)

// number returns the next argument as an integer; what is none is err.
func number(a *command.Args, err *resp.Error) int64 {
	n, ok := command.ParseInt(a.Bytes())
	if !ok {
		a.Fail(err)
	}
	return n
}

func parseClaim(c *command.Ctx) (x claim, err *resp.Error) {
	nowMs := c.Tx.NowMs()
	a := c.Scan(4)
	x.minIdle = max(number(&a, errMinIdle("XCLAIM")), 0)
	for a.More() {
		id, ok := parseID(a.Peek(), 0)
		if !ok {
			break
		}
		x.ids = append(x.ids, id)
		a.Bytes()
	}
	x.deliveredMs, x.retryCount = -1, -1
	for a.More() {
		switch {
		case a.Is("FORCE"):
			x.force = true
		case a.Is("JUSTID"):
			x.justID = true
		case a.Len() < 2:
			a.Fail(errClaimOption(a.Bytes()))
		case a.Is("IDLE"):
			x.deliveredMs = nowMs - number(&a, errClaimIdle)
		case a.Is("TIME"):
			x.deliveredMs = number(&a, errClaimTime)
		case a.Is("RETRYCOUNT"):
			x.retryCount = number(&a, errClaimCount)
		case a.Is("LASTID"):
			x.lastID = scanID(&a)
		default:
			a.Fail(errClaimOption(a.Bytes()))
		}
	}
	// A client's clock may be wrong: a time that cannot be is now.
	if x.deliveredMs < 0 || x.deliveredMs > nowMs {
		x.deliveredMs = nowMs
	}
	return x, a.Err()
}

func errClaimOption(b []byte) *resp.Error {
	return resp.Errorf("ERR", "Unrecognized XCLAIM option '%s'", command.CText(b))
}

func runXClaim(c *command.Ctx) {
	s, g, ok := groupAt(c)
	if !ok {
		return
	}
	x, parseErr := parseClaim(c)
	if parseErr != nil {
		c.W.Error(parseErr)
		return
	}
	t := taker{c: c, deliveredMs: x.deliveredMs}
	if g.LastID().Less(x.lastID) {
		_, _ = c.Tx.XGroupSetID(c.Key(1), c.Args[2], x.lastID, g.EntriesRead()) // there is the group
		s, g = t.again()
	}
	m := c.W.Begin()
	for i, id := range x.ids {
		if i > 0 && !x.ids[i-1].Less(id) {
			// The same id may come again, as it is after the first time.
			t.flush()
			s, g = t.again()
		}
		p, pending := g.PendingOf(id)
		if !s.Has(id) {
			if pending {
				t.gone = append(t.gone, id)
			}
			continue
		}
		if !pending && !x.force || pending && x.minIdle != 0 && c.Tx.NowMs()-p.DeliveredMs < x.minIdle {
			continue
		}
		if !pending {
			p.Count = 1 // it counts as delivered before
		}
		switch {
		case x.retryCount >= 0:
			p.Count = uint64(x.retryCount)
		case !x.justID:
			p.Count++
		}
		t.take(id, p.Count)
		t.replyTaken(s, id, x.justID)
	}
	c.W.EndArray(m, t.taken)
	t.flush()
}

// taker makes entries those of the consumer that the third argument names.
// What it takes changes at flush, so that what is read stays valid until then.
type taker struct {
	c           *command.Ctx
	deliveredMs int64
	taken       int // since the beginning
	ids         []shard.StreamID
	counts      []uint64         // of deliveries, for each of ids
	gone        []shard.StreamID // are pending and no entries any more
}

func (t *taker) take(id shard.StreamID, count uint64) {
	t.ids, t.counts = append(t.ids, id), append(t.counts, count)
	t.taken++
}

// replyTaken replies with an entry, or its id only.
func (t *taker) replyTaken(s shard.StreamView, id shard.StreamID, justID bool) {
	if justID {
		replyID(t.c.W, id)
		return
	}
	s.Each(id, id, false, func(e *shard.StreamEntry) bool {
		replyEntry(t.c.W, e)
		return true
	})
}

// again returns the stream and the group after a change.
func (t *taker) again() (s shard.StreamView, g shard.GroupView) {
	s, _ = t.c.Tx.Stream(t.c.Key(1)) // it was one before
	g, _ = s.Group(t.c.Args[2])
	return s, g
}

// flush does what was gathered.
func (t *taker) flush() { t.flushTo(t.c.Key(1), t.c.Args[2], t.c.Args[3]) }

// flushTo is flush for a key, a group and a consumer that stand elsewhere in the
// arguments: one op for entries that follow each other and were delivered as
// often.
func (t *taker) flushTo(key, group, consumer []byte) {
	if len(t.ids) > 0 {
		s, _ := t.c.Tx.Stream(key) // it was one before
		g, _ := s.Group(group)
		if _, there := g.Consumer(consumer); !there {
			t.c.Tx.Notify(shard.OfStreams, "xgroup-createconsumer", key)
		}
	}
	for len(t.ids) > 0 {
		n := 1
		for n < len(t.ids) && t.counts[n] == t.counts[0] {
			n++
		}
		x := shard.Claim{Consumer: consumer, DeliveredMs: t.deliveredMs, Count: t.counts[0]}
		_, _ = t.c.Tx.XClaim(key, group, x, t.ids[:n]...) // there is the group
		t.ids, t.counts = t.ids[n:], t.counts[n:]
	}
	if len(t.gone) > 0 {
		_, _ = t.c.Tx.XAck(key, group, t.gone)
		t.gone = t.gone[:0]
	}
}
