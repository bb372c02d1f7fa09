package server

import (
	"strings"
	"sync"
	"testing"
)

// said returns the next message, as "channel payload".
func (c *conn) said() string {
	c.t.Helper()
	words := c.message().Strings()
	return strings.Join(words[len(words)-2:], " ")
}

// TestEventsOfTransactions: the events and messages of a transaction come in the order of its commands, behind
// its commit, and none of one that did not run.
func TestEventsOfTransactions(t *testing.T) {
	in := start(t, "--notify-keyspace-events", "EA")
	sub, w := in.conn(), in.conn().proto("3")
	sub.do("PSUBSCRIBE *")
	w.do("SUBSCRIBE said")
	for _, line := range []string{"MULTI", "SET a 1", "PUBLISH said x", "RENAME a b", "PUBLISH said y"} {
		w.do(line)
	}
	if err := w.Send("EXEC"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"__keyevent@0__:set a", "said x", "__keyevent@0__:rename_from a", "__keyevent@0__:rename_to b", "said y",
	} {
		if got := sub.said(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	other := in.conn()
	for _, line := range []string{"WATCH b", "MULTI", "DEL b"} {
		other.do(line)
	}
	in.conn().do("SET b 2")
	other.expect("EXEC", "*nil")
	in.conn().do("DEL b")
	for _, want := range []string{"__keyevent@0__:set b", "__keyevent@0__:del b"} {
		if got := sub.said(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestEventsOfWhoIsServed: what a script or a transaction has published comes before the events of whom it serves.
func TestEventsOfWhoIsServed(t *testing.T) {
	in := start(t, "--notify-keyspace-events", "EA")
	sub, w := in.conn(), in.conn()
	sub.do("PSUBSCRIBE *")
	for _, lines := range [][]string{
		{"MULTI", "PUBLISH said x", "LPUSH k v", "PUBLISH said y", "EXEC"},
		{"MULTI", "LPUSH k v", "PUBLISH said x", "PUBLISH said y", "EXEC"},
	} {
		waiter := in.conn()
		if err := waiter.Send("BLMOVE", "k", "l", "LEFT", "LEFT", "0"); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it waits", func() bool { return w.infoInt("clients", "blocked_clients") == 1 })
		for _, line := range lines {
			w.do(line)
		}
		want := []string{"said x", "__keyevent@0__:lpush k", "said y", "__keyevent@0__:lpush l", "__keyevent@0__:lpop k", "__keyevent@0__:del k"}
		if lines[1] == "LPUSH k v" {
			want[0], want[1] = want[1], want[0]
		}
		for _, want := range want {
			if got := sub.said(); got != want {
				t.Errorf("%s: got %s, want %s", lines, got, want)
			}
		}
	}
}

// TestEventsOfExpiry: keys and fields of hashes that go by themselves are told of.
func TestEventsOfExpiry(t *testing.T) {
	in := start(t, "--notify-keyspace-events", "KA")
	sub, w := in.conn(), in.conn()
	w.do("SELECT 3")
	sub.do("PSUBSCRIBE *")
	w.do("SET a 1 PX 20")
	w.do("HSET h f 1")
	w.do("HPEXPIRE h 40 FIELDS 1 f")
	got := map[string]string{}
	for range 7 {
		key, event, _ := strings.Cut(sub.said(), " ")
		got[key] += " " + event
	}
	for key, want := range map[string]string{
		"__keyspace@3__:a": " set expire expired", "__keyspace@3__:h": " hset hexpire hexpired del",
	} {
		if got[key] != want {
			t.Errorf("%s:%s, want%s", key, got[key], want)
		}
	}
}

// TestEventsOfOverdueKeysReplaced: what a command makes of a key that is overdue and still there is called as Redis
// calls it. One that gets another value has expired before; one that gets none is deleted; RESTORE does not look.
func TestEventsOfOverdueKeysReplaced(t *testing.T) {
	in := start(t, "--notify-keyspace-events", "KA", "--enable-debug-command", "yes")
	sub, w := in.conn(), in.conn()
	w.do("DEBUG SET-ACTIVE-EXPIRE 0")
	w.do("SADD s a")
	sub.do("SUBSCRIBE __keyspace@0__:d")
	w.do("SET from v")
	payload := string(w.do("DUMP from").Text)
	since := func() string {
		w.do("PUBLISH __keyspace@0__:d end")
		var events []string
		for {
			_, event, _ := strings.Cut(sub.said(), " ")
			if event == "end" {
				return strings.Join(events, " ")
			}
			events = append(events, event)
		}
	}
	for _, c := range []struct{ command, events string }{
		{"SINTERSTORE d missing", "del"}, {"ZUNIONSTORE d 1 missing", "del"}, {"ZRANGESTORE d missing 0 -1", "del"}, {"SORT missing STORE d", "del"},
		{"BITOP AND d missing", "del"}, {"GEOSEARCHSTORE d missing FROMLONLAT 1 1 BYRADIUS 1 m", "del"}, {"RESTORE d 1 % REPLACE ABSTTL", "del"},
		{"SUNIONSTORE d s", "expired sunionstore"}, {"ZUNIONSTORE d 1 s", "expired zunionstore"}, {"SORT s ALPHA STORE d", "expired sortstore"},
		{"BITOP NOT d from", "expired set"}, {"SET d x", "expired set"}, {"RENAME from d", "expired rename_to"}, {"RESTORE d 0 % REPLACE", "restore"},
		{"DEL d", "expired"},
	} {
		w.do("SET d v PXAT 1")
		args := strings.Fields(c.command)
		for i := range args {
			if args[i] == "%" {
				args[i] = payload
			}
		}
		if r, err := w.Do(args...); err != nil || r.IsError("") {
			t.Fatalf("%s: %s, %v", c.command, r, err)
		}
		if got := since(); got != "set expire "+c.events {
			t.Errorf("%s: %s, want set expire %s", c.command, got, c.events)
		}
		w.do("SET from v")
		w.do("DEL d")
		since()
	}
}

// TestEventsOfOneKeyInOrder: whoever changes a key, its events come in the order of the changes.
func TestEventsOfOneKeyInOrder(t *testing.T) {
	const writers, rounds = 6, 400
	for _, shards := range []string{"1", "16"} {
		in := start(t, "--notify-keyspace-events", "Kgn", "--shards", shards)
		sub := in.conn()
		sub.do("SUBSCRIBE __keyspace@0__:k")
		var writing sync.WaitGroup
		for i := range writers {
			w := in.conn()
			writing.Go(func() {
				for j := range rounds {
					if (i+j)%2 == 0 {
						w.do("SET k v")
					} else {
						w.do("DEL k")
					}
				}
			})
		}
		go func() {
			writing.Wait()
			in.conn().do("PUBLISH __keyspace@0__:k end")
		}()
		seen := 0
		for there := false; ; seen++ {
			event := sub.said()
			if strings.HasSuffix(event, " end") {
				break
			}
			if created := strings.HasSuffix(event, " new"); created == there {
				t.Fatalf("%s when it was there: %v", event, there)
			}
			there = !there
		}
		if seen < rounds/10 {
			t.Errorf("%d events", seen)
		}
	}
}

// TestEventsDoNotWait: who does not read what it has subscribed to is cut off, and delays nobody who writes.
func TestEventsDoNotWait(t *testing.T) {
	in := start(t, "--notify-keyspace-events", "KEA", "--client-output-buffer-limit", "pubsub 200kb 0 0")
	lazy, w, own := in.conn(), in.conn(), in.conn().proto("3")
	lazy.do("PSUBSCRIBE *")
	own.do("PSUBSCRIBE __keyspace@0__:own")
	eventually(t, "the lazy subscriber is cut off", func() bool {
		for range 100 {
			w.do("MSET" + strings.Repeat(" key v", 200))
		}
		return strings.Contains(in.log.String(), "unread messages passed")
	})
	// A connection's own events come before its replies.
	if err := own.Send("SET", "own", "1"); err != nil {
		t.Fatal(err)
	}
	if got := own.said(); got != "__keyspace@0__:own set" {
		t.Errorf("got %s", got)
	}
	if r, err := own.ReadReply(); err != nil || string(r.Text) != "OK" {
		t.Errorf("got %s, %v", r, err)
	}
}

// TestEventClasses: only what is asked for is published, by the channels that are.
func TestEventClasses(t *testing.T) {
	in := start(t)
	sub, w := in.conn(), in.conn()
	sub.do("PSUBSCRIBE *")
	for _, c := range []struct{ classes, shown, events string }{
		{"", "", ""},
		{"A", "A", ""},
		{"K", "K", ""},
		{"K$", "$K", "__keyspace@0__:k set"},
		{"Eg", "gE", "__keyevent@0__:expire k"},
		{"AKEnm", "AnKEm", "__keyevent@0__:keymiss none"},
	} {
		w.do("SET k v")
		w.classes(c.classes)
		if got := string(w.do("CONFIG GET notify-keyspace-events").Elems[1].Text); got != c.shown {
			t.Errorf("CONFIG GET shows %q for %q, want %q", got, c.classes, c.shown)
		}
		w.do("SET k v EX 100")
		w.do("GET none")
		w.classes("")
		w.do("PUBLISH end x")
		var got []string
		for m := sub.said(); m != "end x"; m = sub.said() {
			got = append(got, m)
		}
		switch {
		case c.events == "" && len(got) > 0, c.events != "" && !strings.Contains(strings.Join(got, "\n"), c.events):
			t.Errorf("%q: got %q", c.classes, got)
		}
	}
}

// classes sets notify-keyspace-events.
func (c *conn) classes(letters string) {
	c.t.Helper()
	if r, err := c.Do("CONFIG", "SET", "notify-keyspace-events", letters); err != nil || r.IsError("") {
		c.t.Fatalf("CONFIG SET: %s, %v", r, err)
	}
}
