// Package changes has the commands of the change feed. docs/feed.md is their
// contract.
package changes

import (
	"context"
	"errors"

	"kevy/feed"
	"kevy/internal/command"
	"kevy/resp"
	"kevy/shard"
)

// Store is what these commands need of the store beside its feed.
type Store interface {
	FeedDisabled() bool
	// Digest returns the digest of the keys of a database that begin with prefix and
	// are in a stream, their number, and the cursor that it belongs to. The error may
	// be that of ctx.
	Digest(ctx context.Context, stream, db int, prefix []byte) (at feed.Cursor, keys uint64, sum shard.Digest, err error)
}

// Session is what these commands need of their session.
type Session interface {
	command.Session
	// InMulti reports whether a transaction is open or runs: nothing may wait.
	InMulti() bool
	// Block prepares for waiting: the replies so far are sent, and ctx ends when
	// the peer hangs up. done ends the waiting. ok is false if there is nobody to
	// wait for.
	Block() (ctx context.Context, done func(), ok bool)
	// Drain sends what was written of a reply so far, if that is possible, so that
	// a large one is never in memory whole. It reports whether to go on.
	Drain() bool
	// Abort ends the connection, in the middle of a reply that cannot be completed.
	Abort(err error)
	// DBs returns how many databases there are.
	DBs() int
	// LastWrite returns the LSN of this connection's last commit, 0 if there is
	// none, and the shard streams that it was in.
	LastWrite() (lsn uint64, streams []int)
}

// judge is a session whose user may not be allowed to read every key.
type judge interface {
	// MayRead returns why the user must not be shown what a filter passes, nil if it
	// may.
	MayRead(spec *command.Spec, args [][]byte, f *feed.Filter) *resp.Error
}

// mayRead reports whether the session may be shown what the filter passes, nil for
// everything; an error was replied if not.
func mayRead(c *command.Ctx, f *feed.Filter) bool {
	err := readRefusal(c, f)
	if err != nil {
		c.W.Error(err)
	}
	return err == nil
}

func readRefusal(c *command.Ctx, f *feed.Filter) *resp.Error {
	if j, ok := c.Session.(judge); ok {
		return j.MayRead(c.Spec, c.Args, f)
	}
	return nil
}

// family is what the handlers share.
type family struct {
	source *feed.Source
	store  Store

	subscribers *Subscribers
	companies   companies
}

// Commands returns the family. Its subscriptions are added to subscribers, which
// INFO lists.
func Commands(source *feed.Source, store Store, subscribers *Subscribers) []*command.Spec {
	f := &family{source: source, store: store, subscribers: subscribers}
	return append(f.compatible(), f.changes())
}

const flags = command.ReadOnly | command.NoScript | command.Unlocked

func (f *family) changes() *command.Spec {
	sub := func(name string, arity int, syntax, summary, complexity string, run command.Handler) *command.Spec {
		return &command.Spec{
			Name: name, Arity: arity, Flags: flags, Since: "0.1.0", Syntax: syntax, Summary: summary, Complexity: complexity,
			Run: f.enabled(run),
		}
	}
	// What a subscription does is no part of a transaction, and a digest locks what
	// that has locked.
	alone := func(s *command.Spec) *command.Spec {
		s.Flags |= command.NoMulti
		return s
	}
	help := sub("help", 2, "", "Lists the subcommands.", "O(1)", nil)
	help.Run = runHelp
	// It waits for the disk, which must not be under the locks of an EXEC.
	hold := alone(sub("hold", -3, "<SET name stream generation offset [EPOCH n] | DEL name [stream] | LIST>",
		"Keeps the log from a consumer's cursor on, gives it up, or lists who does.", "O(1); LIST: O(N) for N holds", f.hold))
	hold.Flags &^= command.ReadOnly
	hold.Category = command.CatDangerous // it may fill the disk
	return &command.Spec{
		Name: "changes", Arity: -2, Group: "feed", Since: "0.1.0", Complexity: "Depends on the subcommand.",
		Summary: "Commands of the change feed.", Differences: "Redis has nothing like it.",
		Sub: []*command.Spec{
			sub("at", 4, "stream unix-ms", "Answers the first cursor that was stamped at or after a time.", "O(log(N)) for N segments and blocks of the history", f.at),
			alone(sub("credit", 4, "stream n", "Lets a subscription with WINDOW send more messages.", "O(1)", f.credit)),
			alone(sub("digest", -3, "stream [PREFIX p]", "Answers a digest of the keys of the selected database, and the cursor that it belongs to.",
				"O(N) for N keys of the database and their elements", f.digest)),
			sub("get", 5, "stream generation offset", "Answers the whole commit that holds a frame.", "O(N) for N frames of the commit", f.get),
			help,
			hold,
			sub("info", -2, "[stream]", "Describes a stream, ALL by default.", "O(1)", f.info),
			sub("last", 2, "", "Answers the cursors after this connection's last write.", "O(N) for N streams written to", f.last),
			sub("oldest", 3, "stream", "Answers the oldest cursor that is served.", "O(1)", f.oldest),
			sub("shards", 2, "", "Answers how many shard streams there are.", "O(1)", func(c *command.Ctx) { c.W.Int(int64(f.source.Shards())) }),
			sub("since", -5, "stream generation offset "+optionSyntax+" [BLOCK ms]",
				"Answers what follows a cursor, and where to go on.", "O(N) for N frames looked at", f.since),
			alone(sub("subscribe", -4, "stream <generation offset | TAIL | OLDEST | SNAPSHOT [token n]> "+optionSyntax+" [WINDOW n] [HEARTBEAT ms]",
				"Has what follows a cursor pushed, or the state and what follows it, and goes on with what is written.", "O(N) for N frames looked at", f.subscribe)),
			sub("tail", 3, "stream", "Answers the cursor at which a fresh reader starts.", "O(1)", f.tail),
			alone(sub("unsubscribe", -2, "[stream]", "Ends one subscription of this connection, or all.", "O(N) for N subscriptions", f.unsubscribe)),
			sub("wait", -6, "stream generation offset timeout-ms [HOLD name]",
				"Waits until the stream is served up to a cursor, or a hold has passed it.", "O(1)", f.wait),
		},
	}
}

// enabled refuses a command where the feed is off.
func (f *family) enabled(run command.Handler) command.Handler {
	return func(c *command.Ctx) {
		if f.store.FeedDisabled() {
			c.W.Error(feed.ReplyError(feed.ErrDisabled))
			return
		}
		run(c)
	}
}

// stream reads the name of a stream; an error was replied if ok is false.
func (f *family) stream(c *command.Ctx, name []byte) (stream int, ok bool) {
	stream, err := f.source.Stream(name)
	if err != nil {
		c.W.Error(feed.ReplyError(err))
		return 0, false
	}
	return stream, true
}

// cursor reads a stream and a position in it from the arguments at i.
func (f *family) cursor(c *command.Ctx, i int) (stream int, at feed.Cursor, ok bool) {
	if stream, ok = f.stream(c, c.Args[i]); !ok {
		return 0, at, false
	}
	generation, ok1 := command.ParseInt(c.Args[i+1])
	offset, ok2 := command.ParseInt(c.Args[i+2])
	if !ok1 || !ok2 || generation < 0 || offset < 0 {
		c.W.Error(command.ErrNotInt)
		return 0, at, false
	}
	return stream, feed.Cursor{Generation: uint64(generation), Offset: uint64(offset)}, true
}

func writeCursor(w *resp.Writer, at feed.Cursor) {
	w.Array(2)
	w.Int(int64(at.Generation))
	w.Int(int64(at.Offset))
}

func (f *family) tail(c *command.Ctx) {
	if stream, ok := f.stream(c, c.Args[2]); ok {
		writeCursor(c.W, f.source.Tail(stream))
	}
}

func (f *family) oldest(c *command.Ctx) {
	stream, ok := f.stream(c, c.Args[2])
	if !ok {
		return
	}
	at, err := f.source.Oldest(stream)
	if err != nil {
		c.W.Error(feed.ReplyError(err))
		return
	}
	writeCursor(c.W, at)
}

func (f *family) last(c *command.Ctx) {
	lsn, shards := c.Session.(Session).LastWrite()
	if lsn == 0 {
		c.W.Array(0)
		return
	}
	streams := append(append([]int(nil), shards...), f.source.All())
	cursors, err := f.source.CursorsAfter(lsn, streams)
	if err != nil {
		c.W.Error(feed.ReplyError(err))
		return
	}
	c.W.Array(len(streams))
	for i, stream := range streams {
		c.W.Array(3)
		c.W.BulkString(f.source.StreamName(stream))
		c.W.Int(int64(cursors[i].Generation))
		c.W.Int(int64(cursors[i].Offset))
	}
}

func (f *family) get(c *command.Ctx) {
	stream, at, ok := f.cursor(c, 2)
	if !ok || !mayRead(c, nil) {
		return
	}
	var b feed.Batch
	defer b.Release()
	first, last, err := f.source.Get(stream, at, &b)
	if err != nil {
		c.W.Error(feed.ReplyError(err))
		return
	}
	c.W.Array(3)
	c.W.Int(int64(first))
	c.W.Int(int64(last))
	writeFrames(c, &b, false)
}

// drainBytes is how much of a reply is gathered before it is sent in part.
const drainBytes = 1 << 20

// errDrained ends the writing of a reply whose reader has gone.
var errDrained = errors.New("the reader has gone")

// writeFrames replies with the frames of a batch. A frame's op is the log's own
// bytes.
func writeFrames(c *command.Ctx, b *feed.Batch, meta bool) {
	s := c.Session.(Session)
	c.W.Array(b.Len())
	err := b.Each(func(fr *feed.Frame) error {
		if meta {
			c.W.Array(3)
		} else {
			c.W.Array(2)
		}
		c.W.Int(int64(fr.Offset))
		c.W.Raw(fr.Raw)
		if meta {
			writeMeta(c.W, fr)
		}
		if c.W.Len() >= drainBytes && !s.InMulti() && !s.Drain() {
			return errDrained
		}
		return nil
	})
	if err != nil && !errors.Is(err, errDrained) {
		// The header is out and promises frames that cannot be read: only the end
		// of the connection says so without a lie.
		s.Abort(err)
	}
}

func writeMeta(w *resp.Writer, fr *feed.Frame) {
	w.Array(6)
	w.Int(int64(fr.LSN))
	w.Int(fr.UnixMs)
	w.Int(int64(fr.DB))
	w.Int(int64(fr.First))
	w.Int(int64(fr.Last))
	w.BulkString(fr.Cause.String())
}

func runHelp(c *command.Ctx) {
	command.Help(c, []string{
		"SHARDS", "    Return the number of shard streams.",
		"TAIL <stream>", "    Return [generation, next-offset]: where a fresh consumer starts.",
		"OLDEST <stream>", "    Return [generation, offset]: the oldest cursor still served.",
		"SINCE <stream> <generation> <offset> [options] [filters]", "    Return [generation, next-offset, frames]; pass the first two back to go on. Options:",
		"    * COUNT <n>, BYTES <n> (both round up to the end of a commit)", "    * BLOCK <ms> (wait for a frame; 0 = a minute)",
		"    * DURABLE (nothing that is not fsynced)", "    * META (adds [lsn, unix-ms, db, first, last, cause] to each frame, and complete-lsn)",
		"    Filters (up to 16 of each kind but the last two; where there is none of a line, everything passes it):",
		"    * PREFIX <p>, MATCH <glob>, REGEX <prefix> <re> (one of them has to match the key)",
		"    * VALUE EXACT <v>, VALUE PREFIX <p>, VALUE REGEX <re> (and one of these a value)",
		"    * BYTEMODE (regular expressions match bytes, not UTF-8 text)", "    * DB <n | *> (the selected one by default; * needs META)",
		"SUBSCRIBE <stream> <generation> <offset> | TAIL | OLDEST | SNAPSHOT [<token> <n>] [options] [filters]",
		"    Push what follows, or the state and what follows it, and go on with what is written. Options of SINCE but BLOCK, and:",
		"    * WINDOW <n> (as many messages beyond the credit given)", "    * HEARTBEAT <ms> (a message without frames after so long a silence)",
		"CREDIT <stream> <n>", "    Let a subscription with WINDOW send n messages more.",
		"UNSUBSCRIBE [<stream>]", "    End one subscription of this connection, or all.",
		"GET <stream> <generation> <offset>", "    Return the whole commit that holds this offset: [first, last, frames].",
		"DIGEST <stream> [PREFIX <p>]", "    Return [generation, offset, keys, digest] of the selected database as of that cursor.",
		"AT <stream> <unix-ms>", "    Return [generation, offset]: the first cursor stamped at or after a time.",
		"WAIT <stream> <generation> <offset> <timeout-ms> [HOLD <name>]",
		"    Wait until the stream is served up to there, or that hold has passed it: 1, or 0 on timeout (0 = a minute).",
		"HOLD SET <name> <stream> <generation> <offset> [EPOCH <n>]", "    Keep the log from there on, also over restarts, up to feed-hold-max-bytes.",
		holdLimits(),
		"HOLD DEL <name> [<stream>]", "    Keep it no more; returns how many holds there were.",
		"HOLD LIST", "    Return what is known of each hold.",
		"LAST", "    Return [stream, generation, next-offset] after the last write of this connection, once per stream.",
		"INFO [<stream>]", "    Return what is known of a stream.",
		"<stream> is a shard number or ALL.",
	})
}
