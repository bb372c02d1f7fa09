// Package hostile sends to a real server what no client should, while another client watches: the process
// stays, others are answered, memory stays within what is in flight and comes back.
package hostile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kevy/tests/process"
	"kevy/tests/wire"
)

// TestMalformedInput sends broken commands, each on a connection of its own. Each is answered with a
// protocol error and the end of the connection, or waits for more.
func TestMalformedInput(t *testing.T) {
	w := newWatch(t, process.Config{})
	long := strings.Repeat("1", 70000)
	for _, tc := range []struct {
		input string
		waits bool // for the rest of the command
	}{
		{input: "*1\r\n$9223372036854775807\r\n"},
		{input: "*1\r\n$9223372036854775808\r\n"},
		{input: "*1\r\n$18446744073709551615\r\n"},
		{input: "*1\r\n$18446744073709551619\r\nabc\r\n"},
		{input: "*1\r\n$-1\r\n"},
		{input: "*1\r\n$-9223372036854775808\r\n"},
		{input: "*1\r\n$536870913\r\n"},
		{input: "*1\r\n$\r\n"},
		{input: "*1\r\n$+5\r\n"},
		{input: "*1\r\n$0x10\r\n"},
		{input: "*1\r\n:4\r\nPING\r\n"},
		{input: "*9223372036854775807\r\n"},
		{input: "*9223372036854775808\r\n"},
		{input: "*2147483648\r\n"},
		{input: "*18446744073709551617\r\n"},
		{input: "*x\r\n"},
		{input: "*" + long + "\r\n"},
		{input: "*" + long},
		{input: "*1\r\n$" + long},
		{input: strings.Repeat("a", 70000)},
		{input: "\"unbalanced\r\n"},
		{input: "*2147483647\r\n", waits: true},
		{input: "*1000000\r\n$1\r\na\r\n", waits: true},
		{input: "*1\r\n$536870912\r\nabc", waits: true},
		{input: "*", waits: true},
		{input: "*1\r\n$4\r\nPIN", waits: true},
	} {
		c, err := wire.Dial(w.server.Addr())
		if err != nil {
			t.Fatal(err)
		}
		// The server may close before it has read all.
		_, _ = c.Write([]byte(tc.input))
		name := tc.input[:min(len(tc.input), 40)]
		if tc.waits {
			c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			var ne net.Error
			if r, err := c.ReadReply(); !errors.As(err, &ne) || !ne.Timeout() {
				t.Errorf("%q: the server does not wait for more but says %s, %v", name, r, err)
			}
			c.Close()
			continue
		}
		c.SetReadDeadline(time.Now().Add(10 * time.Second))
		r, err := c.ReadReply()
		if err != nil || !r.IsError("ERR") || !strings.Contains(string(r.Text), "Protocol error") {
			t.Errorf("%q: answered with %s, %v", name, r, err)
		}
		if _, err := c.ReadReply(); err == nil || isTimeout(err) {
			t.Errorf("%q: the connection is still open: %v", name, err)
		}
		c.Close()
	}
	w.end(t, mib)
	w.alive(t)
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// TestRandomBytes sends commands with random damage, and noise.
func TestRandomBytes(t *testing.T) {
	seed := uint64(time.Now().UnixNano() >> 10)
	if text := os.Getenv("KEVY_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = n
	}
	t.Logf("KEVY_SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	w := newWatch(t, process.Config{})
	valid := wire.AppendStrings(nil, "SET", "fuzz", "value")
	valid = wire.AppendStrings(valid, "HELLO", "3")
	valid = wire.AppendStrings(valid, "MULTI")
	valid = wire.AppendStrings(valid, "LPUSH", "fuzzlist", "a", "b")
	valid = wire.AppendStrings(valid, "EXEC")
	valid = append(valid, "GET fuzz\r\nPING\r\n"...)
	for range 1500 {
		input := bytes.Clone(valid)
		for range 1 + rng.IntN(6) {
			at := rng.IntN(len(input))
			switch rng.IntN(5) {
			case 0:
				input[at] = byte(rng.Uint32())
			case 1:
				input = append(input[:at:at], input[at+rng.IntN(len(input)-at):]...)
			case 2:
				input = append(input[:at:at], append([]byte(strconv.FormatInt(int64(rng.Uint64())>>rng.IntN(64), 10)), input[at:]...)...)
			case 3:
				input = append(input[:at:at], append([]byte("\r\n"), input[at:]...)...)
			case 4:
				noise := make([]byte, rng.IntN(40))
				for i := range noise {
					noise[i] = byte(rng.Uint32())
				}
				input = append(input[:at:at], append(noise, input[at:]...)...)
			}
			if len(input) == 0 {
				input = []byte{'*'}
			}
		}
		c, err := net.Dial("tcp", w.server.Addr())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write(input)
		c.(*net.TCPConn).CloseWrite()
		c.SetReadDeadline(time.Now().Add(10 * time.Second))
		// Whatever it answers, it must end: by its own doing, or because we did.
		if _, err := io.Copy(io.Discard, c); isTimeout(err) {
			t.Errorf("the connection does not end after %q", input)
		}
		c.Close()
	}
	w.end(t, mib)
	w.alive(t)
}

// TestUnfinishedCommand sends 256 MiB of one command and not its end.
func TestUnfinishedCommand(t *testing.T) {
	const size = 256 * mib
	small := bytes.Repeat([]byte("$1\r\na\r\n"), 8192)
	for _, tc := range []struct {
		name     string
		head     string
		chunk    []byte
		total    int
		inFlight int64
	}{
		{"one long argument", fmt.Sprintf("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n", size+mib), make([]byte, 256<<10), size, size},
		// Each argument of a byte needs a slice of 24 beside its 7 on the wire.
		{"millions of short arguments", "*100000000\r\n", small, 32 * mib, 32 * mib * (7 + 24) / 7},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWatch(t, process.Config{Args: []string{"--client-query-buffer-limit", "1gb"}})
			c, err := net.Dial("tcp", w.server.Addr())
			if err != nil {
				t.Fatal(err)
			}
			c.SetDeadline(time.Now().Add(2 * time.Minute))
			if _, err := io.WriteString(c, tc.head); err != nil {
				t.Fatal(err)
			}
			for sent := 0; sent < tc.total; sent += len(tc.chunk) {
				if _, err := c.Write(tc.chunk); err != nil {
					t.Fatalf("after %d bytes: %v", sent, err)
				}
			}
			time.Sleep(300 * time.Millisecond)
			w.end(t, tc.inFlight)
			c.Close()
			w.returned(t)
			w.alive(t)
		})
	}
}

// TestQueryBufferLimit sends more of one command than the server was told to take.
func TestQueryBufferLimit(t *testing.T) {
	const limit = 16 * mib
	w := newWatch(t, process.Config{Args: []string{"--client-query-buffer-limit", strconv.Itoa(limit)}})
	c, err := net.Dial("tcp", w.server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	_, err = io.WriteString(c, "*2\r\n$3\r\nGET\r\n$536870912\r\n")
	chunk := make([]byte, 64<<10)
	sent := 0
	for ; err == nil && sent < 400*mib; sent += len(chunk) {
		_, err = c.Write(chunk)
	}
	if err == nil {
		t.Errorf("the server took %d MiB of one command, with a limit of %d", sent/mib, limit/mib)
	}
	w.end(t, limit)
	w.returned(t)
	w.alive(t)
}

// TestOneBytePackets sends a command with an argument of 2 MiB byte by byte.
func TestOneBytePackets(t *testing.T) {
	w := newWatch(t, process.Config{})
	const size = 2 * mib
	value := bytes.Repeat([]byte("abcdefgh"), size/8)
	c, err := wire.Dial(w.server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Conn.(*net.TCPConn).SetNoDelay(true)
	c.SetDeadline(time.Now().Add(3 * time.Minute))
	start := time.Now()
	for _, b := range wire.AppendCommand(nil, []byte("SET"), []byte("bytes"), value) {
		if _, err := c.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	sent := time.Since(start)
	r, err := c.ReadReply()
	if err != nil || string(r.Text) != "OK" {
		t.Errorf("SET: %s, %v", r, err)
	}
	if lag := time.Since(start) - sent; lag > 2*time.Second {
		t.Errorf("the reply came %v after the last byte: the work is not linear", lag)
	}
	if r, err := c.Do("GET", "bytes"); err != nil || !bytes.Equal(r.Text, value) {
		t.Errorf("GET: %d bytes, %v", len(r.Text), err)
	}
	w.end(t, 3*size)
	w.alive(t)
}

// TestUnreadReplies asks 400 times for 1 MiB and reads nothing: the server may keep one reply for such a
// client, and what it has not served it serves once the client reads.
func TestUnreadReplies(t *testing.T) {
	const replies, size = 400, mib
	for _, pipelined := range []bool{true, false} {
		t.Run(fmt.Sprintf("pipelined %v", pipelined), func(t *testing.T) {
			w := newWatch(t, process.Config{})
			value := bytes.Repeat([]byte("v"), size)
			c, err := wire.Dial(w.server.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(2 * time.Minute))
			if r, err := c.Do("SET", "large", string(value)); err != nil || r.IsError("") {
				t.Fatalf("SET: %s, %v", r, err)
			}
			get := wire.AppendStrings(nil, "GET", "large")
			if pipelined {
				if _, err := c.Write(bytes.Repeat(get, replies)); err != nil {
					t.Fatal(err)
				}
			} else {
				for range replies {
					if _, err := c.Write(get); err != nil {
						t.Fatal(err)
					}
					time.Sleep(2 * time.Millisecond)
				}
			}
			time.Sleep(700 * time.Millisecond)
			// The value itself, the request that brought it, and one reply.
			w.end(t, 4*size)
			for i := range replies {
				if r, err := c.ReadReply(); err != nil || len(r.Text) != size {
					t.Fatalf("reply %d: %d bytes, %v", i, len(r.Text), err)
				}
			}
			w.returned(t)
			w.alive(t)
		})
	}
}

// TestManyUnreadClients has 40 clients that each ask for 10 MiB and do not read.
func TestManyUnreadClients(t *testing.T) {
	const clients, each = 40, 10
	w := newWatch(t, process.Config{})
	setup := w.server.Conn(t)
	if r, err := setup.Do("SET", "large", strings.Repeat("v", mib)); err != nil || r.IsError("") {
		t.Fatalf("SET: %s, %v", r, err)
	}
	var conns []*wire.Conn
	for range clients {
		c := w.server.Conn(t)
		if _, err := c.Write(bytes.Repeat(wire.AppendStrings(nil, "GET", "large"), each)); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	time.Sleep(700 * time.Millisecond)
	w.end(t, (clients+4)*mib)
	for _, c := range conns {
		c.Close()
	}
	w.returned(t)
	w.alive(t)
}

// raiseDescriptors raises the limit of this process, which its children inherit, as far as it may.
func raiseDescriptors(t *testing.T, want uint64) uint64 {
	t.Helper()
	var lim syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim); err != nil {
		t.Fatal(err)
	}
	if lim.Max < want {
		higher := syscall.Rlimit{Cur: want, Max: want}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &higher); err == nil {
			return want
		}
	}
	lim.Cur = min(lim.Max, want)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &lim); err != nil {
		t.Fatal(err)
	}
	return lim.Cur
}

// TestHalfOpenConnections holds 20,000 connections that have each sent half a command.
func TestHalfOpenConnections(t *testing.T) {
	limit := raiseDescriptors(t, 21_000)
	n := int(min(20_000, limit-1_000))
	t.Logf("%d connections, with %d descriptors allowed", n, limit)
	w := newWatch(t, process.Config{Args: []string{"--maxclients", strconv.Itoa(n + 100), "--protected-mode", "no"}})
	addr, err := net.ResolveTCPAddr("tcp", w.server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	conns := make([]net.Conn, 0, n)
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	var mu sync.Mutex
	var wg sync.WaitGroup
	errs := make(chan error, 8)
	for i := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for j := i; j < n; j += 8 {
				// Several addresses of loopback, so that ports do not run out.
				d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+j%8))}, Timeout: 30 * time.Second}
				c, err := d.Dial("tcp", addr.String())
				if err == nil {
					_, err = io.WriteString(c, "*2\r\n$3\r\nGET\r\n$10\r\nabc")
				}
				if err != nil {
					errs <- fmt.Errorf("connection %d: %w", j, err)
					return
				}
				mu.Lock()
				conns = append(conns, c)
				mu.Unlock()
			}
		}()
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	time.Sleep(500 * time.Millisecond)
	c := w.server.Conn(t)
	if r, err := c.Do("INFO", "clients"); err != nil || !strings.Contains(string(r.Text), "connected_clients:"+strconv.Itoa(len(conns)+2)) {
		t.Errorf("with %d connections INFO says %.200s, %v", len(conns), r, err)
	}
	// What a connection needs before it has said anything: buffers, a stack, the kernel's not counted.
	const perConnection = 20 << 10
	w.end(t, int64(n)*perConnection)
	// One of them is as good as any other.
	some := conns[len(conns)/2]
	some.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(some, "defghij\r\n"); err != nil {
		t.Error(err)
	}
	if r, err := wire.NewConn(some).ReadReply(); err != nil || !r.IsNil() {
		t.Errorf("the finished command is answered with %s, %v", r, err)
	}
	for _, c := range conns {
		c.Close()
	}
	conns = nil
	w.returned(t)
	w.alive(t)
}

// TestTooManyClients connects more clients than maxclients allows.
func TestTooManyClients(t *testing.T) {
	w := newWatch(t, process.Config{Args: []string{"--maxclients", "20"}})
	var conns []*wire.Conn
	refused := 0
	for range 40 {
		c := w.server.Conn(t)
		conns = append(conns, c)
		c.SetDeadline(time.Now().Add(10 * time.Second))
		r, err := c.Do("PING")
		switch {
		case err == nil && r.IsError("ERR") && strings.Contains(string(r.Text), "max number of clients reached"):
			refused++
		case err != nil && !isTimeout(err):
			refused++ // closed before the text was read
		case err != nil || string(r.Text) != "PONG":
			t.Errorf("a client is answered with %s, %v", r, err)
		}
	}
	// One of the 20 is the probe.
	if refused != 40-19 {
		t.Errorf("%d of 40 were refused", refused)
	}
	time.Sleep(200 * time.Millisecond) // others are asked while the server is full
	w.end(t, mib)
	for _, c := range conns {
		c.Close()
	}
	time.Sleep(100 * time.Millisecond)
	w.alive(t)
}

// cpuTicks is the time that a process has used, in clock ticks.
func cpuTicks(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	return user + system
}

// TestNoDescriptorsLeft takes every descriptor that the server may have: it must go on serving those it has,
// not spin, and accept again when there is room.
func TestNoDescriptorsLeft(t *testing.T) {
	b := process.Subject(t)
	w := newWatch(t, process.Config{Limits: []process.Limit{{Flag: "-n", Value: 128}}, Args: []string{"--maxclients", "1000"}})
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	for range 300 {
		c, err := net.DialTimeout("tcp", w.server.Addr(), time.Second)
		if err != nil {
			break // the backlog is full
		}
		conns = append(conns, c)
	}
	if len(conns) < 128 {
		t.Fatalf("only %d connections", len(conns))
	}
	time.Sleep(200 * time.Millisecond)
	before := cpuTicks(t, w.server.PID())
	const span = 2 * time.Second
	time.Sleep(span)
	// The probe alone asks 200 times a second. A tick is 10 ms.
	if used := cpuTicks(t, w.server.PID()) - before; used > 60 && !b.Redis {
		t.Errorf("without descriptors the server used %d ms of CPU in %v: it spins", used*10, span)
	}
	w.end(t, mib)
	for _, c := range conns {
		c.Close()
	}
	conns = nil
	deadline := time.Now().Add(5 * time.Second)
	for {
		c, err := wire.Dial(w.server.Addr())
		if err == nil {
			c.SetDeadline(time.Now().Add(time.Second))
			r, err := c.Do("PING")
			c.Close()
			if err == nil && string(r.Text) == "PONG" {
				break
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("no new client is served 5 s after the descriptors came back: %v\n%s", err, w.server.Log())
		}
		time.Sleep(20 * time.Millisecond)
	}
	w.alive(t)
}
