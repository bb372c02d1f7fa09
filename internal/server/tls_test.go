package server

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"kevy/tests/certs"
	"kevy/tests/wire"
)

// secured is a server that serves over TLS only, and what its clients need.
type secured struct {
	*instance
	ca     *certs.Authority
	server certs.Pair
	client certs.Pair
}

func startTLS(t testing.TB, with setup) *secured {
	t.Helper()
	s := &secured{ca: certs.New(t)}
	s.server, s.client = s.ca.Issue("server"), s.ca.Issue("client")
	port := freePort(t)
	with.settings = append([]string{"--tls-port", port, "--tls-cert-file", s.server.Cert, "--tls-key-file", s.server.Key,
		"--tls-ca-cert-file", s.ca.File}, with.settings...)
	s.instance = startWith(t, with)
	if s.addr == "" {
		s.addr = "127.0.0.1:" + port
	}
	return s
}

// dialTLS connects, with the certificates if any, and shakes hands.
func (s *secured) dialTLS(pairs ...certs.Pair) (*tls.Conn, error) {
	s.t.Helper()
	c := tls.Client(s.dial(), s.ca.Client(pairs...))
	return c, c.Handshake()
}

func (s *secured) conn() *conn {
	s.t.Helper()
	c, err := s.dialTLS(s.client)
	if err != nil {
		s.t.Fatal(err)
	}
	return &conn{wire.NewConn(c), s.t}
}

// TestTLS: a connection over TLS is like any other.
func TestTLS(t *testing.T) {
	s := startTLS(t, setup{})
	c := s.conn()
	c.expect("PING", "+PONG")
	if got := c.infoField("server", "tcp_port"); !strings.HasSuffix(s.addr, ":"+got) {
		t.Errorf("INFO shows port %s", got)
	}
	large := strings.Repeat("x", 5<<20)
	if r, err := c.Do("SET", "large", large); err != nil || r.String() != "+OK" {
		t.Fatal(r, err)
	}
	if r, err := c.Do("GET", "large"); err != nil || string(r.Text) != large {
		t.Errorf("%d bytes come back, %v", len(r.Text), err)
	}
	if line := string(c.do("CLIENT INFO").Text); !strings.Contains(line, " laddr="+s.addr+" fd=") || strings.Contains(line, " fd=-1 ") {
		t.Errorf("%s", line)
	}

	// Messages, of channels and of the feed.
	sub := s.conn()
	sub.do("HELLO 3")
	sub.do("SUBSCRIBE news")
	c.expect("PUBLISH news "+large[:100000], ":1")
	if r, err := sub.ReadReply(); err != nil || len(r.Elems) != 3 || len(r.Elems[2].Text) != 100000 {
		t.Errorf("%.100s, %v", r, err)
	}
	feed := s.conn()
	feed.do("HELLO 3")
	tail := feed.do("CHANGES TAIL ALL").Strings()
	if r := feed.do("CHANGES SUBSCRIBE ALL " + tail[0] + " " + tail[1]); r.Kind == wire.Error {
		t.Fatal(r)
	}
	c.expect("SET k v", "+OK")
	if r, err := feed.ReadReply(); err != nil || !strings.Contains(r.String(), `"k", "v"`) {
		t.Errorf("%s, %v", r, err)
	}

	// A client that waits and hangs up is gone at once; one that is served is not.
	waiting := s.conn()
	_ = waiting.Send("BLPOP", "list", "0")
	eventually(t, "it waits", func() bool { return c.infoInt("clients", "blocked_clients") == 1 })
	c.expect("RPUSH list a", ":1")
	if r, err := waiting.ReadReply(); err != nil || r.String() != `["list", "a"]` {
		t.Errorf("%s, %v", r, err)
	}
	waiting.expect("PING", "+PONG")
	_ = waiting.Send("BLPOP", "list", "0")
	eventually(t, "it waits", func() bool { return c.infoInt("clients", "blocked_clients") == 1 })
	waiting.Close()
	eventually(t, "it is gone", func() bool { return c.infoInt("clients", "blocked_clients") == 0 })

	// One that closes its side gets its replies, and then the end.
	half, err := s.dialTLS(s.client)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = half.Write([]byte("PING\r\nGET k\r\n"))
	_ = half.CloseWrite()
	if all, err := io.ReadAll(half); err != nil || string(all) != "+PONG\r\n$1\r\nv\r\n" {
		t.Errorf("%q, %v", all, err)
	}
	last := s.conn()
	last.expect("QUIT", "+OK")
	if _, err := last.ReadReply(); !errors.Is(err, io.EOF) { // not the end of a line that was cut
		t.Errorf("after QUIT: %v", err)
	}
	killed := s.conn()
	id := killed.do("CLIENT ID").String()[1:]
	c.expect("CLIENT KILL ID "+id, ":1")
	killed.ended()

	// What is no TLS is no client.
	plain := s.instance.conn()
	_ = plain.Send("PING")
	if r, err := plain.ReadReply(); err == nil {
		t.Errorf("without TLS: %s", r)
	}
}

// TestTLSWithoutLeaf: Go parses the certificate of a pair only if GODEBUG does not forbid it.
func TestTLSWithoutLeaf(t *testing.T) {
	t.Setenv("GODEBUG", "x509keypairleaf=0")
	s := startTLS(t, setup{})
	s.conn().expect("CONFIG SET tls-auth-clients no", "+OK")
	s.conn().expect("PING", "+PONG")
}

func TestTLSClientCertificates(t *testing.T) {
	s := startTLS(t, setup{})
	strange := certs.New(t).Issue("stranger")
	c := s.conn()
	for setting, want := range map[string][3]bool{"yes": {true, false, false}, "optional": {true, true, false}, "no": {true, true, true}} {
		c.expect("CONFIG SET tls-auth-clients "+setting, "+OK")
		for i, pairs := range [][]certs.Pair{{s.client}, nil, {strange}} {
			nc, err := s.dialTLS(pairs...)
			ok := err == nil
			if ok { // with TLS 1.3 the refusal comes behind the handshake
				r, err := wire.NewConn(nc).Do("PING")
				ok = err == nil && r.String() == "+PONG"
			}
			if ok != want[i] {
				t.Errorf("tls-auth-clients %s, client %d: served %v", setting, i, ok)
			}
		}
	}
}

// TestTLSReload: new connections see what CONFIG SET has read, and where that
// cannot be, what was there before.
func TestTLSReload(t *testing.T) {
	s := startTLS(t, setup{})
	name := func() string {
		c, err := s.dialTLS(s.client)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	c := s.conn()
	next := s.ca.Issue("next")
	c.expect("CONFIG SET tls-cert-file "+next.Cert+" tls-key-file "+next.Key, "+OK")
	if got := name(); got != "next" {
		t.Errorf("the certificate is that of %s", got)
	}
	// The same file with other content.
	renewed := s.ca.Issue("renewed")
	for from, to := range map[string]string{renewed.Cert: next.Cert, renewed.Key: next.Key} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := name(); got != "next" {
		t.Errorf("before CONFIG SET the certificate is that of %s", got)
	}
	c.expect("CONFIG SET tls-cert-file "+next.Cert, "+OK")
	if got := name(); got != "renewed" {
		t.Errorf("after CONFIG SET the certificate is that of %s", got)
	}
	torn := next.Cert + ".torn"
	if err := os.WriteFile(torn, []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	for set, want := range map[string]string{
		"tls-cert-file " + torn:             "tls-cert-file " + torn + " with",
		"timeout 9 tls-key-file /nowhere":   "tls-key-file: open /nowhere: no such file",
		"tls-protocols TLSv9":               `"TLSv9" is none`,
		"tls-ca-cert-file " + s.server.Key:  "holds no certificate",
		"tls-ciphersuites TLS_AES_128_CCM_": "tls-ciphersuites",
	} {
		r := c.do("CONFIG SET " + set)
		setting := strings.Fields(set)[len(strings.Fields(set))-2]
		if text := string(r.Text); !r.IsError("ERR") || !strings.Contains(text, want) ||
			!strings.HasPrefix(text, "ERR CONFIG SET failed (possibly related to argument '"+setting+"') - Unable to update TLS configuration.") {
			t.Errorf("%s: %s", set, r)
		}
	}
	c.expect("CONFIG GET timeout", `["timeout", "0"]`)
	if got := name(); got != "renewed" {
		t.Errorf("after what failed the certificate is that of %s", got)
	}
	c.expect("PING", "+PONG")
}

func TestTLSVersions(t *testing.T) {
	s := startTLS(t, setup{})
	c := s.conn()
	dial := func(version uint16) (*tls.Conn, error) {
		config := s.ca.Client(s.client)
		config.MinVersion, config.MaxVersion = version, version
		nc := tls.Client(s.dial(), config)
		return nc, nc.Handshake()
	}
	c.do("CONFIG SET tls-protocols TLSv1.2")
	if _, err := dial(tls.VersionTLS13); err == nil {
		t.Error("TLS 1.3 is spoken")
	}
	c.do("CONFIG SET tls-ciphers ECDHE-ECDSA-AES256-GCM-SHA384")
	nc, err := dial(tls.VersionTLS12)
	if err != nil || nc.ConnectionState().CipherSuite != tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 {
		t.Errorf("suite %x, %v", nc.ConnectionState().CipherSuite, err)
	}
	// Sessions are resumed unless that is off.
	for caching, want := range map[string]bool{"yes": true, "no": false} {
		c.do("CONFIG SET tls-session-caching " + caching)
		config := s.ca.Client(s.client)
		config.ClientSessionCache = tls.NewLRUClientSessionCache(1)
		resumed := false
		for range 2 {
			nc := tls.Client(s.dial(), config)
			if r, err := wire.NewConn(nc).Do("PING"); err != nil || r.String() != "+PONG" {
				t.Fatal(r, err)
			}
			resumed = nc.ConnectionState().DidResume
		}
		if resumed != want {
			t.Errorf("tls-session-caching %s: resumed %v", caching, resumed)
		}
	}
}

// TestTLSPort changes between the two ways while clients stay.
func TestTLSPort(t *testing.T) {
	s := startTLS(t, setup{})
	c, tlsAddr := s.conn(), s.addr
	port := freePort(t)
	c.do("CONFIG SET port " + port)
	s.addr = "127.0.0.1:" + port
	s.instance.conn().expect("PING", "+PONG")
	if got := c.infoField("server", "tcp_port"); got != port {
		t.Errorf("INFO shows port %s", got)
	}
	plain := s.instance.conn()
	plain.expect("CONFIG SET tls-port 0", "+OK")
	if nc, err := net.Dial("tcp", tlsAddr); err == nil {
		nc.Close()
		t.Error("the port of TLS is still open")
	}
	c.expect("PING", "+PONG")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, takenPort, _ := net.SplitHostPort(taken.Addr().String())
	plain.expect("CONFIG SET port 0 tls-port "+takenPort, "-ERR CONFIG SET failed (possibly related to argument 'tls-port') - Unable to listen on this port. Check server logs.")
	s.instance.conn().expect("PING", "+PONG")
	_, tlsPort, _ := net.SplitHostPort(tlsAddr)
	plain.expect("CONFIG SET port 0 tls-port "+tlsPort, "+OK")
	if nc, err := net.Dial("tcp", s.addr); err == nil {
		nc.Close()
		t.Error("the plain port is still open")
	}
	plain.expect("CONFIG GET port", `["port", "0"]`)
	s.addr = tlsAddr
	s.conn().expect("PING", "+PONG")
}

// TestTLSHandshakes: those who connect and say nothing keep nobody out.
func TestTLSHandshakes(t *testing.T) {
	const slots = 8
	s := startTLS(t, setup{server: func(srv *Server) {
		srv.handshakes.slots, srv.handshakes.hurried = make(chan struct{}, slots), 50*time.Millisecond
	}})
	c := s.conn()
	var silent []net.Conn
	for range 3 * slots {
		silent = append(silent, s.dial())
	}
	slow := s.dial()
	_, _ = slow.Write([]byte{22, 3, 1}) // a record's first bytes
	c.expect("PING", "+PONG")
	s.conn().expect("PING", "+PONG")
	// The first half may take its time, the others may not.
	ended := 0
	for _, nc := range silent[slots:] {
		if _, err := io.ReadAll(nc); !errors.Is(err, os.ErrDeadlineExceeded) {
			ended++
		}
	}
	if ended < slots {
		t.Errorf("%d of %d have ended", ended, 2*slots)
	}
	s.handshakes.mu.Lock()
	under := len(s.handshakes.conns)
	s.handshakes.mu.Unlock()
	if under == 0 || under > slots {
		t.Errorf("%d handshakes are under way", under)
	}
	// The rest ends with the server, whose stop is waited for.
}

func TestTLSHandshakeTakesTooLong(t *testing.T) {
	s := startTLS(t, setup{server: func(srv *Server) { srv.handshakes.long = 50 * time.Millisecond }})
	nc := s.dial()
	if _, err := io.ReadAll(nc); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("a client that says nothing stays")
	}
	eventually(t, "its place is free", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.admitted == 0
	})
	if !strings.Contains(s.log.String(), "a TLS handshake failed") {
		t.Error("nothing in the log")
	}
}

func TestTLSRefusals(t *testing.T) {
	s := startTLS(t, setup{settings: []string{"--maxclients", "1"}})
	c := s.conn()
	c.expect("PING", "+PONG")
	if _, err := s.dialTLS(s.client); err == nil {
		t.Error("a second client is let in")
	}
	if n := c.infoInt("stats", "rejected_connections"); n != 1 {
		t.Errorf("%d were rejected", n)
	}
	far := startTLS(t, setup{listener: foreign})
	nc, err := far.dialTLS(far.client)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := wire.NewConn(nc).ReadReply(); err != nil || r.String() != "-"+denied {
		t.Errorf("%s, %v", r, err)
	}
	eventually(t, "its place is free", func() bool {
		far.mu.Lock()
		defer far.mu.Unlock()
		return far.admitted == 0
	})
}

// TestTLSSlowReader: a reply that takes longer than a write may take none goes
// on, and one of which nothing is taken ends the connection.
func TestTLSSlowReader(t *testing.T) {
	const timeout = 500 * time.Millisecond
	s := startTLS(t, setup{server: func(srv *Server) { srv.writeTimeout = timeout }})
	c := s.conn()
	large := strings.Repeat("x", 32<<20)
	if r, err := c.Do("SET", "large", large); err != nil || r.String() != "+OK" {
		t.Fatal(r, err)
	}
	raw := s.dial()
	if err := raw.(*net.TCPConn).SetReadBuffer(256 << 10); err != nil {
		t.Fatal(err)
	}
	slow := tls.Client(raw, s.ca.Client(s.client))
	_, _ = slow.Write([]byte("GET large\r\n"))
	got, began := 0, time.Now()
	buf := make([]byte, 1<<20)
	for got < len(large) {
		n, err := slow.Read(buf)
		if err != nil {
			t.Fatalf("after %d bytes and %v: %v", got, time.Since(began), err)
		}
		got += n
		if time.Since(began) < 4*timeout {
			time.Sleep(timeout / 10)
		}
	}
	stuck := s.dial()
	small(t, stuck)
	never := tls.Client(stuck, s.ca.Client(s.client))
	_, _ = never.Write([]byte("GET large\r\n"))
	eventually(t, "the other is gone", func() bool { return c.infoInt("clients", "connected_clients") == 2 })
}
