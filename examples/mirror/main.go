// Command mirror keeps a copy of database 0 in memory, strings, hashes, lists,
// sets and sorted sets, and proves it equal to the server's keys.
//
//	go run ./examples/mirror -addr 127.0.0.1:6379 -prefix user:
//
// It begins with a snapshot. When it has caught up it asks the server for CHANGES
// DIGEST and computes the same over its copy: number of keys and digest are equal
// at the same cursor, or something is wrong. Streams (XADD …) are not copied: name
// a prefix that has none.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"kevy/changes"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:6379", "host:port of the server")
	prefix := flag.String("prefix", "", "what keys begin with")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	m := newMirror(*prefix)
	c, err := m.consumer(*addr)
	if err != nil {
		log.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Addr: *addr})
	defer client.Close()
	go func() {
		for ctx.Err() == nil {
			report, err := m.prove(ctx, client)
			if err != nil {
				report = err.Error()
			}
			fmt.Println(report)
			time.Sleep(time.Second)
		}
	}()
	if err := c.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// mirror is the copy.
type mirror struct {
	prefix string

	mu    sync.Mutex
	at    changes.Cursor    // what the copy is of; guarded by mu
	whole bool              // it is complete; guarded by mu
	keys  map[string]*value // guarded by mu
}

func newMirror(prefix string) *mirror { return &mirror{prefix: prefix, keys: map[string]*value{}} }

func (m *mirror) consumer(addr string) (*changes.Consumer, error) {
	opt := changes.Options{Addr: addr, Start: changes.Snapshot, OnResync: changes.ResyncSnapshot, Heartbeat: time.Second}
	if m.prefix != "" {
		opt.Filter.Prefixes = []string{m.prefix}
	}
	return changes.New(opt, m)
}

// Commit does what a commit says.
func (m *mirror) Commit(_ context.Context, c *changes.Commit) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range c.Frames {
		if err := m.apply(c.Frames[i].Args); err != nil {
			return err
		}
	}
	m.at = c.Next
	return nil
}

// Progress says that nothing changed before at.
func (m *mirror) Progress(_ context.Context, _ string, at changes.Cursor) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at = at
	return nil
}

// SnapshotStart empties the copy.
func (m *mirror) SnapshotStart(context.Context, string, string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.keys)
	m.whole = false
	return nil
}

// SnapshotPart adds a part of the state.
func (m *mirror) SnapshotPart(_ context.Context, p *changes.SnapshotPart) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, args := range p.Ops {
		if err := m.apply(args); err != nil {
			return err
		}
	}
	return nil
}

// SnapshotEnd says what the copy is of.
func (m *mirror) SnapshotEnd(_ context.Context, _ string, at changes.Cursor) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at, m.whole = at, true
	return nil
}

// prove asks the server for its digest and compares. While the two are not at the
// same cursor there is nothing to compare: it waits for that.
func (m *mirror) prove(ctx context.Context, client *redis.Client) (report string, err error) {
	for ctx.Err() == nil {
		args := []any{"CHANGES", "DIGEST", changes.All}
		if m.prefix != "" {
			args = append(args, "PREFIX", m.prefix)
		}
		reply, err := client.Do(ctx, args...).Slice()
		if err != nil {
			return "", err
		}
		at, err := changes.ParseCursor(fmt.Sprint(reply[0]) + ":" + fmt.Sprint(reply[1]))
		if err != nil {
			return "", err
		}
		theirs := fmt.Sprint(reply[2], " keys, digest ", reply[3])
		// The copy comes to the server's cursor, or has passed it meanwhile.
		for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			ours, here := m.digest()
			if here.Generation != at.Generation || here.Offset > at.Offset {
				break
			}
			if here != at {
				continue
			}
			if ours != theirs {
				return "", fmt.Errorf("at %v the mirror has %s, the server %s", at, ours, theirs)
			}
			return fmt.Sprintf("equal at %v: %s", at, ours), nil
		}
	}
	return "", ctx.Err()
}

// digest computes what the server answers.
func (m *mirror) digest() (text string, at changes.Cursor) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.whole {
		return "", changes.Cursor{}
	}
	var d changes.Digest
	for key, v := range m.keys {
		if strings.HasPrefix(key, m.prefix) {
			d.Add(v.digest([]byte(key)))
		}
	}
	return fmt.Sprint(d.Keys(), " keys, digest ", d.String()), m.at
}
