package server

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"kevy/internal/config"
)

func TestListen(t *testing.T) {
	// What is not there may be missing where it is marked so.
	listeners, err := listen([]string{"127.0.0.1", "-192.0.2.1", "-::1"}, 0, 511)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(listeners)
	_, port, _ := net.SplitHostPort(listeners[0].Addr().String())
	for _, ln := range listeners {
		if _, p, _ := net.SplitHostPort(ln.Addr().String()); p != port {
			t.Errorf("%s and port %s", ln.Addr(), port)
		}
	}
	var number int64
	fmt.Sscan(port, &number)
	if _, err := listen([]string{"127.0.0.1"}, number, 511); err == nil || !strings.Contains(err.Error(), "127.0.0.1:"+port) || !strings.Contains(err.Error(), "--port") {
		t.Errorf("a taken port: %v", err)
	}
	if _, err := listen([]string{"192.0.2.1"}, 0, 511); err == nil || !strings.Contains(err.Error(), "192.0.2.1") {
		t.Errorf("an address of another machine: %v", err)
	}
	if _, err := listen([]string{"-192.0.2.1"}, 0, 511); err == nil {
		t.Error("no address at all is taken")
	}
	for word, want := range map[string]string{
		"*": "tcp4 0.0.0.0", "::*": "tcp6 ::", "::1": "tcp6 ::1", "::": "tcp6 ::", "127.0.0.1": "tcp4 127.0.0.1", "0.0.0.0": "tcp4 0.0.0.0", "localhost": "tcp localhost",
	} {
		network, address := family(word)
		if got := network + " " + address; got != want {
			t.Errorf("%s: %s, want %s", word, got, want)
		}
	}
}

// freePort is a port of loopback that nobody has.
func freePort(t testing.TB) (port string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, _ = net.SplitHostPort(ln.Addr().String())
	return port
}

func TestRebind(t *testing.T) {
	in := start(t)
	c := in.conn()
	oldPort := c.infoField("server", "tcp_port")
	port := freePort(t)
	c.expect("CONFIG SET port "+port, "+OK")
	c.expect("CONFIG GET port", `["port", "`+port+`"]`)
	if got := c.infoField("server", "tcp_port"); got != port {
		t.Errorf("INFO shows port %s", got)
	}
	if conn, err := net.Dial("tcp", "127.0.0.1:"+oldPort); err == nil {
		conn.Close()
		t.Error("the old port is still open")
	}
	in.addr = "127.0.0.1:" + port
	in.conn().expect("PING", "+PONG")

	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, takenPort, _ := net.SplitHostPort(taken.Addr().String())
	c.expect("CONFIG SET timeout 9 port "+takenPort, "-ERR CONFIG SET failed (possibly related to argument 'port') - Unable to listen on this port. Check server logs.")
	c.expect("CONFIG GET timeout", `["timeout", "0"]`)
	c.expect("CONFIG GET port", `["port", "`+port+`"]`)
	in.conn().expect("PING", "+PONG")

	if r, err := c.Do("CONFIG", "SET", "bind", "192.0.2.1"); err != nil || r.String() != "-ERR CONFIG SET failed (possibly related to argument 'bind') - Failed to bind to specified addresses." {
		t.Errorf("%s, %v", r, err)
	}
	in.conn().expect("PING", "+PONG")
	if r, err := c.Do("CONFIG", "SET", "bind", "127.0.0.1 -192.0.2.1"); err != nil || r.String() != "+OK" {
		t.Errorf("%s, %v", r, err)
	}
	in.conn().expect("PING", "+PONG")
	if r, err := c.Do("CONFIG", "SET", "bind", "127.0.0.2"); err != nil || r.String() != "+OK" {
		t.Errorf("%s, %v", r, err)
	}
	if conn, err := net.Dial("tcp", in.addr); err == nil {
		conn.Close()
		t.Error("the old address is still open")
	}
	in.addr = "127.0.0.2:" + port
	in.conn().expect("PING", "+PONG")
	c.expect("PING", "+PONG")
}

// TestPortZero: as in Redis CONFIG SET port 0 ends listening, also where there is no other way in. Where a free one was
// taken at the start it goes on to stand for that one.
func TestPortZero(t *testing.T) {
	closed := func(addr string) {
		t.Helper()
		if conn, err := net.Dial("tcp", addr); err == nil {
			conn.Close()
			t.Errorf("%s is open", addr)
		}
	}
	const warning = "nobody can connect any more"
	in := start(t, "--port", freePort(t))
	c := in.conn()
	c.expect("CONFIG SET port 0", "+OK")
	closed(in.addr)
	c.expect("CONFIG GET port", `["port", "0"]`)
	if got := c.infoField("server", "tcp_port"); got != "0" {
		t.Errorf("INFO shows port %s", got)
	}
	if !strings.Contains(in.log.String(), warning) {
		t.Error("the log does not say it")
	}
	c.expect("CONFIG SET bind 127.0.0.2", "+OK") // which opens none
	if got := c.infoField("server", "tcp_port"); got != "0" {
		t.Errorf("INFO shows port %s", got)
	}
	other := freePort(t)
	c.expect("CONFIG SET bind 127.0.0.1 port "+other, "+OK")
	in.addr = "127.0.0.1:" + other
	in.conn().expect("PING", "+PONG")

	in = start(t)
	c = in.conn()
	free := in.addr
	c.expect("CONFIG SET bind 127.0.0.2", "+OK")
	closed(free)
	c.expect("CONFIG SET bind 127.0.0.1", "+OK")
	in.conn().expect("PING", "+PONG")
	c.expect("CONFIG SET port "+freePort(t), "+OK")
	closed(free)
	c.expect("CONFIG SET port 0", "+OK")
	in.conn().expect("PING", "+PONG")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, takenPort, _ := net.SplitHostPort(taken.Addr().String())
	r := c.do("CONFIG SET port " + freePort(t) + " http-port " + takenPort)
	if !strings.HasPrefix(r.String(), "-ERR CONFIG SET failed") {
		t.Error(r)
	}
	in.conn().expect("PING", "+PONG") // it is back
	if strings.Contains(in.log.String(), warning) {
		t.Error("the log says that nobody can connect")
	}
}

// TestOnePortTwice: a port is for one way only, and what is wrong is said.
func TestOnePortTwice(t *testing.T) {
	cfg, err := config.Load([]string{"--dir", t.TempDir(), "--port", "7", "--tls-port", "7"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if all, err := listenAll(cfg); err == nil || err.Error() != "port and tls-port are both 7: choose two, or turn one off with --port 0" {
		t.Errorf("%v, %v", all, err)
	}
}
