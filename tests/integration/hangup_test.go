package integration

import (
	"crypto/tls"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"kevy/tests/certs"
	"kevy/tests/process"
	"kevy/tests/wire"
)

// TestNothingIsServedToWhoHungUp lets clients wait for an element, hang up, and
// pushes one at once, 200 times over TCP, a Unix socket and TLS each: the element
// stays, at least as often as with redis-server in the same run.
func TestNothingIsServedToWhoHungUp(t *testing.T) {
	const tries = 200
	ca := certs.New(t)
	pair := ca.Issue("server")
	lost := map[string]map[string]int{}
	for name, binary := range map[string]process.Binary{"kevy": process.Subject(t), "redis": process.Oracle(t)} {
		port, err := process.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		socket := filepath.Join(t.TempDir(), "s")
		s := process.Start(t, binary, process.Config{Args: []string{
			"--unixsocket", socket, "--tls-port", strconv.Itoa(port), "--tls-cert-file", pair.Cert, "--tls-key-file", pair.Key,
			"--tls-ca-cert-file", ca.File, "--tls-auth-clients", "no",
		}})
		ways := map[string]func() (net.Conn, error){
			"TCP":  s.Dial,
			"Unix": func() (net.Conn, error) { return net.Dial("unix", socket) },
			"TLS":  func() (net.Conn, error) { return tls.Dial("tcp", "127.0.0.1:"+strconv.Itoa(port), ca.Client()) },
		}
		lost[name] = map[string]int{}
		for way, dial := range ways {
			lost[name][way] = hangUps(t, s.Conn(t), dial, tries)
		}
		s.Kill()
	}
	t.Logf("elements that were served to nobody, of %d: %v", tries, lost)
	for way, n := range lost["kevy"] {
		if n > lost["redis"][way] {
			t.Errorf("%s: of %d elements, %d went to clients that had hung up; with redis-server %d", way, tries, n, lost["redis"][way])
		}
	}
}

// hangUps counts how many elements are gone that were pushed just after the only
// client that waited for them had hung up.
func hangUps(t *testing.T, c *wire.Conn, dial func() (net.Conn, error), tries int) (lost int) {
	t.Helper()
	c.SetDeadline(time.Now().Add(5 * time.Minute))
	waits := []string{"BRPOP q 0", "BZPOPMIN z 0", "BLMOVE q other LEFT RIGHT 0", "BLMPOP 0 1 q LEFT\r\nPING\r\nPING", "BRPOP none q z 0"}
	pushes := [][]string{{"LPUSH q a", "ZADD z 1 a"}, {"MULTI", "LPUSH q a", "ZADD z 1 a", "EXEC"}}
	blocked := func(n int) {
		t.Helper()
		want := fmt.Sprintf("\r\nblocked_clients:%d\r\n", n)
		for deadline := time.Now().Add(20 * time.Second); !strings.Contains(string(do(t, c, "INFO", "clients").Text), want); {
			if time.Now().After(deadline) {
				t.Fatalf("%s is not so", strings.TrimSpace(want))
			}
		}
	}
	for i := range tries {
		waiting, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := waiting.Write([]byte(waits[i%len(waits)] + "\r\n")); err != nil {
			t.Fatal(err)
		}
		blocked(1)
		if i%3 == 0 {
			do(t, c, "SET", "k", "v") // it is not the first command of a connection that notices
		}
		waiting.Close()
		for _, line := range pushes[i%len(pushes)] {
			do(t, c, strings.Fields(line)...)
		}
		left, err := c.Pipeline([]string{"LLEN", "q"}, []string{"ZCARD", "z"}, []string{"DEL", "q", "z", "other"})
		if err != nil {
			t.Fatal(err)
		}
		if left[0].String() != ":1" || left[1].String() != ":1" {
			lost++
		}
		blocked(0)
	}
	return lost
}
