package main

import (
	"strconv"
	"strings"
	"testing"

	"kevy/tests/certs"
	"kevy/tests/process"
	"kevy/tests/wire"
)

// TestChangesOverTLS reads the feed of a server that takes clients with
// certificates only.
func TestChangesOverTLS(t *testing.T) {
	ca := certs.New(t)
	server, me := ca.Issue("server"), ca.Issue("me")
	tlsPort, err := process.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(tlsPort)
	s := process.Start(t, process.Subject(t), process.Config{Args: []string{
		"--tls-port", port, "--tls-cert-file", server.Cert, "--tls-key-file", server.Key, "--tls-ca-cert-file", ca.File,
	}})
	if r, err := s.Conn(t).Do("SET", "k", "v"); err != nil || r.Kind != wire.Simple {
		t.Fatal(r, err)
	}
	trusted := []string{"-p", port, "--tls", "--cacert", ca.File}
	known := append(trusted, "--cert", me.Cert, "--key", me.Key)
	out, _, err := execute(t.Context(), append([]string{"changes", "tail", "--from", "oldest", "--no-follow"}, known...)...)
	if err != nil || !strings.Contains(out, "SET k v") {
		t.Errorf("%v: %s", err, out)
	}
	if _, _, err := execute(t.Context(), append([]string{"changes", "info"}, trusted...)...); err == nil {
		t.Error("a client without a certificate is served")
	}
	if _, _, err := execute(t.Context(), "changes", "info", "-p", port, "--tls", "--cert", me.Cert, "--key", me.Key); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a server that is not trusted: %v", err)
	}
	if text := refused(t, "--port", "0", "--dir", t.TempDir(), "--tls-port", port, "--tls-cert-file", server.Cert); !strings.Contains(text, "TLS cannot be served: tls-key-file: no key is named") {
		t.Errorf("%s", text)
	}
}
