package server

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kevy/internal/config"
	"kevy/internal/engine"
	"kevy/tests/wire"
	"log/slog"
)

// startError returns why a server with these settings does not start.
func startError(t *testing.T, settings ...string) string {
	t.Helper()
	cfg, err := config.Load(append([]string{"--port", "0", "--dir", t.TempDir()}, settings...), nil)
	if err != nil {
		return err.Error()
	}
	log := slog.New(slog.DiscardHandler)
	store, err := engine.Open(engineOptions(cfg, log))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err = newServer(cfg, log, store); err == nil {
		t.Fatalf("%q starts", settings)
	}
	return err.Error()
}

func TestUserLines(t *testing.T) {
	in := start(t, "--requirepass", "secret", "--user", "alice", "on", ">pw", "(~a:*", "+get)", "--rename-command", "FLUSHALL", "wipe", "--rename-command", "DEBUG", "")
	c := in.conn()
	c.expect("PING", "-NOAUTH Authentication required.")
	c.expect("AUTH alice pw", "+OK")
	c.expect("GET a:1", "$nil")
	c.expect("GET b:1", "-NOPERM this user has no permissions to access one of the keys used as arguments")
	c.expect("AUTH secret", "+OK")
	c.expect("FLUSHALL", "-ERR unknown command 'FLUSHALL', with args beginning with: ")
	c.expect("WIPE", "+OK")
	c.expect("DEBUG SLEEP 0", "-ERR unknown command 'DEBUG', with args beginning with: 'SLEEP' '0' ")
	// Rules have the names that commands had.
	c.expect("ACL SETUSER bob +flushall -debug", "+OK")
	c.expect("ACL SETUSER bob +wipe", "-ERR Error in ACL SETUSER modifier '+wipe': Unknown command or category name in ACL")
	for _, test := range []struct {
		settings []string
		want     string
	}{
		{[]string{"--user", "a", "+nosuch"}, "--user: user a: Error in ACL SETUSER modifier '+nosuch': Unknown command or category name in ACL"},
		{[]string{"--user", "a", "on", "--user", "a", "off"}, "--user: Error in user declaration 'a': Duplicate user found. A user can only be defined once in config files"},
		{[]string{"--user", "a b", "on"}, "--user: Usernames can't contain spaces or null characters"},
		{[]string{"--aclfile", "nosuch.acl"}, "Error loading ACLs, opening file 'nosuch.acl': No such file or directory"},
		{[]string{"--aclfile", "x", "--user", "a", "on"}, "keep one of the two"},
		{[]string{"--rename-command", "nosuch", "x"}, `--rename-command: rename-command "nosuch": No such command in rename-command`},
		{[]string{"--rename-command", "get", "SET"}, "Target command name already exists"},
	} {
		if got := startError(t, test.settings...); !strings.Contains(got, test.want) {
			t.Errorf("%q: %s, want %s", test.settings, got, test.want)
		}
	}
}

func TestUserFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users.acl")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("user alice on nopass ~* +@all\n\nuser bob on nopass ~b:* (~c:* +get) +set\n")
	in := start(t, "--aclfile", file)
	c, alice := in.conn(), in.conn()
	c.expect("ACL USERS", `["alice", "bob", "default"]`)
	alice.expect("AUTH alice x", "+OK")
	c.expect("ACL SETUSER carol on +ping", "+OK")
	c.expect("ACL SAVE", "+OK")
	saved, err := os.ReadFile(file)
	want := "user alice on nopass ~* resetchannels +@all\nuser bob on nopass ~b:* resetchannels -@all +set (~c:* resetchannels -@all +get)\n" +
		"user carol on resetchannels -@all +ping\nuser default on nopass ~* &* +@all\n"
	if err != nil || string(saved) != want {
		t.Errorf("saved %q, %v, want %q", saved, err, want)
	}
	write(want + "user dave +nosuch\nnonsense\nuser dave on\n")
	c.expect("ACL LOAD", "-ERR "+file+":5: Error in applying operation '+nosuch': Unknown command or category name in ACL. "+
		file+":6 should start with user keyword followed by the username. WARNING: Duplicate user 'dave' found on line 7. "+
		"WARNING: ACL errors detected, no change to the previously active ACL rules was performed")
	alice.expect("PING", "+PONG")
	write("user default on nopass ~x* +@all\nuser erin off\n")
	c.expect("ACL LOAD", "+OK")
	alice.ended()
	c.expect("ACL USERS", `["default", "erin"]`)
	c.expect("GET y", "-NOPERM this user has no permissions to access one of the keys used as arguments")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	c.expect("ACL LOAD", "-ERR Error loading ACLs, opening file '"+file+"': No such file or directory")
}

// TestStrangersAreHeldToLess: who must log in can send little until then.
func TestStrangersAreHeldToLess(t *testing.T) {
	in := start(t, "--requirepass", "secret")
	for raw, want := range map[string]string{
		"*11\r\n":          "-ERR Protocol error: unauthenticated multibulk length",
		"*1\r\n$16385\r\n": "-ERR Protocol error: unauthenticated bulk length",
	} {
		c := in.conn()
		if _, err := c.Write([]byte(raw)); err != nil {
			t.Fatal(err)
		}
		if r, err := c.ReadReply(); err != nil || r.String() != want {
			t.Errorf("%q: %s, %v", raw, r, err)
		}
		c.ended()
	}
	// What comes behind AUTH in the same packet is not.
	c := in.conn()
	large := strings.Repeat("x", 20_000)
	replies, err := c.Pipeline([]string{"AUTH", "secret"}, []string{"SET", "k", large}, []string{"STRLEN", "k"})
	if err != nil || replies[0].String() != "+OK" || replies[2].String() != ":20000" {
		t.Errorf("%v, %v", replies, err)
	}
}

// TestDeafStrangers: who must log in and reads no refusal is disconnected long
// before others are that read nothing; who has logged in is one of those.
func TestDeafStrangers(t *testing.T) {
	t.Parallel()
	in := startWith(t, setup{listener: shrunk, settings: []string{"--requirepass", "secret"}})
	known := in.conn()
	known.expect("AUTH secret", "+OK")
	stranger, member := in.dial(), in.dial()
	small(t, stranger)
	small(t, member)
	if r, err := known.Do("SET", "big", strings.Repeat("x", 4<<20)); err != nil || r.String() != "+OK" {
		t.Fatalf("%s, %v", r, err)
	}
	if _, err := member.Write(append(wire.AppendStrings(nil, "AUTH", "secret"), wire.AppendStrings(nil, "GET", "big")...)); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		for {
			if _, err := stranger.Write(wire.AppendStrings(nil, "SET", "k", "v")); err != nil {
				ended <- err
				return
			}
		}
	}()
	select {
	case <-ended:
	case <-time.After(patience / 2):
		stranger.Close()
		<-ended
		t.Fatal("a stranger that does not read is still connected")
	}
	known.expect("PING", "+PONG")
	eventually(t, "those are left that have logged in", func() bool { return known.infoInt("clients", "connected_clients") == 2 })
}

// TestUsersReadTheFeed: a filter must lie within what the user may read.
func TestUsersReadTheFeed(t *testing.T) {
	in := start(t)
	admin, c := in.conn(), in.conn()
	admin.expect("ACL SETUSER alice on nopass ~a:* %R~shared:* %W~out:* %R~x[a-]* %R~exact +@all", "+OK")
	admin.expect("ACL SETUSER bob on nopass %R~* +changes|since", "+OK")
	admin.expect("SET a:1 v", "+OK")
	gen := admin.do("CHANGES OLDEST ALL").Elems[0].String()[1:]
	c.expect("AUTH alice x", "+OK")
	const refused = "-NOPERM this user has no permissions to read all the keys"
	for what, allowed := range map[string]bool{
		"SINCE ALL @ 0": false, "SINCE ALL @ 0 PREFIX a:": true, "SINCE ALL @ 0 PREFIX a:1": true, "SINCE ALL @ 0 PREFIX a": false,
		"SINCE ALL @ 0 PREFIX a: PREFIX shared:1": true, "SINCE ALL @ 0 PREFIX a: PREFIX b:": false, "SINCE ALL @ 0 PREFIX out:": false,
		"SINCE ALL @ 0 MATCH a:*": true, "SINCE ALL @ 0 MATCH a:?": true, "SINCE ALL @ 0 MATCH *": false, "SINCE ALL @ 0 MATCH exact": true,
		"SINCE ALL @ 0 MATCH exac?": false, "SINCE ALL @ 0 MATCH x[a-]*": true, "SINCE ALL @ 0 PREFIX xa": false,
		"SINCE ALL @ 0 REGEX a: .*": true, `SINCE ALL @ 0 REGEX b: .*`: false, "SINCE 0 @ 0 VALUE PREFIX v": false, "SINCE ALL @ 0 DB * META PREFIX a:": true,
		"GET ALL @ 0": false, "DIGEST ALL": false, "DIGEST ALL PREFIX a:": true, "TAIL ALL": true,
	} {
		got := c.do("CHANGES " + strings.ReplaceAll(what, "@", gen)).String()
		if strings.HasPrefix(got, refused) == allowed {
			t.Errorf("%s: %s", what, got)
		}
	}
	for line, allowed := range map[string]bool{
		"FEED.READ 0 1 0 PREFIX a:": true, "FEED.READ 0 1 0": false, "PREFIX.STATS a:": true, "PREFIX.STATS b:": false,
	} {
		if got := c.do(line).String(); strings.HasPrefix(got, refused) == allowed {
			t.Errorf("%s: %s", line, got)
		}
	}
	// Everything can be read by the pattern of all keys; the command still must be allowed.
	c.expect("AUTH bob x", "+OK")
	if got := c.do("CHANGES SINCE ALL " + gen + " 0").String(); strings.HasPrefix(got, "-") {
		t.Error(got)
	}
	c.expect("CHANGES TAIL ALL", "-NOPERM this user has no permissions to run the 'changes|tail' command")
	entries := admin.do("ACL LOG 50").Elems
	if len(entries) < 5 || !strings.Contains(entries[len(entries)-1].String(), "alice") {
		t.Errorf("the log has %d entries", len(entries))
	}
}

// TestRightsEndSubscriptions: who may not read a stream any more does not go on.
func TestRightsEndSubscriptions(t *testing.T) {
	in := start(t)
	admin, c, other := in.conn(), in.conn(), in.conn()
	admin.expect("ACL SETUSER alice on nopass ~a:* ~b:* +@all", "+OK")
	for _, one := range []*conn{c, other} {
		one.expect("AUTH alice x", "+OK")
	}
	if r := c.do("CHANGES SUBSCRIBE ALL TAIL PREFIX a:").String(); !strings.Contains(r, "changes-subscribe") {
		t.Fatal(r)
	}
	if r := other.do("CHANGES SUBSCRIBE ALL TAIL PREFIX b:1").String(); !strings.Contains(r, "changes-subscribe") {
		t.Fatal(r)
	}
	if r := in.conn(); r.do("AUTH alice x").String() != "+OK" || !strings.HasPrefix(r.do("CHANGES SUBSCRIBE ALL SNAPSHOT").String(), "-NOPERM") {
		t.Error("a snapshot of everything is begun")
	}
	admin.expect("ACL SETUSER alice resetkeys ~a:* ~c:*", "+OK")
	other.ended()
	admin.expect("SET a:1 v", "+OK")
	if r, err := c.ReadReply(); err != nil || !strings.Contains(r.String(), "a:1") {
		t.Errorf("%s, %v", r, err)
	}
	admin.expect("ACL DELUSER alice", ":1")
	c.ended()
}

// TestLoadedRightsEndSubscriptions: nor does the default user, whom ACL LOAD leaves there.
func TestLoadedRightsEndSubscriptions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users.acl")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	in := start(t, "--aclfile", file)
	admin, stays, reads, hears := in.conn(), in.conn(), in.conn(), in.conn()
	for c, command := range map[*conn]string{stays: "SUBSCRIBE a:1", reads: "CHANGES SUBSCRIBE ALL TAIL", hears: "SUBSCRIBE b:1"} {
		if r := c.do(command).String(); !strings.Contains(r, "subscribe") {
			t.Fatal(r)
		}
	}
	if err := os.WriteFile(file, []byte("user default on nopass ~a:* &a:* +@all\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	admin.expect("ACL LOAD", "+OK")
	reads.ended()
	hears.ended()
	admin.expect("PUBLISH a:1 x", ":1")
}

func TestUsersOverHTTP(t *testing.T) {
	port := freePort(t)
	in := start(t, "--http-port", "0")
	c := in.conn()
	c.expect("CONFIG SET http-port "+port, "+OK")
	c.expect("SET a:1 v", "+OK")
	c.expect("ACL SETUSER alice on >pw ~a:* +changes", "+OK")
	c.expect("CONFIG SET requirepass secret", "+OK")
	get := func(user, password, query string) (int, http.Header) {
		t.Helper()
		r, err := http.NewRequest(http.MethodGet, "http://127.0.0.1:"+port+"/changes?"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		if user != "" {
			r.SetBasicAuth(user, password)
		}
		client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		return answer.StatusCode, answer.Header
	}
	for _, test := range []struct {
		user, password, query string
		want                  int
	}{
		{"", "", "start=oldest", 401}, {"default", "wrong", "", 401}, {"nosuch", "x", "", 401},
		{"default", "secret", "start=oldest", 200}, {"alice", "pw", "start=oldest", 403}, {"alice", "pw", "start=oldest&prefix=a:", 200},
		{"alice", "pw", "prefix=b", 403}, {"alice", "pw", "match=*", 403}, {"alice", "", "prefix=a:", 401},
	} {
		status, header := get(test.user, test.password, test.query)
		if status != test.want || status == 401 && !strings.HasPrefix(header.Get("WWW-Authenticate"), "Basic ") {
			t.Errorf("%s with %q: %d, want %d", test.user, test.query, status, test.want)
		}
	}
	// An answer that follows ends with the right to it.
	r, err := http.NewRequest(http.MethodGet, "http://127.0.0.1:"+port+"/changes?follow=yes&start=oldest&prefix=a:", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.SetBasicAuth("alice", "pw")
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	if err != nil || answer.StatusCode != 200 {
		t.Fatal(answer, err)
	}
	defer answer.Body.Close()
	c.expect("ACL SETUSER alice ~b:*", "+OK")
	c.expect("ACL SETUSER alice resetkeys", "+OK")
	buf := make([]byte, 4096)
	for err == nil {
		_, err = answer.Body.Read(buf)
	}
	if ne, ok := err.(interface{ Timeout() bool }); ok && ne.Timeout() {
		t.Error("the answer goes on")
	}
}
