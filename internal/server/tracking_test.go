package server

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"kevy/tests/wire"
)

// invalid reads the next thing, which must be an invalidation, and returns its keys.
func (c *conn) invalid() string {
	c.t.Helper()
	r := c.message()
	if len(r.Elems) < 2 || string(r.Elems[0].Text) != "invalidate" && string(r.Elems[0].Text) != "message" {
		c.t.Fatalf("got %s", r)
	}
	return strings.Join(r.Elems[len(r.Elems)-1].Strings(), " ")
}

func (c *conn) id() string {
	c.t.Helper()
	return strconv.FormatInt(c.number("CLIENT ID"), 10)
}

// TestTrackingSeen: what INFO and CLIENT LIST say of who tracks.
func TestTrackingSeen(t *testing.T) {
	in := start(t)
	control, plain, prefixes, to := in.conn(), in.conn(), in.conn(), in.conn().proto("3")
	id := to.id()
	plain.expect("CLIENT TRACKING ON REDIRECT "+id, "+OK")
	prefixes.expect("CLIENT TRACKING ON BCAST PREFIX a PREFIX b", "+OK")
	plain.do("MGET a b c")
	list := string(control.do("CLIENT LIST").Text)
	for _, want := range []string{" flags=t ", " redir=" + id + " ", " flags=tB ", " redir=0 ", " flags=N ", " redir=-1 "} {
		if !strings.Contains(list, want) {
			t.Errorf("CLIENT LIST has no %q: %s", want, list)
		}
	}
	for name, want := range map[string]int64{"tracking_total_keys": 3, "tracking_total_items": 3, "tracking_total_prefixes": 2} {
		if got := control.infoInt("stats", name); got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
	if n := control.infoInt("clients", "tracking_clients"); n != 2 {
		t.Errorf("%d clients track", n)
	}
	_ = to.Close()
	eventually(t, "its end is noticed", func() bool { return control.infoInt("clients", "connected_clients") == 3 })
	control.do("SET a 1")
	if line := string(plain.do("CLIENT INFO").Text); !strings.Contains(line, " flags=tR ") || !strings.Contains(line, " redir="+id+" ") {
		t.Errorf("CLIENT INFO: %s", line)
	}
	_ = plain.Close()
	_ = prefixes.Close()
	eventually(t, "nobody tracks, and nothing is tracked", func() bool {
		return control.infoInt("clients", "tracking_clients") == 0 && control.infoInt("stats", "tracking_total_prefixes") == 0 &&
			control.infoInt("stats", "tracking_total_keys") == 0
	})
}

// TestTrackingTableMaxKeys: beyond the bound, also a new one, keys are forgotten, and who tracked them is told of each
// once.
func TestTrackingTableMaxKeys(t *testing.T) {
	in := start(t, "--tracking-table-max-keys", "100")
	a, b, w := in.conn().proto("3"), in.conn().proto("3"), in.conn()
	for _, c := range []*conn{a, b} {
		c.expect("CLIENT TRACKING ON", "+OK")
	}
	for i := range 300 {
		a.sendAll("GET", fmt.Sprint("key:", i))
	}
	told := make(map[string]bool)
	read := func(c *conn, n int) {
		t.Helper()
		for range n {
			r := c.message()
			if r.Kind != wire.Push {
				continue
			}
			key := string(r.Elems[1].Elems[0].Text)
			if told[key] {
				t.Errorf("%s is told of twice", key)
			}
			told[key] = true
		}
	}
	read(a, 500)
	if n := w.infoInt("stats", "tracking_total_keys"); n != 100 || len(told) != 200 {
		t.Errorf("%d keys are tracked, and %d were told", n, len(told))
	}
	w.expect("CONFIG SET tracking-table-max-keys 7", "+OK")
	read(a, 93)
	if n := w.infoInt("stats", "tracking_total_keys"); n != 7 || len(told) != 293 {
		t.Errorf("%d keys are tracked, and %d were told", n, len(told))
	}
	for i := range 300 {
		w.do(fmt.Sprint("SET key:", i, " v"))
	}
	read(a, 7)
	a.expect("PING", "+PONG")
	b.expect("PING", "+PONG")
	if n := w.infoInt("stats", "tracking_total_keys"); n != 0 || len(told) != 300 {
		t.Errorf("%d keys are tracked, and %d were told", n, len(told))
	}
}

// TestSlowTracker: one who does not read what it is told delays no writer, and is cut off.
func TestSlowTracker(t *testing.T) {
	for _, how := range []string{"BCAST", "REDIRECT"} {
		t.Run(how, func(t *testing.T) {
			in := startWith(t, setup{listener: shrunk, settings: []string{"--client-output-buffer-limit", "pubsub 1mb 0 0"}})
			deaf, w := in.conn().proto("3"), in.conn()
			small(t, deaf.Conn.Conn)
			if how == "BCAST" {
				deaf.expect("CLIENT TRACKING ON BCAST", "+OK")
			} else {
				w.proto("3").expect("CLIENT TRACKING ON BCAST REDIRECT "+deaf.id(), "+OK")
			}
			key := strings.Repeat("k", 1000)
			ended, slowest := false, time.Duration(0)
			for i := 0; i < 20_000 && !ended; i++ {
				began := time.Now()
				if r, err := w.Do("SET", key, "v"); err != nil || r.String() != "+OK" && r.Kind != wire.Push {
					t.Fatalf("%s, %v", r, err)
				}
				slowest = max(slowest, time.Since(began))
				if i%100 == 0 {
					ended = in.ConnectedClients() == 1
				}
			}
			if !ended {
				t.Error("it is still there")
			}
			if slowest > 5*time.Second {
				t.Errorf("a SET took %v", slowest)
			}
			if !strings.Contains(in.log.String(), "client-output-buffer-limit") {
				t.Error("the log does not say why")
			}
		})
	}
}

// TestPrefixLimit: a connection has so many prefixes, and they count as its memory.
func TestPrefixLimit(t *testing.T) {
	in := start(t)
	c := in.conn()
	add := func(from, n int) wire.Reply {
		args := []string{"CLIENT", "TRACKING", "ON", "BCAST"}
		for i := range n {
			args = append(args, "PREFIX", fmt.Sprintf("%06d", from+i))
		}
		r, err := c.Do(args...)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	const some = 512
	for i := 0; i < 2048; i += some {
		if r := add(i, some); r.String() != "+OK" {
			t.Fatal(r)
		}
	}
	if n := in.conn().infoInt("stats", "tracking_total_prefixes"); n != 2048 {
		t.Errorf("%d prefixes", n)
	}
	line := string(c.do("CLIENT INFO").Text)
	_, size, _ := strings.Cut(line, " tot-mem=")
	if n, err := strconv.Atoi(strings.Fields(size)[0]); err != nil || n < 2048*100 {
		t.Errorf("its size is %s", size)
	}
	c.do("CLIENT TRACKING OFF")
	if n := in.conn().infoInt("stats", "tracking_total_prefixes"); n != 0 {
		t.Errorf("%d prefixes", n)
	}
}

// TestRedirectToStranger: a connection that never asked for messages gets them between its replies, never within one.
func TestRedirectToStranger(t *testing.T) {
	in := start(t)
	w := in.conn()
	big := strings.Repeat("x", 100<<10)
	w.sendAll("SET", "big", big)
	w.message()
	for i := range 300 {
		w.do("RPUSH list " + strings.Repeat("y", 1000+i))
	}
	gen, _ := w.tail("ALL")
	end := time.Now().Add(time.Second)
	var writing sync.WaitGroup
	writing.Go(func() {
		for i := 0; time.Now().Before(end); i++ {
			w.do(fmt.Sprint("SET k:", i%3, " v"))
		}
	})
	rounds, told := 0, 0
	for ; time.Now().Before(end); rounds++ {
		to, from := in.conn().proto("3"), in.conn()
		id := to.id()
		began := make(chan struct{})
		var redirecting sync.WaitGroup
		redirecting.Go(func() {
			close(began)
			from.expect("CLIENT TRACKING ON BCAST REDIRECT "+id, "+OK")
		})
		<-began
		reads := [][]string{{"GET", "big"}, {"CHANGES", "SINCE", "all", gen, "0", "COUNT", "300"}, {"LRANGE", "list", "0", "-1"}, {"PING"}}
		for range 6 {
			for _, args := range reads {
				to.sendAll(args...)
			}
			for _, args := range reads {
				r := to.message()
				for ; r.Kind == wire.Push; r = to.message() {
					if string(r.Elems[0].Text) != "invalidate" || len(r.Elems[1].Elems) != 1 {
						t.Fatalf("got %.200s", r.String())
					}
					told++
				}
				switch {
				case args[0] == "GET" && string(r.Text) == big, args[0] == "LRANGE" && len(r.Elems) == 300,
					args[0] == "CHANGES" && len(r.Elems) > 1, r.String() == "+PONG":
				default:
					t.Fatalf("%s: %.200s", args, r.String())
				}
			}
		}
		redirecting.Wait()
		to.sendAll("PING") // it has the connection no more for itself
		for to.message().Kind == wire.Push {
			told++
		}
		_ = to.Close()
		_ = from.Close()
	}
	writing.Wait()
	if told < 20 || rounds < 3 {
		t.Errorf("%d messages in %d rounds", told, rounds)
	}
}

// TestRedirectWithinReply: one that is in the middle of a long reply, which its peer takes slowly, gets what others
// redirect to it behind that.
func TestRedirectWithinReply(t *testing.T) {
	in := startWith(t, setup{listener: shrunk})
	to, from, w := in.conn().proto("3"), in.conn(), in.conn()
	for i := range 300 {
		w.do("RPUSH list " + strings.Repeat("y", 10_000+i)) // together more than is sent at once
	}
	gen, _ := w.tail("ALL")
	id := to.id()
	to.sendAll("CHANGES", "SINCE", "all", gen, "0", "COUNT", "300", "BYTES", "10000000")
	time.Sleep(50 * time.Millisecond) // it is stuck
	from.expect("CLIENT TRACKING ON BCAST REDIRECT "+id, "+OK")
	w.do("SET k 1")
	time.Sleep(100 * time.Millisecond)
	if r := to.message(); len(r.Elems) < 2 || len(r.Elems[len(r.Elems)-1].Elems) != 300 {
		t.Errorf("got %.200s", r.String())
	}
	if got := to.invalid(); got != "k" {
		t.Errorf("got %s", got)
	}
	to.expect("PING", "+PONG")
	w.do("SET j 1")
	if got := to.invalid(); got != "j" {
		t.Errorf("got %s", got)
	}
}

// TestRedirectToWaiting: one who waits for a command to be served is told meanwhile, in the middle of a batch, too.
func TestRedirectToWaiting(t *testing.T) {
	in := start(t)
	to, from, w := in.conn().proto("3"), in.conn(), in.conn()
	id := to.id()
	to.sendAll("BLPOP", "l", "0")
	eventually(t, "it waits", func() bool { return w.infoInt("clients", "blocked_clients") == 1 })
	from.expect("CLIENT TRACKING ON BCAST REDIRECT "+id, "+OK")
	w.do("SET k 1")
	if got := to.invalid(); got != "k" {
		t.Errorf("got %s", got)
	}
	w.do("RPUSH l a")
	got := to.message()
	for got.Kind == wire.Push { // of the key that it waits for
		got = to.message()
	}
	if got.String() != `["l", "a"]` {
		t.Errorf("got %s", got)
	}
}

// TestRedirectBroken: whoever was to be told and has ended, the one who redirects is told so from then on, each time.
func TestRedirectBroken(t *testing.T) {
	for _, end := range []string{"QUIT", "CLIENT KILL", "close"} {
		t.Run(end, func(t *testing.T) {
			in := start(t)
			to, from, w := in.conn().proto("3"), in.conn().proto("3"), in.conn()
			id := to.id()
			from.expect("CLIENT TRACKING ON REDIRECT "+id, "+OK")
			from.do("MGET a b c d")
			w.do("SET a 1")
			if got := to.invalid(); got != "a" {
				t.Errorf("got %s", got)
			}
			switch end {
			case "QUIT":
				to.expect("QUIT", "+OK") // from its reply on it is gone
			case "CLIENT KILL":
				w.expect("CLIENT KILL ID "+id, ":1")
			case "close":
				_ = to.Close()
				eventually(t, "its end is noticed", func() bool { return in.ConnectedClients() == 2 })
			}
			broken := `push["tracking-redir-broken", :` + id + `]`
			w.do("SET b 1")
			if got := from.message().String(); got != broken {
				t.Errorf("got %s, want %s", got, broken)
			}
			from.expect("CLIENT TRACKINGINFO", `map{"flags": set{"on", "broken_redirect"}, "redirect": :`+id+`, "prefixes": []}`)
			from.expect("SET c 1", "+OK") // its own change is told behind the reply
			if got := from.message().String(); got != broken {
				t.Errorf("got %s, want %s", got, broken)
			}
			w.do("FLUSHALL")
			if got := from.message().String(); got != broken {
				t.Errorf("got %s, want %s", got, broken)
			}
			from.expect("CLIENT TRACKING ON", "+OK")
			from.expect("CLIENT TRACKINGINFO", `map{"flags": set{"on"}, "redirect": :0, "prefixes": []}`)
			from.do("GET a")
			w.do("SET a 2")
			if got := from.invalid(); got != "a" {
				t.Errorf("got %s", got)
			}
		})
	}
}

// TestRedirectToLeaving: whoever has just ended and is still found gets no sender, which nobody would end.
func TestRedirectToLeaving(t *testing.T) {
	in := start(t)
	in.conn().do("PING")
	in.mu.Lock()
	var c *client
	for _, c = range in.clients {
	}
	in.mu.Unlock()
	in.Kill(c.id)
	eventually(t, "it has left", func() bool {
		in.mu.Lock()
		defer in.mu.Unlock()
		return c.left
	})
	c.killed.Store(false) // as if its peer had hung up
	in.mu.Lock()
	in.clients[c.id] = c
	in.mu.Unlock()
	r := in.listen(c.id)
	if !r.gone.Load() || r.sends.Load() {
		t.Errorf("gone %t, sends %t", r.gone.Load(), r.sends.Load())
	}
	in.mu.Lock()
	in.forget(c)
	in.mu.Unlock()
}

// TestTrackingExpiryAndEviction: keys that go by themselves, or make room, are told of, also with NOLOOP.
func TestTrackingExpiryAndEviction(t *testing.T) {
	in := start(t, "--maxmemory-policy", "allkeys-random")
	c, b, w := in.conn().proto("3"), in.conn().proto("3"), in.conn()
	c.expect("CLIENT TRACKING ON NOLOOP", "+OK")
	b.expect("CLIENT TRACKING ON BCAST NOLOOP PREFIX e", "+OK")
	w.do("SET e 1 PX 40")
	for range 2 { // for the SET and for its end
		if got := b.invalid(); got != "e" {
			t.Errorf("got %s", got)
		}
	}
	b.expect("SET e 1 PX 40", "+OK")
	c.do("GET e")
	for _, one := range []*conn{b, c} {
		if got := one.invalid(); got != "e" {
			t.Errorf("got %s", got)
		}
	}
	for i := range 50 {
		w.do(fmt.Sprint("SET k:", i, " v"))
		c.do(fmt.Sprint("GET k:", i))
	}
	w.do("CONFIG SET maxmemory 1")
	told := make(map[string]bool)
	for range 50 {
		told[c.invalid()] = true
	}
	for i := range 50 {
		if key := fmt.Sprint("k:", i); !told[key] {
			t.Errorf("%s was evicted in silence", key)
		}
	}
}

// TestTrackingAndUsers: a key that a user may not read is tracked for nobody who asks.
func TestTrackingAndUsers(t *testing.T) {
	in := start(t)
	c, w := in.conn().proto("3"), in.conn()
	w.expect("ACL SETUSER u on >p ~ok:* +@all", "+OK")
	c.expect("AUTH u p", "+OK")
	c.expect("CLIENT TRACKING ON", "+OK")
	for _, line := range []string{"GET secret", "MGET ok:1 secret", "EVAL_RO return(redis.call('get',KEYS[1])) 1 secret", "EVAL_RO return(redis.call('get','secret')) 1 ok:2"} {
		if r := c.do(line); !r.IsError("") {
			t.Errorf("%s: %s", line, r)
		}
	}
	c.do("MULTI")
	c.do("GET secret")
	c.do("EXEC")
	c.do("GET ok:1")
	c.do("EVAL_RO return(redis.pcall('get','ok:3')) 1 ok:3")
	w.do("SET secret 1")
	w.do("SET ok:2 1")
	w.do("SET ok:1 1")
	w.do("SET ok:3 1")
	for _, want := range []string{"ok:1", "ok:3"} {
		if got := c.invalid(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	w.do("DEL secret")
	c.expect("PING", "+PONG")
	w.expect("ACL SETUSER u -client|tracking", "+OK")
	if r := c.do("CLIENT TRACKING OFF"); !r.IsError("NOPERM") {
		t.Errorf("got %s", r)
	}
}

// TestTrackingWithoutReplies: with CLIENT REPLY OFF and SKIP what is told comes all the same, also of what was read
// without a reply.
func TestTrackingWithoutReplies(t *testing.T) {
	in := start(t)
	c, w := in.conn().proto("3"), in.conn()
	c.expect("CLIENT TRACKING ON", "+OK")
	c.do("GET a")
	c.sendAll("CLIENT", "REPLY", "OFF")
	c.sendAll("GET", "b")
	eventually(t, "it is tracked", func() bool { return w.infoInt("stats", "tracking_total_keys") == 2 })
	w.do("SET a 1")
	w.do("SET b 1")
	for _, want := range []string{"a", "b"} {
		if got := c.invalid(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	c.sendAll("GET", "c")
	c.sendAll("SET", "c", "1")
	if got := c.invalid(); got != "c" {
		t.Errorf("got %s", got)
	}
	c.expect("CLIENT REPLY ON", "+OK")
	c.sendAll("CLIENT", "REPLY", "SKIP")
	c.sendAll("GET", "d")
	c.sendAll("SET", "d", "1")
	if got := c.message().String() + " " + c.invalid(); got != "+OK d" {
		t.Errorf("got %s", got)
	}
	c.expect("PING", "+PONG")
}

// TestTrackingAtRest: who has rested tracks as before, and its own changes are its own.
func TestTrackingAtRest(t *testing.T) {
	in := start(t)
	c, w := in.conn().proto("3"), in.conn()
	c.expect("CLIENT TRACKING ON NOLOOP", "+OK")
	c.do("MGET a b")
	sleep := func() {
		eventually(t, "both rest", func() bool { in.putToRest(); return in.atRest() == 2 })
	}
	sleep()
	w.do("SET a 1")
	if got := c.invalid(); got != "a" {
		t.Errorf("got %s", got)
	}
	sleep()
	c.expect("SET b 1", "+OK")
	c.expect("PING", "+PONG")
	sleep()
	id := c.id()
	c.do("CLIENT TRACKING OFF")
	to := in.conn()
	eventually(t, "all rest", func() bool { in.putToRest(); return in.atRest() == 3 })
	to.expect("CLIENT TRACKING ON BCAST REDIRECT "+id, "+OK")
	w.do("SET a 2")
	if got := c.invalid(); got != "a" {
		t.Errorf("got %s", got)
	}
}
