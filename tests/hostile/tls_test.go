package hostile

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kevy/tests/certs"
	"kevy/tests/process"
	"kevy/tests/wire"
)

// TestSlowHandshakes opens more connections to the port for TLS than handshakes may be
// under way: some say nothing, some send a good greeting a byte at a time, some begin
// one and go on with noise. Those in the clear are answered all the time, one who
// speaks TLS gets in, and all the others are put out, before they could log in or not.
func TestSlowHandshakes(t *testing.T) {
	const n = 1500 // 1024 may be under way
	raiseDescriptors(t, 2*n+1000)
	ca := certs.New(t)
	pair := ca.Issue("server")
	port, err := process.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	w := newWatch(t, process.Config{Args: []string{
		"--tls-port", strconv.Itoa(port), "--tls-cert-file", pair.Cert, "--tls-key-file", pair.Key, "--tls-ca-cert-file", ca.File, "--tls-auth-clients", "no",
	}})
	addr := "127.0.0.1:" + strconv.Itoa(port)
	greeting := clientHello(t)

	var put, lasted atomic.Int64
	var crowd sync.WaitGroup
	stop := make(chan struct{})
	for i := range n {
		nc, err := net.DialTimeout("tcp", addr, 30*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		send := [][]byte{nil, greeting, append(greeting[:5:5], []byte(strings.Repeat("noise", 100))...)}[i%3]
		crowd.Go(func() {
			defer nc.Close()
			began, ended := time.Now(), make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = io.Copy(io.Discard, nc)
			}()
			for {
				select {
				case <-ended:
					put.Add(1)
					lasted.Store(max(lasted.Load(), int64(time.Since(began))))
					return
				case <-stop:
					return
				case <-time.After(time.Second):
					if len(send) > 0 {
						_, _ = nc.Write(send[:1])
						send = send[1:]
					}
				}
			}
		})
	}
	// It waits until those before it in the queue are out, or have a place.
	began := time.Now()
	raw, err := tls.DialWithDialer(&net.Dialer{Timeout: 25 * time.Second}, "tcp", addr, ca.Client())
	if err != nil {
		t.Fatalf("one who speaks TLS is kept out: %v", err)
	}
	c := wire.NewConn(raw)
	if r, err := c.Do("PING"); err != nil || r.String() != "+PONG" {
		t.Errorf("PING over TLS: %s, %v", r, err)
	}
	t.Logf("the one who speaks TLS was let in after %v", time.Since(began).Round(time.Millisecond))
	for deadline := time.Now().Add(40 * time.Second); put.Load() < n; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("%d of %d handshakes are not over", n-put.Load(), n)
			break
		}
	}
	close(stop)
	crowd.Wait()
	// Ten seconds at most, and before that in the queue for a second each time.
	if last := time.Duration(lasted.Load()); last > 20*time.Second {
		t.Errorf("the last one was put out after %v", last)
	}
	t.Logf("%d were put out, the last after %v", put.Load(), time.Duration(lasted.Load()).Round(time.Millisecond))
	c.Close()
	// A handshake that is under way needs a stack and TLS's buffers.
	const perHandshake = 48 << 10
	w.end(t, 1024*perHandshake)
	w.returned(t)
	w.alive(t)
}

// clientHello returns the first message of a TLS client.
func clientHello(t *testing.T) []byte {
	t.Helper()
	ours, theirs := net.Pipe()
	defer theirs.Close()
	go func() {
		_ = tls.Client(ours, &tls.Config{ServerName: "localhost"}).Handshake()
	}()
	defer ours.Close()
	b := make([]byte, 16<<10)
	theirs.SetReadDeadline(time.Now().Add(10 * time.Second))
	n, err := theirs.Read(b)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) || n < 100 || b[0] != 22 {
		t.Fatalf("a greeting of %d bytes, %v", n, err)
	}
	return b[:n]
}
