package clients

import (
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"kevy/tests/certs"
	"kevy/tests/process"
)

// TestRedisCLIOverTLS speaks through OpenSSL, and by a Unix socket.
func TestRedisCLIOverTLS(t *testing.T) {
	cli := process.Tool(t, "redis-cli")
	ca := certs.New(t)
	server, client := ca.Issue("server"), ca.Issue("client")
	port, err := process.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "kevy.sock")
	process.Start(t, process.Subject(t), process.Config{Args: []string{
		"--unixsocket", socket, "--tls-port", strconv.Itoa(port), "--tls-cert-file", server.Cert, "--tls-key-file", server.Key, "--tls-ca-cert-file", ca.File,
	}})
	secure := program{cli, []string{"-h", "localhost", "-p", strconv.Itoa(port), "--tls", "--cacert", ca.File}}
	known := program{cli, append(secure.args, "--cert", client.Cert, "--key", client.Key)}
	known.prints(t, "PONG\n", "PING")
	known.prints(t, "OK\n", "SET", "k", "v")
	for _, version := range []string{"--tls-ciphers", "--tls-ciphersuites"} {
		value := map[string]string{"--tls-ciphers": "ECDHE-ECDSA-AES256-GCM-SHA384", "--tls-ciphersuites": "TLS_CHACHA20_POLY1305_SHA256"}[version]
		known.prints(t, "v\n", version, value, "GET", "k")
	}
	known.says(t, time.Minute, []string{"-r", "1000", "PING"}, "PONG")
	if got := secure.run(t, 20*time.Second, nil, "PING"); got.code == 0 && got.out == "PONG\n" {
		t.Error("a client without a certificate is served")
	}
	program{cli, []string{"-s", socket}}.prints(t, "v\n", "GET", "k")
}
