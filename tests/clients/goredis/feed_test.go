package goredis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"kevy/tests/process"
)

// cursor is a position in a stream of the feed.
type cursor struct{ generation, offset int64 }

// change is one frame.
type change struct {
	offset int64
	args   []string
	// The facts that META adds.
	lsn, unixMs, db, first, last int64
	cause                        string
}

// position asks for one end of a stream.
func position(ctx context.Context, c redis.Cmdable, which, stream string) (cursor, error) {
	v, err := c.(doer).Do(ctx, "CHANGES", which, stream).Int64Slice()
	if err != nil || len(v) != 2 {
		return cursor{}, fmt.Errorf("CHANGES %s %s: %v, %w", which, stream, v, err)
	}
	return cursor{v[0], v[1]}, nil
}

type doer interface {
	Do(ctx context.Context, args ...interface{}) *redis.Cmd
}

// since reads what follows a cursor, as a program would that has only go-redis.
func since(ctx context.Context, c doer, stream string, at cursor, options ...any) (next cursor, changes []change, err error) {
	reply, err := c.Do(ctx, append([]any{"CHANGES", "SINCE", stream, at.generation, at.offset}, options...)...).Slice()
	if err != nil {
		return at, nil, err
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("a reply of another shape: %v: %v", r, reply)
		}
	}()
	next = cursor{reply[0].(int64), reply[1].(int64)}
	for _, raw := range reply[2].([]any) {
		changes = append(changes, parseChange(raw.([]any)))
	}
	return next, changes, nil
}

// parseChange panics if a frame has another shape than the contract says.
func parseChange(raw []any) change {
	f := change{offset: raw[0].(int64)}
	for _, a := range raw[1].([]any) {
		f.args = append(f.args, a.(string))
	}
	if len(raw) > 2 {
		m := raw[2].([]any)
		f.lsn, f.unixMs, f.db, f.first, f.last, f.cause = m[0].(int64), m[1].(int64), m[2].(int64), m[3].(int64), m[4].(int64), m[5].(string)
	}
	return f
}

// commands are the changes in one text, for comparison.
func commands(changes []change) string {
	var out []string
	for _, f := range changes {
		out = append(out, strings.Join(f.args, " "))
	}
	return strings.Join(out, "; ")
}

// useFeed reads the feed with each of its commands.
func useFeed(t *testing.T, ctx context.Context, c *redis.Client) {
	streams, err := c.Do(ctx, "CHANGES", "SHARDS").Int64()
	if err != nil || streams < 1 {
		t.Fatalf("CHANGES SHARDS: %d, %v", streams, err)
	}
	want(t, c.Do(ctx, "FEED.SHARDS"), any(streams))
	start, err := position(ctx, c, "TAIL", "ALL")
	if err != nil {
		t.Fatal(err)
	}
	shard, err := c.Do(ctx, "FEED.TAIL", 0).Int64Slice()
	if err != nil || len(shard) != 2 {
		t.Fatalf("FEED.TAIL: %v, %v", shard, err)
	}
	want(t, c.Do(ctx, "FEED.READ", 0, shard[0], shard[1]), any([]any{shard[0], shard[1], []any{}}))

	want(t, c.Set(ctx, "{t}a", "1", 0), "OK")
	want(t, c.MSet(ctx, "p:1", "x", "p:2", "y", "q:1", "z"), "OK")
	want(t, c.Incr(ctx, "{t}a"), 2)
	want(t, c.Del(ctx, "p:1", "missing", "q:1"), 2)
	want(t, c.Do(ctx, "PREFIX.STATS", "p:"), any([]any{int64(1), int64(0)}))

	next, all, err := since(ctx, c, "ALL", start)
	if got := commands(all); err != nil || got != "SET {t}a 1; SET p:1 x; SET p:2 y; SET q:1 z; SET {t}a 2 KEEPTTL; DEL p:1; DEL q:1" {
		t.Errorf("CHANGES SINCE: %s, %v", got, err)
	}
	for i, f := range all {
		if f.offset != start.offset+int64(i) {
			t.Errorf("frame %d has offset %d", i, f.offset)
		}
	}
	if want := (cursor{start.generation, start.offset + 7}); next != want {
		t.Errorf("next is %v, want %v", next, want)
	}
	if again, more, err := since(ctx, c, "ALL", next); err != nil || again != next || len(more) != 0 {
		t.Errorf("at the tail: %v %v, %v", again, more, err)
	}
	// A commit is never split: COUNT 2 falls within MSET.
	next, part, err := since(ctx, c, "ALL", start, "COUNT", 2)
	if err != nil || len(part) != 4 || next.offset != start.offset+4 {
		t.Errorf("COUNT 2: %s to %v, %v", commands(part), next, err)
	}
	next, part, err = since(ctx, c, "ALL", start, "PREFIX", "p:", "MATCH", "q:?")
	if got := commands(part); err != nil || got != "SET p:1 x; SET p:2 y; SET q:1 z; DEL p:1; DEL q:1" || next.offset != start.offset+7 {
		t.Errorf("with filters: %s to %v, %v", got, next, err)
	}
	_, part, err = since(ctx, c, "ALL", start, "META", "DB", "*", "DURABLE", "BLOCK", 5000)
	if err != nil || len(part) == 0 {
		t.Fatalf("with META: %v, %v", part, err)
	}
	for i, f := range part {
		if f.lsn <= 0 || time.Since(time.UnixMilli(f.unixMs)).Abs() > time.Minute || f.db != 0 || f.cause != "user" || f.first > f.offset || f.last < f.offset {
			t.Errorf("META of frame %d: %+v", i, f)
		}
	}
	commit, err := c.Do(ctx, "CHANGES", "GET", "ALL", start.generation, start.offset+2).Slice()
	if err != nil || len(commit) != 3 || commit[0] != start.offset+1 || commit[1] != start.offset+3 || len(commit[2].([]any)) != 3 {
		t.Errorf("CHANGES GET: %v, %v", commit, err)
	}
	oldest, err := position(ctx, c, "OLDEST", "ALL")
	if err != nil || oldest.generation > start.generation {
		t.Errorf("CHANGES OLDEST: %v, %v", oldest, err)
	}
	conn := c.Conn()
	defer conn.Close()
	want(t, conn.Set(ctx, "{t}b", "1", 0), "OK")
	tail, err := position(ctx, c, "TAIL", "ALL")
	if err != nil {
		t.Fatal(err)
	}
	holds(t, conn.Do(ctx, "CHANGES", "LAST"), func(v any) bool {
		list, ok := v.([]any)
		return ok && len(list) == 2 && reflect.DeepEqual(list[len(list)-1], []any{"ALL", tail.generation, tail.offset})
	})
	// What LAST says is what WAIT waits for: one's own write, wherever it is read.
	want(t, conn.Do(ctx, "CHANGES", "WAIT", "ALL", tail.generation, tail.offset, 5000), any(int64(1)))
	want(t, c.Do(ctx, "CHANGES", "WAIT", "ALL", tail.generation, tail.offset+1, 1), any(int64(0)))
	first, err := c.Do(ctx, "CHANGES", "AT", "ALL", 0).Int64Slice()
	if err != nil || len(first) != 2 || (cursor{first[0], first[1]}) != oldest {
		t.Errorf("CHANGES AT 0: %v, %v; the oldest is %v", first, err, oldest)
	}
	holds(t, c.Do(ctx, "CHANGES", "DIGEST", "ALL", "PREFIX", "p:"), func(v any) bool {
		d, ok := v.([]any)
		return ok && len(d) == 4 && d[0] == tail.generation && d[1] == tail.offset && d[2] == int64(1) && len(d[3].(string)) == 64
	})
	want(t, c.Do(ctx, "CHANGES", "HOLD", "SET", "mirror", "ALL", start.generation, start.offset, "EPOCH", 2), any("OK"))
	if err := c.Do(ctx, "CHANGES", "HOLD", "SET", "mirror", "ALL", tail.generation, tail.offset, "EPOCH", 1).Err(); err == nil || err.Error() != "HOLDSTALE 2" {
		t.Errorf("CHANGES HOLD SET with an older epoch: %v", err)
	}
	holds(t, c.Do(ctx, "CHANGES", "HOLD", "LIST"), func(v any) bool {
		list, ok := v.([]any)
		return ok && len(list) == 1
	})
	want(t, c.Do(ctx, "CHANGES", "HOLD", "DEL", "mirror"), any(int64(1)))

	info := c.Do(ctx, "CHANGES", "INFO", "ALL")
	var generation any
	switch m := info.Val().(type) {
	case map[any]any: // RESP3
		generation = m["generation"]
	case []any:
		for i := 0; i+1 < len(m); i += 2 {
			if m[i] == "generation" {
				generation = m[i+1]
			}
		}
	}
	if info.Err() != nil || generation != tail.generation {
		t.Errorf("CHANGES INFO: %v", info)
	}
	holds(t, c.Do(ctx, "CHANGES", "HELP"), isHelp)

	_, _, err = since(ctx, c, "ALL", cursor{1, 0})
	resync := fmt.Sprintf("FEEDRESYNC %d %d %d %d generation", tail.generation, tail.offset, oldest.generation, oldest.offset)
	if err == nil || err.Error() != resync {
		t.Errorf("an unknown generation: %v, want %s", err, resync)
	}
	_, _, err = since(ctx, c, "ALL", cursor{tail.generation, tail.offset + 1})
	if err == nil || err.Error() != "ERR feed cursor ahead of stream" {
		t.Errorf("a cursor of the future: %v", err)
	}
}

// TestChangesBlock waits for a change, for nothing, and is cancelled while it waits.
func TestChangesBlock(t *testing.T) {
	s := process.Start(t, process.Subject(t), process.Config{})
	for _, protocol := range both {
		t.Run(fmt.Sprintf("RESP%d", protocol), func(t *testing.T) {
			ctx := context.Background()
			c := connect(t, s, redis.Options{Protocol: protocol, ReadTimeout: 20 * time.Second, ContextTimeoutEnabled: true, MaxRetries: -1})
			at, err := position(ctx, c, "TAIL", "ALL")
			if err != nil {
				t.Fatal(err)
			}
			type answer struct {
				next    cursor
				changes []change
				err     error
				took    time.Duration
			}
			read := func(ctx context.Context, options ...any) chan answer {
				ch := make(chan answer, 1)
				start := time.Now()
				go func() {
					next, changes, err := since(ctx, c, "ALL", at, options...)
					ch <- answer{next, changes, err, time.Since(start)}
				}()
				return ch
			}
			waiting := read(ctx, "BLOCK", 10000, "PREFIX", "wanted:")
			time.Sleep(30 * time.Millisecond)
			want(t, c.Set(ctx, "other", "1", 0), "OK")
			want(t, c.Set(ctx, "wanted:1", "1", 0), "OK")
			a := <-waiting
			if got := commands(a.changes); a.err != nil || got != "SET wanted:1 1" || a.took > 5*time.Second {
				t.Errorf("BLOCK: %s after %v, %v", got, a.took, a.err)
			}
			at = a.next
			a = <-read(ctx, "BLOCK", 60)
			if a.err != nil || len(a.changes) != 0 || a.next != at || a.took < 55*time.Millisecond || a.took > 5*time.Second {
				t.Errorf("BLOCK that ends: %v to %v after %v, %v", a.changes, a.next, a.took, a.err)
			}
			// A filter that nothing passes: the cursor moves all the same.
			want(t, c.Set(ctx, "other", "2", 0), "OK")
			a = <-read(ctx, "BLOCK", 60, "PREFIX", "wanted:")
			if a.err != nil || len(a.changes) != 0 || a.next.offset != at.offset+1 {
				t.Errorf("BLOCK with a filter: %v to %v, %v", a.changes, a.next, a.err)
			}
			at = a.next
			short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			defer cancel()
			a = <-read(short, "BLOCK", 20000)
			var timeout net.Error
			if !(errors.Is(a.err, context.DeadlineExceeded) || errors.As(a.err, &timeout) && timeout.Timeout()) || a.took > 5*time.Second {
				t.Errorf("a context that ends: %v after %v", a.err, a.took)
			}
			// In a transaction nothing waits.
			start := time.Now()
			cmds, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
				return p.Do(ctx, "CHANGES", "SINCE", "ALL", at.generation, at.offset, "BLOCK", 10000).Err()
			})
			if err != nil || len(cmds) != 1 || time.Since(start) > 5*time.Second {
				t.Errorf("in a transaction: %v after %v, %v", cmds, time.Since(start), err)
			}
			// Whoever hung up waits no more.
			deadline := time.Now().Add(5 * time.Second)
			for {
				waits, err := c.Do(ctx, "CHANGES", "INFO", "ALL").Result()
				if err != nil {
					t.Fatal(err)
				}
				if text := fmt.Sprint(waits); strings.Contains(text, "waiting:0") || strings.Contains(text, "waiting 0") {
					break
				} else if time.Now().After(deadline) {
					t.Fatalf("a reader still waits: %s", text)
				}
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
}
