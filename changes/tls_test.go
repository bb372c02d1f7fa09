package changes

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// secure puts TLS in front of a server, with a certificate for a name, and
// returns the address and what trusts the certificate.
func secure(t *testing.T, behind, name string) (addr string, roots *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(crand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots = x509.NewCertPool()
	roots.AddCert(cert)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer in.Close()
				out, err := net.Dial("tcp", behind)
				if err != nil {
					return
				}
				defer out.Close()
				all.Go(func() {
					defer in.Close()
					pass(in, out)
				})
				pass(out, in)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		all.Wait()
	})
	return l.Addr().String(), roots
}

func pass(to, from net.Conn) {
	b := make([]byte, 4096)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

func TestTLS(t *testing.T) {
	f := newFake(t, All)
	f.add(All, 1)
	addr, roots := secure(t, f.addr(), "feed.example")
	r := newRecorder()
	c := start(t, Options{Addr: addr, TLS: &tls.Config{RootCAs: roots, ServerName: "feed.example"}, Start: Oldest}, r)
	r.until(t, "a commit over TLS", func() bool { return r.count(All) == 1 })
	c.stop()
	// The name is that of Addr if none is given, and this certificate has another.
	for name, config := range map[string]*tls.Config{"another name": {RootCAs: roots}, "nobody trusts it": {ServerName: "feed.example"}} {
		c := start(t, Options{Addr: addr, TLS: config, Start: Oldest}, newRecorder())
		r.until(t, name, func() bool { return c.Status().Streams[0].LastError != nil })
		if err := c.Status().Streams[0].LastError; !strings.Contains(err.Error(), "x509") {
			t.Errorf("%s: %v", name, err)
		}
		c.stop()
	}
}
