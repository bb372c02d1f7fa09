package op

import (
	"strconv"

	"kevy/resp"
)

// Commit records the ops of one commit as encoded commands. The zero value is
// ready; Reset makes it ready again and keeps the memory. One goroutine at a
// time may use it.
type Commit struct {
	buf  []byte
	recs []record
	open record
	log  *LogPosition

	flushesAll bool
}

// record describes one op; its bytes end at end and begin where the one before
// ended.
type record struct {
	end    int
	db     int32
	stream int32
	verb   Verb
	cause  Cause
}

// maxKeptBytes is the largest buffer that Reset keeps for the next commit.
const maxKeptBytes = 256 << 10

// LogPosition is the database that a reader of the log is in after the last
// commit. It belongs to the log that commits are appended to and is guarded by
// that log's mutex.
type LogPosition struct{ db int32 }

// Bind says which log the commit will be appended to.
func (c *Commit) Bind(p *LogPosition) { c.log = p }

// Reset forgets the ops.
func (c *Commit) Reset() {
	if cap(c.buf) > maxKeptBytes {
		c.buf = nil
	}
	if cap(c.recs) > maxKeptBytes/16 {
		c.recs = nil
	}
	c.buf = c.buf[:0]
	c.recs = c.recs[:0]
	c.flushesAll = false
}

// FlushesAll reports whether a FLUSHALL is among the ops: the generation of
// every stream ends with this commit.
func (c *Commit) FlushesAll() bool { return c.flushesAll }

// Ops returns the number of ops recorded.
func (c *Commit) Ops() int { return len(c.recs) }

// Stream returns the shard stream of op i, or EveryStream.
func (c *Commit) Stream(i int) int { return int(c.recs[i].stream) }

// Verb returns the verb of op i.
func (c *Commit) Verb(i int) Verb { return c.recs[i].verb }

// DB returns the database of op i.
func (c *Commit) DB(i int) int { return int(c.recs[i].db) }

// Bytes returns the recorded ops back to back, without SELECT or MULTI. The
// slice is valid until the next Begin or Reset.
func (c *Commit) Bytes() []byte { return c.buf }

// Begin starts an op of nargs arguments, its verb included; exactly nargs-1
// calls of Arg, ArgString, ArgInt or ArgFloat follow, then End.
func (c *Commit) Begin(v Verb, db, stream int, cause Cause, nargs int) {
	c.open = record{db: int32(db), stream: int32(stream), verb: v, cause: cause}
	c.buf = appendHeader(c.buf, '*', nargs)
	c.ArgString(verbNames[v])
}

// Arg appends an argument; b is copied.
func (c *Commit) Arg(b []byte) {
	buf := appendHeader(c.buf, '$', len(b))
	buf = append(buf, b...)
	c.buf = append(buf, '\r', '\n')
}

// ArgString appends a text argument.
func (c *Commit) ArgString(s string) {
	buf := appendHeader(c.buf, '$', len(s))
	buf = append(buf, s...)
	c.buf = append(buf, '\r', '\n')
}

// ArgInt appends a decimal argument.
func (c *Commit) ArgInt(n int64) {
	var scratch [20]byte
	c.Arg(strconv.AppendInt(scratch[:0], n, 10))
}

// ArgFloat appends a number in the text that replies have for it, which reads
// back as f.
func (c *Commit) ArgFloat(f float64) {
	var scratch [32]byte
	c.Arg(resp.AppendDouble(scratch[:0], f))
}

// End finishes the op that Begin started.
func (c *Commit) End() {
	c.open.end = len(c.buf)
	c.recs = append(c.recs, c.open)
	if c.open.verb == FlushAll {
		c.flushesAll = true
	}
}

// Abandon drops an op that was begun and not finished.
func (c *Commit) Abandon() { c.Truncate(len(c.recs)) }

// Truncate drops the ops from number n on.
func (c *Commit) Truncate(n int) {
	c.recs = c.recs[:n]
	end := 0
	if n > 0 {
		end = c.recs[n-1].end
	}
	c.buf = c.buf[:end]
}

func appendHeader(dst []byte, kind byte, n int) []byte {
	dst = append(dst, kind)
	if n < 10 {
		return append(dst, byte('0'+n), '\r', '\n')
	}
	dst = strconv.AppendInt(dst, int64(n), 10)
	return append(dst, '\r', '\n')
}

var (
	multiLine   = []byte("*1\r\n$5\r\nMULTI\r\n")
	execLine    = []byte("*1\r\n$4\r\nEXEC\r\n")
	expiredLine = []byte("#x\r\n")
	evictedLine = []byte("#e\r\n")
)

// AppendSelect appends the command that changes the database, in lower case: a
// redis-server that boots from the log and writes to it selects in capitals, and
// recovery can tell by that what it took over.
func AppendSelect(dst []byte, db int) []byte {
	var scratch [12]byte
	n := strconv.AppendInt(scratch[:0], int64(db), 10)
	dst = append(dst, "*2\r\n$6\r\nselect\r\n"...)
	dst = appendHeader(dst, '$', len(n))
	dst = append(dst, n...)
	return append(dst, '\r', '\n')
}

// AppendTo appends the commit as the log holds it: a SELECT where the database
// changes, MULTI and EXEC around two or more ops, a line before a DEL
// or HDEL that expiry or eviction made. A block stands alone, so its first commit selects its
// database in any case. The caller holds the mutex of the bound log.
func (c *Commit) AppendTo(dst []byte, blockStart bool) []byte {
	if blockStart {
		c.log.db = -1
	}
	if c.recs[0].db != c.log.db {
		c.log.db = c.recs[0].db
		dst = AppendSelect(dst, int(c.log.db))
	}
	if len(c.recs) == 1 {
		dst = appendCause(dst, c.recs[0].cause)
		return append(dst, c.buf...)
	}
	dst = append(dst, multiLine...)
	start := 0
	for i := range c.recs {
		r := &c.recs[i]
		if r.db != c.log.db {
			c.log.db = r.db
			dst = AppendSelect(dst, int(r.db))
		}
		dst = appendCause(dst, r.cause)
		dst = append(dst, c.buf[start:r.end]...)
		start = r.end
	}
	return append(dst, execLine...)
}

func appendCause(dst []byte, cause Cause) []byte {
	switch cause {
	case Expired:
		return append(dst, expiredLine...)
	case Evicted:
		return append(dst, evictedLine...)
	}
	return dst
}
