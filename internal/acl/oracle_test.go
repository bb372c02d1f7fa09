package acl_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kevy/internal/acl"
	"kevy/internal/server"
	"kevy/tests/process"
)

// pieces are rules of one selector; commands are those that both servers have.
var pieces = []string{
	"+@all", "-@all", "+@read", "-@read", "+@write", "-@write", "+@string", "-@hash", "+@hash", "+@fast", "-@slow", "+@keyspace", "-@dangerous", "+@pubsub", "+@admin",
	"+get", "-get", "+set", "-set", "+mget", "+copy", "+rename", "+hset", "-hget", "+config|get", "-config|set", "+config", "+select|1", "+publish", "+subscribe", "+psubscribe",
	"+bitfield", "+lmpop", "+sort", "+zunionstore", "+getex", "+xread",
	"~*", "~a*", "~b?", "%R~c*", "%W~c*", "%RW~d", "~[ab]*x", `~e\*`, "%R~*", "resetkeys", "&*", "&a*", "&b", "resetchannels", "allcommands", "nocommands", "allkeys", "allchannels",
	"+nosuch", "+config|get|x", "-select|1", "~a b", "%RR~x", "&a b", "+@nosuch", "%~", "+get|",
}

var userPieces = []string{
	"on", "off", "nopass", "resetpass", ">a", ">b", "<a", "!x", "#ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb", "reset", "clearselectors",
	"sanitize-payload", "skip-sanitize-payload", "(~x", "",
}

var lines = []string{
	"get %s", "set %s v", "mget %s %s", "mset %s v %s v", "copy %s %s", "rename %s %s", "hset %s f v", "hget %s f", "getex %s", "getdel %s", "bitfield %s get u8 0", "bitfield %s set u8 0 1",
	"lmpop 2 %s %s left", "sort %s", "sort %s store %s", "zunionstore %s 2 %s a1", "xread streams %s %s 0 0", "exists %s", "del %s %s", "config get x", "config set x y", "select 0", "select 1",
	"publish %s x", "subscribe %s %s", "psubscribe %s", "spublish %s x", "ssubscribe %s", "unsubscribe %s", "ping", "auth x", "dbsize", "flushall", "object encoding %s", "eval x 1 %s", "geosearchstore %s %s fromlonlat 0 0 byradius 1 m",
}

var names = []string{"a1", "ab", "b1", "bx", "b", "c1", "d", "e*", "ex", "ax", "a*", "", "zz"}

// TestRulesAreRedis gives random users to redis-server and to ours, and holds what each may do, and how each is
// shown, to be the same.
func TestRulesAreRedis(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("KEVY_SEED"); text != "" {
		seed, _ = strconv.ParseUint(text, 10, 64)
	}
	t.Logf("KEVY_SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 5))
	redis := process.Start(t, process.Oracle(t), process.Config{}).Conn(t)
	table := server.Commands()
	users := acl.New(table, func() bool { return false }, func() int64 { return 10 })
	pick := func(from []string) string { return from[rng.IntN(len(from))] }
	allowed, refused, failed := 0, 0, 0
	for round := range 400 {
		if round%8 == 0 {
			if r, err := redis.Do("ACL", "DELUSER", "u"); err != nil {
				t.Fatal(r, err)
			}
			if _, err := users.Delete([]string{"u"}); err != nil {
				t.Fatal(err)
			}
		}
		var rules []string
		for range 1 + rng.IntN(5) {
			switch p := rng.IntN(10); {
			case p < 7:
				rules = append(rules, pick(pieces))
			case p < 9:
				rules = append(rules, pick(userPieces))
			default:
				rules = append(rules, "("+pick(pieces)+" "+pick(pieces)+" "+pick(pieces)+")")
			}
		}
		r, err := redis.Do(append([]string{"ACL", "SETUSER", "u"}, rules...)...)
		if err != nil {
			t.Fatal(err)
		}
		want, got := string(r.Text), "OK"
		if err := users.Set("u", rules, nil); err != nil {
			got = err.Error()
			failed++
		}
		if got != want {
			t.Fatalf("SETUSER %q: %s, want %s", rules, got, want)
		}
		u := users.Find("u")
		if u == nil {
			continue
		}
		for range 25 {
			line := pick(lines)
			for strings.Contains(line, "%s") {
				line = strings.Replace(line, "%s", "\x01"+pick(names), 1)
			}
			words := strings.Split(strings.ReplaceAll(line, "\x01", ""), " ")
			args := make([][]byte, len(words))
			for i, w := range words {
				args[i] = []byte(w)
			}
			spec := table.Lookup(args)
			if spec == nil {
				continue
			}
			r, err := redis.Do(append([]string{"ACL", "DRYRUN", "u"}, words...)...)
			if err != nil {
				t.Fatal(err)
			}
			reason, arg := u.Rights().Check(spec, args)
			got := "This user has no permissions to access the '" + string(args[arg]) + "' " + reason.String()
			switch reason {
			case acl.Allowed:
				got = "OK"
				allowed++
			case acl.Command:
				got = "This user has no permissions to run the '" + spec.FullName() + "' command"
			}
			if reason != acl.Allowed {
				refused++
			}
			if want := string(r.Text); got != want {
				t.Errorf("%s: %q: %s, want %s", u.Line(), words, got, want)
			}
		}
		if r, err = redis.Do("ACL", "GETUSER", "u"); err != nil {
			t.Fatal(err)
		}
		fields := r.Elems
		if got, want := fmt.Sprint(u.Rights().Flags()), fmt.Sprint(fields[1].Strings()); got != want {
			t.Errorf("%q: flags %s, want %s", rules, got, want)
		}
		if got, want := u.Rights().Passwords(), fields[3].Strings(); !slices.Equal(got, want) {
			t.Errorf("%q: passwords %q, want %q", rules, got, want)
		}
		own := u.Rights().Selectors()[0]
		if keys, channels := string(fields[7].Text), string(fields[9].Text); own.Keys != keys || own.Channels != channels {
			t.Errorf("%q: keys %q and channels %q, want %q and %q", rules, own.Keys, own.Channels, keys, channels)
		}
		if t.Failed() {
			t.Fatalf("after %q", rules)
		}
	}
	t.Logf("%d commands were allowed, %d refused, %d changes failed", allowed, refused, failed)
	if allowed < 250 || refused < 500 || failed < 20 {
		t.Errorf("%d commands were allowed, %d refused, %d changes failed", allowed, refused, failed)
	}
}
