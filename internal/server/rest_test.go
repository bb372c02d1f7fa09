package server

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"kevy/tests/wire"
)

// putToRest sends every client that waits for input to rest, however short it has
// waited.
func (in *instance) putToRest() {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, c := range in.clients {
		c.sendToRest(in.uptime() + restAfter)
	}
}

// atRest returns how many clients rest.
func (in *instance) atRest() (n int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, c := range in.clients {
		if c.idleSince.Load() <= resting {
			n++
		}
	}
	return n
}

// TestRest: a client that has rested is what it was.
func TestRest(t *testing.T) {
	in := start(t)
	c := in.conn()
	c.do("HELLO 3")
	c.expect("CLIENT SETNAME sleeper", "+OK")
	c.expect("SELECT 3", "+OK")
	c.expect("SET watched 1", "+OK")
	c.expect("WATCH watched", "+OK")
	c.expect("MULTI", "+OK")
	c.expect("SET k v", "+QUEUED")
	sleep := func() {
		t.Helper()
		eventually(t, "it rests", func() bool {
			in.putToRest()
			return in.atRest() == 1
		})
	}
	sleep()
	eventually(t, "its buffers are gone, and nothing else", func() bool {
		d := in.Clients()[0]
		return d.Name == "sleeper" && d.DB == 3 && d.Multi == 1 && d.Proto == 3 && d.QueryFree == 0 && d.ReplySize == 0 && d.IdleSec >= 0
	})
	c.expect("SET k2 v", "+QUEUED")
	sleep()
	c.expect("EXEC", "[+OK, +OK]")
	c.expect("GET k2", `"v"`)

	// In the middle of a command.
	if _, err := c.Write([]byte("*2\r\n$3\r\nGET\r\n$1")); err != nil {
		t.Fatal(err)
	}
	sleep()
	if _, err := c.Write([]byte("\r\nk\r\n")); err != nil {
		t.Fatal(err)
	}
	if r, err := c.ReadReply(); err != nil || r.String() != `"v"` {
		t.Errorf("%s, %v", r, err)
	}
	c.do("SUBSCRIBE news")
	sleep()
	other := in.conn()
	other.expect("PUBLISH news x", ":1")
	if r, err := c.ReadReply(); err != nil || !strings.Contains(r.String(), `"news", "x"`) {
		t.Errorf("%s, %v", r, err)
	}
	c.do("UNSUBSCRIBE")

	// One that hangs up, and one that is killed, at rest.
	gone := in.conn()
	gone.expect("PING", "+PONG")
	id := c.do("CLIENT ID").String()[1:]
	eventually(t, "all rest", func() bool {
		in.putToRest()
		return in.atRest() == 3
	})
	gone.Close()
	eventually(t, "one is gone", func() bool { return other.infoInt("clients", "connected_clients") == 2 })
	other.expect("CLIENT KILL ID "+id, ":1")
	c.ended()
	eventually(t, "the last one rests", func() bool {
		in.putToRest()
		return in.atRest() == 1
	})
	other.expect("CONFIG SET timeout 1", "+OK")
	other.ended()
}

// TestSleepersNeedNoGoroutine: the dormitory waits for all, and wakes each for its own
// input.
func TestSleepersNeedNoGoroutine(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("clients that rest wait for themselves here")
	}
	in := start(t)
	const sleepers = 300 // more than are woken at a time
	before := runtime.NumGoroutine()
	var conns []*conn
	for range sleepers {
		c := in.conn()
		c.expect("PING", "+PONG")
		conns = append(conns, c)
	}
	for range 2 {
		eventually(t, "all sleep", func() bool {
			in.putToRest()
			return in.asleep() == sleepers && runtime.NumGoroutine() < before+sleepers/10
		})
		// All at once, and each gets its own reply.
		for i, c := range conns {
			if err := c.Send("ECHO", strconv.Itoa(i)); err != nil {
				t.Fatal(err)
			}
		}
		for i, c := range conns {
			if r, err := c.ReadReply(); err != nil || string(r.Text) != strconv.Itoa(i) {
				t.Fatalf("connection %d: %s, %v", i, r, err)
			}
		}
	}
}

// asleep returns how many clients have no goroutine.
func (in *instance) asleep() (n int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, c := range in.clients {
		if c.asleep.Load() {
			n++
		}
	}
	return n
}

// TestRestWithoutDormitory: where there is none, clients that rest wait by themselves.
func TestRestWithoutDormitory(t *testing.T) {
	in := start(t)
	c, other := in.conn(), in.conn()
	other.expect("PING", "+PONG") // it serves, and so has opened it
	in.dormitory.close()
	for range 3 {
		eventually(t, "both rest", func() bool {
			in.putToRest()
			return in.atRest() == 2
		})
		c.expect("PING", "+PONG")
	}
	id := c.do("CLIENT ID").String()[1:]
	eventually(t, "both rest", func() bool {
		in.putToRest()
		return in.atRest() == 2
	})
	other.expect("CLIENT KILL ID "+id, ":1")
	c.ended()
}

// TestReceivers: those whose messages are counted are those that take some, for as
// long as they are there.
func TestReceivers(t *testing.T) {
	in := start(t)
	receivers := func() int {
		in.mu.Lock()
		defer in.mu.Unlock()
		return len(in.receivers)
	}
	a, b, other := in.conn(), in.conn(), in.conn()
	a.do("SUBSCRIBE news")
	id := b.do("CLIENT ID").String()[1:]
	b.do("SUBSCRIBE news")
	other.expect("PUBLISH news x", ":2")
	if n := receivers(); n != 2 {
		t.Errorf("%d receivers, want 2", n)
	}
	a.Close()
	eventually(t, "one has left", func() bool { return receivers() == 1 })
	other.expect("CLIENT KILL ID "+id, ":1")
	if n := receivers(); n != 0 {
		t.Errorf("%d receivers, want none", n)
	}
}

// TestRestOverTLS: what TLS has read ahead is not forgotten.
func TestRestOverTLS(t *testing.T) {
	s := startTLS(t, setup{})
	c := s.conn()
	for range 5 {
		eventually(t, "it rests", func() bool {
			s.putToRest()
			return s.atRest() == 1
		})
		if replies, err := c.Pipeline(strings.Fields("SET k v"), []string{"SET", "k", strings.Repeat("x", 40000)}, strings.Fields("STRLEN k")); err != nil || replies[2].String() != ":40000" {
			t.Fatal(replies, err)
		}
	}
}

// TestRestlessness sends clients to rest all the time while they work: no command
// and no reply is lost, and nobody who waits for a key is taken for gone.
func TestRestlessness(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("KEVY_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = n
	}
	t.Logf("KEVY_SEED=%d", seed)
	in := start(t)
	quit := make(chan struct{})
	var restless, workers sync.WaitGroup
	restless.Go(func() {
		for {
			select {
			case <-quit:
				return
			default:
				in.putToRest()
				time.Sleep(50 * time.Microsecond)
			}
		}
	})
	const rounds = 300
	for w := range 8 {
		c := in.conn()
		workers.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(w)))
			for i := range rounds {
				if rng.IntN(3) == 0 {
					time.Sleep(time.Duration(rng.IntN(500)) * time.Microsecond)
				}
				var r wire.Reply
				var err error
				want := fmt.Sprintf(":%d", i+1)
				if rng.IntN(4) > 0 {
					r, err = c.Do("INCR", fmt.Sprint("n", w))
				} else {
					// It waits for as long as it takes its partner to push.
					key := fmt.Sprint("list", w)
					if err = c.Send("BLPOP", key, "0"); err == nil {
						if _, err = c.Write([]byte("INCR n" + fmt.Sprint(w) + "\r\n")); err == nil {
							time.AfterFunc(time.Duration(rng.IntN(1000))*time.Microsecond, func() {
								if p, err := wire.Dial(in.addr); err == nil {
									_, _ = p.Do("RPUSH", key, "x")
									p.Close()
								}
							})
							if r, err = c.ReadReply(); err == nil && r.String() != `["`+key+`", "x"]` {
								t.Errorf("BLPOP: %s", r)
							}
							if err == nil {
								r, err = c.ReadReply()
							}
						}
					}
				}
				if err != nil || r.String() != want {
					t.Errorf("worker %d, round %d: %s, %v, want %s", w, i, r, err, want)
					return
				}
			}
		})
	}
	workers.Wait()
	close(quit)
	restless.Wait()
}

// TestHousekeepingSendsToRest waits until it does so by itself.
func TestHousekeepingSendsToRest(t *testing.T) {
	t.Parallel()
	in := start(t)
	c := in.conn()
	c.expect("PING", "+PONG")
	eventually(t, "it rests", func() bool { return in.atRest() == 1 })
	c.expect("PING", "+PONG")
}
