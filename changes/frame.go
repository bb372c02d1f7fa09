package changes

import (
	"bytes"
	"time"
)

// Cause says why a key, or a field of a hash, went.
type Cause string

// The causes. A change that somebody asked for is of the user.
const (
	User    Cause = "user"
	Expired Cause = "expired"
	Evicted Cause = "evicted"
)

// Frame is one change to one key, as a stream shows it.
type Frame struct {
	// Offset is the frame's number in its stream and generation.
	Offset uint64
	// Args is the op as a Redis command, its name first, in upper case.
	Args [][]byte
	// LSN is the op's number in the store's log, the same in every stream.
	LSN uint64
	// Time is when the server committed it, in whole milliseconds; it never goes
	// back within a stream.
	Time time.Time
	// DB is the database that it changed.
	DB int
	// Cause is "user", "expired" or "evicted".
	Cause Cause
}

// Verb returns the op's name: "SET", "DEL", "HSET" … It is "" for a frame
// without arguments, which no server sends.
func (f *Frame) Verb() string {
	if len(f.Args) == 0 {
		return ""
	}
	return string(f.Args[0])
}

// Key returns the key that the op changes, nil if it has none (FLUSHALL,
// FLUSHDB, SWAPDB, FUNCTION). The bytes are those of Args.
func (f *Frame) Key() []byte {
	if len(f.Args) == 0 {
		return nil
	}
	at := 1
	switch string(f.Args[0]) {
	case "FLUSHALL", "FLUSHDB", "SWAPDB", "FUNCTION":
		return nil
	case "XGROUP": // the subcommand comes first
		at = 2
	}
	if at >= len(f.Args) {
		return nil
	}
	return f.Args[at]
}

// Commit is what one command, MULTI/EXEC or script changed: what passes the
// filters of it, in order. It is never split and never empty.
//
// A commit and all bytes in it belong to the handler, which may keep and change
// them. Commits that came in one message share its memory; [Commit.Clone] cuts
// one loose that is kept for long.
type Commit struct {
	// Stream is "ALL" or a shard's number.
	Stream string
	// Generation is that of the stream in which First and Last count.
	Generation uint64
	// First and Last are the offsets of the whole commit, of frames included that
	// a filter left out.
	First, Last uint64
	Frames      []Frame
	// Next is where to go on behind this commit: the cursor to store with what
	// was made of it.
	Next Cursor
	// CompleteLSN says that this stream has nothing more at or below it, once
	// this commit is taken. A reader of all shard streams that has reached the
	// same number in each has a consistent cut of the store.
	CompleteLSN uint64
}

// Clone returns a copy that shares no memory with c.
func (c *Commit) Clone() *Commit {
	clone := *c
	clone.Frames = append([]Frame(nil), c.Frames...)
	for i := range clone.Frames {
		clone.Frames[i].Args = cloneArgs(clone.Frames[i].Args)
	}
	return &clone
}

func cloneArgs(args [][]byte) [][]byte {
	clone := make([][]byte, len(args))
	for i, a := range args {
		clone[i] = bytes.Clone(a)
	}
	return clone
}

// SnapshotPart is a piece of a snapshot: ops that rebuild keys of an empty
// target, each a Redis command. The ops of a key follow each other, and may go on
// in the next part. They belong to the handler.
type SnapshotPart struct {
	Stream string
	// Token names the snapshot, N the part within it, counted from 1: so a
	// connection that was lost goes on.
	Token string
	N     uint64
	// DB is the database of every op in the part.
	DB  int
	Ops [][][]byte
}
