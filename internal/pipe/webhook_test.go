package pipe

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kevy/changes"
	"kevy/internal/changejson"
)

func oneCommit(stream string, first uint64, commands ...string) *changes.Commit {
	c := &changes.Commit{Stream: stream, Generation: 7, First: first, Last: first + uint64(len(commands)) - 1, Next: changes.Cursor{Generation: 7, Offset: first + uint64(len(commands))}}
	for i, text := range commands {
		var args [][]byte
		for _, w := range strings.Fields(text) {
			args = append(args, []byte(w))
		}
		c.Frames = append(c.Frames, changes.Frame{Offset: first + uint64(i), LSN: first + uint64(i), Time: time.UnixMilli(1000), Cause: changes.User, Args: args})
	}
	return c
}

// receiver keeps what a webhook was sent, and answers as it is told.
type receiver struct {
	mu       sync.Mutex
	answers  []func(http.ResponseWriter) // guarded by mu; then 200
	requests []*http.Request             // guarded by mu
	bodies   []string                    // guarded by mu
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, req)
	r.bodies = append(r.bodies, string(body))
	if len(r.answers) > 0 {
		answer := r.answers[0]
		r.answers = r.answers[1:]
		answer(w)
	}
}

func status(code int, headers ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
		io.WriteString(w, "because of this")
	}
}

func TestWebhook(t *testing.T) {
	t.Setenv(SecretVariable, "secret")
	r := &receiver{}
	server := httptest.NewServer(r)
	defer server.Close()
	spec := target(t, server.URL+"/in?tenant=1")
	spec.Options = map[string][]string{"header": {"X-One: 1", "Authorization: Bearer x"}}
	s := open(t, spec)
	if _, ok, err := s.Resume(t.Context()); ok || err != nil {
		t.Fatalf("a receiver keeps no cursor: %v %v", ok, err)
	}
	if err := s.Write(t.Context(), []*changes.Commit{oneCommit("0", 5, "SET a 1", "SET b 2"), oneCommit("1", 9, "DEL c"), oneCommit("0", 8, "DEL a"), {Stream: "2", Next: changes.Cursor{Generation: 1}}}); err != nil {
		t.Fatal(err)
	}
	if len(r.requests) != 2 {
		t.Fatalf("%d requests for two streams", len(r.requests))
	}
	for i, want := range []struct{ key, cursor, offsets string }{
		{"test/0/7:5-7:9", "0 7:9", "5 6 8 "}, {"test/1/7:9-7:10", "1 7:10", "9 "},
	} {
		req, body := r.requests[i], r.bodies[i]
		if got := req.Header.Get(HeaderIdempotencyKey); got != want.key {
			t.Errorf("%s: %s, want %s", HeaderIdempotencyKey, got, want.key)
		}
		if got := req.Header.Get(HeaderCursor); got != want.cursor {
			t.Errorf("%s: %s, want %s", HeaderCursor, got, want.cursor)
		}
		if got := req.Header.Get(HeaderSignature); got != Sign([]byte("secret"), req.Header.Get(HeaderTimestamp), []byte(body)) {
			t.Errorf("the signature %q does not fit", got)
		}
		if req.Method != "POST" || req.URL.String() != "/in?tenant=1" || req.Header.Get("X-One") != "1" || req.Header.Get("Authorization") != "Bearer x" || req.Header.Get("Content-Type") != "application/x-ndjson" {
			t.Errorf("%s %s %v", req.Method, req.URL, req.Header)
		}
		offsets := ""
		for line := range strings.Lines(body) {
			f, err := changejson.ParseFrame([]byte(line))
			if err != nil {
				t.Fatal(err)
			}
			offsets += fmt.Sprint(f.Offset, " ")
		}
		if offsets != want.offsets {
			t.Errorf("offsets %q, want %q", offsets, want.offsets)
		}
	}
}

// TestSignature pins what receivers compute: openssl dgst -sha256 -hmac.
func TestSignature(t *testing.T) {
	const want = "v1=dc2e07c928691c3fdecbdca708e89415b4ad6f1c9ddb31cd2da8967da29cd435"
	if got := Sign([]byte("secret"), "1700000000", []byte("{}\n")); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestWebhookTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{answers: []func(http.ResponseWriter){
			status(500), status(429, "Retry-After", "100"), status(408), status(503, "Retry-After", time.Now().Add(200*time.Second).UTC().Format(http.TimeFormat)), status(503, "Retry-After", "junk"),
		}}
		spec := target(t, "http://receiver/")
		s := open(t, spec)
		s.(*webhookSink).client.Transport = roundTripper(func(req *http.Request) (*http.Response, error) {
			if len(r.requests) == 2 && len(r.answers) == 3 {
				r.requests = append(r.requests, nil)
				return nil, errors.New("connection refused")
			}
			w := httptest.NewRecorder()
			r.ServeHTTP(w, req)
			return w.Result(), nil
		})
		begin := time.Now()
		if err := s.Write(t.Context(), []*changes.Commit{oneCommit("ALL", 5, "SET a 1")}); err != nil {
			t.Fatal(err)
		}
		if len(r.requests) != 7 {
			t.Errorf("%d requests, want 7", len(r.requests))
		}
		if took := time.Since(begin); took < 200*time.Second || took > 210*time.Second {
			t.Errorf("it took %v; 100 s, and 200 s from the beginning, were asked for", took)
		}
		for i, req := range r.requests {
			if req != nil && (req.Header.Get(HeaderIdempotencyKey) != "test/ALL/7:5-7:6" || r.bodies[0] != r.bodies[len(r.bodies)-1]) {
				t.Errorf("request %d is another one: %v", i, req.Header)
			}
		}
		// A pipe that is to stop does not wait for the receiver.
		r.answers = []func(http.ResponseWriter){status(503, "Retry-After", "100000")}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Write(ctx, []*changes.Commit{oneCommit("ALL", 5, "SET a 1")}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("stopped: %v", err)
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
func (f roundTripper) CloseIdleConnections()                             {}

func TestWebhookIsRefused(t *testing.T) {
	for _, test := range []struct {
		answer func(http.ResponseWriter)
		want   string
	}{
		{status(400), `answered 400 Bad Request ("because of this") to the batch 7:5-7:6, which does not pass by trying again`},
		{status(413), "make batches smaller with --batch-bytes"},
		{status(401), "look at the secret"},
		{status(302, "Location", "/elsewhere"), `answered 302 Found to "/elsewhere": give the pipe the URL itself`},
	} {
		r := &receiver{answers: []func(http.ResponseWriter){test.answer}}
		server := httptest.NewServer(r)
		s := open(t, target(t, server.URL))
		if err := s.Write(t.Context(), []*changes.Commit{oneCommit("ALL", 5, "SET a 1")}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want %s", err, test.want)
		}
		if len(r.requests) != 1 {
			t.Errorf("%s: %d requests", test.want, len(r.requests))
		}
		server.Close()
	}
}

func TestRetryAfterIsBounded(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for value, want := range map[string]time.Duration{
		"": 0, "5": 5 * time.Second, "-5": 0, "1e3": 0, "99999999": maxRetryAfter, "99999999999999999999": 0,
		now.Add(time.Minute).UTC().Format(http.TimeFormat): time.Minute, now.Add(-time.Minute).UTC().Format(http.TimeFormat): 0,
	} {
		if got := retryAfter(value, now); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
}

// TestWebhookOverTLS has a receiver whose certificate nobody has signed but it
// itself: it is taken if it is named, or if all are.
func TestWebhookOverTLS(t *testing.T) {
	r := &receiver{}
	server := httptest.NewUnstartedServer(r)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, options := range []map[string][]string{{"cacert": {file}}, {"insecure": {"yes"}}, {}} {
		spec := target(t, server.URL)
		spec.Options = options
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		err := open(t, spec).Write(ctx, []*changes.Commit{oneCommit("ALL", 5, "SET a 1")})
		cancel()
		if (err == nil) != (i < 2) {
			t.Errorf("%v: %v", options, err)
		}
	}
	if len(r.requests) != 2 {
		t.Errorf("%d requests", len(r.requests))
	}
	for want, options := range map[string]map[string][]string{
		"holds no certificate": {"cacert": {os.Args[0]}}, "the option cacert: open": {"cacert": {"/none"}}, "go together": {"cert": {file}}, "takes yes or no": {"insecure": {"maybe"}},
	} {
		spec := target(t, server.URL)
		spec.Options = options
		if _, err := Open(spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", options, err, want)
		}
	}
}
