package nats

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"kevy/changes"
	"kevy/internal/backoff"
)

// publish stores messages, each once and in order.
//
// Each is published on the condition that the stream's last sequence is that of
// the one before it. So when one is lost on its way, those behind it are refused
// rather than stored out of order. After any failure the last message of ours says how
// many of them are there, and the rest is published again.
func (s *Sink) publish(ctx context.Context, messages []message) error {
	if len(messages) == 0 {
		return nil
	}
	return s.insist(ctx, func() error {
		if s.conn == nil {
			if err := s.connect(ctx); err != nil {
				return err
			}
			var rest []message
			err := s.settled(ctx, func() (err error) {
				rest, err = s.missing(ctx, messages)
				return err
			})
			if err != nil {
				return err
			}
			messages = rest
		}
		return s.send(ctx, messages)
	})
}

// settled calls look, which asks for last messages, until nothing was stored
// meanwhile. What a pipe that was killed had on its way may be stored while its successor
// looks; were the last sequence from before and the last message from after, the
// messages that follow would be numbered wrong, and one of them could fit where it does not
// belong.
func (s *Sink) settled(ctx context.Context, look func() error) error {
	for range maxLooks {
		before := s.lastSeq
		if err := look(); err != nil {
			return err
		}
		rctx, cancel := context.WithTimeout(ctx, requestTimeout)
		info, err := s.stream.Info(rctx)
		cancel()
		if err != nil {
			return err
		}
		if s.lastSeq = info.State.LastSeq; s.lastSeq == before {
			return nil
		}
	}
	return fmt.Errorf("stream %s is being written to by another pipe or program", s.o.Stream)
}

// maxLooks bounds settled.
const maxLooks = 20

// missing returns those of the messages that are not in the stream yet. Some may
// be there that this process never sent: those that were on their way when the one
// before it was killed.
func (s *Sink) missing(ctx context.Context, messages []message) ([]message, error) {
	ends := map[string]*jetstream.RawStreamMsg{}
	for i := range messages {
		stream := messages[i].stream
		if _, ok := ends[stream]; ok {
			continue
		}
		last, err := s.last(ctx, stream)
		if err != nil {
			return nil, err
		}
		ends[stream] = last
	}
	for stream, last := range ends {
		if last == nil {
			continue
		}
		if name := last.Header.Get(HeaderPipe); name != s.o.ID {
			return nil, permanentf("the last message of stream %s, %d, is of %s: another pipe or program writes to %s; stop it, or give it a stream of its own", s.o.Stream, last.Sequence, describeWriter(name), s.subject.filter(stream))
		}
		id := last.Header.Get(natsgo.MsgIdHdr)
		if i := slices.IndexFunc(messages, func(m message) bool { return m.id == id }); i >= 0 {
			messages = slices.DeleteFunc(slices.Clone(messages), func(m message) bool {
				i--
				return m.stream == stream && i >= -1
			})
			s.lastID[stream] = id
			continue
		}
		if id == s.lastID[stream] || last.Header.Get(HeaderSnapshot) != "" {
			continue
		}
		at, err := changes.ParseCursor(last.Header.Get(HeaderCursor))
		if err != nil {
			return nil, permanentf("the last message of stream %s has no %s", s.o.Stream, HeaderCursor)
		}
		for _, m := range messages {
			if m.stream == stream && m.at.Generation != at.Generation {
				return nil, permanentf("stream %s went on to %s %v while this pipe began: start it again", s.o.Stream, stream, at)
			}
		}
		s.skip[stream], s.lastID[stream] = at, id
		messages = slices.DeleteFunc(slices.Clone(messages), func(m message) bool { return m.stream == stream && m.at.Offset <= at.Offset })
	}
	return messages, nil
}

func describeWriter(name string) string {
	if name == "" {
		return "no pipe"
	}
	return fmt.Sprintf("the pipe %q", name)
}

// send publishes messages and waits until all of them are stored.
func (s *Sink) send(ctx context.Context, messages []message) error {
	first := s.lastSeq + 1
	for i := range messages {
		m := &messages[i]
		if len(m.data) > s.maxPayload {
			return permanentf("message %s on %s has %d bytes, and the server takes %d: raise its max_payload and start again, or leave the key out by a filter", m.id, m.subject, len(m.data), s.maxPayload)
		}
		m.header.Set(natsgo.MsgIdHdr, m.id)
		m.header.Set(HeaderPipe, s.o.ID)
		m.header.Set(natsgo.ExpectedStreamHdr, s.o.Stream)
		m.header.Set(natsgo.ExpectedLastSeqHdr, strconv.FormatUint(first+uint64(i)-1, 10))
		msg := &natsgo.Msg{Subject: m.subject, Reply: s.inbox + strconv.FormatUint(first+uint64(i), 10), Header: m.header, Data: m.data}
		if err := s.conn.PublishMsg(msg); err != nil {
			return fmt.Errorf("publishing %s on %s: %w", m.id, m.subject, err)
		}
	}
	timeout := time.NewTimer(ackTimeout)
	defer timeout.Stop()
	// A server answers in order; if an answer is missing, the next one is wrong.
	for i := range messages {
		m := &messages[i]
		select {
		case answer := <-s.answers:
			if err := acknowledges(answer, s.inbox, first+uint64(i)); err != nil {
				return fmt.Errorf("storing %s on %s: %w", m.id, m.subject, err)
			}
			s.lastSeq = first + uint64(i)
			s.lastID[m.stream] = m.id
			timeout.Reset(ackTimeout)
		case <-s.lost:
			return fmt.Errorf("storing %s on %s: %w", m.id, m.subject, natsgo.ErrConnectionClosed)
		case <-timeout.C:
			return fmt.Errorf("storing %s on %s: no answer in %v", m.id, m.subject, ackTimeout)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// acknowledges checks that an answer says that the message which was to be seq
// is.
func acknowledges(answer *natsgo.Msg, inbox string, seq uint64) error {
	if len(answer.Data) == 0 && answer.Header.Get("Status") == "503" {
		return natsgo.ErrNoResponders
	}
	var ack struct {
		Seq   uint64              `json:"seq"`
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(answer.Data, &ack); err != nil {
		return fmt.Errorf("the answer %q: %w", answer.Data, err)
	}
	switch {
	case ack.Error != nil:
		return ack.Error
	case answer.Subject != inbox+strconv.FormatUint(seq, 10):
		return fmt.Errorf("the answer to message %s comes before that to %d", strings.TrimPrefix(answer.Subject, inbox), seq)
	case ack.Seq != seq:
		return fmt.Errorf("it is message %d of the stream, not %d", ack.Seq, seq)
	}
	return nil
}

// insist calls try until it succeeds, fails for good, or ctx ends.
func (s *Sink) insist(ctx context.Context, try func() error) error {
	b := backoff.Backoff{Most: maxBackoff}
	for {
		err := try()
		if err == nil {
			return nil
		}
		// The connection goes with whatever it still has to send.
		s.drop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err = s.judge(err); errors.As(err, new(permanentError)) {
			return err
		}
		wait := b.Next()
		s.o.Logger.Warn("nats: trying again", "stream", s.o.Stream, "in", wait, "err", err)
		if err := backoff.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

func (s *Sink) drop() {
	if s.conn != nil {
		s.conn.Close()
		<-s.lost // the handler's goroutine
		s.conn = nil
	}
}

// connect makes a connection, unless there is one, and looks at the stream.
func (s *Sink) connect(ctx context.Context) error {
	if s.conn != nil {
		return nil
	}
	lost := make(chan struct{})
	opts := []natsgo.Option{
		natsgo.Name("kevy-pipe " + s.o.ID),
		natsgo.Timeout(connectTimeout),
		// A connection that is lost is replaced here, after a look at what is
		// stored: the library would send again what it has kept.
		natsgo.NoReconnect(),
		natsgo.ErrorHandler(func(_ *natsgo.Conn, _ *natsgo.Subscription, err error) {
			s.o.Logger.Debug("nats: of the connection", "err", err)
		}),
		natsgo.ClosedHandler(func(*natsgo.Conn) { close(lost) }),
	}
	if s.o.Creds != "" {
		opts = append(opts, natsgo.UserCredentials(s.o.Creds))
	}
	if s.o.TLS != nil {
		opts = append(opts, natsgo.Secure(s.o.TLS.Clone()))
	}
	natsOptions := natsgo.GetDefaultOptions()
	natsOptions.Servers = s.o.Servers
	for _, o := range opts {
		if err := o(&natsOptions); err != nil {
			return permanentf("%w", err)
		}
	}
	conn, err := natsOptions.Connect()
	if err != nil {
		return err
	}
	s.conn, s.lost = conn, lost
	s.maxPayload = int(conn.MaxPayload()) - headerRoom
	s.inbox = natsgo.NewInbox() + "."
	s.answers = make(chan *natsgo.Msg, 2*window)
	if _, err := conn.ChanSubscribe(s.inbox+"*", s.answers); err != nil {
		return err
	}
	if s.js, err = jetstream.New(conn); err != nil {
		return err
	}
	return s.prepare(ctx)
}

// headerRoom is kept free of a server's max_payload for the headers.
const headerRoom = 1 << 10

// prepare creates the stream if it is missing and checks that it keeps what it
// is given.
func (s *Sink) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	stream, err := s.js.Stream(ctx, s.o.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if len(s.lastID) > 0 {
			return permanentf("stream %s is gone; start again to begin anew", s.o.Stream)
		}
		stream, err = s.js.CreateStream(ctx, jetstream.StreamConfig{
			Name: s.o.Stream, Subjects: []string{s.subject.filter("")}, Replicas: max(1, s.o.Replicas), Duplicates: s.o.Window,
		})
		if err == nil {
			s.o.Logger.Info("nats: created a stream", "stream", s.o.Stream, "subjects", s.subject.filter(""))
		}
	}
	if err != nil {
		return err
	}
	s.stream = stream
	info := stream.CachedInfo()
	c := info.Config
	switch {
	case c.Sealed:
		return permanentf("stream %s is sealed: take another one", s.o.Stream)
	case c.NoAck:
		return permanentf("stream %s does not acknowledge messages (no_ack): take another one", s.o.Stream)
	case c.MaxMsgsPerSubject > 0:
		return permanentf("stream %s keeps %d messages of a subject: ops of a key that its value is made of would go; let max_msgs_per_subject be -1", s.o.Stream, c.MaxMsgsPerSubject)
	}
	if !slices.ContainsFunc(c.Subjects, func(pattern string) bool { return covers(pattern, s.subject.filter("")) }) {
		return permanentf("stream %s takes %s, and not all of %s: add that to its subjects, or say subject=…", s.o.Stream, strings.Join(c.Subjects, ", "), s.subject.filter(""))
	}
	if info.State.LastSeq < s.lastSeq {
		return permanentf("stream %s had acknowledged message %d, and its last is %d: the server has lost some (its sync_interval, unless it is always, allows that in a crash); start again to send them anew", s.o.Stream, s.lastSeq, info.State.LastSeq)
	}
	s.lastSeq = info.State.LastSeq
	s.consumed = c.Retention != jetstream.LimitsPolicy
	if s.kv == nil {
		kv, err := s.js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: bucket, Replicas: max(1, s.o.Replicas), Description: "cursors of kevy's pipes"})
		if err != nil && errors.Is(err, natsgo.ErrPermissionViolation) {
			s.o.Logger.Warn("nats: no bucket for cursors: one that moves without messages is not kept", "bucket", bucket, "err", err)
			return nil
		}
		if err != nil {
			return fmt.Errorf("the bucket %s: %w", bucket, err)
		}
		s.kv = kv
		return nil
	}
	s.kv, err = s.js.KeyValue(ctx, bucket)
	return err
}

// permanentError is an error that waiting does not cure.
type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

func permanentf(format string, args ...any) error {
	return permanentError{fmt.Errorf("nats: "+format, args...)}
}

// Error codes of JetStream that the client library does not name.
const (
	codeSealed          jetstream.ErrorCode = 10109
	codeReplicas        jetstream.ErrorCode = 10074
	codeSubjectsOverlap jetstream.ErrorCode = 10065
	codeInvalidConfig   jetstream.ErrorCode = 10052
	codeMismatch        jetstream.ErrorCode = 10060
	codeMaxBytes        jetstream.ErrorCode = 10113
)

// judge makes an error permanent that nothing but a change by people helps
// against, and adds what that may be.
func (s *Sink) judge(err error) error {
	if errors.As(err, new(permanentError)) {
		return err
	}
	do := ""
	var api *jetstream.APIError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	switch {
	case errors.Is(err, natsgo.ErrAuthorization), errors.Is(err, natsgo.ErrAuthExpired), errors.Is(err, natsgo.ErrAuthRevoked), errors.Is(err, natsgo.ErrAccountAuthExpired):
		do = "check user, password, token or creds of the target"
	case errors.Is(err, natsgo.ErrPermissionViolation):
		do = fmt.Sprintf("let this user publish to %s and $JS.API.>, and subscribe to _INBOX.>", s.subject.filter(""))
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		do = "run the server with JetStream (nats-server -js), and enable it for the account"
	case errors.Is(err, natsgo.ErrMaxPayload):
		do = "raise max_payload of the server and start again, or leave the key out by a filter"
	case errors.As(err, &authority), errors.As(err, &host):
		do = "check the server's certificate and name"
	case errors.As(err, &api):
		switch api.ErrorCode {
		case jetstream.JSErrCodeStreamMessageExceedsMaximum:
			do = fmt.Sprintf("raise max_msg_size of stream %s and start again, or leave the key out by a filter", s.o.Stream)
		case codeSubjectsOverlap:
			do = "say subject=… with a first word that no other stream has"
		case codeMismatch:
			do = fmt.Sprintf("let the subjects of stream %s cover %s", s.o.Stream, s.subject.filter(""))
		case codeSealed, codeReplicas, codeInvalidConfig, codeMaxBytes:
			do = "change the stream or the target"
		}
	}
	if errors.Is(err, natsgo.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse) {
		// So it is too while a cluster elects a leader.
		return fmt.Errorf("%w (if this stays so: run the server with JetStream, nats-server -js)", err)
	}
	if do == "" {
		return err
	}
	return permanentf("%w (%s)", err, do)
}
