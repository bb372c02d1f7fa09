package cases

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"kevy/tests/process"
	"kevy/tests/wire"
)

// command is a command as it stands in a log.
func command(args ...string) string { return string(wire.AppendStrings(nil, args...)) }

// TestCutTransaction cuts a log within its last transaction, in every command and between them, and starts on
// it with fsync always: the transaction is there whole or not at all, and a write that is acknowledged then
// does not land inside it, where the start after that would lose it.
func TestCutTransaction(t *testing.T) {
	t.Parallel()
	b := subject(t, "loses such writes")
	before := command("SELECT", "0") + command("SET", "foo", "hello")
	transaction := command("MULTI") + command("SET", "bar", "world") + command("INCR", "n") + command("EXEC")
	logs := map[string]struct{ text, transaction string }{"written by redis-server": {before + transaction, transaction}}

	// Our own log, in which the transaction is a block.
	s := process.Start(t, b, process.Config{Args: []string{"--appendfsync", "always", "--shards", "4"}})
	c := s.Conn(t)
	do(t, c, "SET", "foo", "hello")
	size := len(readFile(t, incrFile(t, s.Dir)))
	pipeline(t, c, []string{"MULTI"}, []string{"SET", "bar", "world"}, []string{"INCR", "n"}, []string{"EXEC"})
	s.Kill()
	own := readFile(t, incrFile(t, s.Dir))
	block := own[size:]
	if !strings.Contains(block, "MULTI") || !strings.HasSuffix(block, "EXEC\r\n") {
		t.Fatalf("the last block is %q", block)
	}
	logs["our own"] = struct{ text, transaction string }{own, block}

	for name, log := range logs {
		t.Run(name, func(t *testing.T) {
			start := len(log.text) - len(log.transaction)
			cuts := []int{start + 1, start + 5, len(log.text) - 1, len(log.text) - 2}
			for _, mark := range []string{"$5\r\nMULTI", "MULTI\r\n*", "SET\r\n$3\r\nbar", "world", "$4\r\nEXEC", "EXEC\r\n"} {
				i := strings.LastIndex(log.text, mark)
				if i < start {
					t.Fatalf("no %q in the transaction %q", mark, log.transaction)
				}
				cuts = append(cuts, i+len(mark)/2)
			}
			for _, at := range cuts {
				dir := redisDir(t, log.text[:at])
				if name == "our own" {
					dir = copyDir(t, s.Dir)
					if err := os.WriteFile(incrFile(t, dir), []byte(log.text[:at]), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				for round := range 2 {
					s := process.Start(t, b, process.Config{Dir: dir, Args: []string{"--appendfsync", "always"}})
					c := s.Conn(t)
					got := do(t, c, "MGET", "foo", "bar", "n", "new").String()
					want := []string{`["hello", $nil, $nil, $nil]`, `["hello", $nil, $nil, "0"]`}[round]
					if got != want {
						t.Errorf("cut %d bytes into the transaction, start %d: %s, want %s", at-start, round, got, want)
					}
					do(t, c, "SET", "new", strconv.Itoa(round))
					s.Kill()
				}
			}
			dir := redisDir(t, log.text)
			if name == "our own" {
				dir = copyDir(t, s.Dir)
			}
			s := process.Start(t, b, process.Config{Dir: dir})
			if got := do(t, s.Conn(t), "MGET", "foo", "bar", "n").String(); got != `["hello", "world", "1"]` {
				t.Errorf("uncut: %s", got)
			}
		})
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestUnloadable starts on directories that cannot be loaded: each is refused with exit code 1 and the name of
// what is wrong, and left as it was.
func TestUnloadable(t *testing.T) {
	b := process.Subject(t)
	const manifest, base, incr = "appendonly.aof.manifest", "appendonly.aof.1.base.aof", "appendonly.aof.1.incr.aof"
	set := command("SELECT", "0") + command("SET", "k", "v")
	for _, tc := range []struct {
		name string
		// file of a sound directory gets another text, or goes where text is empty.
		file, text string
		says       []string
	}{
		{"base is missing", base, "", []string{base}},
		{"incr is missing", incr, "", []string{incr}},
		{"unknown command", incr, set + command("NOSUCHCMD", "a") + set, []string{incr, "NOSUCHCMD"}},
		{"unknown command in the base", base, set + command("NOSUCHCMD", "a") + set, []string{base, "NOSUCHCMD"}},
		{"unknown command in a transaction", incr, set + command("MULTI") + command("NOSUCHCMD", "a") + command("EXEC") + set, []string{incr, "NOSUCHCMD"}},
		{"no protocol", incr, set + "hello\r\n" + set, []string{incr}},
		{"manifest of nonsense", manifest, "nonsense\n", []string{manifest}},
		{"manifest that leaves the directory", manifest, "file ../appendonly.aof.1.base.aof seq 1 type b\n", []string{manifest}},
		{"manifest with an unknown type", manifest, "file " + base + " seq 1 type x\n", []string{manifest}},
		{"manifest with two bases", manifest, "file " + base + " seq 1 type b\nfile " + base + " seq 2 type b\n", []string{manifest}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := redisDir(t, set)
			path := filepath.Join(dir, "appendonlydir", tc.file)
			var err error
			if tc.text == "" {
				err = os.Remove(path)
			} else {
				err = os.WriteFile(path, []byte(tc.text), 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
			if b.Redis && tc.file == manifest {
				tc.says = []string{"MANIFEST"}
			}
			refused(t, b, process.Config{Dir: dir}, tc.says...)
			for _, name := range []string{manifest, base, incr} {
				was, want := []byte(tc.text), name == tc.file && tc.text == ""
				switch {
				case name == tc.file:
				case name == incr:
					was = []byte(set)
				case name == base:
					was = nil
				default:
					continue
				}
				now, err := os.ReadFile(filepath.Join(dir, "appendonlydir", name))
				if os.IsNotExist(err) != want || !want && !bytes.Equal(now, was) {
					t.Errorf("%s is %.200q, %v; it was %.200q", name, now, err, was)
				}
			}
		})
	}
}

// TestTornTailRefused starts on logs whose end is torn, with aof-load-truncated no: each is refused, with the
// file, the setting and the tool named and nothing changed; with yes the same logs are cut and served.
func TestTornTailRefused(t *testing.T) {
	b := process.Subject(t)
	set := command("SELECT", "0") + command("SET", "k", "v")
	torn := map[string]string{
		"a command cut short": set + command("SET", "k", "w")[:12],
		"an open transaction": set + command("MULTI") + command("SET", "k", "w"),
	}
	for name, text := range torn {
		t.Run(name, func(t *testing.T) {
			tornStart(t, b, redisDir(t, text), []byte(text))
		})
	}
	if b.Redis {
		return
	}
	s := process.Start(t, b, process.Config{Args: []string{"--appendfsync", "always"}})
	c := s.Conn(t)
	do(t, c, "SET", "k", "v")
	size := len(readFile(t, incrFile(t, s.Dir)))
	do(t, c, "SET", "k", strings.Repeat("w", 100))
	s.Kill()
	own := readFile(t, incrFile(t, s.Dir))
	for _, at := range []int{size + 1, size + 30, len(own) - 1} {
		t.Run(fmt.Sprintf("a block cut to %d bytes", at-size), func(t *testing.T) {
			dir := copyDir(t, s.Dir)
			if err := os.WriteFile(incrFile(t, dir), []byte(own[:at]), 0o644); err != nil {
				t.Fatal(err)
			}
			tornStart(t, b, dir, []byte(own[:at]))
		})
	}
	// What is whole is served either way.
	again := process.Start(t, b, process.Config{Dir: s.Dir, Args: []string{"--aof-load-truncated", "no"}})
	if r := do(t, again.Conn(t), "STRLEN", "k"); r.String() != ":100" {
		t.Errorf("STRLEN k: %s", r)
	}
}

// tornStart starts twice on a directory whose log is text and ends torn behind SET k v.
func tornStart(t *testing.T, b process.Binary, dir string, text []byte) {
	t.Helper()
	file := incrFile(t, dir)
	refused(t, b, process.Config{Dir: dir, Args: []string{"--aof-load-truncated", "no"}}, filepath.Base(file), "aof-load-truncated", "redis-check-aof")
	if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, text) {
		t.Errorf("the refused start has changed the file: %v", err)
	}
	s := process.Start(t, b, process.Config{Dir: dir, Args: []string{"--aof-load-truncated", "yes"}})
	if r := do(t, s.Conn(t), "GET", "k"); string(r.Text) != "v" {
		t.Errorf("with the tail cut GET k is %s", r)
	}
}
