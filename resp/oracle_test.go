package resp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// startRedis starts a redis-server of the machine for one test and returns its
// address; without one the test is skipped.
func startRedis(t *testing.T, options ...string) string {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not installed")
	}
	const attempts = 5 // another process may take the port in between
	for range attempts {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := l.Addr().String()
		l.Close()
		_, port, _ := net.SplitHostPort(addr)
		args := append([]string{"--bind", "127.0.0.1", "--port", port, "--dir", t.TempDir(), "--save", "", "--appendonly", "no", "--enable-debug-command", "yes"}, options...)
		cmd := exec.Command(program, args...)
		var log bytes.Buffer
		cmd.Stdout, cmd.Stderr = &log, &log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { cmd.Wait(); close(ended) }()
		stop := sync.OnceFunc(func() { cmd.Process.Kill(); <-ended })
		if waitForPing(addr, ended) {
			t.Cleanup(stop)
			return addr
		}
		stop()
		t.Logf("redis-server did not start: %s", log.String())
	}
	t.Fatal("redis-server does not start")
	return ""
}

func waitForPing(addr string, ended <-chan struct{}) bool {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		select {
		case <-ended:
			return false
		case <-time.After(20 * time.Millisecond):
		}
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			continue
		}
		conn.SetDeadline(time.Now().Add(time.Second))
		io.WriteString(conn, "PING\r\n")
		line, _ := bufio.NewReader(conn).ReadString('\n')
		conn.Close()
		if strings.HasPrefix(line, "+PONG") || strings.HasPrefix(line, "-NOAUTH") {
			return true
		}
	}
	return false
}

// exchange sends in on a connection of its own, ends its own side and returns
// all that comes back.
func exchange(t *testing.T, addr, in string) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		io.WriteString(conn, in) // fails when the server has closed: the reply says why
		conn.(*net.TCPConn).CloseWrite()
	}()
	var out bytes.Buffer
	_, err = io.Copy(&out, conn)
	var netErr net.Error
	if errors.As(err, &netErr) && netErr.Timeout() {
		t.Fatalf("no end of the replies to %.100q", in)
	}
	<-sent
	return out.String()
}

// answer is what redis-server answers to commands of the tests here, and to
// a protocol error. Errors for unknown commands are cut to their first word,
// on both sides, by normalize.
func answer(commands [][]string, problem string) string {
	w := NewWriter(2)
	for _, c := range commands {
		switch name := strings.ToUpper(c[0]); {
		case name == "PING" && len(c) == 1:
			w.Simple("PONG")
		case name == "PING" && len(c) == 2, name == "ECHO" && len(c) == 2:
			w.BulkString(c[1])
		case name == "PING" || name == "ECHO":
			w.Error(Errorf("ERR", "wrong number of arguments for '%s' command", strings.ToLower(name)))
		case name == "EVAL" && len(c) >= 3 && c[2] == "0":
			w.Array(len(c) - 3)
			for _, a := range c[3:] {
				w.BulkString(a)
			}
		default:
			w.Error(Errorf("ERR", "unknown command"))
		}
	}
	if problem != "" {
		w.Error(Errorf("ERR", "Protocol error: %s", problem))
	}
	return string(w.Bytes())
}

func normalize(t *testing.T, replies string) string {
	t.Helper()
	r := bufio.NewReader(strings.NewReader(replies))
	w := NewWriter(2)
	for {
		reply, err := ReadReply(r)
		if err == io.EOF {
			return string(w.Bytes())
		}
		if err != nil {
			t.Fatalf("replies %.200q: %v", replies, err)
		}
		if err, ok := reply.Err().(*Error); ok {
			if strings.HasPrefix(err.Text, "unknown command") {
				err.Text = "unknown command"
			}
			w.Error(err)
			continue
		}
		writeReply(w, reply)
	}
}

func writeReply(w *Writer, r Reply) {
	switch r.Type {
	case '+':
		w.Simple(string(r.Str))
	case ':':
		w.Int(r.Int)
	case '$':
		w.Bulk(r.Str)
	case '*':
		w.Array(len(r.Elems))
		for _, e := range r.Elems {
			writeReply(w, e)
		}
	default:
		panic(fmt.Sprintf("reply %v", r))
	}
}

func TestOracleProtocol(t *testing.T) {
	addr := startRedis(t)
	for _, c := range protocolCases {
		t.Run(c.name, func(t *testing.T) {
			commands, problem := readAll(t, NewReader(strings.NewReader(c.in), DefaultLimits()))
			got := normalize(t, exchange(t, addr, c.in))
			if want := answer(commands, problem); got != want {
				t.Errorf("redis-server answers %.300q, we would %.300q", got, want)
			}
		})
	}
}

func TestOracleUnauthenticated(t *testing.T) {
	addr := startRedis(t, "--requirepass", "secret")
	for _, c := range unauthenticatedCases {
		t.Run(c.name, func(t *testing.T) {
			_, problem := readAll(t, NewReader(strings.NewReader(c.in), UnauthenticatedLimits()))
			if got, want := exchange(t, addr, c.in), answer(nil, problem); got != want {
				t.Errorf("redis-server answers %.300q, we would %.300q", got, want)
			}
		})
	}
}

func TestOracleProtoMaxBulkLen(t *testing.T) {
	addr := startRedis(t, "--proto-max-bulk-len", "1mb")
	for _, n := range []int{1 << 20, 1<<20 + 1} {
		in := fmt.Sprintf("*2\r\n$4\r\nPING\r\n$%d\r\n", n)
		_, problem := readAll(t, NewReader(strings.NewReader(in), Limits{MaxBulkBytes: 1 << 20}))
		if got, want := exchange(t, addr, in), answer(nil, problem); got != want {
			t.Errorf("%d: redis-server answers %q, we would %q", n, got, want)
		}
	}
}

// TestOracleRandom sends random streams, most of them broken somewhere.
func TestOracleRandom(t *testing.T) {
	addr := startRedis(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	pick := func(s ...string) string { return s[rng.IntN(len(s))] }
	const streams = 6000
	problems := map[string]int{}
	for range streams {
		var sb strings.Builder
		for range 1 + rng.IntN(4) {
			switch rng.IntN(3) {
			case 0:
				sb.WriteString(pick("", "  ") + `EVAL "return ARGV" 0`)
				for range rng.IntN(4) {
					sb.WriteString(pick(" ", "\t", " \v", "  ", "\f "))
					for range 1 + rng.IntN(4) {
						sb.WriteString(pick("a", "b", `"c d"`, `'e f'`, `"`, `'`, `\`, `\n`, `\x41`, `"\x4g\xFf"`, `'\''`, `"\""`, "\r", "\v", "é", "\xff", `""`, `"\a\b\t"`))
					}
				}
				sb.WriteString(pick("\r\n", "\n", "\r\n", "\r\r\n"))
			default:
				in := encode("EVAL", "return ARGV", "0", pick("", "x", "0123456789abc", "\r\n"), pick("$1\r\n", "y"))
				sb.WriteString(in)
			}
		}
		in := []byte(sb.String())
		for range rng.IntN(3) {
			i := rng.IntN(len(in))
			switch rng.IntN(4) {
			case 0:
				in[i] = pick("\x00", "\r", "\n", "*", "$", "-", "0", "1", "9", " ", "\xff")[0]
			case 1:
				in = append(in[:i], in[i+1:]...)
			case 2:
				in = append(in[:i], append([]byte(pick("0", "1", "-", "\r\n", "$", "*", "\"", "'", "\n")), in[i:]...)...)
			case 3:
				in = in[:i+1]
			}
		}
		commands, problem := readAll(t, NewReader(bytes.NewReader(in), DefaultLimits()))
		if slices.ContainsFunc(commands, func(c []string) bool {
			return strings.EqualFold(c[0], "EVAL") && (len(c) < 3 || c[1] != "return ARGV" || c[2] != "0")
		}) {
			continue // a mutation hit the script: answer does not know what it does
		}
		problems[problem]++
		got := normalize(t, exchange(t, addr, string(in)))
		if want := answer(commands, problem); got != want {
			t.Fatalf("seed %d, input %q:\nredis-server answers %q\nwe would            %q", seed, in, got, want)
		}
	}
	for _, p := range []string{"", "invalid bulk length", "invalid multibulk length", "unbalanced quotes in request"} {
		if problems[p] < 10 {
			t.Errorf("problem %q came up %d times only", p, problems[p])
		}
	}
}

// TestOracleShapes compares each shape with what DEBUG PROTOCOL shows of it.
func TestOracleShapes(t *testing.T) {
	addr := startRedis(t)
	shapes := map[string]func(w *Writer){
		"string":  func(w *Writer) { w.BulkString("Hello World") },
		"integer": func(w *Writer) { w.Int(12345) },
		"null":    func(w *Writer) { w.Null() },
		"array":   func(w *Writer) { w.Array(3); w.Int(0); w.Int(1); w.Int(2) },
		"set":     func(w *Writer) { m := w.Begin(); w.Int(0); w.Int(1); w.Int(2); w.EndSet(m, 3) },
		"map": func(w *Writer) {
			w.Map(3)
			w.Int(0)
			w.Bool(false)
			w.Int(1)
			w.Bool(true)
			w.Int(2)
			w.Bool(false)
		},
		"verbatim": func(w *Writer) { w.Verbatim("txt", "This is a verbatim\nstring") },
		"true":     func(w *Writer) { w.Bool(true) },
		"false":    func(w *Writer) { w.Bool(false) },
		"bignum":   func(w *Writer) { w.BigNumber("1234567999999999999999999999999999999") },
		"push": func(w *Writer) {
			if w.Proto() == 2 {
				w.Error(Errorf("ERR", "RESP2 is not supported by this command"))
				return
			}
			w.Push(2)
			w.BulkString("server-cpu-usage")
			w.Int(42)
			w.BulkString("Some real reply following the push reply")
		},
	}
	for name, write := range shapes {
		for _, proto := range []int{2, 3} {
			hello := NewWriter(2)
			hello.Array(2)
			hello.BulkString("HELLO")
			hello.BulkInt(int64(proto))
			greeting := exchange(t, addr, string(hello.Bytes()))
			out := exchange(t, addr, string(hello.Bytes())+encode("DEBUG", "PROTOCOL", name))
			// The greeting holds the number of the connection, which may grow by a digit.
			got := out[strings.Index(out, "modules"):]
			got = strings.TrimPrefix(got, greeting[strings.Index(greeting, "modules"):])
			w := NewWriter(proto)
			write(w)
			if got != string(w.Bytes()) {
				t.Errorf("%s in RESP%d: redis-server sends %q, we %q", name, proto, got, w.Bytes())
			}
		}
	}
}

// TestOracleDoubles has redis-server read our text of a score and tell it: both
// texts must be one number.
func TestOracleDoubles(t *testing.T) {
	addr := startRedis(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	numbers := doubles(seed, 3000)
	var in strings.Builder
	for _, f := range numbers {
		in.WriteString(encode("ZADD", "z", string(AppendDouble(nil, f)), "m"))
		in.WriteString(encode("ZSCORE", "z", "m"))
	}
	r := bufio.NewReader(strings.NewReader(exchange(t, addr, in.String())))
	for _, f := range numbers {
		if reply, err := ReadReply(r); err != nil || reply.Type != ':' {
			t.Fatal(f, reply, err)
		}
		reply, err := ReadReply(r)
		if err != nil {
			t.Fatal(f, err)
		}
		got, err := strconv.ParseFloat(string(reply.Str), 64)
		if err != nil || got != f { // zero has no sign in a small sorted set
			t.Errorf("%v: sent as %s, redis-server has %s", f, AppendDouble(nil, f), reply.Str)
		}
	}
}
