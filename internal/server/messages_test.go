package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// number sends a command that is answered with an integer.
func (c *conn) number(line string) int64 {
	c.t.Helper()
	n, err := c.do(line).Int()
	if err != nil {
		c.t.Fatalf("%.100s: %v", line, err)
	}
	return n
}

// infoNumber returns a number of INFO stats.
func (c *conn) infoNumber(name string) int {
	c.t.Helper()
	for line := range strings.Lines(string(c.do("INFO stats").Text)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			n, err := strconv.Atoi(v)
			if err != nil {
				c.t.Fatal(err)
			}
			return n
		}
	}
	c.t.Fatalf("INFO has no %s", name)
	return 0
}

// TestMessagesSeen: what CLIENT LIST and INFO say of who has subscribed.
func TestMessagesSeen(t *testing.T) {
	in := start(t)
	c, w := in.conn().proto("3"), in.conn()
	c.do("SUBSCRIBE a")
	c.do("PSUBSCRIBE b*")
	c.do("SSUBSCRIBE c")
	c.do("SSUBSCRIBE d")
	list := string(w.do("CLIENT LIST TYPE pubsub").Text)
	if !strings.Contains(list, " flags=P ") || !strings.Contains(list, " sub=1 psub=1 ssub=2 ") {
		t.Errorf("CLIENT LIST: %s", list)
	}
	for name, want := range map[string]int{"pubsub_channels": 1, "pubsub_patterns": 1, "pubsubshard_channels": 2} {
		if got := w.infoNumber(name); got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
	_ = c.Close()
	eventually(t, "its channels are gone", func() bool {
		return w.infoNumber("pubsub_channels")+w.infoNumber("pubsub_patterns")+w.infoNumber("pubsubshard_channels") == 0
	})
}

// TestMessagesInOrder: each subscriber gets the messages of each publisher in their
// order, while it subscribes to and leaves other channels, and none of those after
// the confirmation of its end.
func TestMessagesInOrder(t *testing.T) {
	in := start(t)
	const publishers, messages, subscribers = 4, 3000, 4
	var running sync.WaitGroup
	begin := make(chan struct{})
	for i := range subscribers {
		c := in.conn()
		if i%2 == 1 {
			c.proto("3")
		}
		for p := range publishers {
			c.do(fmt.Sprintf("SUBSCRIBE p%d", p))
		}
		running.Go(func() {
			next := make(map[string]int)
			other, sent := false, 0 // subscribed, as far as was said
			for done := 0; done < publishers; {
				r, err := c.ReadReply()
				if err != nil {
					t.Error(err)
					return
				}
				kind, channel := string(r.Elems[0].Text), string(r.Elems[1].Text)
				switch {
				case kind == "subscribe":
					other = true
				case kind == "unsubscribe":
					other = false
				case channel == "other":
					if !other {
						t.Errorf("a message of a channel that is not subscribed to")
						return
					}
				default:
					n, _ := strconv.Atoi(string(r.Elems[2].Text))
					if n != next[channel] {
						t.Errorf("%s: got %d, want %d", channel, n, next[channel])
						return
					}
					next[channel]++
					if n == messages-1 {
						done++
					}
					if sent++; sent%50 == 0 {
						// In one batch, and in two.
						line := "*2\r\n$9\r\nsubscribe\r\n$5\r\nother\r\n"
						if sent%100 == 0 {
							line += "*2\r\n$11\r\nunsubscribe\r\n$5\r\nother\r\n"
						}
						if _, err := io.WriteString(c, line); err != nil {
							t.Error(err)
							return
						}
					}
				}
			}
		})
	}
	for p := range publishers {
		c := in.conn()
		running.Go(func() {
			<-begin
			const batch = 30
			for n := 0; n < messages; n += batch {
				for i := range batch {
					_ = c.Send("PUBLISH", fmt.Sprintf("p%d", p), strconv.Itoa(n+i))
					_ = c.Send("PUBLISH", "other", "x")
				}
				for range 2 * batch {
					if _, err := c.ReadReply(); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	close(begin)
	running.Wait()
}

// TestSlowSubscriberIsCutOff: one that does not read is ended at the hard limit, or
// when it was over the soft one for too long, and delays nobody.
func TestSlowSubscriberIsCutOff(t *testing.T) {
	for name, limit := range map[string]string{"hard": "pubsub 1mb 0 0", "soft": "pubsub 0 64kb 1"} {
		t.Run(name, func(t *testing.T) {
			in := start(t, "--client-output-buffer-limit", limit)
			slow, quick, w := in.conn(), in.conn(), in.conn()
			slow.do("SUBSCRIBE a")
			quick.do("SUBSCRIBE a")
			payload := strings.Repeat("x", 10000)
			cut := false
			for i := 0; i < 20000 && !cut; i++ {
				began := time.Now()
				n := w.number("PUBLISH a " + payload)
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("PUBLISH took %v", took)
				}
				if r := quick.message(); string(r.Elems[2].Text) != payload {
					t.Fatalf("the other subscriber got %.100s", r.String())
				}
				cut = n == 1
				if !cut && name == "soft" && i > 1500 {
					time.Sleep(5 * time.Millisecond)
				}
			}
			if !cut {
				t.Fatal("it still counts as a subscriber")
			}
			if log := in.log.String(); !strings.Contains(log, "unread messages passed client-output-buffer-limit") {
				t.Errorf("the log does not say so: %s", log)
			}
			eventually(t, "it is off the list", func() bool { return in.ConnectedClients() == 2 })
		})
	}
}

// TestManySubscribersOfOneChannel: 1,000 get each message once, whole ones of every
// length, and the server ends while they are there.
func TestManySubscribersOfOneChannel(t *testing.T) {
	const subscribers = 1000
	in := start(t)
	w := in.conn()
	payloads := [][]byte{[]byte(""), []byte("a"), bytes.Repeat([]byte("b"), largeMessageBytes), bytes.Repeat([]byte("c"), 100), bytes.Repeat([]byte("d"), flushBytes+1)}
	var running sync.WaitGroup
	for i := range subscribers {
		c := in.conn()
		if i%2 == 1 {
			c.proto("3")
		}
		c.do("SUBSCRIBE a")
		running.Go(func() {
			for _, want := range payloads {
				r, err := c.ReadReply()
				if err != nil || len(r.Elems) != 3 || !bytes.Equal(r.Elems[2].Text, want) {
					t.Errorf("got %.100s, %v, want %d bytes", r.String(), err, len(want))
					return
				}
			}
		})
	}
	for _, p := range payloads {
		if err := w.Send("PUBLISH", "a", string(p)); err != nil {
			t.Fatal(err)
		}
	}
	for range payloads {
		if r := w.message(); r.String() != fmt.Sprintf(":%d", subscribers) {
			t.Errorf("PUBLISH: %s", r.String())
		}
	}
	running.Wait()
}

// TestMessagesAndTheLog: a message is not sent before what its publisher has written
// is in the log, and one of a transaction not before that.
func TestMessagesAndTheLog(t *testing.T) {
	in := start(t)
	c, w, r := in.conn(), in.conn(), in.conn()
	c.do("SUBSCRIBE a")
	for i := range 200 {
		v := strconv.Itoa(i)
		lines := []string{"SET k " + v, "PUBLISH a " + v}
		if i%2 == 1 {
			lines = []string{"MULTI", "SET k " + v, "PUBLISH a " + v, "EXEC"}
		}
		for _, line := range lines {
			if err := w.Send(strings.Fields(line)...); err != nil {
				t.Fatal(err)
			}
		}
		if m := c.message(); string(m.Elems[2].Text) != v {
			t.Fatalf("got %s, want %s", m.String(), v)
		}
		if written := in.store.Reached(); written < uint64(i+1) {
			t.Fatalf("message %d came when the log had %d commits", i, written)
		}
		r.expect("GET k", strconv.Quote(v))
		for range lines {
			w.message()
		}
	}
}

// TestMessagesOfScript: what a script publishes is delivered as it was when it was
// published, also where that is later, at the end of a transaction.
func TestMessagesOfScript(t *testing.T) {
	in := start(t)
	c, w := in.conn(), in.conn()
	c.do("SUBSCRIBE a b")
	c.message()
	script := []string{"EVAL", "for i = 1, 9 do redis.call('PUBLISH', i % 2 == 0 and 'a' or 'b', 'message ' .. i) end redis.call('SET', 'k', 'something else')", "0"}
	for _, commands := range [][][]string{{script}, {{"MULTI"}, script, script, {"EXEC"}}} {
		for _, args := range commands {
			if err := w.Send(args...); err != nil {
				t.Fatal(err)
			}
			w.message()
		}
		for i := range 9 * max(1, len(commands)-2) {
			want := fmt.Sprintf(`["message", "%c", "message %d"]`, "ba"[i%9%2], i%9+1)
			if got := c.message().String(); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
	}
}

// TestSubscriberThatQuits: replies and messages are told apart to the end.
func TestSubscriberThatQuits(t *testing.T) {
	in := start(t)
	c, w := in.conn(), in.conn()
	c.do("SUBSCRIBE a")
	w.expect("PUBLISH a x", ":1")
	if err := c.Send("QUIT"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`["message", "a", "x"]`, "+OK"} {
		if got := c.message().String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	c.ended()
	eventually(t, "nobody is subscribed", func() bool { return w.number("PUBLISH a y") == 0 })
}

// TestGoRedisPubSub: the client that most Go programs use, in both protocols.
func TestGoRedisPubSub(t *testing.T) {
	in := start(t)
	for _, proto := range []int{2, 3} {
		client := redis.NewClient(&redis.Options{Addr: in.addr, Protocol: proto})
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		sub := client.Subscribe(ctx, "a")
		if err := sub.PSubscribe(ctx, "b*"); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := sub.Receive(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if n, err := client.Publish(ctx, "a", "1").Result(); n != 1 || err != nil {
			t.Errorf("PUBLISH: %d, %v", n, err)
		}
		if n, err := client.Publish(ctx, "bb", "2").Result(); n != 1 || err != nil {
			t.Errorf("PUBLISH: %d, %v", n, err)
		}
		for _, want := range []redis.Message{{Channel: "a", Payload: "1"}, {Channel: "bb", Pattern: "b*", Payload: "2"}} {
			m, err := sub.ReceiveMessage(ctx)
			if err != nil || m.Channel != want.Channel || m.Pattern != want.Pattern || m.Payload != want.Payload {
				t.Errorf("got %v, %v", m, err)
			}
		}
		if err := sub.Ping(ctx); err != nil {
			t.Error(err)
		}
		if got, err := client.PubSubNumSub(ctx, "a").Result(); err != nil || got["a"] != 1 {
			t.Errorf("NUMSUB: %v, %v", got, err)
		}
		cancel()
		_ = sub.Close()
		_ = client.Close()
		w := in.conn()
		eventually(t, "it is gone", func() bool { return w.number("PUBLISH a x") == 0 })
	}
}
