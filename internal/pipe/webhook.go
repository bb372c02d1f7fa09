package pipe

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"kevy/changes"
	"kevy/internal/backoff"
)

// What a webhook's requests say of themselves.
const (
	// HeaderTimestamp is Unix time in seconds, at which the request was signed.
	HeaderTimestamp = "Kevy-Timestamp"
	// HeaderSignature is "v1=" and the hex of HMAC-SHA256, keyed with the secret,
	// over the timestamp, a full stop and the body.
	HeaderSignature = "Kevy-Signature"
	// HeaderIdempotencyKey names the batch: the pipe, the stream, the cursor of
	// its first frame and the one behind it. A request that is tried again has
	// the same.
	HeaderIdempotencyKey = "Idempotency-Key"
	// HeaderCursor is the stream and the cursor behind the batch.
	HeaderCursor = "Kevy-Cursor"
)

const (
	webhookTimeout = 30 * time.Second
	// maxRetryAfter bounds how long a receiver may ask to be left alone.
	maxRetryAfter = time.Hour
	// maxAnswerBytes is how much of an answer is read, and maxShownBytes how much
	// of one that refuses is shown.
	maxAnswerBytes = 64 << 10
	maxShownBytes  = 200
	// SecretVariable is the environment variable with a webhook's secret.
	SecretVariable = "KEVY_WEBHOOK_SECRET"
)

// webhookSink posts batches to a URL. A request has the records of one stream;
// it is delivered when the receiver answers with a 2xx status.
type webhookSink struct {
	url     string
	name    string
	secret  []byte // nil: requests are not signed
	headers http.Header
	user    *url.Userinfo
	format  Format
	client  *http.Client
	log     *slog.Logger
	now     func() time.Time

	body  []byte
	token string // of the snapshot that is sent
}

func openWebhook(t *Target) (Sink, error) {
	s := &webhookSink{name: t.Name, log: t.Log, user: t.URL.User, headers: http.Header{}, now: time.Now}
	bare := *t.URL
	bare.User = nil
	s.url = bare.String()
	if bare.Host == "" {
		return nil, fmt.Errorf("%s names no host", t.URL.Redacted())
	}
	name := t.Format
	if name == "" {
		name = FormatJSON
	}
	var err error
	if s.format, err = NewFormat(name, t.Name, t.Version); err != nil {
		return nil, err
	}
	if file := t.Option("secret-file", ""); file != "" {
		secret, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("the webhook's secret: %w", err)
		}
		s.secret = bytes.TrimRight(secret, "\r\n")
	} else if secret := os.Getenv(SecretVariable); secret != "" {
		s.secret = []byte(secret)
	}
	if s.secret != nil && len(s.secret) == 0 {
		return nil, errors.New("the webhook's secret is empty")
	}
	for _, h := range t.Options["header"] {
		name, value, ok := strings.Cut(h, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, errors.New("the option header takes Name: value")
		}
		s.headers.Add(textproto.TrimString(name), textproto.TrimString(value))
	}
	delete(t.Options, "header")
	timeout, err := time.ParseDuration(t.Option("timeout", webhookTimeout.String()))
	if err != nil || timeout <= 0 {
		return nil, errors.New("the option timeout takes a time such as 10s")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if t.URL.Scheme == "https" {
		if transport.TLSClientConfig, err = t.tlsConfig(); err != nil {
			return nil, err
		}
	}
	s.client = &http.Client{
		Timeout:   timeout,
		Transport: transport,
		// A redirect would turn the POST into a GET, or carry a signed batch to where
		// nobody has asked for it.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return s, nil
}

// Resume implements Sink. A receiver keeps no cursor that could be asked for.
func (s *webhookSink) Resume(context.Context) (map[string]changes.Cursor, bool, error) {
	if s.secret == nil {
		s.log.Warn("requests are not signed: set " + SecretVariable + ", or the option secret-file, so that the receiver can tell them from others")
	}
	return nil, false, nil
}

// Close implements Sink.
func (s *webhookSink) Close(context.Context) error {
	s.client.CloseIdleConnections()
	return nil
}

// Write implements Sink: one request a stream.
func (s *webhookSink) Write(ctx context.Context, commits []*changes.Commit) error {
	done := map[string]bool{}
	for _, c := range commits {
		if done[c.Stream] || len(c.Frames) == 0 {
			continue
		}
		done[c.Stream] = true
		s.body = s.body[:0]
		last := c
		for _, other := range commits {
			if other.Stream == c.Stream && len(other.Frames) > 0 {
				s.body = s.format.AppendCommit(s.body, other)
				last = other
			}
		}
		first := changes.Cursor{Generation: c.Generation, Offset: c.Frames[0].Offset}
		if err := s.post(ctx, c.Stream, fmt.Sprintf("%v-%v", first, last.Next), last.Next.String()); err != nil {
			return err
		}
	}
	return nil
}

// SnapshotStart implements SnapshotSink.
func (s *webhookSink) SnapshotStart(ctx context.Context, stream, token string) error {
	s.token = token
	s.body = s.format.AppendSnapshotStart(s.body[:0], stream, token)
	return s.post(ctx, stream, "snapshot-"+token+"-start", "")
}

// SnapshotPart implements SnapshotSink.
func (s *webhookSink) SnapshotPart(ctx context.Context, p *changes.SnapshotPart) error {
	s.body = s.body[:0]
	for i := range p.Ops {
		s.body = s.format.AppendSnapshotOp(s.body, p, i)
	}
	return s.post(ctx, p.Stream, fmt.Sprintf("snapshot-%s-%d", p.Token, p.N), "")
}

// SnapshotEnd implements SnapshotSink.
func (s *webhookSink) SnapshotEnd(ctx context.Context, stream string, at changes.Cursor) error {
	s.body = s.format.AppendSnapshotEnd(s.body[:0], stream, s.token, at)
	return s.post(ctx, stream, "snapshot-"+s.token+"-end", at.String())
}

// post sends the body until it is taken, or refused for good.
func (s *webhookSink) post(ctx context.Context, stream, batch, cursor string) error {
	if len(s.body) == 0 {
		return nil
	}
	var b backoff.Backoff
	for {
		wait, err := s.postOnce(ctx, stream, batch, cursor)
		if err == nil {
			return nil
		}
		var refused *refusedError
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &refused):
			return err
		}
		s.log.Warn("a batch was not taken; trying again", "url", s.url, "batch", batch, "error", err)
		if err := b.Wait(ctx, wait); err != nil {
			return err
		}
	}
}

// refusedError is an answer that trying again would not change.
type refusedError struct{ text string }

func (e *refusedError) Error() string { return e.text }

// postOnce sends the body. wait is how long the receiver asks to wait before the
// next attempt.
func (s *webhookSink) postOnce(ctx context.Context, stream, batch, cursor string) (wait time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(s.body))
	if err != nil {
		return 0, &refusedError{err.Error()}
	}
	req.Header = s.headers.Clone()
	if req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", s.format.MediaType())
	}
	req.Header.Set(HeaderIdempotencyKey, s.name+"/"+stream+"/"+batch)
	if cursor != "" {
		req.Header.Set(HeaderCursor, stream+" "+cursor)
	}
	timestamp := strconv.FormatInt(s.now().Unix(), 10)
	req.Header.Set(HeaderTimestamp, timestamp)
	if s.secret != nil {
		req.Header.Set(HeaderSignature, Sign(s.secret, timestamp, s.body))
	}
	if s.user != nil {
		password, _ := s.user.Password()
		req.SetBasicAuth(s.user.Username(), password)
	}
	answer, err := s.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxAnswerBytes)) // the status has answered
	switch code := answer.StatusCode; {
	case code/100 == 2:
		return 0, nil
	case code == http.StatusRequestTimeout || code == http.StatusTooManyRequests || code >= 500:
		return retryAfter(answer.Header.Get("Retry-After"), s.now()), fmt.Errorf("the receiver answered %s", answer.Status)
	case code/100 == 3:
		return 0, &refusedError{fmt.Sprintf("%s answered %s to %q: give the pipe the URL itself, redirects are not followed", s.url, answer.Status, answer.Header.Get("Location"))}
	case code == http.StatusRequestEntityTooLarge:
		return 0, &refusedError{fmt.Sprintf("%s answered %s to a batch of %d bytes: allow more there, or make batches smaller with --batch-bytes", s.url, answer.Status, len(s.body))}
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return 0, &refusedError{fmt.Sprintf("%s answered %s%s: look at the secret, the user in the URL and the option header", s.url, answer.Status, shown(text))}
	default:
		return 0, &refusedError{fmt.Sprintf("%s answered %s%s to the batch %s, which does not pass by trying again; the pipe goes on with this batch when it is started next", s.url, answer.Status, shown(text), batch)}
	}
}

func shown(text []byte) string {
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return ""
	}
	return fmt.Sprintf(" (%q)", text[:min(len(text), maxShownBytes)])
}

// retryAfter reads the header of that name: seconds, or a date.
func retryAfter(value string, now time.Time) time.Duration {
	var wait time.Duration
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), maxRetryAfter)
}

// Sign returns what HeaderSignature holds for a body that was signed at the
// timestamp.
func Sign(secret []byte, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(timestamp))
	mac.Write([]byte{'.'})
	mac.Write(body)
	return "v1=" + hex.EncodeToString(mac.Sum(nil))
}
