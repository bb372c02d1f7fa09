package acl

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"kevy/feed"
	"kevy/internal/command"
)

// testTable has a few commands of Redis.
func testTable() *command.Table {
	run := func(*command.Ctx) {}
	sub := func(name string) *command.Spec {
		return &command.Spec{Name: name, Arity: -2, Flags: command.Admin, Run: run}
	}
	return command.NewTable([]*command.Spec{
		{Name: "get", Arity: 2, Flags: command.ReadOnly | command.Fast, Category: command.CatString, Keys: command.One(1, command.RO|command.Access), Run: run},
		{Name: "set", Arity: -3, Flags: command.Write, Category: command.CatString, Keys: command.One(1, command.OW|command.Update), Run: run},
		{Name: "getdel", Arity: 2, Flags: command.Write | command.Fast, Category: command.CatString, Keys: command.One(1, command.RW|command.Access|command.Delete), Run: run},
		{Name: "publish", Arity: 3, Flags: command.PubSub | command.Fast, Channels: command.Publishes, Run: run},
		{Name: "psubscribe", Arity: -2, Flags: command.PubSub, Channels: command.SubscribesToPatterns, Run: run},
		{Name: "select", Arity: 2, Flags: command.Fast, Category: command.CatConnection, Run: run},
		{Name: "config", Arity: -2, Sub: []*command.Spec{sub("get"), sub("set")}},
		{Name: "auth", Arity: -2, Flags: command.NoAuth | command.Fast, Category: command.CatConnection, Run: run},
	})
}

func testUsers() *Users {
	return New(testTable(), func() bool { return false }, func() int64 { return 3 })
}

func (us *Users) must(t *testing.T, name string, rules ...string) *Rights {
	t.Helper()
	if err := us.Set(name, rules, nil); err != nil {
		t.Fatalf("%s %q: %s", name, rules, err)
	}
	return us.Find(name).Rights()
}

func (us *Users) check(r *Rights, line string) Reason {
	var args [][]byte
	for _, w := range strings.Fields(line) {
		args = append(args, []byte(w))
	}
	reason, _ := r.Check(us.grammar.table.Lookup(args), args)
	return reason
}

func TestCheck(t *testing.T) {
	for _, test := range []struct{ rules, line, want string }{
		{"+get ~a*", "get a", ""}, {"+get ~a*", "get b", "key"}, {"+get ~a*", "set a x", "command"}, {"~a*", "auth x", ""},
		{"+get %R~a", "get a", ""}, {"+get +getdel %R~a", "getdel a", "key"}, {"+getdel %RW~a", "getdel a", ""}, {"+getdel %R~a %W~a", "getdel a", ""},
		{"+set %W~a", "set a x", ""}, {"+set %R~a", "set a x", "key"}, {"+@string allkeys -set", "set a x", "command"},
		{"+config|get", "config get x", ""}, {"+config|get", "config set x", "command"}, {"+config -config|set", "config set x", "command"},
		{"+select|1", "select 1", ""}, {"+select|1", "select 2", "command"}, {"+select|1 -select", "select 1", "command"},
		{"+publish &a*", "publish ab x", ""}, {"+publish &a*", "publish b x", "channel"}, {"+psubscribe &a*", "psubscribe a*", ""}, {"+psubscribe &a*", "psubscribe ab", "channel"},
		{"+get (+set ~a) ~b", "set a x", ""}, {"+get (+set ~a) ~b", "get a", "key"}, {"+get (+set ~a) ~b", "set b x", "key"},
		{"(+get ~a) (+set ~b)", "get b", "key"}, {"+@all -@all", "get a", "command"}, {"+@all ~* -get +get", "get a", ""}, {"+@all ~[a-c]? ", "get bz", ""}, {"+@all %R~*", "get x", ""}, {"+@all %R~*", "getdel x", "key"},
	} {
		us := testUsers()
		r := us.must(t, "u", strings.Fields(test.rules)...)
		if got := us.check(r, test.line).String(); got != test.want {
			t.Errorf("%s: %s: %q, want %q", test.rules, test.line, got, test.want)
		}
		// What is shown means the same.
		again := us.must(t, "v", strings.Fields(r.String())...)
		if got := us.check(again, test.line).String(); got != test.want || again.String() != r.String() {
			t.Errorf("%s, shown as %s: %q, want %q; and then %s", test.rules, r, got, test.want, again)
		}
	}
}

// TestCovers: what covers a prefix matches whatever begins with it.
func TestCovers(t *testing.T) {
	for _, test := range []struct {
		pattern string
		asked   feed.Keys
		want    bool
	}{
		{"a*", feed.Keys{Prefix: []byte("a")}, true}, {"a*", feed.Keys{Prefix: []byte("ab")}, true}, {"a*", feed.Keys{}, false}, {"*", feed.Keys{}, true},
		{"**", feed.Keys{}, true}, {"a", feed.Keys{Prefix: []byte("a")}, false}, {"a", feed.Keys{Prefix: []byte("a"), Exact: true}, true},
		{`a\*`, feed.Keys{Prefix: []byte("a*")}, false}, {`a\\*`, feed.Keys{Prefix: []byte(`a\`)}, true}, {"[a*", feed.Keys{Prefix: []byte("a")}, false},
		{"[a-]*", feed.Keys{Prefix: []byte("a")}, false}, {"[a]*", feed.Keys{Prefix: []byte("a")}, true}, {"?*", feed.Keys{}, false}, {"?*", feed.Keys{Prefix: []byte("x")}, true},
		{"a?c", feed.Keys{Prefix: []byte("a"), Pattern: []byte("a?c")}, true}, {"a?c", feed.Keys{Prefix: []byte("a"), Pattern: []byte("a?")}, false},
	} {
		s := &selector{keys: []keyPattern{newKeyPattern(allAccess, test.pattern)}}
		if got := s.reads(&test.asked); got != test.want {
			t.Errorf("~%s covers %+v: %v", test.pattern, test.asked, got)
		}
	}
	s := &selector{keys: []keyPattern{newKeyPattern(writeKey, "*")}}
	if s.reads(&feed.Keys{}) {
		t.Error("a pattern to write reads")
	}
}

// TestBounds reaches every limit of what a user can be given.
func TestBounds(t *testing.T) {
	many := func(n int, format string) (rules []string) {
		for i := range n {
			rules = append(rules, fmt.Sprintf(format, i))
		}
		return rules
	}
	for _, test := range []struct {
		format string
		most   int
		wrap   bool
	}{
		{"~k%d", MaxPatterns, false}, {"&c%d", MaxPatterns, false}, {">p%d", MaxPasswords, false}, {"+select|%d", MaxFirstArgs, false},
		{"(~k%d)", MaxSelectors, false}, {"~k%d", MaxPatterns, true},
	} {
		for _, over := range []int{0, 1} {
			rules := many(test.most+over, test.format)
			if test.wrap {
				rules = []string{"(" + strings.Join(rules, " ") + ")"}
			}
			if err := testUsers().Set("u", rules, nil); (err != nil) != (over == 1) {
				t.Errorf("%d of %s: %v", len(rules), test.format, err)
			}
		}
	}
	us := testUsers()
	if err := us.Set("u", make([]string, MaxRules+1), nil); err != errManyRules {
		t.Error(err)
	}
	if err := us.Set(strings.Repeat("u", MaxNameBytes+1), nil, nil); err != errLongName {
		t.Error(err)
	}
	for i := 1; i < MaxUsers; i++ {
		us.byName[fmt.Sprint(i)] = us.deflt
	}
	if err := us.Set("one more", nil, nil); err != errName {
		t.Error(err)
	}
	if err := us.Set("more", nil, nil); err != errManyUsers {
		t.Error(err)
	}
}

func TestLog(t *testing.T) {
	var l Log
	add := func(object string, ms int64) {
		l.Add(Entry{Reason: Key, Context: "toplevel", Object: object, Username: "u", UnixMs: ms}, 3)
	}
	show := func() (text string) {
		for _, e := range l.Latest(10) {
			text += fmt.Sprintf("%.3s×%d ", e.Object, e.Count)
		}
		return text
	}
	add("a", 1)
	add("b", 2)
	add("a", 60_001)
	if got := show(); got != "a×2 b×1 " {
		t.Error(got)
	}
	add("a", 120_002)
	add("c", 120_003)
	if got := show(); got != "c×1 a×1 a×2 " {
		t.Error(got)
	}
	add(strings.Repeat("x", MaxLoggedBytes+1), 120_004)
	if got := l.Latest(1)[0].Object; len(got) != MaxLoggedBytes {
		t.Errorf("%d bytes are kept", len(got))
	}
	// What is kept of long texts must not keep the rest of them in memory.
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	for i := range int64(3) {
		long := strings.Repeat(string(rune('p'+i)), 8<<20)
		l.Add(Entry{Reason: Key, Object: long, Username: long, Client: long}, 3)
	}
	if grown := heap() - before; grown > 4<<20 {
		t.Errorf("three entries occupy %d bytes", grown)
	}
	l.Reset()
	if got := show(); got != "" {
		t.Error(got)
	}
}

// TestLogBound: a lower bound holds from the next refusal on, be it new or like another.
func TestLogBound(t *testing.T) {
	for _, object := range []string{"a", "e"} {
		var l Log
		for _, o := range []string{"a", "b", "c", "d"} {
			l.Add(Entry{Object: o}, 10)
		}
		l.Add(Entry{Object: object}, 2)
		if got := l.Latest(10); len(got) != 2 || got[0].Object != object || got[1].Object != "d" {
			t.Errorf("%s: %v", object, got)
		}
	}
}

func TestPasswords(t *testing.T) {
	us := testUsers()
	us.must(t, "u", "on", ">a", ">b")
	for password, want := range map[string]bool{"a": true, "b": true, "c": false, "": false} {
		if got := us.Authenticate([]byte("u"), []byte(password)) != nil; got != want {
			t.Errorf("%q: %v", password, got)
		}
	}
	us.must(t, "u", "off")
	if us.Authenticate([]byte("u"), []byte("a")) != nil || us.Authenticate([]byte("v"), []byte("a")) != nil {
		t.Error("a disabled user, or none, logs in")
	}
	r := us.must(t, "u", "on")
	if _, err := us.Delete([]string{"u"}); err != nil {
		t.Error(err)
	}
	<-r.Superseded()
}
