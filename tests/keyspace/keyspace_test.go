package keyspace

import (
	"strings"
	"testing"

	"kevy/tests/process"
)

// TestReadAndDiff fills a redis-server, and checks that each kind of change shows and nothing else does.
func TestReadAndDiff(t *testing.T) {
	s := process.Start(t, process.Oracle(t), process.Config{Args: []string{"--appendonly", "no"}})
	c := s.Conn(t)
	do := func(args ...string) {
		t.Helper()
		if r, err := c.Do(args...); err != nil || r.IsError("") {
			t.Fatalf("%v: %s, %v", args, r, err)
		}
	}
	read := func() Dump {
		t.Helper()
		d, err := Read(c, 16)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	fill := func() {
		do("FLUSHALL")
		do("SET", "s", "a\r\n\x00", "PXAT", "99999999999999")
		do("RPUSH", "l", "a", "b", "a")
		do("SADD", "set", "z", "y", "x")
		do("HSET", "h", "g", "1", "f", "2")
		do("ZADD", "z", "1.5", "m", "-0", "n", "inf", "o")
		do("XADD", "x", "5-1", "f", "v")
		do("XADD", "x", "6-0", "g", "w")
		do("XGROUP", "CREATE", "x", "grp", "0")
		do("XREADGROUP", "GROUP", "grp", "con", "STREAMS", "x", ">")
		do("XCLAIM", "x", "grp", "con", "0", "5-1", "6-0", "TIME", "1000000000000", "RETRYCOUNT", "3")
		do("SELECT", "3")
		do("SET", "", "empty name")
		do("SELECT", "0")
	}
	fill()
	base := read()
	if len(base) != 7 {
		t.Fatalf("read %d keys, want 7", len(base))
	}
	if got := base[Key{0, "z"}].String(); got != "zset n 0 m 1.5 o inf" && got != "zset n 0 m 1.5 o +Inf" {
		t.Errorf("zset reads as %s", got)
	}
	fill()
	if again := read(); len(Diff(base, again, Options{Encoding: true}, 10)) != 0 || again.Digest() != base.Digest() {
		t.Errorf("the same content differs: %v", Diff(base, again, Options{Encoding: true}, 10))
	}
	for _, change := range []struct{ cmd, want string }{
		{"DEL s", "missing"},
		{"SET new v", "unexpected"},
		{"PERSIST s", "expiry"},
		{"PEXPIREAT s 99999999990000", "expiry"},
		{"LSET l 1 c", "element 1"},
		{"RPUSH l c", "4 elements"},
		{"SADD set w", "4 elements"},
		{"HSET h f 3", "element 1"},
		{"ZADD z 1.25 m", "element 3"},
		{"XADD x 7-0 f v", "elements, want"},
		{"XSETID x 9-0", "element"},
		{"XACK x grp 5-1", "elements, want"},
		{"XGROUP SETID x grp 5-1", "element"},
		{"XGROUP CREATECONSUMER x grp other", "elements, want"},
		{"XCLAIM x grp other 0 5-1 TIME 1000000000000 RETRYCOUNT 3", "element"},
		{"XCLAIM x grp con 0 5-1 TIME 1000000000001 RETRYCOUNT 3", "time 0 inside"},
		{"RENAME set l", "type set"},
		{"MOVE s 4", "missing"},
	} {
		fill()
		do(strings.Fields(change.cmd)...)
		got := read()
		diff := Diff(base, got, Options{}, 10)
		if !strings.Contains(strings.Join(diff, "\n"), change.want) || got.Digest() == base.Digest() {
			t.Errorf("%s: diff %v", change.cmd, diff)
		}
	}
	fill()
	do("APPEND", "s", "")
	do("SETRANGE", "s", "0", "a")
	if diff := Diff(base, read(), Options{Encoding: true}, 10); len(diff) != 1 || !strings.Contains(diff[0], "encoding raw") {
		t.Errorf("encoding: %v", diff)
	}
}
