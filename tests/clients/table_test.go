package clients

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kevy/tests/certs"
	"kevy/tests/process"
)

// What a row of the table does, in this order, each through the client's own
// interface.
const (
	// stepConnect: the handshake with user, password and name; a wrong password, and
	// a command and a key that the user may not use.
	stepConnect = "connect"
	// stepPipeline: thousands of commands at once, with an error in its place.
	stepPipeline = "pipeline"
	// stepTransaction: MULTI and EXEC, EXEC after a watched key was written, and after
	// a command that was refused when it was queued.
	stepTransaction = "transaction"
	// stepPubSub: SUBSCRIBE, PSUBSCRIBE and, where the client has it, SSUBSCRIBE.
	stepPubSub = "pub/sub"
	// stepCaching: CLIENT TRACKING; the client's own cache where it has one, which forgets
	// what another client writes, else what it is told of that.
	stepCaching = "caching"
	// stepScript: EVALSHA of a script that the server does not know, then with EVAL, then
	// again; and one that fails.
	stepScript = "script"
	// stepBlocking: BLPOP that is served by another client, and one that is not.
	stepBlocking = "blocking pop"
	// stepValues: 8 MiB of every byte there and back.
	stepValues = "big values"
	// stepReconnect: CLIENT KILL of the client's connection, and kill -9 of the server; the
	// client is used again, and what it wrote is there.
	stepReconnect = "reconnect"
)

var allSteps = []string{stepConnect, stepPipeline, stepTransaction, stepPubSub, stepCaching, stepScript, stepBlocking, stepValues, stepReconnect}

// tableRow is one client over one transport and protocol.
type tableRow struct {
	client, over string
	protocol     int
	// without names the steps that the client has nothing for.
	without []string
	use     func(u *usage)
}

func (r tableRow) name() string { return fmt.Sprintf("%s/%s/RESP%d", r.client, r.over, r.protocol) }

func (r tableRow) steps() []string {
	return slices.DeleteFunc(slices.Clone(allSteps), func(step string) bool { return slices.Contains(r.without, step) })
}

// Transports.
const (
	overTCP  = "TCP"
	overTLS  = "TLS"
	overUnix = "Unix socket"
)

// tableRows are the rows of the table in docs/clients.md.
func tableRows() (rows []tableRow) {
	for _, c := range []struct {
		client    string
		over      []string
		protocols []int
		without   map[int][]string
		use       func(u *usage)
	}{
		{"ioredis", []string{overTCP, overTLS}, []int{2, 3}, nil, useProgram("ioredis.mjs", nodeProgram)},
		{"node-redis", []string{overTCP, overTLS}, []int{2, 3}, nil, useProgram("node-redis.mjs", nodeProgram)},
		{"go-redis", []string{overTCP, overTLS}, []int{2, 3}, nil, useGoRedis},
		{"redigo", []string{overTCP, overTLS}, []int{2}, nil, useRedigo},
		{"rueidis", []string{overTCP, overTLS}, []int{2, 3}, map[int][]string{2: {stepCaching}}, useRueidis},
		{"redis-py", []string{overTCP, overTLS}, []int{2}, nil, useProgram("redis_py.py", pythonProgram)},
		{"hiredis", []string{overTCP, overUnix}, []int{2}, nil, useProgram("hiredis.c", cProgram)},
		{"redis-cli", []string{overTCP, overTLS}, []int{2, 3}, nil, useRedisCLI},
	} {
		for _, over := range c.over {
			for _, protocol := range c.protocols {
				rows = append(rows, tableRow{c.client, over, protocol, c.without[protocol], c.use})
			}
		}
	}
	return rows
}

// The user that the clients are.
const (
	tableUser     = "app"
	tablePassword = "an app's secret"
	tableRules    = "on >" + tablePassword + " ~app:* &app:* &__redis__:invalidate +@all -@dangerous +client +info"
)

// usage is the run of one row.
type usage struct {
	*testing.T
	tableRow
	host     string // or the path of a Unix socket, with port 0
	port     int
	tls      *tls.Config // nil without TLS
	ca       string
	pair     certs.Pair
	restart  func() // kills the server and starts it on the same data and ports
	finished []string
}

// TestTable runs every row of the table in docs/clients.md.
func TestTable(t *testing.T) {
	for _, row := range tableRows() {
		t.Run(row.name(), func(t *testing.T) {
			t.Parallel()
			u := begin(t, row)
			u.use(u)
			if !t.Failed() && !slices.Equal(u.finished, row.steps()) {
				t.Errorf("it did %q, want %q", u.finished, row.steps())
			}
		})
	}
}

// begin starts a server for a row.
func begin(t *testing.T, row tableRow) *usage {
	t.Helper()
	u := &usage{T: t, tableRow: row, host: "localhost"}
	dir := t.TempDir()
	users := filepath.Join(dir, "users.acl")
	hashed := fmt.Sprintf("user %s %s\n", tableUser, strings.Replace(tableRules, ">"+tablePassword, "#"+sha256Hex(tablePassword), 1))
	if err := os.WriteFile(users, []byte("user default on nopass ~* &* +@all\n"+hashed), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := process.Config{Dir: filepath.Join(dir, "data"), Args: []string{"--aclfile", users, "--appendonly", "yes"}}
	port, err := process.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	u.port = port
	switch row.over {
	case overTLS:
		if u.port, err = process.FreePort(); err != nil {
			t.Fatal(err)
		}
		authority := certs.New(t)
		server, client := authority.Issue("server"), authority.Issue("client")
		u.ca, u.pair, u.tls = authority.File, client, authority.Client(client)
		cfg.Args = append(cfg.Args, "--tls-port", strconv.Itoa(u.port), "--tls-cert-file", server.Cert, "--tls-key-file", server.Key, "--tls-ca-cert-file", u.ca)
	case overUnix:
		u.host, u.port = filepath.Join(dir, "kevy.sock"), 0
		cfg.Args = append(cfg.Args, "--unixsocket", u.host)
	}
	var s *process.Server
	start := func() {
		t.Helper()
		if s, err = process.LaunchOn(process.Subject(t), cfg, port); err != nil {
			t.Fatal(err)
		}
		if err := s.WaitReady(60 * time.Second); err != nil {
			s.Kill()
			t.Fatalf("%v\n%s", err, s.Log())
		}
	}
	start()
	t.Cleanup(func() { s.Kill() })
	u.restart = func() {
		t.Helper()
		s.Kill()
		start()
	}
	return u
}

// step notes that a step went well.
func (u *usage) step(name string) { u.finished = append(u.finished, name) }

// must ends the row at an error.
func (u *usage) must(err error) {
	u.Helper()
	if err != nil {
		u.Fatalf("after %q: %v", u.finished, err)
	}
}

// check ends the row where something is not as it should be.
func (u *usage) check(what string, got, want any) {
	u.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		u.Fatalf("after %q: %s: %v, want %v", u.finished, what, got, want)
	}
}

// refused ends the row unless an error of the server begins with code.
func (u *usage) refused(err error, code string) {
	u.Helper()
	if err == nil || !strings.HasPrefix(err.Error(), code) {
		u.Fatalf("after %q: the error is %v, want %s", u.finished, err, code)
	}
}

// eventually waits until try is content.
func (u *usage) eventually(what string, try func() error) {
	u.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			u.Fatalf("after %q: %s: %v", u.finished, what, err)
		}
	}
}

// bigValue is every byte, 8 MiB in all.
func bigValue() []byte {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return bytes.Repeat(all, 8<<20/len(all))
}

// countScript adds ARGV[1] to KEYS[1].
const countScript = "return redis.call('INCRBY', KEYS[1], ARGV[1])"

// blockedClients is what INFO says of clients that wait.
func blockedClients(info string) error {
	if !strings.Contains(info, "blocked_clients:1\r\n") {
		return errors.New("nobody is blocked")
	}
	return nil
}

// useProgram runs a program of testdata/table, which gets host, port, protocol,
// user and password, and over TLS the files of the authority, the certificate and
// its key. It prints a line for each step that it has finished, and "restart" where
// the server is to be restarted; it gets a line when that has been done.
func useProgram(file string, command func(u *usage, dir, file string) []string) func(u *usage) {
	return func(u *usage) {
		dir := u.TempDir()
		code, err := os.ReadFile(filepath.Join("testdata", "table", file))
		u.must(err)
		u.must(os.WriteFile(filepath.Join(dir, file), code, 0o644))
		words := append(command(u, dir, file), u.host, strconv.Itoa(u.port), strconv.Itoa(u.protocol), tableUser, tablePassword)
		if u.tls != nil {
			words = append(words, u.ca, u.pair.Cert, u.pair.Key)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, words[0], words[1:]...)
		cmd.Dir = dir
		cmd.WaitDelay = 5 * time.Second
		var errs bytes.Buffer
		cmd.Stderr = &errs
		in, err := cmd.StdinPipe()
		u.must(err)
		out, err := cmd.StdoutPipe()
		u.must(err)
		u.must(cmd.Start())
		var other []string
		for lines := bufio.NewScanner(out); lines.Scan(); {
			switch line := lines.Text(); {
			case line == "restart":
				u.restart()
				_, _ = fmt.Fprintln(in)
			case slices.Contains(allSteps, line):
				u.step(line)
			default:
				other = append(other, line)
			}
		}
		if err := cmd.Wait(); err != nil || len(other) > 0 {
			u.Errorf("after %q: %v, prints %q\n%s", u.finished, err, other, errs.String())
		}
	}
}

func nodeProgram(u *usage, dir, _ string) []string { return installNode(u.T, dir) }

func pythonProgram(u *usage, _, file string) []string { return []string{pythonWithRedis(u.T), file} }

func cProgram(u *usage, dir, file string) []string {
	gcc := process.Tool(u.T, "gcc")
	if _, err := os.Stat("/usr/include/hiredis/hiredis.h"); err != nil {
		if os.Getenv(process.RequireTools) != "" {
			u.Fatalf("libhiredis-dev is not installed, and %s is set", process.RequireTools)
		}
		u.Skip("libhiredis-dev is not installed")
	}
	path := filepath.Join(dir, strings.TrimSuffix(file, ".c"))
	if out, err := exec.Command(gcc, "-Wall", "-Werror", "-o", path, filepath.Join(dir, file), "-lhiredis").CombinedOutput(); err != nil {
		u.Fatalf("%v\n%s", err, out)
	}
	return []string{path}
}

var rewriteTable = flag.Bool("rewrite", false, "write the table in docs/clients.md anew")

// TestTableDocument holds the table in docs/clients.md, and the versions behind it,
// to what TestTable runs.
func TestTableDocument(t *testing.T) {
	const file = "../../docs/clients.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	fmt.Fprintf(&want, "| TestTable/ | %s |\n|%s\n", strings.Join(allSteps, " | "), strings.Repeat(" --- |", len(allSteps)+1))
	rows := tableRows()
	for _, row := range rows {
		fmt.Fprintf(&want, "| %s |", row.name())
		for _, step := range allSteps {
			if slices.Contains(row.without, step) {
				want.WriteString(" – |")
			} else {
				want.WriteString(" yes |")
			}
		}
		want.WriteByte('\n')
	}
	if len(rows) < 26 {
		t.Errorf("there are %d rows", len(rows))
	}
	before, rest, found := strings.Cut(string(text), "| TestTable/ |")
	end := strings.Index(rest, "\n\n")
	if !found || end < 0 {
		t.Fatal("the document has no table")
	}
	whole := before + want.String() + rest[end+1:]
	if *rewriteTable {
		if err := os.WriteFile(file, []byte(whole), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if whole != string(text) {
		t.Errorf("its table is not what is run; go test ./tests/clients -run TestTableDocument -rewrite makes it\n%s", want.String())
	}

	var node struct{ Dependencies map[string]string }
	if data, err := os.ReadFile("testdata/node/package.json"); err != nil || json.Unmarshal(data, &node) != nil {
		t.Fatalf("package.json: %v", err)
	}
	versions := []string{"ioredis " + node.Dependencies["ioredis"], "redis " + node.Dependencies["redis"]}
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range []string{"github.com/redis/go-redis/v9", "github.com/gomodule/redigo", "github.com/redis/rueidis"} {
		_, rest, found := strings.Cut(string(mod), "\t"+module+" ")
		if !found {
			t.Fatalf("%s is not in go.mod", module)
		}
		version, _, _ := strings.Cut(rest, "\n")
		versions = append(versions, module+" "+version)
	}
	for _, version := range versions {
		if !strings.Contains(string(text), version) {
			t.Errorf("the document does not say %q", version)
		}
	}
}
