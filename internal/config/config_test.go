package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"kevy/resp"
)

func TestDefaults(t *testing.T) {
	c := New()
	for _, s := range c.Settings() {
		if s.Text() != s.Default {
			t.Errorf("%s is %q, its default is %q", s.Name, s.Text(), s.Default)
		}
		v, err := s.parse(s.Default, false)
		if err != nil {
			t.Errorf("%s refuses its default: %v", s.Name, err)
		} else if s.value.format(v) != s.Default {
			t.Errorf("%s reads its default %q as %q", s.Name, s.Default, s.value.format(v))
		}
		if s.Effect == Applied && s.Summary == "" || s.Effect != Applied && s.why == "" {
			t.Errorf("%s has no description", s.Name)
		}
	}
	for name, want := range map[string]string{
		"bind": "127.0.0.1", "port": "6379", "dir": "./data", "appendonly": "yes", "appendfsync": "everysec",
		"databases": "16", "shards": "16", "feed": "yes", "recover": "refuse", "save": "",
	} {
		if got := c.Lookup(name).Text(); got != want {
			t.Errorf("%s defaults to %q, want %q", name, got, want)
		}
	}
	if n := len(c.Settings()); n < 150 {
		t.Errorf("the registry has %d settings", n)
	}
}

// TestLoadKeepsSecrets: an error about a password does not repeat it.
func TestLoadKeepsSecrets(t *testing.T) {
	for _, name := range []string{"requirepass", "tls-key-file-pass", "masterauth"} {
		_, err := load(t, name+" hush hush2\n")
		if err == nil || strings.Contains(err.Error(), "hush") || !strings.Contains(err.Error(), name+" takes one value, got 2;") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// load runs Load on a file with the given text and on options.
func load(t *testing.T, text string, options ...string) (*Config, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kevy.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(append([]string{file}, options...), strings.NewReader(""))
}

func TestLoadFile(t *testing.T) {
	c, err := load(t, `
# a comment
  PORT   7000
bind 127.0.0.1 -::1
dir "/tmp/with \"quotes\" and \x41"
logfile 'it\'s here'
maxmemory 100mb
hz 20
client-output-buffer-limit pubsub 1mb 2kb 3
client-output-buffer-limit normal 4 5 6
save 900 1
save 300 10 60 100
hash-max-ziplist-entries 7
requirepass ""
list-max-ziplist-value 3
`+"timeout\t5\r\n")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"port": "7000", "bind": "127.0.0.1 -::1", "dir": `/tmp/with "quotes" and A`, "logfile": "it's here",
		"maxmemory": "104857600", "timeout": "5", "save": "900 1 300 10 60 100", "hash-max-listpack-entries": "7",
		"client-output-buffer-limit": "normal 4 5 6 slave 268435456 67108864 60 pubsub 1048576 2048 3",
	} {
		if got := c.Lookup(name).Text(); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if c.Port.Load() != 7000 || c.MaxMemoryBytes.Load() != 100*mib || c.ClientOutputBuffer.Load(ClientPubSub).SoftSeconds != 3 {
		t.Error("the fields do not hold what the registry shows")
	}
	var without []string
	for _, s := range c.GivenWithoutEffect() {
		without = append(without, s.Name)
	}
	if got := strings.Join(without, " "); !strings.HasPrefix(got, "hz ") || !strings.HasSuffix(got, " save") || strings.Contains(got, "port") {
		t.Errorf("given without effect: %q", got)
	}
	if !filepath.IsAbs(c.File()) || filepath.Base(c.File()) != "kevy.conf" {
		t.Errorf("the file is %q", c.File())
	}
}

func TestLoadOrder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kevy.conf")
	if err := os.WriteFile(file, []byte("port 1\ntimeout 1\nmaxclients 1\nsave 1 1"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{file, "-", "--maxclients", "3", "--save", ""},
		{file, "--maxclients 3", "--save", "-"},
		{file, "-", "--save", "--maxclients", "3"},
	} {
		c, err := Load(args, strings.NewReader("timeout 2\nmaxclients 2"))
		if err != nil {
			t.Errorf("%q: %v", args, err)
			continue
		}
		got := fmt.Sprintf("%d %d %d %q", c.Port.Load(), c.TimeoutSeconds.Load(), c.MaxClients.Load(), c.Lookup("save").Text())
		if got != `1 2 3 ""` {
			t.Errorf("%q: got %q", args, got)
		}
	}
}

func TestCommandLine(t *testing.T) {
	for _, test := range []struct {
		args []string
		name string
		want string
	}{
		{[]string{"--port", "0"}, "port", "0"},
		{[]string{"--PORT", "17"}, "port", "17"},
		{[]string{"--bind", "127.0.0.1", "::1", "--port", "1"}, "bind", "127.0.0.1 ::1"},
		{[]string{"--bind 127.0.0.1 ::1", "--port", "1"}, "bind", "127.0.0.1 ::1"},
		{[]string{"--logfile", "--port", "--port", "1"}, "logfile", "--port"},
		{[]string{"--logfile", ""}, "logfile", ""},
		{[]string{"--logfile", `a "b" c`}, "logfile", `a "b" c`},
		{[]string{"--port", "1", "--port", "2"}, "port", "2"},
		{[]string{"--save", "900", "1", "300", "10"}, "save", "900 1 300 10"},
		{[]string{"--save", "900 1", "--save", "300 10"}, "save", "900 1 300 10"},
		{[]string{"--save"}, "save", ""},
		{[]string{"--lua-time-limit", "9"}, "busy-reply-threshold", "9"},
		{nil, "port", "6379"},
	} {
		c, err := Load(test.args, strings.NewReader(""))
		if err != nil {
			t.Errorf("%q: %v", test.args, err)
		} else if got := c.Lookup(test.name).Text(); got != test.want {
			t.Errorf("%q: %s is %q, want %q", test.args, test.name, got, test.want)
		}
	}
}

// TestLines: what sets nothing in the registry is kept with where it stands.
func TestLines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kevy.conf")
	if err := os.WriteFile(file, []byte("port 1\nuser alice on >pw ~*\nrename-command FLUSHALL \"\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load([]string{file, "--user", "bob", "off", "--USER", "carol"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []Line{{file + ":2", []string{"alice", "on", ">pw", "~*"}}, {"--user", []string{"bob", "off"}}, {"--USER", []string{"carol"}}}
	if got := c.Users(); !reflect.DeepEqual(got, want) {
		t.Errorf("users %v, want %v", got, want)
	}
	if got := c.Renames(); !reflect.DeepEqual(got, []Line{{file + ":3", []string{"FLUSHALL", ""}}}) {
		t.Errorf("renames %v", got)
	}
}

// TestFaults holds the texts that a person sees: where, what and what is allowed.
func TestFaults(t *testing.T) {
	for _, test := range []struct {
		text    string
		options []string
		want    string
	}{
		{"port 1\nfoo bar", nil, `:2: unknown setting "foo"; docs/config.md lists all of them, --help those that do something`},
		{"prot 1", nil, `:1: unknown setting "prot"; did you mean port?`},
		{"append-fsync no", nil, `did you mean appendfsync?`},
		{"port 70000", nil, `:1: port "70000": argument must be between 0 and 65535 inclusive`},
		{"port x", nil, `argument couldn't be parsed into an integer; allowed: integer, 0 to 65535`},
		{"port 1 2", nil, `:1: port takes one value, got 2: "1" "2"; allowed: integer, 0 to 65535`},
		{"port", nil, `:1: port takes one value, got none`},
		{"bind", nil, `:1: bind takes one value or more, got none`},
		{"port 6379 # our port", nil, `:1: port takes one value, got 4: "6379" "#" "our" …; allowed: `},
		{`bind ""`, nil, "name at least one address"},
		{"bind " + strings.Repeat("::1 ", maxBindAddresses+1), nil, "Too many bind addresses specified; allowed: 1 to 16 addresses"},
		{`bind "127.0.0.1`, nil, ":1: unbalanced quotes; a closing quote ends its word"},
		{`logfile "a"b`, nil, ":1: unbalanced quotes"},
		{"appendfsync sometimes", nil, `argument(s) must be one of the following: everysec, always, no`},
		{"cluster-enabled yes", nil, `cluster-enabled "yes" is not supported: the server is not part of a cluster`},
		{"daemonize yes", nil, "not supported: the server stays in the foreground"},
		{"replicaof host 6379", nil, `replicaof "host 6379" is not supported`},
		{"user", nil, ":1: user takes a name and rules, got none; allowed: user name [rule …]"},
		{"rename-command FLUSHALL", nil, `:1: rename-command takes two names, got 1: "FLUSHALL"; allowed: rename-command old new`},
		{"include", nil, ":1: include takes one file name or pattern"},
		{"port 1\ninclude /nonexistent/x.conf", nil, "kevy.conf:2: include /nonexistent/x.conf: the configuration file cannot be read: no such file or directory"},
		{"include /", nil, ":1: include /: the configuration file cannot be read: it is a directory"},
		{"appendonly maybe", nil, `:1: appendonly "maybe": argument must be 'yes' or 'no'`},
		{"unixsocketperm 1000", nil, `:1: unixsocketperm "1000": argument must be between 0 and 777 inclusive`},
		{"shutdown-on-sigint x", nil, `:1: shutdown-on-sigint "x": argument(s) must be one of the following: default, save, nosave, now, force`},
		{strings.Repeat("y", 200) + " 1", nil, `:1: unknown setting "` + strings.Repeat("y", maxShownBytes) + `…"`},
		{"", []string{"--port", "--dir", "/x"}, `--port: port takes one value, got 2: "--dir" "/x"; allowed: integer`},
		{"shards 0", nil, "argument must be between 1 and 1024 inclusive"},
		{"feed-backlog-bytes 1", nil, "argument must be between 65536 and"},
		{`dir ""`, nil, "name a directory"},
		{"", []string{"--port"}, "--port: port takes one value, got none"},
		{"", []string{"--port", "1", "2"}, `--port: port takes one value, got 2: "1" "2"`},
		{"", []string{"--port=1"}, `--port=1: unknown setting "port=1"; values stand apart: --port 1`},
		{"", []string{"other.conf"}, "other.conf: settings are given as --name value"},
		{"", []string{"-x"}, "-x: settings are given as --name value"},
		{"", []string{"--"}, "--: not the name of a setting"},
		{"", []string{"--maxmemory", "--port", "1"}, `--maxmemory: maxmemory takes one value, got 2: "--port" "1"; allowed: bytes`},
	} {
		_, err := load(t, test.text, test.options...)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q %q: got error %v\nwant one with %q", test.text, test.options, err, test.want)
		}
	}
	if _, err := Load([]string{"/nonexistent.conf"}, nil); err == nil || !strings.Contains(err.Error(), "/nonexistent.conf: the configuration file cannot be read: no such file") {
		t.Errorf("a missing file: %v", err)
	}
}

func TestFaultsAreAllReported(t *testing.T) {
	_, err := load(t, "foo 1\nport x\ntimeout 1\nbar 2")
	if got := strings.Count(fmt.Sprint(err), "\n") + 1; got != 3 {
		t.Errorf("%d faults reported, want 3: %v", got, err)
	}
	_, err = load(t, strings.Repeat("foo 1\n", 50))
	if got := strings.Split(err.Error(), "\n"); len(got) != maxProblems+1 || got[maxProblems] != "and 40 more" {
		t.Errorf("50 faults: %d lines, the last %q", len(got), got[len(got)-1])
	}
}

// TestAllowedIsSaidOnce holds for each setting and a value that it does not take.
func TestAllowedIsSaidOnce(t *testing.T) {
	refused := 0
	for _, s := range New().Settings() {
		_, err := Load([]string{"--" + s.Name, "-5x"}, nil)
		if err == nil || s.Effect == DefaultOnly {
			continue
		}
		refused++
		text := err.Error()
		if n := strings.Count(text, "must be one of") + strings.Count(text, "must be between") + strings.Count(text, "'yes' or 'no'") + strings.Count(text, "; allowed: "); n != 1 {
			t.Errorf("what is allowed is said %d times: %s", n, text)
		}
	}
	if refused < 100 {
		t.Errorf("%d settings refuse the value", refused)
	}
}

func TestBinaryFile(t *testing.T) {
	for _, text := range []string{
		"\x7fELF\x02\x01\x01\x00\x00" + strings.Repeat("\x00\n\x90\xff\n", 1000),
		strings.Repeat("\xff\xfe \x80\n", 1000),
		"port 1\n" + strings.Repeat("\x1b[2J\x07", 1000) + "\n\x00",
	} {
		_, err := load(t, text)
		if err == nil {
			t.Errorf("%.20q is taken", text)
			continue
		}
		if lines := strings.Split(err.Error(), "\n"); len(lines) > maxProblems+1 || len(err.Error()) > 4000 || strings.ContainsAny(err.Error(), "\x00\x1b\x07") {
			t.Errorf("%.20q: %d lines, %d bytes: %.500q", text, len(lines), len(err.Error()), err)
		}
	}
}

func TestInclude(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	inner := write("inner.conf", "timeout 2\nport 2\nfault 1\n")
	outer := write("outer.conf", "port 1\ninclude "+dir+"/inn*.conf\ninclude "+dir+"/none*.conf\ntimeout 3\n")
	c, err := Load([]string{outer}, nil)
	if err == nil || !strings.Contains(err.Error(), inner+":3: unknown setting") {
		t.Errorf("a fault in the included file: %v", err)
	}
	if c.Port.Load() != 2 || c.TimeoutSeconds.Load() != 3 {
		t.Errorf("port %d, timeout %d", c.Port.Load(), c.TimeoutSeconds.Load())
	}
	bush := write("bush.conf", strings.Repeat("include "+dir+"/bush.conf\n", 3))
	if _, err := Load([]string{bush}, nil); err == nil || !strings.Contains(err.Error(), "and ") {
		t.Errorf("a file that includes itself three times: %v", err)
	}
	many := write("many.conf", strings.Repeat("include "+dir+"/empty.conf\n", maxFiles))
	write("empty.conf", "")
	if _, err := Load([]string{many}, nil); err == nil || !strings.HasSuffix(err.Error(), "empty.conf: more than 1024 files are included") {
		t.Errorf("too many files: %v", err)
	}
	loop := write("loop.conf", "include "+dir+"/loop.conf\n")
	if _, err := Load([]string{loop}, nil); err == nil || !strings.Contains(err.Error(), "files include each other more than 16 deep") {
		t.Errorf("a file that includes itself: %v", err)
	}
}

func TestFileLimits(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"port 1\n#" + strings.Repeat("x", maxLineBytes), fmt.Sprintf(":2: the line is longer than %d bytes", maxLineBytes)},
		{strings.Repeat("#"+strings.Repeat("x", 1022)+"\n", int(maxFileBytes/1024)) + "#", fmt.Sprintf("the configuration is larger than %d bytes", maxFileBytes)},
		{strings.Repeat("port 1\n", maxDirectives+5), fmt.Sprintf("more than %d settings are given", maxDirectives)},
	} {
		_, err := load(t, test.text)
		if err == nil || !strings.HasSuffix(err.Error(), test.want) {
			t.Errorf("got error %v, want %q", err, test.want)
		}
	}
	if _, err := load(t, strings.Repeat("port 1\n", maxDirectives)); err != nil {
		t.Errorf("as many settings as may be given: %v", err)
	}
}

func set(c *Config, words ...string) error {
	var pairs []Pair
	for i := 0; i < len(words); i += 2 {
		pairs = append(pairs, Pair{words[i], words[i+1]})
	}
	return c.Set(pairs)
}

func TestSetAtTheStartOnly(t *testing.T) {
	c := New()
	for _, words := range []string{"appendonly yes", "appendonly YES", "shards 16 feed-backlog-bytes 16mb timeout 5"} {
		if err := set(c, strings.Fields(words)...); err != nil {
			t.Errorf("%s, which it is: %v", words, err)
		}
	}
	for _, words := range []string{"appendonly no", "appendonly x", "shards 8", "databases 16", "timeout 7 feed no"} {
		err := set(c, strings.Fields(words)...)
		if err == nil || !strings.Contains(err.Error(), "can't set immutable config") {
			t.Errorf("%s: %v", words, err)
		}
	}
	if n := c.TimeoutSeconds.Load(); n != 5 {
		t.Errorf("timeout is %d", n)
	}
}

func TestSetIsAtomic(t *testing.T) {
	c := New()
	var calls []string
	refuse := false
	c.OnChange(func() error {
		calls = append(calls, fmt.Sprintf("timeout=%d maxclients=%d", c.TimeoutSeconds.Load(), c.MaxClients.Load()))
		return nil
	}, &c.TimeoutSeconds, &c.MaxClients)
	c.OnChange(func() error {
		calls = append(calls, "fsync="+c.AppendFsync.String())
		if refuse {
			return errors.New("not now")
		}
		return nil
	}, &c.AppendFsync)

	if err := set(c, "timeout", "5", "MAXCLIENTS", "6", "loglevel", "debug"); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(calls, "; "); got != "timeout=5 maxclients=6" {
		t.Errorf("hooks: %s", got)
	}
	if err := set(c, "timeout", "7", "maxclients", "x"); err == nil || c.TimeoutSeconds.Load() != 5 {
		t.Errorf("error %v, timeout %d", err, c.TimeoutSeconds.Load())
	}
	calls, refuse = nil, true
	err := set(c, "timeout", "8", "appendfsync", "always", "busy-reply-threshold", "1", "lua-time-limit", "2")
	if want := "ERR CONFIG SET failed (possibly related to argument 'appendfsync') - not now"; err == nil || err.Error() != want {
		t.Errorf("error %v", err)
	}
	var asResp *resp.Error
	if !errors.As(err, &asResp) || asResp.Code != "ERR" {
		t.Errorf("the error is a %T", err)
	}
	if got := strings.Join(calls, "; "); got != "timeout=8 maxclients=6; fsync=always; timeout=5 maxclients=6" {
		t.Errorf("hooks: %s", got)
	}
	if c.AppendFsync.Load() != FsyncEverySec || c.TimeoutSeconds.Load() != 5 || c.Lookup("lua-time-limit").Text() != "5000" {
		t.Error("values stay after a refusal")
	}
}

func TestGet(t *testing.T) {
	c := New()
	for _, test := range []struct{ patterns, want string }{
		{"port", "port=6379"},
		{"PORT", "PORT=6379"},
		{"PO?T timeou[t]", "port=6379 timeout=0"},
		{"maxmemory max*ory", "maxmemory=0"},
		{"lua-time-limit busy-reply-threshold lua*", "busy-reply-threshold=5000 lua-time-limit=5000"},
		{"*ziplist-en*", "hash-max-ziplist-entries=512 zset-max-ziplist-entries=128"},
		{"nosuch", ""},
		{"", ""},
		{"[n-p]or[^a-s]", "port=6379"},
		{"[P-N]o\\rt", "port=6379"},
		{"port*", "port=6379"},
		{"*a*a*a*a*a*a*a*a*a*a*a*a*a*b", ""},
		{"por[t", "port=6379"},
		{"key-load-delay", "key-load-delay=0"},
		{"key-load-d*", ""},
	} {
		var got []string
		for _, p := range c.Get(strings.Split(test.patterns, " ")...) {
			got = append(got, p.Name+"="+p.Value)
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%q: got %q, want %q", test.patterns, got, test.want)
		}
	}
	want := len(c.byName)
	for _, s := range c.settings {
		if s.hidden {
			want--
		}
	}
	if n := len(c.Get("*")); n != want {
		t.Errorf("* selects %d names of %d", n, want)
	}
}

func TestConcurrentReadAndSet(t *testing.T) {
	c := New()
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range 200 {
				if w == 0 {
					if err := set(c, "timeout", fmt.Sprint(i), "appendfsync", "always", "client-output-buffer-limit", "normal 1 2 3"); err != nil {
						t.Error(err)
					}
					continue
				}
				if n := c.TimeoutSeconds.Load(); n < 0 || n > 200 {
					t.Errorf("timeout %d", n)
				}
				c.ClientOutputBuffer.Load(ClientNormal)
				c.Get("*")
			}
		}()
	}
	wg.Wait()
}

func TestLoadsDoNotAllocate(t *testing.T) {
	c := New()
	n := testing.AllocsPerRun(100, func() {
		if c.Port.Load() == 0 || c.Feed.Load() == (c.AppendFsync.Load() == FsyncAlways) || len(c.Bind.Load()) == 0 ||
			c.Dir.Load() == "" || c.ClientOutputBuffer.Load(ClientReplica).HardBytes == 0 {
			t.Error("not the defaults")
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add("port 1\nbind \"a\" 'b'\n", "--port 2")
	f.Add("save 1 1\nclient-output-buffer-limit normal 1 2 3", "--save")
	f.Fuzz(func(t *testing.T, text, option string) {
		if strings.Contains(strings.ToLower(text), "include") {
			t.Skip("reads other files")
		}
		c, err := Load([]string{"-", option}, strings.NewReader(text))
		if err != nil {
			return
		}
		for _, s := range c.Settings() {
			if _, err := s.parse(s.Text(), false); err != nil {
				t.Errorf("%s does not read its own text %q: %v", s.Name, s.Text(), err)
			}
		}
	})
}
