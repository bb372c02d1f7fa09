package hostile

import (
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"kevy/tests/process"
	"kevy/tests/wire"
)

// patience is how long a test waits for what must happen.
const patience = time.Minute

// TestScriptForEver: other sessions are told BUSY soon after lua-time-limit, those too that
// waited before, and SCRIPT KILL ends the script.
func TestScriptForEver(t *testing.T) {
	s := process.Start(t, process.Subject(t), process.Config{Args: []string{"--lua-time-limit", "200"}})
	endless, other, early := s.Conn(t), s.Conn(t), s.Conn(t)
	for _, c := range []*wire.Conn{endless, other, early} {
		c.SetDeadline(time.Now().Add(patience))
	}
	if r, err := early.Do("SET", "k", "v"); err != nil || r.String() != "+OK" {
		t.Fatal(r, err)
	}
	if err := endless.Send("EVAL", "while true do end", "0"); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	for {
		r, err := early.Do("GET", "k")
		if err != nil {
			t.Fatal(err)
		}
		if r.IsError("BUSY") {
			break
		}
		if time.Since(start) > patience/2 {
			t.Fatalf("after %v it is answered %s", time.Since(start), r)
		}
	}
	t.Logf("BUSY after %v, with a limit of 200ms", time.Since(start).Round(time.Millisecond))
	if r, err := other.Do("SET", "k", "x"); err != nil || !r.IsError("BUSY") {
		t.Errorf("%s, %v", r, err)
	}
	if r, err := other.Do("SCRIPT", "KILL"); err != nil || r.String() != "+OK" {
		t.Fatal(r, err)
	}
	if r, err := endless.ReadReply(); err != nil || !strings.Contains(string(r.Text), "killed") {
		t.Errorf("the script ended with %s, %v", r, err)
	}
	if r, err := early.Do("GET", "k"); err != nil || string(r.Text) != "v" {
		t.Errorf("%s, %v", r, err)
	}
}

// hostileScripts would take the server all of its time in one function of a library, or
// all of its stack: as a script, in the compiler, and in the reply.
var hostileScripts = map[string]string{
	"optional parts":      "return string.find(string.rep('a', 30), string.rep('a?', 30) .. string.rep('a', 30) .. 'b')",
	"large set":           "return string.find(string.rep('b', 1e5), '[' .. string.rep('a', 1e6) .. ']*c')",
	"balance":             "return string.find(string.rep('(', 1e6), '%b()')",
	"reference":           "return string.find(string.rep('a', 2e6), '(a*)%1b')",
	"sort":                "local t = {} for i = 1, 1e5 do t[i] = i end while true do table.sort(t) end",
	"long keys":           "local s, t = string.rep('x', 1e7), {} while true do t[s] = 1 end",
	"reply without end":   "local t = {} for i = 1, 200 do t = {t, t} end return t",
	"protected loop":      "while true do pcall(function() while true do end end) end",
	"recursion":           "local function f() return 1 + f() end return f()",
	"operators":           "local a = 1 return a" + strings.Repeat(" + a", 1e6),
	"fields":              "local a = {} return a" + strings.Repeat(".b", 2e6),
	"calls":               "local a = {} return a" + strings.Repeat("()", 2e6),
	"JSON":                "return cjson.decode(string.rep('[', 1e6))",
	"MessagePack":         "return cmsgpack.unpack(string.rep('\\145', 1e6))",
	"claimed MessagePack": "return cmsgpack.unpack('\\221\\255\\255\\255\\255\\1')",
	"struct":              "return struct.pack('i' .. string.rep('9', 1e6), 1)",
	"unpack":              "return unpack({}, -2147483648, 2147483647)",
	"format":              "return string.format('%99.99f%999d', 1e308, 1)",
}

// TestHostileScripts: whatever a script does, others are answered, with BUSY at worst, and
// SCRIPT KILL ends it.
func TestHostileScripts(t *testing.T) {
	s := process.Start(t, process.Subject(t), process.Config{Args: []string{"--lua-time-limit", "100"}})
	hostile, other := s.Conn(t), s.Conn(t)
	for name, script := range hostileScripts {
		for _, c := range []*wire.Conn{hostile, other} {
			c.SetDeadline(time.Now().Add(patience))
		}
		if err := hostile.Send("EVAL", script, "0"); err != nil {
			t.Fatal(name, err)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := hostile.ReadReply()
			ended <- err
		}()
		began := time.Now()
		for running := true; running; {
			start := time.Now()
			r, err := other.Do("GET", "k")
			if took := time.Since(start); err != nil || took > patience/4 {
				t.Fatalf("%s: after %v another is answered %s, %v", name, took, r, err)
			}
			if r.IsError("BUSY") {
				// It may end by itself meanwhile.
				if r, err := other.Do("SCRIPT", "KILL"); err != nil || r.String() != "+OK" && !r.IsError("NOTBUSY") {
					t.Fatalf("%s: SCRIPT KILL answers %s, %v", name, r, err)
				}
			}
			select {
			case err := <-ended:
				if err != nil {
					t.Fatalf("%s: %v\n%s", name, err, s.Log())
				}
				running = false
				t.Logf("%s: ended after %v", name, time.Since(began).Round(time.Millisecond))
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	if r, err := other.Do("SET", "k", "v"); err != nil || r.String() != "+OK" {
		t.Error(r, err)
	}
}

// TestSilentAndSlow: who connects and sends nothing, or a byte at a time, holds nobody up.
func TestSilentAndSlow(t *testing.T) {
	const silent, bytewise = 300, 50
	w := newWatch(t, process.Config{})
	var slow []net.Conn
	for i := range silent + bytewise {
		c, err := net.Dial("tcp", w.server.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(patience))
		if i >= silent {
			slow = append(slow, c)
		}
	}
	const command = "*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\n"
	// A command takes longer than the two seconds after which a connection rests.
	for i := range len(command) {
		for _, c := range slow {
			if _, err := c.Write([]byte{command[i]}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(120 * time.Millisecond)
	}
	for i, c := range slow {
		if r, err := wire.NewConn(c).ReadReply(); err != nil || string(r.Text) != "hi" {
			t.Fatalf("connection %d: %s, %v", i, r, err)
		}
	}
	w.end(t, mib)
	w.alive(t)
}

// crowd is how many subscribers and idle connections there are; KEVY_LOAD=full makes it
// what a large installation has.
func crowd(full int) int {
	if os.Getenv("KEVY_LOAD") == "full" {
		return full
	}
	return full / 20
}

// connect opens n connections that have sent a command, and expects how each reply begins.
func connect(t *testing.T, s *process.Server, n int, want string, args ...string) []*wire.Conn {
	t.Helper()
	var all []*wire.Conn
	for i := range n {
		c := s.Conn(t)
		c.SetDeadline(time.Now().Add(5 * patience))
		if r, err := c.Do(args...); err != nil || !strings.HasPrefix(r.String(), want) {
			t.Fatalf("connection %d: %s, %v", i, r, err)
		}
		all = append(all, c)
	}
	return all
}

// TestSubscriberThatStopsReading: one of many subscribers of a channel reads nothing. Publishers
// and the others go on, and it is cut off at the limit.
func TestSubscriberThatStopsReading(t *testing.T) {
	const messages, limit = 400, 8 * mib
	// To write to thousands of subscribers is work that others share the processor with.
	w := newWatchWithin(t, process.Config{Args: []string{"--maxclients", "12000", "--client-output-buffer-limit", "pubsub 8mb 0 0"}}, time.Second)
	readers := connect(t, w.server, crowd(5000), "[", "SUBSCRIBE", "news")
	stuck := connect(t, w.server, 1, "[", "SUBSCRIBE", "news", "much")[0]
	if r, err := stuck.ReadReply(); err != nil {
		t.Fatal(r, err)
	}
	publisher := connect(t, w.server, 1, "+PONG", "PING")[0]
	payload := strings.Repeat("x", 128<<10)
	cut := false
	for i := range messages {
		r, err := publisher.Do("PUBLISH", "much", payload)
		if err != nil {
			t.Fatal(err)
		}
		cut = cut || r.String() == ":0"
		if i%100 == 0 {
			r, err := publisher.Do("PUBLISH", "news", strconv.Itoa(i))
			if err != nil {
				t.Fatal(err)
			}
			if n, err := r.Int(); err != nil || n < int64(len(readers)) {
				t.Fatalf("%s, %v", r, err)
			}
			for n, c := range readers {
				if r, err := c.ReadReply(); err != nil || string(r.Elems[2].Text) != strconv.Itoa(i) {
					t.Fatalf("reader %d: %s, %v", n, r, err)
				}
			}
		}
	}
	if !cut {
		t.Errorf("after %d MiB the subscriber that does not read is still there", messages*len(payload)/mib)
	}
	w.end(t, limit+int64(len(readers))*8<<10)
	w.alive(t)
}

// TestIdleCrowd: connections that are idle, beside some that are in use, weigh what they should
// and are all still served.
func TestIdleCrowd(t *testing.T) {
	// An idle connection weighs at most 6 KiB; a small crowd cannot show it as finely.
	const bytesEach, slack = 6 << 10, 16 * mib
	w := newWatch(t, process.Config{Args: []string{"--maxclients", "12000"}})
	idle := connect(t, w.server, crowd(10_000), "+PONG", "PING")
	active := connect(t, w.server, crowd(1000), "+PONG", "PING")
	limit := int64(len(idle)*bytesEach + len(active)*16<<10 + slack)
	for start := time.Now(); ; {
		for _, c := range active {
			// No writes: the feed's window would grow with them.
			if r, err := c.Do("GET", "key1"); err != nil || string(r.Text) != "value" {
				t.Fatal(r, err)
			}
		}
		if grown := w.memory(t, "VmRSS") - w.base; time.Since(start) > 4*time.Second && grown <= limit {
			t.Logf("%d idle and %d active connections weigh %d KiB", len(idle), len(active), grown>>10)
			break
		} else if time.Since(start) > patience {
			t.Fatalf("%d idle and %d active connections weigh %d KiB, more than %d", len(idle), len(active), grown>>10, limit>>10)
		}
	}
	for i, c := range idle {
		if r, err := c.Do("ECHO", strconv.Itoa(i)); err != nil || string(r.Text) != strconv.Itoa(i) {
			t.Fatalf("connection %d: %s, %v", i, r, err)
		}
	}
	w.end(t, limit)
	w.alive(t)
}

// TestStormAtMaxClients: those beyond maxclients are told so while those inside are served, and
// the places of those who go are free again.
func TestStormAtMaxClients(t *testing.T) {
	const places, storm = 50, 1000
	s := process.Start(t, process.Subject(t), process.Config{Args: []string{"--maxclients", "50"}})
	var inside []*wire.Conn
	refused := 0
	for range storm {
		c, err := wire.Dial(s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(patience))
		r, err := c.Do("PING")
		switch {
		case err == nil && r.String() == "+PONG":
			inside = append(inside, c)
		default:
			// The refusal may be lost where PING came to a closed socket.
			if err == nil && !strings.Contains(string(r.Text), "max number of clients reached") {
				t.Fatalf("%s", r)
			}
			refused++
			c.Close()
		}
	}
	if len(inside) > places || len(inside) < places-2 || refused == 0 {
		t.Errorf("%d are served and %d refused, with %d places", len(inside), refused, places)
	}
	for _, c := range inside {
		if r, err := c.Do("PING"); err != nil || r.String() != "+PONG" {
			t.Fatalf("one inside: %s, %v", r, err)
		}
		c.Close()
	}
	for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		c, err := wire.Dial(s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(patience))
		r, err := c.Do("PING")
		c.Close()
		if err == nil && r.String() == "+PONG" {
			return
		}
		if time.Since(start) > patience {
			t.Fatalf("nobody is let in again: %s, %v", r, err)
		}
	}
}
