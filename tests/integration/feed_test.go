package integration

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"sync"
	"time"

	"kevy/tests/keyspace"
	"kevy/tests/wire"
)

// cursor is a position in a stream.
type cursor struct {
	generation, offset int64
}

func (c cursor) String() string { return fmt.Sprintf("(%d, %d)", c.generation, c.offset) }

// frame is one change as CHANGES SINCE … META shows it.
type frame struct {
	offset, db, first, last int64
	args                    []string
}

// ledger remembers which frame every (stream, generation, offset) named, for all readers over all crashes.
type ledger struct {
	mu sync.Mutex
	// named holds a checksum by offset, 0 where nothing was read yet. guarded by mu
	named map[string]map[int64][]uint32
	count int // guarded by mu
}

func newLedger() *ledger { return &ledger{named: map[string]map[int64][]uint32{}} }

// note records a frame; the error is the one thing that must never happen.
func (l *ledger) note(stream string, at cursor, f frame) error {
	h := fnv.New32a()
	fmt.Fprintf(h, "%d %d %d %q", f.db, f.first, f.last, f.args)
	sum := h.Sum32() | 1
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.named[stream] == nil {
		l.named[stream] = map[int64][]uint32{}
	}
	sums := l.named[stream][at.generation]
	for int64(len(sums)) <= at.offset {
		sums = append(sums, 0)
	}
	l.named[stream][at.generation] = sums
	if old := sums[at.offset]; old != 0 && old != sum {
		return fmt.Errorf("stream %s: %s names two different frames; now db %d %.200q", stream, at, f.db, f.args)
	}
	sums[at.offset] = sum
	l.count++
	return nil
}

// resync is a reader's cursor that cannot be served.
type resync struct{ text string }

func (r *resync) Error() string { return r.text }

// reason is the last word of FEEDRESYNC.
func (r *resync) reason() string {
	words := strings.Fields(r.text)
	return words[len(words)-1]
}

// consumer follows a stream from its cursor. It applies what it reads to a mirror, if it has one.
type consumer struct {
	stream  string
	durable bool
	at      cursor
	ledger  *ledger
	// mirror is a redis-server that takes the frames as commands; mirrorDB the database it has selected.
	mirror   *wire.Conn
	mirrorDB int64
	frames   int
	moves    int // to a next generation
	// seen, if set, is called with every frame.
	seen func(frame)
}

// tail is the position at which a fresh reader starts.
func position(c *wire.Conn, command, stream string) (cursor, error) {
	r, err := c.Do("CHANGES", command, stream)
	if err != nil {
		return cursor{}, err
	}
	if len(r.Elems) != 2 {
		return cursor{}, fmt.Errorf("CHANGES %s %s: %s", command, stream, r)
	}
	g, err1 := r.Elems[0].Int()
	o, err2 := r.Elems[1].Int()
	return cursor{g, o}, errors.Join(err1, err2)
}

// poll reads once. moved is whether the cursor changed.
func (c *consumer) poll(conn *wire.Conn, blockMs int) (moved bool, err error) {
	args := []string{"CHANGES", "SINCE", c.stream, strconv.FormatInt(c.at.generation, 10), strconv.FormatInt(c.at.offset, 10), "COUNT", "500", "META", "DB", "*"}
	if c.durable {
		args = append(args, "DURABLE")
	}
	if blockMs > 0 {
		args = append(args, "BLOCK", strconv.Itoa(blockMs))
	}
	r, err := conn.Do(args...)
	if err != nil {
		return false, err
	}
	if r.IsError("FEEDRESYNC") {
		return false, &resync{string(r.Text)}
	}
	if r.IsError("UNBLOCKED") && blockMs > 0 {
		return false, nil // CLIENT UNBLOCK with this connection's number was among random commands
	}
	if r.IsError("") || len(r.Elems) != 4 {
		return false, fmt.Errorf("%v: %s", args, r)
	}
	next := cursor{}
	if next.generation, err = r.Elems[0].Int(); err != nil {
		return false, err
	}
	if next.offset, err = r.Elems[1].Int(); err != nil {
		return false, err
	}
	frames := r.Elems[2].Elems
	if next.generation != c.at.generation {
		if next.offset != 0 || len(frames) != 0 {
			return false, fmt.Errorf("stream %s moves from %s to %s with %d frames", c.stream, c.at, next, len(frames))
		}
		c.at = next
		c.moves++
		return true, nil
	}
	var batch []frame
	expect := c.at.offset
	for _, raw := range frames {
		f, err := parseFrame(raw)
		if err != nil {
			return false, err
		}
		if f.offset != expect {
			return false, fmt.Errorf("stream %s: frame %d where %d was due", c.stream, f.offset, expect)
		}
		if f.first > f.offset || f.last < f.offset {
			return false, fmt.Errorf("stream %s: frame %d says that its commit is %d to %d", c.stream, f.offset, f.first, f.last)
		}
		if err := c.ledger.note(c.stream, cursor{c.at.generation, f.offset}, f); err != nil {
			return false, err
		}
		if c.seen != nil {
			c.seen(f)
		}
		batch = append(batch, f)
		expect++
	}
	if next.offset != expect {
		return false, fmt.Errorf("stream %s: next offset %d after frames up to %d", c.stream, next.offset, expect)
	}
	if n := len(batch); n > 0 && batch[n-1].last != batch[n-1].offset {
		return false, fmt.Errorf("stream %s: a reply ends at %d, inside a commit that ends at %d", c.stream, batch[n-1].offset, batch[n-1].last)
	}
	if err := c.apply(batch); err != nil {
		return false, err
	}
	c.frames += len(batch)
	moved = next != c.at
	c.at = next
	return moved, nil
}

func parseFrame(raw wire.Reply) (frame, error) {
	if len(raw.Elems) != 3 || len(raw.Elems[2].Elems) != 6 {
		return frame{}, fmt.Errorf("a frame with META is %s", raw)
	}
	f := frame{args: raw.Elems[1].Strings()}
	meta := raw.Elems[2].Elems
	var errs [4]error
	f.offset, errs[0] = raw.Elems[0].Int()
	f.db, errs[1] = meta[2].Int()
	f.first, errs[2] = meta[3].Int()
	f.last, errs[3] = meta[4].Int()
	return f, errors.Join(errs[:]...)
}

// apply sends frames to the mirror.
func (c *consumer) apply(batch []frame) error {
	if c.mirror == nil || len(batch) == 0 {
		return nil
	}
	var cmds [][]string
	for _, f := range batch {
		// A frame that concerns all databases has none of its own.
		if f.db != c.mirrorDB && f.db >= 0 {
			cmds = append(cmds, []string{"SELECT", strconv.FormatInt(f.db, 10)})
			c.mirrorDB = f.db
		}
		cmds = append(cmds, f.args)
	}
	replies, err := c.mirror.Pipeline(cmds...)
	if err != nil {
		return err
	}
	for i, r := range replies {
		if r.IsError("") {
			return fmt.Errorf("the mirror refuses %.200q: %s", cmds[i], r)
		}
	}
	return nil
}

// follow reads until the connection breaks or stop is closed.
func (c *consumer) follow(addr string, stop <-chan struct{}) error {
	conn, err := wire.Dial(addr)
	if err != nil {
		return nil
	}
	defer conn.Close()
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		conn.SetDeadline(time.Now().Add(30 * time.Second))
		if _, err := c.poll(conn, 50); err != nil {
			var r *resync
			if errors.As(err, &r) || !broken(err) {
				return err
			}
			return nil
		}
	}
}

// broken reports whether an error is one of a connection whose server has gone.
func broken(err error) bool {
	text := err.Error()
	for _, s := range []string{"EOF", "reset by peer", "broken pipe", "closed", "connection refused"} {
		if strings.Contains(text, s) {
			return true
		}
	}
	return false
}

// catchUp reads to the tail: no frames and an unchanged cursor.
func (c *consumer) catchUp(conn *wire.Conn) error {
	deadline := time.Now().Add(time.Minute)
	for {
		moved, err := c.poll(conn, 0)
		if err != nil {
			return err
		}
		if !moved && !c.durable {
			return nil
		}
		if !moved {
			// A durable reader is done when it stands at the tail.
			tail, err := position(conn, "TAIL", c.stream)
			if err != nil || tail == c.at {
				return err
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("stream %s: a durable reader stands at %s, the tail is %s", c.stream, c.at, tail)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// restart takes the cursor from the tail and the mirror from a dump, as a consumer does after a resync. The
// server must be quiet.
func (c *consumer) restart(conn *wire.Conn, d keyspace.Dump) error {
	at, err := position(conn, "TAIL", c.stream)
	if err != nil {
		return err
	}
	c.at = at
	if c.mirror == nil {
		return nil
	}
	c.mirrorDB = 0
	return fill(c.mirror, d)
}

// fill makes a server hold exactly a dump, over a connection that is left in database 0.
func fill(c *wire.Conn, d keyspace.Dump) error {
	cmds := [][]string{{"SELECT", "0"}, {"FLUSHALL"}}
	db := 0
	for k, v := range d {
		if k.DB != db {
			cmds = append(cmds, []string{"SELECT", strconv.Itoa(k.DB)})
			db = k.DB
		}
		var args []string
		switch v.Type {
		case "string":
			args = []string{"SET", k.Name}
		case "list":
			args = []string{"RPUSH", k.Name}
		case "set":
			args = []string{"SADD", k.Name}
		case "hash":
			args = []string{"HSET", k.Name}
		case "zset":
			args = []string{"ZADD", k.Name}
			for i := 0; i+1 < len(v.Parts); i += 2 {
				args = append(args, v.Parts[i+1], v.Parts[i])
			}
		}
		if v.Type != "zset" {
			args = append(args, v.Parts...)
		}
		cmds = append(cmds, args)
		if v.ExpireAtMs >= 0 {
			cmds = append(cmds, []string{"PEXPIREAT", k.Name, strconv.FormatInt(v.ExpireAtMs, 10)})
		}
	}
	cmds = append(cmds, []string{"SELECT", "0"})
	replies, err := c.Pipeline(cmds...)
	if err != nil {
		return err
	}
	for i, r := range replies {
		if r.IsError("") {
			return fmt.Errorf("%.200q: %s", cmds[i], r)
		}
	}
	return nil
}

// readAll reads a stream from the oldest position that is served to the tail, for the ledger.
func readAll(conn *wire.Conn, stream string, l *ledger) error {
	at, err := position(conn, "OLDEST", stream)
	if err != nil {
		return err
	}
	return (&consumer{stream: stream, at: at, ledger: l}).catchUp(conn)
}
