package server

import (
	"net"
	"strings"
	"testing"
)

// foreignListener makes every peer look as if it came from another machine.
type foreignListener struct{ net.Listener }

type foreignConn struct{ *net.TCPConn }

func (c foreignConn) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 4711}
}

func (l foreignListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return foreignConn{c.(*net.TCPConn)}, nil
}

func foreign(ln net.Listener) net.Listener { return foreignListener{ln} }

func TestProtectedMode(t *testing.T) {
	in := startWith(t, setup{listener: foreign})
	c := in.conn()
	if _, err := c.Write([]byte("PING\r\nPING\r\n")); err != nil {
		t.Fatal(err)
	}
	r, err := c.ReadReply()
	if err != nil || r.String() != "-"+denied {
		t.Errorf("%s, %v", r, err)
	}
	if _, err := c.ReadReply(); err == nil {
		t.Error("the refusal comes twice, or the connection is served")
	}
	if n := in.stats.rejected.Load(); n != 1 || in.stats.connections.Load() != 0 {
		t.Errorf("%d were rejected, %d connected", n, in.stats.connections.Load())
	}
	open := startWith(t, setup{listener: foreign, settings: []string{"--protected-mode", "no"}})
	stranger := open.conn()
	stranger.expect("PING", "+PONG")
	if line := string(stranger.do("CLIENT INFO").Text); !strings.Contains(line, " addr=192.0.2.7:4711 ") {
		t.Errorf("%s", line)
	}
	stranger.expect("CONFIG SET protected-mode yes", "+OK")
	if r, err := open.conn().ReadReply(); err != nil || !r.IsError("DENIED") {
		t.Errorf("%s, %v", r, err)
	}
	stranger.expect("PING", "+PONG")
}

// TestHTTP: what a web page makes a browser send ends the connection before the
// commands in it.
func TestHTTP(t *testing.T) {
	in := start(t)
	for _, request := range []string{"POST / HTTP/1.1\r\nHost: x\r\n\r\nSET k v\r\n", "Host: x\r\nSET k v\r\n"} {
		c := in.conn()
		if _, err := c.Write([]byte(request)); err != nil {
			t.Fatal(err)
		}
		c.ended()
	}
	in.conn().expect("EXISTS k", ":0")
}

func TestLocal(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1": true, "127.8.8.8": true, "::1": true, "::ffff:127.0.0.1": true,
		"10.0.0.1": false, "0.0.0.0": false, "fe80::1": false, "::ffff:10.0.0.1": false,
	} {
		if got := isLocal(&net.TCPAddr{IP: net.ParseIP(addr)}); got != want {
			t.Errorf("%s: %v", addr, got)
		}
	}
	if isLocal(&net.UDPAddr{}) || !isLocal(&net.UnixAddr{Name: "x", Net: "unix"}) {
		t.Error("other kinds of address")
	}
}

func TestDebugLocality(t *testing.T) {
	const refused = `-ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.`
	for _, test := range []struct {
		setting        string
		local, foreign bool
	}{{"no", false, false}, {"local", true, false}, {"yes", true, true}} {
		for _, elsewhere := range []bool{false, true} {
			with := setup{settings: []string{"--enable-debug-command", test.setting, "--protected-mode", "no"}}
			allowed := test.local
			if elsewhere {
				with.listener, allowed = foreign, test.foreign
			}
			c := startWith(t, with).conn()
			want := refused
			if allowed {
				want = "+OK"
			}
			c.expect("DEBUG SLEEP 0", want)
			c.expect("MULTI", "+OK")
			if allowed {
				want = "+QUEUED"
			}
			c.expect("DEBUG SLEEP 0", want)
			if want = "-EXECABORT Transaction discarded because of previous errors."; allowed {
				want = "[+OK]"
			}
			c.expect("EXEC", want)
		}
	}
}
