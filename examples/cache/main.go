// Command cache reads keys through a cache of its own that is stale for no longer
// than the feed takes: a commit that changes a key removes it. While the feed is
// not followed, reads go to the server; that a connection is dead is noticed
// after three heartbeats, here three seconds.
//
//	go run ./examples/cache -addr 127.0.0.1:6379
//
// It reads keys from standard input and says where each value came from.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"kevy/changes"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:6379", "host:port of the server")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	c := newCache(*addr)
	defer c.client.Close()
	consumer, err := c.consumer(*addr)
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		if err := consumer.Run(ctx); err != nil {
			log.Fatal(err)
		}
	}()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		value, hit, err := c.get(ctx, in.Text())
		fmt.Printf("%q from the cache: %v, error: %v\n", value, hit, err)
	}
}

// cache holds values of strings.
type cache struct {
	client *redis.Client

	following func() bool // the feed is followed

	mu     sync.Mutex
	values map[string]string // guarded by mu
	// reads are those that wait for the server, by key. What changes meanwhile
	// must not be cached: the answer may be older. Guarded by mu.
	reads map[string][]*read
}

type read struct{ stale bool }

func newCache(addr string) *cache {
	return &cache{
		client: redis.NewClient(&redis.Options{Addr: addr}), following: func() bool { return false },
		values: map[string]string{}, reads: map[string][]*read{},
	}
}

// get returns the value of a key, and whether the cache had it.
func (c *cache) get(ctx context.Context, key string) (value string, hit bool, err error) {
	following := c.following()
	c.mu.Lock()
	if value, hit = c.values[key]; hit && following {
		c.mu.Unlock()
		return value, true, nil
	}
	mine := &read{stale: !following} // nothing would remove it
	c.reads[key] = append(c.reads[key], mine)
	c.mu.Unlock()

	value, err = c.client.Get(ctx, key).Result()

	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && !mine.stale {
		c.values[key] = value
	}
	c.forget(key, mine)
	return value, false, err
}

// len returns how many values are cached.
func (c *cache) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.values)
}

// forget takes a read off the list; mu is held.
func (c *cache) forget(key string, mine *read) {
	for i, r := range c.reads[key] {
		if r == mine {
			c.reads[key] = append(c.reads[key][:i], c.reads[key][i+1:]...)
			break
		}
	}
	if len(c.reads[key]) == 0 {
		delete(c.reads, key)
	}
}

// remove drops a key; mu is held.
func (c *cache) remove(key string) {
	delete(c.values, key)
	for _, r := range c.reads[key] {
		r.stale = true
	}
}

// clear drops everything.
func (c *cache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.values)
	for _, reads := range c.reads {
		for _, r := range reads {
			r.stale = true
		}
	}
}

// Commit removes what a commit changed.
func (c *cache) Commit(_ context.Context, commit *changes.Commit) error {
	for i := range commit.Frames {
		key := commit.Frames[i].Key()
		if key == nil { // FLUSHALL and FLUSHDB name no key
			c.clear()
			continue
		}
		c.mu.Lock()
		c.remove(string(key))
		c.mu.Unlock()
	}
	return nil
}

// consumer follows the feed. A cache needs no cursor that outlives it: it begins
// empty and at the tail. Where the feed cannot go on it begins empty again.
func (c *cache) consumer(addr string) (*changes.Consumer, error) {
	consumer, err := changes.New(changes.Options{
		Addr:      addr,
		Start:     changes.Tail,
		Heartbeat: time.Second,
		OnResync: changes.ResyncRebuild(func(_ context.Context, e *changes.ResyncError) (changes.Cursor, error) {
			c.clear()
			return e.Tail, nil
		}),
	}, c)
	if err != nil {
		return nil, err
	}
	c.following = func() bool { return consumer.Status().Streams[0].State == changes.Reading }
	return consumer, nil
}
