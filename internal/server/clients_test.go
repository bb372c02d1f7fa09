package server

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"kevy/tests/process"
)

var clientField = regexp.MustCompile(`([a-z-]+)=(\S*)`)

// clientFields are the fields of a line of CLIENT LIST, in order and by name.
func clientFields(line string) (names []string, values map[string]string) {
	values = make(map[string]string)
	for _, m := range clientField.FindAllStringSubmatch(line, -1) {
		names = append(names, m[1])
		values[m[1]] = m[2]
	}
	return names, values
}

// TestClientInfoIsRedis runs the same on both servers and compares what each
// says of the connection, and of it to another.
func TestClientInfoIsRedis(t *testing.T) {
	in := start(t)
	server := process.Start(t, process.Oracle(t), process.Config{})
	compare := func(what, got, want string, fields string) {
		t.Helper()
		gotNames, gotValues := clientFields(got)
		wantNames, wantValues := clientFields(want)
		if n := len(wantNames); n < 28 || strings.Join(gotNames, " ") != strings.Join(wantNames, " ")+" lib-name lib-ver" {
			t.Errorf("%s:\n got  %v\n want %v", what, gotNames, wantNames)
		}
		for f := range strings.FieldsSeq(fields) {
			if gotValues[f] != wantValues[f] {
				t.Errorf("%s: %s is %q, want %q", what, f, gotValues[f], wantValues[f])
			}
		}
	}
	// obl is what the replies before take.
	const own = "name flags db sub psub ssub multi qbuf argv-mem multi-mem obl oll omem events cmd user redir resp"
	others := strings.Replace(strings.Replace(own, " argv-mem", "", 1), " qbuf", "", 1)
	for _, test := range []struct {
		name, raw string
		replies   int // the last is the line, unless shown
	}{
		{"first", "*2\r\n$6\r\nCLIENT\r\n$4\r\nINFO\r\n", 1},
		{"inline", "client info\r\n", 1},
		{"list", "CLIENT LIST\r\n", 1},
		{"in a pipeline", "SET k v\r\nSELECT 3\r\nCLIENT SETNAME me\r\nCLIENT INFO\r\n", 4},
		{"before more", "SELECT 3\r\nCLIENT INFO\r\nPING\r\nPING\r\n", 2},
		{"RESP3", "HELLO 3\r\nCLIENT INFO\r\n", 2},
		{"in a transaction", "MULTI\r\nSET k v\r\nCLIENT INFO\r\nEXEC\r\n", 4},
	} {
		var lines [2]string
		for i, c := range []*conn{{server.Conn(t), t}, in.conn()} {
			if _, err := c.Write([]byte(test.raw)); err != nil {
				t.Fatal(err)
			}
			for range test.replies {
				r, err := c.ReadReply()
				if err != nil {
					t.Fatal(err)
				}
				if len(r.Elems) > 0 {
					r = r.Elems[len(r.Elems)-1]
				}
				lines[i], _, _ = strings.Cut(string(r.Text), "\n")
			}
		}
		fields := own
		if test.name == "RESP3" {
			// The reply to HELLO is not of the same length.
			fields = strings.Replace(own, " obl", "", 1)
		}
		compare(test.name, lines[1], lines[0], fields)
	}
	for _, test := range []struct{ name, lines string }{
		{"new", ""}, {"after a command", "SET k v"}, {"after a subcommand", "CLIENT SETNAME me"}, {"after no command", "SET k v; nosuch"},
		{"after a refused one", "GET"}, {"in MULTI", "MULTI"}, {"queued", "MULTI; SET k v; APPEND k w"}, {"aborted", "MULTI; SET k v; nosuch"},
		{"watching", "WATCH w"}, {"watched in vain", "WATCH w; OTHER SET w 1; MULTI; SET k v"}, {"done", "MULTI; SET k v; EXEC"},
		{"watched in vain, as nobody has told it", "WATCH w; OTHER SET w 1"},
		{"discarded", "MULTI; SET k v; DISCARD"}, {"database", "SELECT 7"}, {"RESP3", "HELLO 3"}, {"reset", "HELLO 3 SETNAME me; SELECT 2; RESET"},
	} {
		var seen [2]string
		for i, pair := range [][2]*conn{{{server.Conn(t), t}, {server.Conn(t), t}}, {in.conn(), in.conn()}} {
			c, other := pair[0], pair[1]
			id := c.do("CLIENT ID").String()[1:]
			for line := range strings.SplitSeq(test.lines, "; ") {
				if after, ok := strings.CutPrefix(line, "OTHER "); ok {
					other.do(after)
				} else if line != "" {
					c.do(line)
				}
			}
			// The reply may be here before the connection is seen to wait.
			time.Sleep(2 * time.Millisecond)
			seen[i] = string(other.do("CLIENT LIST ID " + id).Text)
		}
		compare(test.name, seen[1], seen[0], others)
	}
}

func TestClientLibrary(t *testing.T) {
	in := start(t)
	c, other := in.conn(), in.conn()
	line := func() map[string]string {
		_, values := clientFields(string(other.do("CLIENT LIST ID " + c.do("CLIENT ID").String()[1:]).Text))
		return values
	}
	c.do("CLIENT SETINFO LIB-NAME go-redis(,go1.26)")
	c.do("CLIENT SETINFO lib-ver 9.7.0")
	c.do("CLIENT SETNAME me")
	if v := line(); v["lib-name"] != "go-redis(,go1.26)" || v["lib-ver"] != "9.7.0" || v["name"] != "me" {
		t.Errorf("%v", v)
	}
	c.do("RESET")
	if v := line(); v["lib-name"] != "go-redis(,go1.26)" || v["lib-ver"] != "9.7.0" || v["name"] != "" {
		t.Errorf("after RESET: %v", v)
	}
	if _, err := c.Do("CLIENT", "SETINFO", "LIB-NAME", ""); err != nil {
		t.Fatal(err)
	}
	if v := line(); v["lib-name"] != "" {
		t.Errorf("%v", v)
	}
}

func TestClientTimes(t *testing.T) {
	t.Parallel()
	in := start(t)
	c, other := in.conn(), in.conn()
	id := c.do("CLIENT ID").String()[1:]
	time.Sleep(1100 * time.Millisecond)
	_, v := clientFields(string(other.do("CLIENT LIST ID " + id).Text))
	if v["age"] != "1" || v["idle"] != "1" {
		t.Errorf("age %s, idle %s", v["age"], v["idle"])
	}
	_, v = clientFields(string(c.do("CLIENT INFO").Text))
	if v["age"] != "1" || v["idle"] != "0" {
		t.Errorf("of itself: age %s, idle %s", v["age"], v["idle"])
	}
}

func TestClientKill(t *testing.T) {
	in := start(t)
	me := in.conn()
	for _, by := range []string{"ID %[1]s", "ADDR %[2]s", "ADDR %[2]s LADDR %[3]s TYPE normal USER default", "%[2]s"} {
		c := in.conn()
		id := c.do("CLIENT ID").String()[1:]
		before := me.infoInt("clients", "connected_clients")
		r := me.do(fmt.Sprintf("CLIENT KILL "+by, id, c.LocalAddr(), c.RemoteAddr()))
		if r.String() != ":1" && r.String() != "+OK" {
			t.Errorf("%s: %s", by, r)
		}
		// It is gone from the count at once.
		if after := me.infoInt("clients", "connected_clients"); after != before-1 {
			t.Errorf("%s: %d connections, before %d", by, after, before)
		}
		c.ended()
	}
	c := in.conn()
	c.expect("PING", "+PONG")
	me.expect("CLIENT KILL LADDR "+in.addr, ":1")
	c.ended()
	// The replies so far come first.
	replies, err := me.Pipeline([]string{"SET", "k", "v"}, []string{"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no"})
	if err != nil || replies[0].String() != "+OK" || replies[1].String() != ":1" {
		t.Errorf("%v, %v", replies, err)
	}
	me.ended()
	eventually(t, "all have ended", func() bool { in.mu.Lock(); defer in.mu.Unlock(); return in.admitted == 0 })
}
