// Package stream has the commands on streams and their consumer groups.
package stream

import (
	"math"

	"kevy/internal/command"
	"kevy/internal/ds"
	"kevy/resp"
	"kevy/shard"
)

// Commands returns the family.
func Commands() []*command.Spec {
	return []*command.Spec{
		xAdd(), xDel(), xDelEx(), xTrim(), xSetID(),
		xLen(), xRange(), xRevRange(), xRead(),
		xGroup(), xReadGroup(), xAck(), xAckDel(), xPending(), xClaim(), xAutoClaim(),
		xInfo(),
	}
}

var (
	errID            = &resp.Error{Code: "ERR", Text: "Invalid stream ID specified as stream command argument"}
	errIntervalStart = &resp.Error{Code: "ERR", Text: "invalid start ID for the interval"}
	errIntervalEnd   = &resp.Error{Code: "ERR", Text: "invalid end ID for the interval"}
)

// maxIDBytes is the longest argument that may be an id.
const maxIDBytes = 127

// parseID reads an id; seq is the sequence number of one that gives only
// milliseconds.
func parseID(b []byte, seq uint64) (id shard.StreamID, ok bool) {
	if len(b) > maxIDBytes {
		return id, false
	}
	id, _, ok = ds.ParseStreamID(command.CText(b), seq)
	return id, ok
}

// parseRangeID is parseID, but "-" and "+" are the least and the greatest id.
func parseRangeID(b []byte, seq uint64) (id shard.StreamID, ok bool) {
	switch string(command.CText(b)) {
	case "-":
		return id, true
	case "+":
		return ds.MaxStreamID, true
	}
	return parseID(b, seq)
}

// scanID returns the next argument as an id; anything else is errID.
func scanID(a *command.Args) shard.StreamID {
	b := a.Bytes()
	if a.Err() != nil {
		return shard.StreamID{}
	}
	id, ok := parseID(b, 0)
	if !ok {
		a.Fail(errID)
	}
	return id
}

// parseIDs reads arguments as ids into dst; otherwise it replies with the
// error.
func parseIDs(c *command.Ctx, dst []shard.StreamID, args [][]byte) (ids []shard.StreamID, ok bool) {
	for _, b := range args {
		id, ok := parseID(b, 0)
		if !ok {
			c.W.Error(errID)
			return nil, false
		}
		dst = append(dst, id)
	}
	return dst, true
}

// fewIDs is for how many ids a handler needs no memory.
const fewIDs = 8

// parseStart reads the first id of an interval; "(" before it leaves it out.
func parseStart(a *command.Args) shard.StreamID {
	b := a.Bytes()
	if a.Err() != nil {
		return shard.StreamID{}
	}
	id, exclusive, ok := parseBound(b, 0)
	if !ok {
		a.Fail(errID)
	} else if exclusive {
		if id, ok = id.Next(); !ok {
			a.Fail(errIntervalStart)
		}
	}
	return id
}

// parseEnd reads the last id of an interval.
func parseEnd(a *command.Args) shard.StreamID {
	b := a.Bytes()
	if a.Err() != nil {
		return shard.StreamID{}
	}
	id, exclusive, ok := parseBound(b, math.MaxUint64)
	if !ok {
		a.Fail(errID)
	} else if exclusive {
		if id, ok = id.Prev(); !ok {
			a.Fail(errIntervalEnd)
		}
	}
	return id
}

func parseBound(b []byte, seq uint64) (id shard.StreamID, exclusive, ok bool) {
	if len(b) > 1 && b[0] == '(' {
		id, ok = parseID(b[1:], seq)
		return id, true, ok
	}
	id, ok = parseRangeID(b, seq)
	return id, false, ok
}

// replyID replies with an id.
func replyID(w *resp.Writer, id shard.StreamID) {
	var text [ds.MaxStreamIDText]byte
	w.Bulk(id.AppendTo(text[:0]))
}

// replyEntry replies with an entry: its id, and its names and values.
func replyEntry(w *resp.Writer, e *shard.StreamEntry) {
	w.Array(2)
	replyID(w, e.ID)
	w.Array(2 * e.Len())
	e.Each(func(name, value []byte) {
		w.Bulk(name)
		w.Bulk(value)
	})
}

// view returns the stream that the first argument names; otherwise it replies
// with the error.
func view(c *command.Ctx) (s shard.StreamView, ok bool) {
	s, err := c.Tx.Stream(c.Key(1))
	if err != nil {
		c.W.Err(err)
		return s, false
	}
	return s, true
}

// errNoGroup is the error for a group, or its key, that is not there. Redis
// ends the names at a zero byte.
func errNoGroup(key, group []byte, tail string) *resp.Error {
	return resp.Errorf("NOGROUP", "No such key '%s' or consumer group '%s'%s", command.CText(key), command.CText(group), tail)
}

// groupAt returns the stream that the first argument names and its group that
// the second does; otherwise it replies with the error.
func groupAt(c *command.Ctx) (s shard.StreamView, g shard.GroupView, ok bool) {
	s, ok = view(c)
	if !ok {
		return s, g, false
	}
	if g, ok = s.Group(c.Args[2]); !ok {
		c.W.Error(errNoGroup(c.Key(1), c.Args[2], ""))
	}
	return s, g, ok
}

// errMinIdle is the error for an idle time that is no number.
func errMinIdle(name string) *resp.Error {
	return resp.Errorf("ERR", "Invalid min-idle-time argument for %s", name)
}
