package nats

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"kevy/changes"
)

// Form words the data of messages. Data keeps none of the bytes of what it is made
// of.
type Form interface {
	// AppendFrame appends the data of frame i of a commit.
	AppendFrame(dst []byte, c *changes.Commit, i int) []byte
	// AppendSnapshotOp appends the data of op i of a part of a snapshot.
	AppendSnapshotOp(dst []byte, p *changes.SnapshotPart, i int) []byte
	// AppendSnapshotStart and AppendSnapshotEnd append the data of the messages
	// that enclose a snapshot; they may be empty.
	AppendSnapshotStart(dst []byte, stream, token string) []byte
	AppendSnapshotEnd(dst []byte, stream, token string, at changes.Cursor) []byte
}

// Options say where the messages go.
type Options struct {
	Servers []string // nats://host:port, with user, password or token
	Stream  string   // of JetStream
	Subject string   // a template, see subject; Stream + ".{key}" if empty
	ID      string   // the pipe's name: idle cursors go by it; "kevy" if empty
	Streams []string // of the store, those that come

	Replicas int           // of a stream that does not exist yet; 0 is 1
	Window   time.Duration // in which such a stream knows the id of a message again; 0 is JetStream's 2 minutes
	Creds    string        // a file of credentials, or empty
	TLS      *tls.Config   // nil: none unless a server asks for it
	Snapshot bool          // that a stream without a cursor begins with one

	Form   Form
	Logger *slog.Logger // slog.Default() if nil
}

const (
	defaultID   = "kevy"
	maxStream   = 255 // bytes of a stream's name
	maxReplicas = 5   // JetStream's own limit
)

// Names are the options that Set takes.
var Names = []string{"subject", "replicas", "window", "creds"}

// Set sets an option by its name in a target's URL.
func (o *Options) Set(name, v string) error {
	var err error
	switch name {
	case "subject":
		o.Subject = v
	case "replicas":
		o.Replicas, err = strconv.Atoi(v)
	case "window":
		o.Window, err = time.ParseDuration(v)
	case "creds":
		o.Creds = v
	default:
		return fmt.Errorf("nats: no option %q", name)
	}
	if err != nil {
		return fmt.Errorf("nats: %s=%s: %w", name, v, err)
	}
	return nil
}

func (o *Options) complete() (subject, error) {
	if o.ID == "" {
		o.ID = defaultID
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if len(o.Streams) == 0 {
		o.Streams = []string{changes.All}
	}
	if o.Subject == "" {
		o.Subject = o.Stream + ".{key}"
		if len(o.Streams) > 1 {
			o.Subject = o.Stream + ".{stream}.{key}"
		}
	}
	switch {
	case len(o.Servers) == 0:
		return nil, errors.New("nats: no server: nats://host[:port][,host…]/stream")
	case o.Stream == "" || len(o.Stream) > maxStream || strings.ContainsAny(o.Stream, " .*>/\\\t\r\n"):
		return nil, fmt.Errorf("nats: %q cannot be a stream: nats://host[:port]/stream, without spaces, '.', '*', '>', '/' and '\\', at most %d bytes", o.Stream, maxStream)
	case o.Replicas < 0 || o.Replicas > maxReplicas:
		return nil, fmt.Errorf("nats: replicas=%d: 1 to %d", o.Replicas, maxReplicas)
	case o.Window < 0:
		return nil, fmt.Errorf("nats: window=%v: not negative", o.Window)
	case o.Form == nil:
		return nil, errors.New("nats: no form for the messages")
	}
	s, err := parseSubject(o.Subject)
	if err != nil {
		return nil, err
	}
	if len(o.Streams) > 1 && !slices.ContainsFunc(s, func(p piece) bool { return p.kind == pieceStream }) {
		return nil, fmt.Errorf("nats: the subject %s does not tell %d streams apart: put {stream} into it", o.Subject, len(o.Streams))
	}
	return s, nil
}
