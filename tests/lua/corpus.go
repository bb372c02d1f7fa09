// Package lua holds what tests of scripts share: files of scripts with the answers
// of redis-server 7.0.15, and the servers that run them.
//
// A file holds scripts with an empty line between two. Behind a script stand its
// answers: "--2 " and a quoted reply, and "--3 " with another where RESP3 has one.
// "--differs " says why kevy answers another way, and "--ours2 " what it answers.
package lua

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Keys and Args are what each script is given.
var Keys, Args = []string{"k1", "k2"}, []string{"a", "10", "3.5", ""}

// Script is a script and what it must answer.
type Script struct {
	Source  string
	Answers map[int]string // by version of the protocol
	Differs string         // why kevy answers another way, if it does
	Ours    string         // what it answers then, in RESP2
}

// Read reads a file of scripts.
func Read(t testing.TB, path string) []*Script {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var scripts []*Script
	for part := range strings.SplitSeq(strings.TrimSpace(string(b)), "\n\n") {
		s := &Script{Answers: map[int]string{}}
		var source []string
		for line := range strings.SplitSeq(strings.Trim(part, "\n"), "\n") {
			mark, rest, _ := strings.Cut(line, " ")
			switch mark {
			case "--2", "--3", "--ours2":
				text, err := strconv.Unquote(rest)
				if err != nil {
					t.Fatalf("%s: %s: %v", path, line, err)
				}
				switch mark {
				case "--ours2":
					s.Ours = text
				default:
					s.Answers[int(mark[2]-'0')] = text
				}
			case "--differs":
				s.Differs = rest
			default:
				source = append(source, line)
			}
		}
		s.Source = strings.Join(source, "\n")
		if _, ok := s.Answers[3]; !ok && len(s.Answers) > 0 {
			s.Answers[3] = s.Answers[2]
		}
		scripts = append(scripts, s)
	}
	return scripts
}

// Write writes scripts back.
func Write(t testing.TB, path string, scripts []*Script) {
	t.Helper()
	var b strings.Builder
	for i, s := range scripts {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "%s\n--2 %q\n", s.Source, s.Answers[2])
		if s.Answers[3] != s.Answers[2] {
			fmt.Fprintf(&b, "--3 %q\n", s.Answers[3])
		}
		if s.Differs != "" {
			fmt.Fprintf(&b, "--differs %s\n--ours2 %q\n", s.Differs, s.Ours)
		}
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Server is a server to ask, with a connection for each version of the protocol.
type Server struct {
	conn map[int]net.Conn
	r    map[int]*bufio.Reader
}

// StartOracle starts redis-server 7.0.15, nil where it is not installed.
func StartOracle(t testing.TB) *Server {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil
	}
	if out, _ := exec.Command(path, "--version").Output(); !bytes.Contains(out, []byte("v=7.0.15")) {
		return nil
	}
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	cmd := exec.Command(path, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", dir, "--enable-debug-command", "yes")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return Connect(t, "unix", socket)
}

// Connect connects to a server that may not listen yet.
func Connect(t testing.TB, network, address string) *Server {
	t.Helper()
	o := &Server{conn: map[int]net.Conn{}, r: map[int]*bufio.Reader{}}
	for proto := 2; proto <= 3; proto++ {
		for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
			c, err := net.Dial(network, address)
			if err == nil {
				o.conn[proto], o.r[proto] = c, bufio.NewReader(c)
				t.Cleanup(func() { _ = c.Close() })
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("the server does not listen:", err)
			}
		}
	}
	o.Do(t, 3, "HELLO", "3")
	return o
}

// Do runs a command and returns the bytes of its reply.
func (o *Server) Do(t testing.TB, proto int, args ...string) string {
	t.Helper()
	const marker = "@@end of the reply@@"
	var b bytes.Buffer
	for _, cmd := range [][]string{args, {"ECHO", marker}} {
		fmt.Fprintf(&b, "*%d\r\n", len(cmd))
		for _, a := range cmd {
			fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
		}
	}
	if err := o.conn[proto].SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := o.conn[proto].Write(b.Bytes()); err != nil {
		t.Fatal(err)
	}
	end := fmt.Appendf(nil, "$%d\r\n%s\r\n", len(marker), marker)
	var reply []byte
	for !bytes.HasSuffix(reply, end) {
		part, err := o.r[proto].ReadSlice('\n')
		if err != nil && err != bufio.ErrBufferFull {
			t.Fatalf("the server has gone at %q: %v", args, err)
		}
		reply = append(reply, part...)
	}
	return string(reply[:len(reply)-len(end)])
}

// Eval runs a script.
func (o *Server) Eval(t testing.TB, proto int, source string) string {
	t.Helper()
	args := []string{"EVAL", source, strconv.Itoa(len(Keys))}
	args = append(args, Keys...)
	return o.Do(t, proto, append(args, Args...)...)
}
