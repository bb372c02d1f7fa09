package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"kevy/internal/config"
	"kevy/tests/certs"
)

// httpGet asks for the feed at a port, and returns the status and the body.
func httpGet(addr, query string) (status int, body string, err error) {
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get("http://" + addr + "/changes?" + query)
	if err != nil {
		return 0, "", err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	return r.StatusCode, string(text), err
}

func TestFeedOverHTTP(t *testing.T) {
	in := start(t)
	c := in.conn()
	port := freePort(t)
	c.expect("CONFIG GET http-port", `["http-port", "0"]`)
	c.expect("CONFIG SET http-port "+port, "+OK")
	c.expect("SET user:1 a", "+OK")
	at := "127.0.0.1:" + port
	status, body, err := httpGet(at, "start=oldest&prefix=user:")
	if err != nil || status != http.StatusOK || !strings.Contains(body, `"db":0,"cause":"user","args":["SET","user:1","a"]}`+"\n") {
		t.Fatalf("%d %s, %v", status, body, err)
	}
	if status, body, _ = httpGet(at, "db=15"); status != http.StatusOK {
		t.Errorf("the last database: %d %s", status, body)
	}
	if status, _, _ = httpGet(at, "db=16"); status != http.StatusBadRequest {
		t.Errorf("no database: %d", status)
	}

	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, takenPort, _ := net.SplitHostPort(taken.Addr().String())
	c.expect("CONFIG SET http-port "+takenPort, "-ERR CONFIG SET failed (possibly related to argument 'http-port') - Unable to listen on this port. Check server logs.")
	c.expect("CONFIG GET http-port", `["http-port", "`+port+`"]`)
	if status, _, err = httpGet(at, ""); status != http.StatusOK {
		t.Errorf("where it was: %d, %v", status, err)
	}
	if !strings.Contains(in.log.String(), "or choose another with --http-port (0 is no HTTP)") {
		t.Errorf("the log does not say what to do:\n%s", in.log.String())
	}

	// It goes where bind goes; a reader that is there stays.
	follower, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer follower.Close()
	_ = follower.SetDeadline(time.Now().Add(patience))
	fmt.Fprint(follower, "GET /changes?follow HTTP/1.1\r\nHost: localhost\r\n\r\n")
	r, err := http.ReadResponse(bufio.NewReader(follower), nil)
	if err != nil {
		t.Fatal(err)
	}
	// Who follows is listed with the other subscribers.
	eventually(t, "it is listed", func() bool {
		info := c.do("CHANGES INFO ALL").String()
		return strings.Contains(info, `"subscriber-count", :1,`) && strings.Contains(info, follower.LocalAddr().String())
	})
	c.expect("CONFIG SET bind 127.0.0.2", "+OK")
	if _, _, err = httpGet(at, ""); err == nil {
		t.Error("the old address is still served")
	}
	if status, _, err = httpGet("127.0.0.2:"+port, ""); status != http.StatusOK {
		t.Errorf("the new address: %d, %v", status, err)
	}
	c.expect("SET user:2 b", "+OK")
	for lines := bufio.NewScanner(r.Body); ; {
		if !lines.Scan() {
			t.Fatal(lines.Err())
		}
		if strings.Contains(lines.Text(), "user:2") {
			break
		}
	}

	c.expect("CONFIG SET http-maxclients 1", "+OK")
	if status, body, _ = httpGet("127.0.0.2:"+port, ""); status != http.StatusServiceUnavailable {
		t.Errorf("beyond http-maxclients: %d %s", status, body)
	}
	c.expect("CONFIG SET http-port 0", "+OK")
	if _, _, err = httpGet("127.0.0.2:"+port, ""); err == nil {
		t.Error("it is off, and served")
	}
	c.expect("CONFIG SET http-port "+port, "+OK")
}

// TestFeedOverHTTPS: with the certificates of the settings, which CONFIG SET may
// change while it is served.
func TestFeedOverHTTPS(t *testing.T) {
	ca := certs.New(t)
	server, client := ca.Issue("server"), ca.Issue("client")
	in := start(t, "--tls-cert-file", server.Cert, "--tls-key-file", server.Key)
	c, port := in.conn(), freePort(t)
	r := c.do("CONFIG SET http-tls-port " + port)
	if !r.IsError("ERR") || !strings.Contains(string(r.Text), "either tls-ca-cert-file or tls-ca-cert-dir") {
		t.Errorf("without an authority: %s", r)
	}
	c.expect("CONFIG SET tls-ca-cert-file "+ca.File+" http-tls-port "+port, "+OK")
	c.expect("SET k v", "+OK")
	get := func(pairs ...certs.Pair) (status int, body string, err error) {
		client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: ca.Client(pairs...)}}
		r, err := client.Get("https://localhost:" + port + "/changes?start=oldest")
		if err != nil {
			return 0, "", err
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		return r.StatusCode, string(text), err
	}
	if status, body, err := get(client); err != nil || status != http.StatusOK || !strings.Contains(body, `"args":["SET","k","v"]}`) {
		t.Errorf("%d %s, %v", status, body, err)
	}
	if status, _, err := get(); err == nil {
		t.Errorf("without a certificate: %d", status)
	}
	c.expect("CONFIG SET tls-auth-clients no", "+OK")
	if status, _, err := get(); err != nil || status != http.StatusOK {
		t.Errorf("where none is asked for: %d, %v", status, err)
	}
	if status, body, err := httpGet("127.0.0.1:"+port, ""); err == nil && status == http.StatusOK {
		t.Errorf("HTTP is served on the port of HTTPS: %s", body)
	}
	c.expect("CONFIG SET http-maxclients 1", "+OK")
	silent, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	eventually(t, "there is no room beside one that says nothing", func() bool {
		_, _, err := get()
		return err != nil
	})
	c.expect("CONFIG SET http-tls-port 0", "+OK")
	if _, _, err := get(); err == nil {
		t.Error("it is off, and served")
	}
}

func TestFeedOverHTTPWithoutAFeed(t *testing.T) {
	in := start(t, "--feed", "no")
	c := in.conn()
	c.expect("CONFIG SET http-port "+freePort(t), "-ERR CONFIG SET failed (possibly related to argument 'http-port') - The feed is off.")

	port := freePort(t)
	cfg, err := config.Load([]string{"--port", "0", "--dir", t.TempDir(), "--feed", "no", "--http-port", port}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var log safeLog
	runServer(t, cfg, &log, func() {
		if _, _, err := httpGet("127.0.0.1:"+port, ""); err == nil {
			t.Error("there is HTTP without a feed")
		}
	})
	if !strings.Contains(log.String(), "http-port has no effect, as the feed is off") {
		t.Errorf("the log does not say it:\n%s", log.String())
	}
}

// TestHTTPAtTheStart also takes a port that is in use.
func TestFeedOverHTTPAtTheStart(t *testing.T) {
	port := freePort(t)
	cfg, err := config.Load([]string{"--port", "0", "--dir", t.TempDir(), "--http-port", port}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var log safeLog
	runServer(t, cfg, &log, func() {
		if status, _, err := httpGet("127.0.0.1:"+port, ""); status != http.StatusOK {
			t.Errorf("%d, %v", status, err)
		}
		err := Run(t.Context(), cfg, slog.New(slog.DiscardHandler), func(string) {})
		if err == nil || !strings.Contains(err.Error(), "choose another with --http-port") {
			t.Errorf("a port that is taken: %v", err)
		}
	})
	if !strings.Contains(log.String(), "the feed is served over HTTP") {
		t.Errorf("the log does not say where:\n%s", log.String())
	}
}

// runServer runs a server until fn has returned.
func runServer(t *testing.T, cfg *config.Config, log *safeLog, fn func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- Run(ctx, cfg, slog.New(slog.NewTextHandler(log, nil)), func(addr string) { ready <- addr })
	}()
	select {
	case <-ready:
		fn()
	case err := <-ended:
		cancel()
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
