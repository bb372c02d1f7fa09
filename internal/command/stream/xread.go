package stream

import (
	"bytes"
	"math"
	"slices"

	"kevy/internal/command"
	"kevy/resp"
	"kevy/shard"
)

func xRead() *command.Spec {
	return &command.Spec{
		Name: "xread", Arity: -4, Flags: command.ReadOnly | command.Blocking, Category: command.CatStream,
		Keys:  []command.KeySpec{{Flags: command.RO | command.Access, Keyword: "STREAMS", StartFrom: 1, Last: -1, Step: 1, Limit: 2}},
		Group: "stream", Since: "5.0.0", Complexity: "O(log N + M) for each stream of N entries of which M are answered",
		Syntax:      "[COUNT count] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]",
		Summary:     "Answers the entries of streams above ids, waiting for one if there is none.",
		Differences: "The id + is the last entry, as since Redis 7.4, and the error for keys without ids is that of 7.4.",
		Run:         runXRead,
	}
}

var (
	errNoGroupArg = &resp.Error{Code: "ERR", Text: "The GROUP option is only supported by XREADGROUP. You called XREAD instead."}
	errNoAckArg   = &resp.Error{Code: "ERR", Text: "The NOACK option is only supported by XREADGROUP. You called XREAD instead."}
	errGroupLacks = &resp.Error{Code: "ERR", Text: "Missing GROUP option for XREADGROUP"}
	errDollar     = &resp.Error{Code: "ERR", Text: "The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, " +
		"or use the > ID to get new messages. The $ ID would just return an empty result set."}
	errGreater = &resp.Error{Code: "ERR", Text: "The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option."}
)

// errUnbalanced is the error for keys and ids whose numbers differ, as it is
// since Redis 7.4.
func errUnbalanced(grouped bool) *resp.Error {
	name, ids := "xread", "ID, '+', or '$'"
	if grouped {
		name, ids = "xreadgroup", "ID or '>'"
	}
	return resp.Errorf("ERR", "Unbalanced '%s' list of streams: for each stream key an %s must be specified.", name, ids)
}

// reading is what XREAD and XREADGROUP say.
type reading struct {
	count     int64
	block     bool
	timeoutMs int64
	noAck     bool
	group     []byte // nil for XREAD
	consumer  []byte
	keys, ids [][]byte
}

func parseReading(c *command.Ctx, grouped bool) (r reading, err *resp.Error) {
	r.count = math.MaxInt64
	a := c.Scan(1)
	for a.More() && r.keys == nil {
		more := a.Len() > 1
		switch {
		case more && a.Is("BLOCK"):
			r.block = true
			r.timeoutMs = a.TimeoutMs()
		case more && a.Is("COUNT"):
			if r.count = a.Int(); r.count <= 0 {
				r.count = math.MaxInt64
			}
		case more && a.Is("STREAMS"):
			rest := a.Rest()
			if len(rest)%2 != 0 {
				a.Fail(errUnbalanced(grouped))
			}
			r.keys, r.ids = rest[:len(rest)/2], rest[len(rest)/2:]
		case a.Len() > 2 && a.Is("GROUP"):
			if !grouped {
				a.Fail(errNoGroupArg)
			}
			r.group, r.consumer = a.Bytes(), a.Bytes()
		case a.Is("NOACK"):
			if !grouped {
				a.Fail(errNoAckArg)
			}
			r.noAck = true
		default:
			a.Fail(command.ErrSyntax)
		}
	}
	switch {
	case r.keys == nil:
		a.Fail(command.ErrSyntax)
	case grouped && r.group == nil:
		a.Fail(errGroupLacks)
	}
	return r, a.Err()
}

// fewStreams is for how many streams a handler needs no memory.
const fewStreams = 4

func runXRead(c *command.Ctx) {
	r, parseErr := parseReading(c, false)
	if parseErr != nil {
		c.W.Error(parseErr)
		return
	}
	var few [fewStreams]shard.StreamID
	after := few[:0]
	for i, key := range r.keys {
		s, err := c.Tx.Stream(key)
		if err != nil {
			c.W.Err(err)
			return
		}
		id, parseErr := readAfter(s, r.ids[i])
		if parseErr != nil {
			c.W.Error(parseErr)
			return
		}
		after = append(after, id)
	}
	m, n := c.W.Begin(), 0
	for i, key := range r.keys {
		s, _ := c.Tx.Stream(key) // it is one
		if s.Len() > 0 && after[i].Less(s.TopID()) {
			replyStream(c.W, key)
			from, _ := after[i].Next()
			replyRange(c.W, s, from, shard.MaxStreamID, false, r.count)
			n++
		}
	}
	switch {
	case n > 0:
		c.W.EndMapEntries(m, n)
	case r.block:
		r.waitForMore(c, after)
	default:
		c.W.NullArray()
	}
}

// blockedCount is how many entries of a stream are answered to who waited for
// it and gave no COUNT: an id that is far back would answer the whole stream.
const blockedCount = 1000

// wait makes the command wait for a stream.
func (r *reading) wait(c *command.Ctx, awaitsEnd bool, try func(c *command.Ctx, key []byte) bool) {
	if r.count == math.MaxInt64 {
		r.count = blockedCount
	}
	c.Block(command.Wait{Keys: r.keys, Kind: shard.KindStream, AwaitsEnd: awaitsEnd, TimeoutMs: r.timeoutMs, Try: try})
}

// waitForMore waits until a stream has had an entry above the id that it is
// read from, even if that has gone again.
func (r *reading) waitForMore(c *command.Ctx, after []shard.StreamID) {
	ids := slices.Clone(after)
	waiting := *r // r itself needs no memory
	waiting.wait(c, false, func(c *command.Ctx, key []byte) bool {
		s, err := c.Tx.Stream(key)
		// Of a key that was named twice Redis keeps the first id.
		id := ids[slices.IndexFunc(waiting.keys, func(k []byte) bool { return bytes.Equal(k, key) })]
		if err != nil || !id.Less(s.LastID()) {
			return false
		}
		m := c.W.Begin()
		replyStream(c.W, key)
		from, _ := id.Next()
		replyRange(c.W, s, from, shard.MaxStreamID, false, waiting.count)
		c.W.EndMapEntries(m, 1)
		return true
	})
}

// readAfter returns the id above which XREAD reads a stream.
func readAfter(s shard.StreamView, arg []byte) (id shard.StreamID, err *resp.Error) {
	switch string(command.CText(arg)) {
	case "$":
		return s.LastID(), nil
	case ">":
		return id, errGreater
	case "+":
		// The last entry, or else what comes next.
		if s.Len() == 0 {
			return s.LastID(), nil
		}
		id, _ = s.TopID().Prev()
		return id, nil
	}
	id, ok := parseID(arg, 0)
	if !ok {
		return id, errID
	}
	return id, nil
}

// replyStream begins what is answered of one stream of several.
func replyStream(w *resp.Writer, key []byte) {
	w.MapEntry()
	w.Bulk(key)
}
