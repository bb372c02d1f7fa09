package server

import (
	"strings"
	"testing"
	"time"

	"kevy/tests/wire"
)

const (
	busyScript = "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
	busyFCall  = "-BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."
)

// sendAll sends a command without reading its reply.
func (c *conn) sendAll(args ...string) {
	c.t.Helper()
	if err := c.Send(args...); err != nil {
		c.t.Fatal(err)
	}
}

func (c *conn) read() wire.Reply {
	c.t.Helper()
	r, err := c.ReadReply()
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

// TestBusy: once a script has run for busy-reply-threshold, those are answered who
// had waited for a shard, and those who come; killing it lets all go on.
func TestBusy(t *testing.T) {
	in := start(t, "--busy-reply-threshold", "300")
	in.conn().expect("SET k v", "+OK")
	script, waiters, late := in.conn(), []*conn{}, in.conn()
	script.sendAll("EVAL", "redis.call('get', KEYS[1]) while true do end", "1", "k")
	// These wait for the shards, or are refused if the threshold has passed: either way they are told.
	for range 20 {
		c := in.conn()
		c.sendAll("GET", "k")
		waiters = append(waiters, c)
	}
	for _, c := range waiters {
		if r := c.read(); r.String() != busyScript {
			// It came before the script.
			if r.String() != `"v"` {
				t.Errorf("who waits is answered %s", r)
			}
			c.expect("GET k", busyScript)
		}
	}
	late.expect("SET k w", busyScript)
	late.expect("PING", busyScript)
	late.expect("MULTI", "+OK")
	late.expect("GET k", busyScript)
	late.expect("EXEC", "-EXECABORT Transaction discarded because of: BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.")
	late.expect("FUNCTION KILL", busyScript)
	late.expect("SHUTDOWN", busyScript)
	late.expect("SCRIPT KILL", "+OK")
	if r := script.read().String(); !strings.HasPrefix(r, "-ERR Script killed by user with SCRIPT KILL.") {
		t.Errorf("the script ends with %s", r)
	}
	late.expect("DISCARD", "-ERR DISCARD without MULTI")
	late.expect("GET k", `"v"`)
	for _, c := range waiters {
		c.expect("GET k", `"v"`)
	}
	late.expect("SCRIPT KILL", "-NOTBUSY No scripts in execution right now.")
}

// TestBusyCannotBeCaught: a script that catches errors is killed all the same.
func TestBusyCannotBeCaught(t *testing.T) {
	in := start(t, "--busy-reply-threshold", "50")
	script, c := in.conn(), in.conn()
	script.sendAll("EVAL", "while true do pcall(function() while true do redis.pcall('get', 'k') end end) end", "0")
	eventually(t, "it is busy", func() bool { return c.do("PING").String() == busyScript })
	c.expect("SCRIPT KILL", "+OK")
	if r := script.read().String(); !strings.HasPrefix(r, "-ERR Script killed") {
		t.Errorf("the script ends with %s", r)
	}
	c.expect("PING", "+PONG")
}

// TestUnkillable: a script that has written goes on to its end; what is done when
// the server is shut down meanwhile is not in the log.
func TestUnkillable(t *testing.T) {
	dir := t.TempDir()
	in := start(t, "--busy-reply-threshold", "50", "--dir", dir, "--appendonly", "yes")
	script, c := in.conn(), in.conn()
	c.expect("SET k before", "+OK")
	script.sendAll("EVAL", "redis.call('set', 'k', 'half') redis.call('set', 'other', 'x') while true do end", "0")
	eventually(t, "it is busy", func() bool { return c.do("PING").String() == busyScript })
	if r := c.do("SCRIPT KILL").String(); !strings.HasPrefix(r, "-UNKILLABLE ") {
		t.Errorf("killing it is answered %s", r)
	}
	if r := c.do("FUNCTION KILL").String(); !strings.HasPrefix(r, "-UNKILLABLE ") {
		t.Errorf("killing it as a function is answered %s", r)
	}
	// Only who says so may lose what it has written.
	for _, line := range []string{"SHUTDOWN", "SHUTDOWN SAVE", "SHUTDOWN NOW FORCE"} {
		c.expect(line, busyScript)
	}
	c.expect("SHUTDOWN ABORT", "-ERR No shutdown in progress.")
	c.expect("SHUTDOWN SAVE NOSAVE", "-ERR syntax error")
	c.sendAll("SHUTDOWN", "NOSAVE")
	in.wait()
	c = start(t, "--dir", dir, "--appendonly", "yes").conn()
	c.expect("GET k", `"before"`)
	c.expect("EXISTS other", ":0")
}

// TestBusyFunction: FUNCTION KILL ends a function, and FUNCTION STATS shows it.
func TestBusyFunction(t *testing.T) {
	in := start(t, "--busy-reply-threshold", "50")
	fn, c := in.conn(), in.conn()
	c.sendAll("FUNCTION", "LOAD", "#!lua name=l\nredis.register_function('spin', function() while true do end end)")
	if r := c.read().String(); r != `"l"` {
		t.Fatal(r)
	}
	fn.sendAll("FCALL", "spin", "0")
	eventually(t, "it is busy", func() bool { return c.do("PING").String() == busyFCall })
	if r := c.do("FUNCTION STATS").String(); !strings.Contains(r, `"name", "spin", "command", ["FCALL", "spin", "0"], "duration_ms", :`) {
		t.Errorf("FUNCTION STATS says %s", r)
	}
	c.expect("SCRIPT KILL", busyFCall)
	c.expect("FUNCTION KILL", "+OK")
	if r := fn.read().String(); !strings.HasPrefix(r, "-ERR Script killed") {
		t.Errorf("the function ends with %s", r)
	}
	c.expect("FUNCTION STATS", `["running_script", $nil, "engines", ["LUA", ["libraries_count", :1, "functions_count", :1]]]`)
}

// TestFunctionsLast: libraries survive restarts and rewrites.
func TestFunctionsLast(t *testing.T) {
	dir := t.TempDir()
	in := start(t, "--dir", dir, "--appendonly", "yes")
	c := in.conn()
	for _, name := range []string{"a", "b"} {
		c.sendAll("FUNCTION", "LOAD", "#!lua name="+name+"\nredis.register_function('"+name+"', function(k) return redis.call('incr', k[1]) end)")
		if r := c.read().String(); r != `"`+name+`"` {
			t.Fatal(r)
		}
	}
	c.expect("FUNCTION DELETE b", "+OK")
	c.expect("FCALL a 1 n", ":1")
	c.expect("FLUSHALL", "+OK")
	for _, want := range []string{":1", ":2", ":3"} {
		c.expect("FCALL a 1 n", want)
		c.expect("FCALL b 1 n", "-ERR Function not found")
		if want == ":2" {
			c.do("BGREWRITEAOF")
			eventually(t, "it is rewritten", func() bool { return c.infoInt("persistence", "aof_rewrite_in_progress") == 0 })
		}
		if n := c.infoInt("memory", "number_of_libraries"); n != 1 {
			t.Errorf("number_of_libraries is %d", n)
		}
		c.sendAll("SHUTDOWN")
		in.wait()
		in = start(t, "--dir", dir, "--appendonly", "yes")
		c = in.conn()
	}
}

// wait returns once the server has ended and its store is closed.
func (in *instance) wait() {
	in.t.Helper()
	select {
	case err := <-in.done:
		in.done <- err
	case <-time.After(patience):
		in.t.Fatal("the server does not stop")
	}
	if err := in.store.Close(); err != nil {
		in.t.Fatal(err)
	}
}

// TestWatchWhileBusy: who watches goes on, or away, at once while a script takes long,
// as redis-server lets him; what the script changes counts, and what nobody changes does
// not.
func TestWatchWhileBusy(t *testing.T) {
	in := start(t, "--busy-reply-threshold", "50")
	script, watcher := in.conn(), in.conn()
	conns := map[string]*conn{}
	for _, name := range []string{"before, changed", "before, not changed", "exec", "discard", "unwatch", "reset", "gone", "meanwhile", "meanwhile, changed", "meanwhile, later"} {
		c := in.conn()
		conns[name] = c
		if !strings.HasPrefix(name, "meanwhile") {
			c.expect("WATCH k other", "+OK")
		}
	}
	conns["before, changed"].expect("WATCH written", "+OK")
	conns["exec"].expect("MULTI", "+OK")
	conns["exec"].expect("SET k x", "+QUEUED")
	// It has written, so that nothing ends it, until a client goes beside the one below.
	stopper := in.conn()
	stopper.expect("PING", "+PONG")
	script.sendAll("EVAL", "redis.call('set', 'first', 'x') repeat local n = redis.call('info', 'clients'):match('connected_clients:(%d+)') until tonumber(n) < 12 "+
		"redis.call('set', 'written', 'x')", "0")
	eventually(t, "it is busy", func() bool { return watcher.do("PING").String() == busyScript })
	conns["exec"].expect("EXEC", "-EXECABORT Transaction discarded because of: "+busyScript[1:])
	conns["discard"].expect("MULTI", "+OK")
	conns["discard"].expect("GET k", busyScript)
	conns["discard"].expect("DISCARD", "+OK")
	for range 5 {
		conns["unwatch"].expect("UNWATCH", "+OK")
		conns["unwatch"].expect("WATCH k written", "+OK")
	}
	conns["unwatch"].expect("UNWATCH", "+OK")
	conns["reset"].expect("RESET", "+RESET")
	conns["gone"].Close()
	for _, name := range []string{"meanwhile", "meanwhile, later"} {
		conns[name].expect("WATCH k other k", "+OK")
	}
	conns["meanwhile, changed"].expect("WATCH written", "+OK")
	if r := watcher.do("PING").String(); r != busyScript {
		t.Fatalf("the script was over before all this was: %s", r)
	}
	stopper.Close()
	if r := script.read(); !r.IsNil() {
		t.Fatalf("the script answers %s", r)
	}
	watcher.expect("SET other x", "+OK")
	watcher.expect("SET k x", "+OK")
	for name, want := range map[string]string{
		"before, changed": "*nil", "before, not changed": "*nil", "exec": "[]", "discard": "[]", "unwatch": "[]", "reset": "[]",
		"meanwhile": "*nil", "meanwhile, later": "*nil", "meanwhile, changed": "*nil",
	} {
		c := conns[name]
		c.expect("MULTI", "+OK")
		if r := c.do("EXEC").String(); r != want {
			t.Errorf("%s: EXEC answers %s, want %s", name, r, want)
		}
		// And nothing of it is left.
		watcher.expect("SET k x", "+OK")
		c.expect("MULTI", "+OK")
		c.expect("EXEC", "[]")
	}
	if n := watcher.infoInt("clients", "connected_clients"); n != 11 {
		t.Errorf("%d clients are connected", n)
	}
}
