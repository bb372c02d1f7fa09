package server

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"

	"kevy/resp"
	"kevy/tests/wire"
)

// migrate sends MIGRATE to an address with what follows it; an _ is an empty argument.
func (c *conn) migrate(addr, rest string) wire.Reply {
	c.t.Helper()
	host, port, _ := strings.Cut(addr, ":")
	args := strings.Fields("MIGRATE " + host + " " + port + " " + rest)
	for i, a := range args {
		if a == "_" {
			args[i] = ""
		}
	}
	r, err := c.Do(args...)
	if err != nil {
		c.t.Fatalf("MIGRATE %s: %v", rest, err)
	}
	return r
}

// expectMigrate is migrate with the answer that there must be.
func (c *conn) expectMigrate(addr, rest, want string) {
	c.t.Helper()
	if got := c.migrate(addr, rest).String(); got != want {
		c.t.Errorf("MIGRATE %s: got %s, want %s", rest, got, want)
	}
}

// TestMigrate: keys go with their values and times, or are copied; what the target
// refuses stays.
func TestMigrate(t *testing.T) {
	from, to := start(t), start(t)
	c, d := from.conn(), to.conn()
	c.expect("SELECT 2", "+OK")
	d.expect("SELECT 3", "+OK")
	move := func(rest, want string) { t.Helper(); c.expectMigrate(to.addr, rest, want) }
	c.expect("SET k v EX 1000", "+OK")
	c.expect("RPUSH l a b", ":2")
	c.expect("HSET h f v", ":1")
	move("k 3 1000", "+OK")
	c.expect("EXISTS k", ":0")
	d.expect("GET k", `"v"`)
	if ttl, _ := d.do("TTL k").Int(); ttl < 990 || ttl > 1000 {
		t.Errorf("the time left is %d s", ttl)
	}
	move("_ 3 1000 COPY KEYS l missing h", "+OK")
	c.expect("EXISTS l h", ":2")
	d.expect("EXISTS l h", ":2")
	d.expect("TTL l", ":-1")
	move("_ 3 1000 KEYS l new", "-ERR Target instance replied with error: BUSYKEY Target key name already exists.")
	c.expect("SET new v", "+OK")
	move("_ 3 1000 KEYS l new", "-ERR Target instance replied with error: BUSYKEY Target key name already exists.")
	c.expect("EXISTS l new", ":1") // each for itself
	d.expect("EXISTS l new", ":2")
	move("_ 3 1000 REPLACE KEYS l h", "+OK")
	c.expect("DBSIZE", ":0")
	move("k 3 1000", "+NOKEY")
	c.expect("SET k v", "+OK")
	move("k 99 1000", "-ERR Target instance replied with error: ERR DB index is out of range")
	c.expect("EXISTS k", ":1")
	d.expect("SELECT 0", "+OK")
	d.expect("EXISTS k", ":1") // where a wrong database left it, as with redis-server
}

// TestMigrateLogsIn: with AUTH and AUTH2, whose words nobody sees.
func TestMigrateLogsIn(t *testing.T) {
	from, to := start(t, "--slowlog-log-slower-than", "0"), start(t, "--requirepass", "secret")
	c, d := from.conn(), to.conn()
	d.expect("AUTH secret", "+OK")
	d.expect("ACL SETUSER mover on >word ~* +@all", "+OK")
	move := func(rest, want string) { t.Helper(); c.expectMigrate(to.addr, rest, want) }
	c.expect("SET a 1", "+OK")
	c.expect("SET b 2", "+OK")
	c.expect("SLOWLOG RESET", "+OK")
	move("a 0 1000", "-ERR Target instance replied with error: NOAUTH Authentication required.")
	move("a 0 1000 AUTH wrong", "-ERR Target instance replied with error: WRONGPASS invalid username-password pair or user is disabled.")
	move("a 0 1000 AUTH secret", "+OK")
	move("b 0 1000 AUTH2 mover word", "+OK")
	c.expect("DBSIZE", ":0")
	if log := fmt.Sprint(c.do("SLOWLOG GET")); strings.Contains(log, "secret") || strings.Contains(log, "mover") || !strings.Contains(log, "(redacted)") {
		t.Errorf("the log has %s", log)
	}
}

// TestMigrateKeepsWhatChanged: a key that is changed while the other server takes its
// time stays, and nobody has waited for that.
func TestMigrateKeepsWhatChanged(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	from := start(t)
	c, other := from.conn(), from.conn()
	go func() {
		target, err := ln.Accept()
		if err != nil {
			return
		}
		defer target.Close()
		in := bufio.NewReader(target)
		for range 3 { // SELECT and two RESTORE
			if _, err := resp.ReadReply(in); err != nil { // a command looks like one
				return
			}
		}
		other.expect("SET changes w", "+OK")
		_, _ = target.Write([]byte("+OK\r\n+OK\r\n+OK\r\n"))
	}()
	c.expect("SET changes v", "+OK")
	c.expect("SET stays v", "+OK")
	r := c.migrate(ln.Addr().String(), "_ 0 5000 KEYS changes stays")
	if !strings.HasPrefix(r.String(), "-ERR a key was changed") {
		t.Errorf("MIGRATE answers %v", r)
	}
	c.expect("GET changes", `"w"`)
	c.expect("EXISTS stays", ":0")
}

// TestMigrateIsLogged: what went away is gone after a restart, too, and the feed tells.
func TestMigrateIsLogged(t *testing.T) {
	from, to := start(t), start(t)
	c := from.conn()
	c.expect("SET k v", "+OK")
	before := c.infoInt("persistence", "kevy_last_lsn")
	if r := c.migrate(to.addr, "k 0 1000").String(); r != "+OK" {
		t.Error(r)
	}
	if n := c.infoInt("persistence", "kevy_written_lsn"); n != before+1 {
		t.Errorf("the log is at %d after %d", n, before)
	}
}
