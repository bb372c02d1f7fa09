package server

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"kevy/internal/config"
	"kevy/tests/wire"
)

// TestTimeoutOnEveryWayIn: `timeout` ends the idle, however they came, at rest or not, and
// not those who take messages.
func TestTimeoutOnEveryWayIn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kevy.sock")
	s := startTLS(t, setup{settings: []string{"--unixsocket", path}})
	for name, dial := range map[string]func() *conn{
		"TLS":         s.conn,
		"Unix socket": func() *conn { return s.unixConn(path) },
	} {
		t.Run(name, func(t *testing.T) {
			control := dial()
			listener, idle, rests := dial(), dial(), dial()
			listener.do("SUBSCRIBE news")
			idle.expect("PING", "+PONG")
			rests.expect("PING", "+PONG")
			eventually(t, "all rest but who asks", func() bool {
				s.putToRest()
				return s.atRest() >= 3
			})
			idle.expect("PING", "+PONG")
			control.expect("CONFIG SET timeout 1", "+OK")
			idle.ended()
			rests.ended()
			if err := s.cfg.Set([]config.Pair{{Name: "timeout", Value: "0"}}); err != nil {
				t.Fatal(err)
			}
			control = dial()
			control.expect("PUBLISH news x", ":1")
			if r, err := listener.ReadReply(); err != nil || !strings.Contains(r.String(), `"news", "x"`) {
				t.Errorf("the subscriber: %s, %v", r, err)
			}
			control.Close()
			listener.Close()
			eventually(t, "all are gone", func() bool { return s.ConnectedClients() == 0 })
		})
	}
}

// TestIPv6: a server on ::1 alone, which is this machine to protected-mode.
func TestIPv6(t *testing.T) {
	probe, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skipf("there is no ::1 here: %v", err)
	}
	addr := probe.Addr().String()
	probe.Close()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	in := start(t, "--bind", "::1", "--port", port)
	c := in.conn()
	c.expect("PING", "+PONG")
	if at := in.Clients()[0].LAddr; at != "[::1]:"+port {
		t.Errorf("it is reached at %s, want [::1]:%s", at, port)
	}
	if _, err := wire.Dial("127.0.0.1:" + port); err == nil {
		t.Errorf("it listens on 127.0.0.1 too")
	}
}
