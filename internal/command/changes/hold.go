package changes

import (
	"fmt"

	"kevy/feed"
	"kevy/internal/command"
	"kevy/persist"
	"kevy/resp"
)

// hold is CHANGES HOLD, whose actions are no subcommands: there is but one level
// of those.
func (f *family) hold(c *command.Ctx) {
	holds := f.source.Holds()
	if holds == nil {
		c.W.Error(feed.ReplyError(feed.ErrHoldNeedsLog))
		return
	}
	switch action, n := c.Args[2], len(c.Args); {
	case command.EqualFold(action, "SET") && (n == 7 || n == 9):
		f.setHold(c, holds)
	case command.EqualFold(action, "DEL") && (n == 4 || n == 5):
		f.delHold(c, holds)
	case command.EqualFold(action, "LIST") && n == 3:
		f.writeHolds(c.W, holds.List(-1))
	default:
		c.W.Error(resp.Errorf("ERR", "CHANGES HOLD is followed by SET name stream generation offset [EPOCH n], by DEL name [stream] or by LIST"))
	}
}

func (f *family) setHold(c *command.Ctx, holds *feed.Holds) {
	stream, at, ok := f.cursor(c, 4)
	if !ok {
		return
	}
	a := c.Scan(7)
	epoch := int64(0)
	for a.More() {
		if !command.EqualFold(a.Bytes(), "EPOCH") {
			a.Fail(command.ErrSyntax)
		}
		if epoch = a.Int(); a.Err() == nil && epoch < 0 {
			a.Fail(command.ErrNotInt)
		}
	}
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	if err := holds.Set(string(c.Args[3]), stream, at, uint64(epoch)); err != nil {
		c.W.Error(feed.ReplyError(err))
		return
	}
	c.W.OK()
}

func (f *family) delHold(c *command.Ctx, holds *feed.Holds) {
	stream := -1
	if len(c.Args) == 5 {
		var ok bool
		if stream, ok = f.stream(c, c.Args[4]); !ok {
			return
		}
	}
	n, err := holds.Del(string(c.Args[3]), stream)
	if err != nil {
		c.W.Error(feed.ReplyError(err))
		return
	}
	c.W.Int(int64(n))
}

// writeHolds replies with what is known of holds, one map for each.
func (f *family) writeHolds(w *resp.Writer, holds []feed.HoldInfo) {
	num := func(name string, n int64) {
		w.BulkString(name)
		if n < 0 {
			w.Null() // nobody can tell any more
		} else {
			w.Int(n)
		}
	}
	w.Array(len(holds))
	for i := range holds {
		h := &holds[i]
		w.Map(9)
		w.BulkString("name")
		w.BulkString(h.Name)
		w.BulkString("stream")
		w.BulkString(f.source.StreamName(h.Stream))
		w.BulkString("at")
		writeCursor(w, h.At)
		num("epoch", int64(h.Epoch))
		num("moved-ms", h.MovedMs)
		num("lag-frames", h.LagFrames)
		num("lag-bytes", h.LagBytes)
		w.BulkString("lag-seconds")
		if h.LagMs < 0 {
			w.Null()
		} else {
			w.Double(float64(h.LagMs) / 1000)
		}
		w.BulkString("broken")
		if h.Broken == persist.NotBroken {
			w.Null()
		} else {
			w.BulkString(string(h.Broken))
		}
	}
}

// holdLimits is what HELP says of them.
func holdLimits() string {
	return fmt.Sprintf("    * at most %d holds, with names of up to %d bytes", persist.MaxHolds, persist.MaxHoldNameBytes)
}
