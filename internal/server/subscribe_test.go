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

// proto puts a connection into a protocol version.
func (c *conn) proto(n string) *conn {
	c.t.Helper()
	c.do("HELLO " + n)
	return c
}

// message reads the next thing the server sends.
func (c *conn) message() wire.Reply {
	c.t.Helper()
	r, err := c.ReadReply()
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

// messageIs fails unless the next message, which is a push in RESP3, is want. G
// stands for the generation gen.
func (c *conn) messageIs(gen, want string) {
	c.t.Helper()
	if got := strings.ReplaceAll(c.message().String(), gen, "G"); got != want {
		c.t.Errorf("got %s, want %s", got, want)
	}
}

func (c *conn) tail(stream string) (gen, offset string) {
	c.t.Helper()
	r := c.do("CHANGES TAIL " + stream)
	return string(r.Elems[0].Text), string(r.Elems[1].Text)
}

// TestSubscribe: what is sent, in both protocols.
func TestSubscribe(t *testing.T) {
	in := start(t, "--shards", "2")
	for _, proto := range []string{"2", "3"} {
		t.Run("RESP"+proto, func(t *testing.T) {
			w := in.conn()
			w.do("FLUSHALL")
			gen, _ := w.tail("ALL")
			w.do("SET a 1")
			w.do("MSET b 2 c 3")
			c := in.conn().proto(proto)
			push := map[string]string{"2": "[", "3": "push["}[proto]
			if err := c.Send("CHANGES", "SUBSCRIBE", "all", gen, "0"); err != nil {
				t.Fatal(err)
			}
			c.messageIs(gen, push+`"changes-subscribe", "ALL", :G, :0]`)
			c.messageIs(gen, push+`"changes", "ALL", :G, :3, [[:0, ["SET", "a", "1"]], [:1, ["SET", "b", "2"]], [:2, ["SET", "c", "3"]]]]`)
			w.do("DEL a")
			c.messageIs(gen, push+`"changes", "ALL", :G, :4, [[:3, ["DEL", "a"]]]]`)
			c.expect("CHANGES SUBSCRIBE ALL TAIL", `-ERR already subscribed to stream 'ALL'`)
			c.expect("CHANGES CREDIT ALL 1", `-ERR the subscription to stream 'ALL' has no WINDOW`)
			c.expect("CHANGES UNSUBSCRIBE ALL", push+`"changes-unsubscribe", "ALL"]`)
			w.do("DEL b")
			c.expect("PING", "+PONG")
			if proto == "2" {
				c.expect("CHANGES UNSUBSCRIBE", `["changes-unsubscribe", $nil]`)
			} else {
				c.expect("CHANGES UNSUBSCRIBE", `push["changes-unsubscribe", _nil]`)
			}
			c.expect("CHANGES UNSUBSCRIBE 1", push+`"changes-unsubscribe", "1"]`)
			c.expect("CHANGES CREDIT ALL 1", `-ERR not subscribed to stream 'ALL'`)
			for line, want := range map[string]string{
				"CHANGES SUBSCRIBE 2 TAIL":                `-ERR no such stream '2'`,
				"CHANGES SUBSCRIBE ALL NOW 0":             `-ERR value is not an integer or out of range`,
				"CHANGES SUBSCRIBE ALL " + gen:            `-ERR syntax error`,
				"CHANGES SUBSCRIBE ALL " + gen + " 99":    `-ERR feed cursor ahead of stream`,
				"CHANGES SUBSCRIBE ALL TAIL BLOCK 1":      `-ERR syntax error`,
				"CHANGES SUBSCRIBE ALL TAIL HEARTBEAT 0":  `-ERR heartbeat is out of range, must be positive`,
				"CHANGES SUBSCRIBE ALL TAIL WINDOW -1":    `-ERR window is out of range, must not be negative`,
				"CHANGES SUBSCRIBE ALL TAIL DB *":         `-ERR invalid filter: DB * needs META, which says each frame's database`,
				"CHANGES SUBSCRIBE ALL TAIL PREFIX":       `-ERR syntax error`,
				"CHANGES SUBSCRIBE ALL 1 0":               `-FEEDRESYNC `,
				"CHANGES SUBSCRIBE ALL TAIL WINDOW 1 FOO": `-ERR syntax error`,
			} {
				if got := c.do(line).String(); !strings.HasPrefix(got, want) {
					t.Errorf("%s: got %s, want %s", line, got, want)
				}
			}
			c.expect("MULTI", "+OK")
			c.expect("CHANGES SUBSCRIBE ALL TAIL", "-ERR Command not allowed inside a transaction")
			c.expect("EXEC", "-EXECABORT Transaction discarded because of previous errors.")
			c.expect("PING", "+PONG")
		})
	}
}

// TestSubscribeMode: in RESP2 a subscriber may do what Redis lets one do, with
// its words.
func TestSubscribeMode(t *testing.T) {
	in := start(t)
	w := in.conn()
	c := in.conn()
	id := c.do("CLIENT ID").String()[1:]
	c.do("CHANGES SUBSCRIBE ALL TAIL")
	c.expect("PING", `["pong", ""]`)
	c.expect("PING hi", `["pong", "hi"]`)
	c.expect("PING a b", `-ERR wrong number of arguments for 'ping' command`)
	const only = ": only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
	c.expect("GET k", "-ERR Can't execute 'get'"+only)
	c.expect("CLIENT ID", "-ERR Can't execute 'client|id'"+only)
	c.expect("CHANGES TAIL ALL", "-ERR Can't execute 'changes|tail'"+only)
	c.expect("HELLO 3", "-ERR Can't execute 'hello'"+only)
	c.expect("MULTI", "-ERR Can't execute 'multi'"+only)
	for _, where := range []string{"", " TYPE pubsub", " ID " + id} {
		if line := w.do("CLIENT LIST" + where).String(); !strings.Contains(line, "id="+id+" ") || !strings.Contains(line, " flags=P ") {
			t.Errorf("CLIENT LIST%s: %s", where, line)
		}
	}
	if line := w.do("CLIENT LIST TYPE normal").String(); strings.Contains(line, "id="+id+" ") {
		t.Errorf("CLIENT LIST TYPE normal: %s", line)
	}
	c.do("CHANGES SUBSCRIBE 0 TAIL")
	c.expect("CHANGES UNSUBSCRIBE ALL", `["changes-unsubscribe", "ALL"]`)
	c.expect("GET k", "-ERR Can't execute 'get'"+only)
	c.expect("CHANGES UNSUBSCRIBE", `["changes-unsubscribe", "0"]`)
	c.expect("GET k", "$nil")
	c.do("CHANGES SUBSCRIBE ALL TAIL")
	c.expect("RESET", "+RESET")
	c.expect("GET k", "$nil")
	c.do("CHANGES SUBSCRIBE ALL TAIL")
	c.expect("QUIT", "+OK")
	c.ended()
	c = in.conn()
	c.do("CHANGES SUBSCRIBE ALL TAIL")
	w.expect("CLIENT KILL TYPE pubsub", ":1")
	c.ended()
	// RESP3 knows messages from replies.
	c = in.conn().proto("3")
	c.do("CHANGES SUBSCRIBE ALL TAIL")
	c.expect("PING", "+PONG")
	if line := c.do("CLIENT INFO").String(); !strings.Contains(line, " flags=P ") {
		t.Errorf("CLIENT INFO: %s", line)
	}
	c.do("HELLO 2")
	c.expect("GET k", "-ERR Can't execute 'get'"+only)
	gen, _ := w.tail("ALL")
	w.do("SET k v")
	c.messageIs(gen, `["changes", "ALL", :G, :1, [[:0, ["SET", "k", "v"]]]]`)
}

// TestSubscriberKeepsUp: several subscriptions on one connection, pipelined
// commands, blocked ones, replies sent in parts: each stream comes whole and in
// order, no message lies inside a reply, and no reply is lost.
func TestSubscriberKeepsUp(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("KEVY_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("KEVY_SEED=%d", seed)
	const shards, writers, commits = 3, 4, 800
	in := start(t, "--shards", fmt.Sprint(shards))
	var writing sync.WaitGroup
	c := in.conn().proto("3")
	w := in.conn()
	starts := map[string]int{}
	streams := []string{"0", "1", "2", "ALL"}
	for _, stream := range streams {
		c.do("CHANGES SUBSCRIBE " + stream + " TAIL META HEARTBEAT 100")
		starts[stream] = 0
	}
	for i := range writers {
		writing.Add(1)
		conn := in.conn()
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		go func() {
			defer writing.Done()
			for range commits {
				var err error
				switch k := fmt.Sprint("key:", rng.IntN(50)); rng.IntN(10) {
				case 0:
					_, err = conn.Do("MSET", k, "v", k+"x", "v", k+"y", "v")
				case 1:
					_, err = conn.Do("SET", k, strings.Repeat("v", 100_000))
				case 2:
					_, err = conn.Do("RPUSH", "queue", k)
				default:
					_, err = conn.Do("SET", k, "v")
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		}()
	}
	// Commands beside: each reply says which command it answers.
	sent := make(chan string, 20)
	stop := make(chan struct{})
	go func() {
		defer close(sent)
		rng := rand.New(rand.NewPCG(seed, 99))
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			kind := []string{"ECHO", "SINCE", "BLPOP"}[rng.IntN(3)]
			var err error
			switch kind {
			case "ECHO":
				kind = fmt.Sprint("echo", i)
				err = c.Send("ECHO", kind)
			case "SINCE":
				err = c.Send("CHANGES", "SINCE", "ALL", "1", "0")
			case "BLPOP":
				err = c.Send("BLPOP", "queue", "0.05")
			}
			if err != nil {
				t.Error(err)
				return
			}
			sent <- kind
			if rng.IntN(20) == 0 {
				time.Sleep(10 * time.Millisecond)
			}
		}
	}()
	finished := make(chan map[string]int, 1)
	go func() {
		writing.Wait()
		end := map[string]int{}
		for _, stream := range streams {
			_, offset := w.tail(stream)
			end[stream], _ = strconv.Atoi(offset)
		}
		close(stop)
		finished <- end
	}()
	var end map[string]int
	replies := 0
	for {
		if end == nil {
			select {
			case end = <-finished:
			default:
			}
		}
		if end != nil {
			done := len(sent) == 0
			for stream, offset := range end {
				done = done && starts[stream] == offset
			}
			if done {
				break
			}
		}
		r := c.message()
		if r.Kind != wire.Push {
			replies++
			switch want := <-sent; {
			case strings.HasPrefix(want, "echo"):
				if string(r.Text) != want {
					t.Fatalf("ECHO %s answers %s", want, r)
				}
			case want == "SINCE":
				if r.Kind != wire.Error {
					t.Fatalf("SINCE answers %s", r)
				}
			default:
				if r.Kind != wire.Null && len(r.Elems) != 2 {
					t.Fatalf("BLPOP answers %s", r)
				}
			}
			continue
		}
		stream := string(r.Elems[1].Text)
		for _, fr := range r.Elems[4].Elems {
			if offset := string(fr.Elems[0].Text); offset != strconv.Itoa(starts[stream]) {
				t.Fatalf("offset %s of stream %s, and %d should come", offset, stream, starts[stream])
			}
			starts[stream]++
		}
		if next := string(r.Elems[3].Text); next != strconv.Itoa(starts[stream]) {
			t.Fatalf("next-offset of stream %s is %s after frame %d", stream, next, starts[stream])
		}
	}
	if replies < 50 {
		t.Errorf("only %d replies", replies)
	}
}

// TestSubscribersShare: those who are sent the same get the same, in both
// protocols, with breaks, other options and over FLUSHALL.
func TestSubscribersShare(t *testing.T) {
	t.Parallel()
	const writes = 4000
	in := start(t, "--shards", "2")
	w := in.conn()
	_ = w.SetDeadline(time.Now().Add(3 * patience))
	options := []string{"", "", "", " META", " META", " COUNT 3", " COUNT 3", " DB 0", " PREFIX k", " DB * META", " WINDOW 1000000"}
	var reading sync.WaitGroup
	got := make([][]string, len(options))
	for i, o := range options {
		c := in.conn().proto(strconv.Itoa(2 + i%2))
		_ = c.SetDeadline(time.Now().Add(3 * patience))
		c.do("CHANGES SUBSCRIBE ALL TAIL" + o)
		reading.Add(1)
		go func() {
			defer reading.Done()
			for len(got[i]) == 0 || !strings.Contains(got[i][len(got[i])-1], `"k:end"`) {
				r, err := c.ReadReply()
				if err != nil {
					t.Error(err)
					return
				}
				if want := map[int]wire.Kind{0: wire.Array, 1: wire.Push}[i%2]; r.Kind != want {
					t.Errorf("a message of type %c", r.Kind)
				}
				for _, fr := range r.Elems[4].Elems {
					got[i] = append(got[i], fmt.Sprint(string(r.Elems[2].Text), " ", string(fr.Elems[0].Text), " ", fr.Elems[1]))
				}
				if i == 1 && len(got[i])%50 == 0 {
					time.Sleep(20 * time.Millisecond)
				}
			}
		}()
	}
	for i := range writes {
		line := fmt.Sprint("SET k:", i%100, " ", i)
		switch {
		case i%1000 == 999:
			line = "FLUSHALL"
		case i%100 == 99:
			line = "MSET k:a 1 k:b 2 k:c 3 k:d 4"
		}
		w.do(line)
	}
	w.do("SET k:end v")
	reading.Wait()
	if len(got[0]) < writes {
		t.Errorf("%d frames of %d commits", len(got[0]), writes)
	}
	for i := range got {
		if len(got[i]) != len(got[0]) {
			t.Errorf("with %q there are %d frames, and %d without", options[i], len(got[i]), len(got[0]))
			continue
		}
		for j := range got[i] {
			if got[i][j] != got[0][j] {
				t.Errorf("with %q frame %d is %s, and %s without", options[i], j, got[i][j], got[0][j])
				break
			}
		}
	}
}
