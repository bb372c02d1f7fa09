package server

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"kevy/tests/wire"
)

func snapshotSeed(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("KEVY_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("KEVY_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// TestSubscribeSnapshot: what is sent, in both protocols.
func TestSubscribeSnapshot(t *testing.T) {
	in := start(t, "--shards", "2")
	for _, proto := range []string{"2", "3"} {
		t.Run("RESP"+proto, func(t *testing.T) {
			push := map[string]string{"2": "[", "3": "push["}[proto]
			w := in.conn()
			w.do("FLUSHALL")
			gen, _ := w.tail("ALL")
			c := in.conn().proto(proto)
			subscribe := func(line string) (token string) {
				t.Helper()
				if err := c.Send(strings.Fields("CHANGES SUBSCRIBE " + line)...); err != nil {
					t.Fatal(err)
				}
				c.message()
				r := c.message()
				if len(r.Elems) != 3 || !strings.HasPrefix(r.String(), push+`"changes-snapshot-start", "`) {
					t.Fatalf("%s begins with %s", line, r)
				}
				return string(r.Elems[2].Text)
			}
			// Without a key the end comes all the same.
			subscribe("ALL SNAPSHOT")
			c.messageIs(gen, push+`"changes-snapshot-end", "ALL", :G, :0]`)
			w.do("SET a 1")
			c.messageIs(gen, push+`"changes", "ALL", :G, :1, [[:0, ["SET", "a", "1"]]]]`)
			c.expect("CHANGES UNSUBSCRIBE ALL", push+`"changes-unsubscribe", "ALL"]`)

			w.do("RPUSH list x y z")
			w.do("SELECT 1")
			w.do("SET other 2")
			w.do("SELECT 0")
			w.do("SET b 2 PXAT 4000000000000")
			token := subscribe("ALL SNAPSHOT PREFIX l PREFIX b VALUE EXACT nothing")
			// The keys that pass, whatever their values, in the order of their shards.
			parts := push + `"changes-snapshot", "ALL", :1, :0, [["SET", "b", "2", "PXAT", "4000000000000"], ["RPUSH", "list", "x", "y", "z"]]]`
			c.messageIs(gen, parts)
			c.messageIs(gen, push+`"changes-snapshot-end", "ALL", :G, :4]`)
			// VALUE filters apply to the frames.
			w.do("SET b 3")
			w.do("SET b nothing")
			c.messageIs(gen, push+`"changes", "ALL", :G, :6, [[:5, ["SET", "b", "nothing"]]]]`)
			c.do("CHANGES UNSUBSCRIBE")
			if again := subscribe("ALL SNAPSHOT " + token + " 0 PREFIX b PREFIX l"); again != token {
				t.Errorf("the token changed from %s to %s", token, again)
			}
			c.messageIs(gen, parts)
			c.messageIs(gen, push+`"changes-snapshot-end", "ALL", :G, :4]`)
			c.messageIs(gen, push+`"changes", "ALL", :G, :6, [[:4, ["SET", "b", "3"]], [:5, ["SET", "b", "nothing"]]]]`)
			c.do("CHANGES UNSUBSCRIBE")
			subscribe("ALL SNAPSHOT " + token + " 1 PREFIX b PREFIX l")
			c.messageIs(gen, push+`"changes-snapshot-end", "ALL", :G, :4]`)
			c.message()
			c.do("CHANGES UNSUBSCRIBE")

			subscribe("ALL SNAPSHOT META DB *")
			seen := map[string]bool{}
			for n := 1; ; n++ {
				r := c.message()
				if string(r.Elems[0].Text) == "changes-snapshot-end" {
					break
				}
				if got, _ := r.Elems[2].Int(); int(got) != n {
					t.Errorf("message %d is %s", n, r)
				}
				for _, op := range r.Elems[4].Elems {
					seen[string(r.Elems[3].Text)+"/"+string(op.Elems[1].Text)] = true
				}
			}
			if len(seen) != 4 || !seen["0/a"] || !seen["0/b"] || !seen["0/list"] || !seen["1/other"] {
				t.Errorf("all databases have %v", seen)
			}
			c.do("CHANGES UNSUBSCRIBE")
			info := w.do("CHANGES INFO 0").String()
			i := strings.Index(info, `"snapshots", [`)
			if i < 0 || strings.Count(info[i:], `"cut-lsn", `) < 3 || !strings.Contains(info[i:], `"readers", :0, `) || !strings.Contains(info[i:], `"written", :1, `) {
				t.Errorf("CHANGES INFO: %s", info)
			}
			for line, want := range map[string]string{
				"SNAPSHOT nosuch-token 3":                                      "-ERR no such snapshot",
				"SNAPSHOT " + token + " 2 PREFIX l PREFIX b":                   "-ERR the snapshot has sent no message 2",
				"SNAPSHOT " + token + " 1 PREFIX l":                            "-ERR the snapshot was begun with another database or other key filters",
				"SNAPSHOT " + token + " 1 PREFIX l PREFIX b DB 3":              "-ERR the snapshot was begun with another database or other key filters",
				"SNAPSHOT " + token + " -1 PREFIX l PREFIX b":                  "-ERR the number of a snapshot's message is out of range",
				"SNAPSHOT " + token:                                            "-ERR syntax error",
				"SNAPSHOT 7 1":                                                 "-ERR syntax error",
				"SNAPSHOT " + strings.Replace(token, "-ALL-", "-0-", 1) + " 1": "-ERR no such snapshot",
			} {
				if got := c.do("CHANGES SUBSCRIBE ALL " + line).String(); !strings.HasPrefix(got, want) {
					t.Errorf("%s: got %s, want %s", line, got, want)
				}
			}
			c.expect("PING", "+PONG")
		})
	}
	memory := start(t, "--appendonly", "no")
	c := memory.conn().proto("3")
	c.do("SET a 1")
	c.expect("CHANGES SUBSCRIBE ALL SNAPSHOT DURABLE", "-ERR DURABLE needs a log")
	off := start(t, "--feed", "no")
	off.conn().expect("CHANGES SUBSCRIBE ALL SNAPSHOT", "-ERR feed is disabled")
}

// TestSnapshotWindow: the messages of a snapshot count for the window.
func TestSnapshotWindow(t *testing.T) {
	in := start(t, "--shards", "1")
	w, c := in.conn(), in.conn().proto("3")
	value := strings.Repeat("v", 20_000)
	for i := range 10 {
		w.do(fmt.Sprintf("SET key%d %s", i, value))
	}
	c.do("CHANGES SUBSCRIBE ALL SNAPSHOT WINDOW 0")
	// One is the start, five have two keys each, and one is the end.
	want := []string{"changes-snapshot-start", "changes-snapshot", "changes-snapshot", "changes-snapshot", "changes-snapshot", "changes-snapshot", "changes-snapshot-end", "changes"}
	for i, kind := range want {
		if kind == "changes" {
			w.do("SET a 1")
		}
		// Nothing comes without credit: the reply is next.
		time.Sleep(5 * time.Millisecond)
		c.expect("PING", "+PONG")
		c.do("CHANGES CREDIT ALL 1")
		if got := string(c.message().Elems[0].Text); got != kind {
			t.Fatalf("message %d is %s, want %s", i, got, kind)
		}
	}
}

// patient returns a connection for more than a moment's work.
func (in *instance) patient() *conn {
	c := in.conn()
	_ = c.SetDeadline(time.Now().Add(10 * time.Minute))
	return c
}

// rebuilt is what a consumer makes of a stream on another server.
type rebuilt struct {
	t      *testing.T
	in     *instance
	filter string
	c      *conn
	to     *conn
	token  string
	n      int64
	at     [2]string   // generation and offset
	rest   *wire.Reply // a message of which frames are left
	batch  [][]string
}

func newRebuilt(t *testing.T, in, other *instance, filter string) *rebuilt {
	r := &rebuilt{t: t, in: in, filter: filter, to: other.patient()}
	r.to.do("FLUSHALL")
	r.to.do("DEBUG SET-ACTIVE-EXPIRE 0")
	return r
}

// take reads a snapshot to its end, or so many messages of it and then loses the
// connection.
func (m *rebuilt) take(most int) bool {
	m.c = m.in.patient().proto("3")
	resume := ""
	if m.token != "" && m.n > 0 {
		resume = fmt.Sprintf(" %s %d", m.token, m.n)
	}
	if r := m.c.do("CHANGES SUBSCRIBE ALL SNAPSHOT" + resume + " META DB *" + m.filter); r.Kind != wire.Push {
		m.t.Fatalf("SUBSCRIBE: %s", r)
	}
	for range most {
		r := m.c.message()
		switch kind := string(r.Elems[0].Text); kind {
		case "changes-snapshot-start":
			m.token = string(r.Elems[2].Text)
		case "changes-snapshot":
			n, _ := r.Elems[2].Int()
			if n != m.n+1 {
				m.t.Fatalf("message %d follows %d", n, m.n)
			}
			m.n = n
			m.batch = append(m.batch, []string{"SELECT", string(r.Elems[3].Text)})
			for _, op := range r.Elems[4].Elems {
				m.batch = append(m.batch, op.Strings())
			}
			m.apply()
		case "changes-snapshot-end":
			m.at = [2]string{string(r.Elems[2].Text), string(r.Elems[3].Text)}
			return true
		default:
			m.t.Fatalf("in a snapshot comes %s", r)
		}
	}
	_ = m.c.Close()
	return false
}

func (m *rebuilt) apply() {
	m.t.Helper()
	replies, err := m.to.Pipeline(m.batch...)
	if err != nil {
		m.t.Fatal(err)
	}
	for i, r := range replies {
		if r.Kind == wire.Error {
			m.t.Fatalf("%.200q answers %s", m.batch[i], r)
		}
	}
	m.batch = m.batch[:0]
}

// follow applies frames up to a cursor.
func (m *rebuilt) follow(to [2]string) {
	m.t.Helper()
	reached := func(at [2]string) bool {
		offset, _ := strconv.Atoi(at[1])
		until, _ := strconv.Atoi(to[1])
		return at[0] == to[0] && offset >= until
	}
	for !reached(m.at) {
		if m.rest == nil {
			r := m.c.message()
			if string(r.Elems[0].Text) != "changes" {
				m.t.Fatalf("in the stream comes %s", r)
			}
			m.rest = &r
		}
		frames := &m.rest.Elems[4].Elems
		for ; len(*frames) > 0; *frames = (*frames)[1:] {
			fr := (*frames)[0]
			at := [2]string{m.at[0], string(fr.Elems[0].Text)}
			if m.filter == "" && at[1] != m.at[1] {
				m.t.Fatalf("frame %v follows where %v should", at, m.at)
			}
			if reached(at) {
				m.at = at
				break
			}
			m.batch = append(m.batch, []string{"SELECT", string(fr.Elems[2].Elems[2].Text)}, fr.Elems[1].Strings())
			offset, _ := strconv.Atoi(at[1])
			m.at[1] = strconv.Itoa(offset + 1)
		}
		m.apply()
		if len(*frames) == 0 {
			m.at = [2]string{string(m.rest.Elems[2].Text), string(m.rest.Elems[3].Text)}
			m.rest = nil
		}
	}
}

// TestSnapshotUnderLoad: writers at full speed, consumers that begin with a
// snapshot, lose their connections in it, go on, and then have what the store
// has.
func TestSnapshotUnderLoad(t *testing.T) {
	rng := snapshotSeed(t)
	in := start(t, "--shards", "3")
	other := start(t, "--shards", "2", "--appendonly", "no", "--enable-debug-command", "local")
	fill := in.patient()
	var batch [][]string
	for i := range 20_000 {
		key := fmt.Sprintf("user:%d", i)
		switch i % 7 {
		case 0:
			batch = append(batch, []string{"HSET", key, "f", key, "g", "1"}, []string{"HPEXPIREAT", key, "4000000000000", "FIELDS", "1", "g"})
		case 1:
			batch = append(batch, []string{"ZADD", key, "1.5", "a", "2", "b"})
		case 2:
			batch = append(batch, []string{"XADD", key, "5-1", "f", "v"}, []string{"XGROUP", "CREATE", key, "g", "0"}, []string{"XREADGROUP", "GROUP", "g", "c", "STREAMS", key, ">"})
		case 3:
			batch = append(batch, []string{"SADD", key, "a", "b"})
		case 4:
			batch = append(batch, []string{"RPUSH", key, "a", "b"})
		default:
			batch = append(batch, []string{"SET", key, key, "PXAT", "4000000000000"})
		}
		if i%5000 == 0 {
			batch = append(batch, []string{"SELECT", strconv.Itoa(i / 5000 % 2)})
		}
	}
	if _, err := fill.Pipeline(batch...); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var writing sync.WaitGroup
	for i := range 3 {
		w, rng := in.patient(), rand.New(rand.NewPCG(rng.Uint64(), uint64(i)))
		writing.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				var cmds [][]string
				for range 16 {
					key := fmt.Sprintf("user:%d", rng.IntN(20_000))
					cmds = append(cmds, [][]string{
						{"SET", key, "new"}, {"DEL", key}, {"HSET", key, "f", "v"}, {"LPUSH", key, "x"}, {"ZINCRBY", key, "1", "a"}, {"XADD", key, "*", "f", "v"},
						{"SPOP", key}, {"SELECT", strconv.Itoa(rng.IntN(2))}, {"PEXPIREAT", key, "4000000000000"}, {"RENAME", key, key + "x"},
					}[rng.IntN(10)])
				}
				if _, err := w.Pipeline(cmds...); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	defer writing.Wait()
	defer close(stop)
	rounds := 6
	if testing.Short() {
		rounds = 2
	}
	for round := range rounds {
		m := newRebuilt(t, in, other, []string{"", " PREFIX user:1"}[round%2])
		for !m.take([]int{1 << 30, 1 + rng.IntN(30)}[rng.IntN(2)]) {
		}
		ctl := in.patient()
		if round == 2 {
			ctl.do("SWAPDB 0 1")
		}
		for db := range 2 {
			ctl.do(fmt.Sprint("SELECT ", db))
			prefix := strings.Replace(m.filter, " PREFIX", " PREFIX", 1)
			want := ctl.do("CHANGES DIGEST ALL" + prefix)
			m.follow([2]string{string(want.Elems[0].Text), string(want.Elems[1].Text)})
			m.to.do(fmt.Sprint("SELECT ", db))
			got := m.to.do("CHANGES DIGEST ALL" + prefix)
			if got.Elems[2].String() != want.Elems[2].String() || got.Elems[3].String() != want.Elems[3].String() {
				t.Fatalf("round %d, database %d: there are %s keys with digest %s, and the store has %s with %s", round, db, got.Elems[2], got.Elems[3], want.Elems[2], want.Elems[3])
			}
		}
		_ = m.c.Close()
	}
	if files, err := filepath.Glob(filepath.Join(in.cfg.Dir.Load(), "feed", "*.spool")); err != nil || len(files) == 0 {
		t.Errorf("there is no file of a snapshot: %v", err)
	}
}

// TestSnapshotOfLargeValue: a message with one large op comes whole, between
// replies and not inside one, in both protocols.
func TestSnapshotOfLargeValue(t *testing.T) {
	in := start(t, "--shards", "1")
	w := in.conn()
	value := strings.Repeat("0123456789abcdef", 200_000)
	if r, err := w.Do("SET", "large", value); err != nil || r.Kind == wire.Error {
		t.Fatal(r, err)
	}
	w.do("SET small 1")
	for _, proto := range []string{"2", "3"} {
		c := in.conn().proto(proto)
		c.do("CHANGES SUBSCRIBE ALL SNAPSHOT WINDOW 1")
		if err := c.Send("CHANGES", "CREDIT", "ALL", "100"); err != nil {
			t.Fatal(err)
		}
		pings := 0
		if proto == "3" {
			for ; pings < 50; pings++ {
				if err := c.Send("PING"); err != nil {
					t.Fatal(err)
				}
			}
		}
		seen := map[string]string{}
		for end := false; !end || pings > 0; {
			r := c.message()
			switch {
			case r.String() == "+PONG":
				pings--
			case string(r.Elems[0].Text) == "changes-snapshot":
				for _, op := range r.Elems[4].Elems {
					seen[string(op.Elems[1].Text)] = string(op.Elems[2].Text)
				}
			case string(r.Elems[0].Text) == "changes-snapshot-end":
				end = true
			}
		}
		if len(seen) != 2 || seen["large"] != value || seen["small"] != "1" {
			t.Errorf("RESP%s: there are %d keys, the large one with %d bytes", proto, len(seen), len(seen["large"]))
		}
	}
}

// TestSnapshotEnds: a snapshot at its limit ends with a message, and the
// connection goes on.
func TestSnapshotEnds(t *testing.T) {
	in := start(t, "--shards", "1", "--feed-snapshot-max-bytes", "1mb", "--feed-snapshot-log-bytes", "1mb")
	w := in.conn()
	value := strings.Repeat("v", 100_000)
	for i := range 20 {
		w.do(fmt.Sprintf("SET key%d %s", i, value))
	}
	c := in.conn().proto("3")
	end := func() string {
		t.Helper()
		for {
			r := c.message()
			switch string(r.Elems[0].Text) {
			case "changes-end":
				return string(r.Elems[2].Text)
			case "changes-snapshot-end", "changes":
				t.Fatalf("it goes on with %s", r.Elems[0])
			}
		}
	}
	c.do("CHANGES SUBSCRIBE ALL SNAPSHOT")
	if got, want := end(), "ERR the snapshot is given up: the file of the snapshot has no more room: it may take 1048576 bytes"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	w.do("FLUSHALL")
	w.do("SET a 1")
	// One that does not read on.
	c.do("CHANGES SUBSCRIBE ALL SNAPSHOT WINDOW 1")
	if got := string(c.message().Elems[0].Text); got != "changes-snapshot-start" {
		t.Fatalf("it begins with %s", got)
	}
	eventually(t, "the cut is taken", func() bool { return strings.Contains(w.do("CHANGES INFO").String(), `"cut-lsn"`) })
	for range 20 {
		w.do("SET a " + value)
	}
	eventually(t, "the snapshot ends", func() bool { return !strings.Contains(w.do("CHANGES INFO").String(), `"cut-lsn"`) })
	// Without credit it is told all the same.
	if got, want := end(), "ERR the snapshot is given up: "; !strings.HasPrefix(got, want) || !strings.Contains(got, "feed-snapshot-log-bytes") {
		t.Errorf("got %q, want %q", got, want)
	}
	c.expect("CHANGES CREDIT ALL 1", "-ERR not subscribed to stream 'ALL'")
	c.expect("PING", "+PONG")
}
