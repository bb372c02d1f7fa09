package clients

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"kevy/internal/changejson"
	"kevy/tests/process"
)

// TestHTTPDocument runs the curl commands of docs/http.md, as they stand there
// but for the port.
func TestHTTPDocument(t *testing.T) {
	shell := program{path: process.Tool(t, "sh"), args: []string{"-c"}}
	process.Tool(t, "curl")
	port, err := process.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	s := process.Start(t, process.Subject(t), process.Config{Args: []string{"--http-port", strconv.Itoa(port)}})
	if err := s.WaitReady(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	cli := tool(t, "redis-cli", s)
	cli.prints(t, "OK\n", "SET", "user:1", "a")
	cli.prints(t, "OK\n", "ACL", "SETUSER", "indexer", "on", ">secret", "%R~item:*", "+changes")
	text, err := os.ReadFile("../../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	for line := range strings.Lines(string(text)) {
		command, found := strings.CutPrefix(strings.TrimRight(line, "\n"), "    curl ")
		if !found {
			continue
		}
		commands++
		command = "curl -sS --fail-with-body --max-time 1 " + strings.ReplaceAll(command, "localhost:6380", "127.0.0.1:"+strconv.Itoa(port))
		got := shell.run(t, 20*time.Second, nil, command)
		// What follows is ended by the time that it was given.
		if ends := !strings.Contains(command, "-N"); got.code != 0 && (ends || got.code != 28) {
			t.Errorf("%s: code %d\n%s%s", command, got.code, got.out, got.err)
		}
		frames := 0
		for line := range strings.Lines(got.out) {
			if f, err := changejson.ParseFrame([]byte(strings.TrimPrefix(line, "data: "))); err == nil && string(f.Args[1]) == "user:1" {
				frames++
			}
		}
		if want := strings.Contains(command, "start=oldest"); (frames == 1) != want || !strings.Contains(got.out, `"generation":`) ||
			strings.Contains(command, "start=snapshot") && !strings.Contains(got.out, `"args":["SET","user:1","a"]}`) {
			t.Errorf("%s: %d frames in\n%s", command, frames, got.out)
		}
	}
	if commands < 3 {
		t.Errorf("the document has %d commands", commands)
	}
}
