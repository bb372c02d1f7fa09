package stream

import (
	"math"

	"kevy/internal/command"
	"kevy/internal/ds"
	"kevy/resp"
	"kevy/shard"
)

func xAdd() *command.Spec {
	return &command.Spec{
		Name: "xadd", Arity: -5, Flags: command.Write | command.DenyOOM | command.Fast, Category: command.CatStream,
		Keys:  command.One(1, command.RW|command.Update, "UPDATE instead of INSERT because of the optional trimming feature"),
		Tips:  []string{"nondeterministic_output"},
		Group: "stream", Since: "5.0.0", Complexity: "O(1) for an entry; O(N) for N entries trimmed",
		Syntax:      "key [NOMKSTREAM] [KEEPREF | DELREF | ACKED] [<MAXLEN | MINID> [= | ~] threshold [LIMIT count]] <* | id> field value [field value ...]",
		Summary:     "Appends an entry and answers its id.",
		Differences: differsAcked,
		Run:         runXAdd,
	}
}

var (
	errZeroID      = &resp.Error{Code: "ERR", Text: "The ID specified in XADD must be greater than 0-0"}
	errIDExhausted = &resp.Error{Code: "ERR", Text: "The stream has exhausted the last possible ID, unable to add more items"}
	errIDTooSmall  = &resp.Error{Code: "ERR", Text: "The ID specified in XADD is equal or smaller than the target stream top item"}
	errTooLarge    = &resp.Error{Code: "ERR", Text: "Elements are too large to be stored"}
)

// newID is the id that an XADD asks for.
type newID struct {
	id      shard.StreamID
	given   bool // at least its milliseconds
	autoSeq bool // only these
}

// addition is what an XADD says.
type addition struct {
	trim       trimOptions
	noMkStream bool
	at         newID
	pairs      [][]byte
}

func parseXAdd(c *command.Ctx) (x addition, err *resp.Error) {
	a := c.Scan(2)
	hasID := false
	for a.More() && !hasID {
		switch {
		case string(command.CText(a.Peek())) == "*":
			a.Bytes()
			hasID = true
		case x.trim.parse(&a):
		case a.Is("NOMKSTREAM"):
			x.noMkStream = true
		default:
			x.at = parseNewID(&a)
			hasID = true
		}
	}
	x.trim.finish(&a, c.Tx)
	x.pairs = a.Rest()
	if a.Err() == nil && (len(x.pairs) < 2 || len(x.pairs)%2 != 0) {
		a.Fail(c.Spec.ArityError())
	}
	if a.Err() == nil && x.at.given && !x.at.autoSeq && x.at.id.IsZero() {
		a.Fail(errZeroID)
	}
	return x, a.Err()
}

// parseNewID reads an id or, as in 5-*, its milliseconds alone.
func parseNewID(a *command.Args) newID {
	b := a.Peek()
	if t := command.CText(b); len(b) <= maxIDBytes && len(t) > 2 && string(t[len(t)-2:]) == "-*" {
		if ms, ok := ds.ParseUint(t[:len(t)-2]); ok {
			a.Bytes()
			return newID{id: shard.StreamID{Ms: ms}, given: true, autoSeq: true}
		}
	}
	return newID{id: scanID(a), given: true}
}

// resolve returns the id of the next entry of a stream.
func (n newID) resolve(last shard.StreamID, nowMs int64) (id shard.StreamID, err *resp.Error) {
	id = n.id
	switch {
	case !n.given && uint64(nowMs) > last.Ms:
		id = shard.StreamID{Ms: uint64(nowMs)}
	case !n.given:
		id, _ = last.Next()
	case n.autoSeq && id.Ms == last.Ms:
		if last.Seq == math.MaxUint64 {
			return id, errIDTooSmall
		}
		id.Seq = last.Seq + 1
	}
	if !last.Less(id) {
		return id, errIDTooSmall
	}
	return id, nil
}

func runXAdd(c *command.Ctx) {
	x, err := parseXAdd(c)
	if err != nil {
		c.W.Error(err)
		return
	}
	s, ok := view(c)
	if !ok {
		return
	}
	if x.noMkStream && !s.Exists() {
		c.W.Null()
		return
	}
	if s.LastID() == shard.MaxStreamID {
		c.W.Error(errIDExhausted)
		return
	}
	id, err := x.at.resolve(s.LastID(), c.Tx.NowMs())
	if err != nil {
		c.W.Error(err)
		return
	}
	size := 0
	for _, p := range x.pairs {
		size += len(p)
	}
	if size > ds.MaxStreamEntryBytes {
		c.W.Error(errTooLarge)
		return
	}
	if err := c.Tx.XAdd(c.Key(1), id, x.pairs...); err != nil {
		c.W.Err(err)
		return
	}
	c.Tx.Notify(shard.OfStreams, "xadd", c.Key(1))
	replyID(c.W, id)
	if x.trim.set {
		s, _ = c.Tx.Stream(c.Key(1)) // it is one
		if x.trim.run(c, s) > 0 {
			c.Tx.Notify(shard.OfStreams, "xtrim", c.Key(1))
		}
	}
}
