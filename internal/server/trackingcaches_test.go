package server

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"kevy/tests/wire"
)

// cache is a client that keeps what it has read until it is told to forget it.
type cache struct {
	*conn
	rng    *rand.Rand
	how    string // the options of CLIENT TRACKING
	inbox  *conn  // what it is told comes here; nil: to itself
	batch  int
	writes bool // itself, now and then

	mu sync.Mutex
	// values are the replies that are kept, by key; guarded by mu.
	values map[string]string
	// asked are keys of which a reply is to come, and whether it may be kept: with an inbox
	// nothing says which of a reply and an invalidation is the older one. Guarded by mu.
	asked map[string]bool
	told  int // guarded by mu
}

const cachedKeys = 24

func keyAt(i int) string { return string("shl"[i%3]) + ":" + strconv.Itoa(i) }

// readOf is the command that reads a key.
func readOf(key string) []string {
	switch key[0] {
	case 's':
		return []string{"GET", key}
	case 'h':
		return []string{"HGETALL", key}
	}
	return []string{"LRANGE", key, "0", "-1"}
}

// tell takes what is no reply.
func (c *cache) tell(r wire.Reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told++
	keys := r.Elems[len(r.Elems)-1]
	if keys.Nil || keys.Kind == wire.Null {
		clear(c.values)
		for key := range c.asked {
			c.asked[key] = false
		}
		return
	}
	for _, key := range keys.Strings() {
		delete(c.values, key)
		if _, ok := c.asked[key]; ok {
			c.asked[key] = false
		}
	}
}

// next returns the next reply.
func (c *cache) next() (wire.Reply, error) {
	for {
		r, err := c.ReadReply()
		if err != nil || r.Kind != wire.Push {
			return r, err
		}
		c.tell(r)
	}
}

// turn sends some commands at once and takes their replies.
func (c *cache) turn() error {
	var out []byte
	type reply struct {
		key   string // that it has a value of, empty: none
		at    int    // where in EXEC's reply, 0: it is no transaction
		wrote string // the key that was changed, empty: none
	}
	var replies []reply
	send := func(r reply, args ...string) {
		out = wire.AppendStrings(out, args...)
		replies = append(replies, r)
	}
	for range c.batch {
		key := keyAt(c.rng.IntN(cachedKeys))
		if c.writes && c.rng.IntN(6) == 0 {
			send(reply{wrote: key}, change(c.rng, key)...)
			continue
		}
		if strings.Contains(c.how, "OPTIN") {
			send(reply{}, "CLIENT", "CACHING", "YES")
		}
		switch c.rng.IntN(8) {
		case 0: // one that must not be kept
			if strings.Contains(c.how, "OPTOUT") {
				send(reply{}, "CLIENT", "CACHING", "NO")
				send(reply{}, readOf(key)...)
			}
		case 1:
			send(reply{}, "MULTI")
			send(reply{}, readOf(key)...)
			send(reply{key: key, at: 1}, "EXEC")
		case 2:
			other := keyAt(c.rng.IntN(cachedKeys))
			if c.rng.IntN(2) == 0 {
				other = key
			}
			commands, at := [][]string{change(c.rng, other), readOf(key)}, 2
			if c.rng.IntN(2) == 0 {
				commands[0], commands[1], at = commands[1], commands[0], 1
			}
			send(reply{}, "MULTI")
			for _, args := range commands {
				send(reply{}, args...)
			}
			if c.writes {
				send(reply{key: key, at: at, wrote: other}, "EXEC")
			} else {
				send(reply{}, "DISCARD")
			}
		default:
			send(reply{key: key}, readOf(key)...)
		}
	}
	c.mu.Lock()
	for _, r := range replies {
		if r.key != "" {
			c.asked[r.key] = true
		}
	}
	c.mu.Unlock()
	if _, err := c.Write(out); err != nil {
		return err
	}
	for _, is := range replies {
		r, err := c.next()
		if err != nil {
			return err
		}
		if r.IsError("") || len(r.Elems) < is.at {
			return fmt.Errorf("%+v: %s", is, r)
		}
		if is.at > 0 {
			r = r.Elems[is.at-1]
		}
		c.mu.Lock()
		forget := func() {
			if is.wrote != "" && strings.Contains(c.how, "NOLOOP") { // nobody tells it
				delete(c.values, is.wrote)
				delete(c.values, "s:0") // which EVAL removes, too
			}
		}
		if is.at != 1 {
			forget()
		}
		if is.key != "" && (c.inbox == nil || c.asked[is.key]) {
			c.values[is.key] = r.String()
		}
		if is.at == 1 {
			forget()
		}
		c.mu.Unlock()
	}
	c.mu.Lock()
	clear(c.asked)
	c.mu.Unlock()
	return nil
}

// change is a command that changes a key, or more than one.
func change(rng *rand.Rand, key string) []string {
	v := strconv.Itoa(rng.Int())
	switch rng.IntN(12) {
	case 0:
		return []string{"DEL", key}
	case 1:
		return []string{"PEXPIRE", key, strconv.Itoa(1 + rng.IntN(4))}
	case 2:
		i, _ := strconv.Atoi(key[2:])
		return []string{"COPY", keyAt((i + 3 + 3*rng.IntN(cachedKeys/3-1)) % cachedKeys), key, "REPLACE"}
	case 3:
		return []string{"EVAL", "redis.call('DEL', KEYS[1]) return redis.call('DEL', KEYS[2])", "2", key, "s:0"}
	case 4:
		if rng.IntN(40) == 0 {
			return []string{"FLUSHALL"}
		}
	}
	switch key[0] {
	case 's':
		return []string{"SET", key, v}
	case 'h':
		return []string{"HSET", key, strconv.Itoa(rng.IntN(3)), v}
	}
	if rng.IntN(3) == 0 {
		return []string{"LPOP", key}
	}
	return []string{"RPUSH", key, v}
}

// TestCaches: whatever is written meanwhile, and by whom, once all is quiet each value that a client keeps is the
// server's.
func TestCaches(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("KEVY_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("KEVY_SEED=%d", seed)
	for _, shards := range []string{"1", "16"} {
		for maxKeys, least := range map[string]int{"1000000": 100, "5": 20} {
			t.Run("shards "+shards+" keys "+maxKeys, func(t *testing.T) {
				runCaches(t, seed, start(t, "--shards", shards, "--tracking-table-max-keys", maxKeys), least)
			})
		}
	}
}

// runCaches fails, too, unless so many values are kept at the ends of rounds.
func runCaches(t *testing.T, seed uint64, in *instance, least int) {
	const rounds, roundTime = 4, 150 * time.Millisecond
	var caches []*cache
	for i, how := range []string{
		"", "", "NOLOOP", "OPTIN", "OPTOUT", "BCAST", "BCAST NOLOOP PREFIX s: PREFIX h: PREFIX l:", "REDIRECT 3", "REDIRECT 2", "BCAST REDIRECT 2", "NOLOOP REDIRECT 3",
	} {
		c := &cache{conn: in.conn().proto("3"), rng: rand.New(rand.NewPCG(seed, uint64(i))), batch: 1 + i%5*3, writes: i%2 == 0,
			values: map[string]string{}, asked: map[string]bool{}}
		c.how = how
		if before, proto, ok := strings.Cut(how, "REDIRECT "); ok {
			c.inbox = in.conn().proto(proto)
			c.how = before + "REDIRECT " + strconv.FormatInt(c.inbox.number("CLIENT ID"), 10)
			if proto == "2" {
				c.inbox.do("SUBSCRIBE __redis__:invalidate")
			}
		}
		c.expect("CLIENT TRACKING ON "+c.how, "+OK")
		caches = append(caches, c)
	}
	var listening sync.WaitGroup
	pongs := make(map[*cache]chan bool)
	for _, c := range caches {
		if c.inbox == nil {
			continue
		}
		pongs[c] = make(chan bool, 1)
		listening.Go(func() {
			for {
				r, err := c.inbox.ReadReply()
				if err != nil {
					return
				}
				if r.Kind == wire.Simple || r.Kind == wire.Array && string(r.Elems[0].Text) == "pong" {
					pongs[c] <- true
				} else {
					c.tell(r)
				}
			}
		})
	}
	control := in.conn().proto("3")
	kept, told := 0, 0
	for round := range rounds {
		var running sync.WaitGroup
		end := time.Now().Add(roundTime)
		for i := range 4 {
			w, rng := in.conn(), rand.New(rand.NewPCG(seed, uint64(1000+round*10+i)))
			running.Go(func() {
				for time.Now().Before(end) {
					if i == 3 {
						// Slower than the others, or hardly anything is ever kept.
						time.Sleep(time.Millisecond)
					}
					if r, err := w.Do(change(rng, keyAt(rng.IntN(cachedKeys)))...); err != nil || r.IsError("") {
						t.Errorf("%s, %v", r, err)
						return
					}
					time.Sleep(time.Duration(rng.IntN(1000)) * time.Microsecond)
				}
			})
		}
		for _, c := range caches {
			running.Go(func() {
				for time.Now().Before(end.Add(5 * time.Millisecond)) {
					if err := c.turn(); err != nil {
						t.Errorf("%s: %v", c.how, err)
						return
					}
				}
			})
		}
		running.Wait()
		if t.Failed() {
			break
		}
		time.Sleep(10 * time.Millisecond) // what expires has expired
		is := make(map[string]string)
		for i := range cachedKeys {
			r, err := control.Do(readOf(keyAt(i))...)
			if err != nil {
				t.Fatal(err)
			}
			is[keyAt(i)] = r.String()
		}
		for _, c := range caches {
			if c.inbox != nil {
				c.inbox.sendAll("PING")
				<-pongs[c]
			}
			c.sendAll("PING")
			if r, err := c.next(); err != nil || r.String() != "+PONG" {
				t.Fatalf("%s, %v", r, err)
			}
			c.mu.Lock()
			for key, value := range c.values {
				if value != is[key] {
					t.Errorf("%q keeps %s of %s, which is %s", c.how, value, key, is[key])
				}
			}
			kept += len(c.values)
			told += c.told
			c.mu.Unlock()
		}
	}
	for _, c := range caches {
		if c.inbox != nil {
			_ = c.inbox.Close()
		}
	}
	listening.Wait()
	t.Logf("%d values kept at the end of a round, %d messages", kept, told)
	if kept < least || told < 1000 {
		t.Error("that is too little to show anything")
	}
}
