package pipe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strings"

	"kevy/changes"
	"kevy/internal/vfs"
)

// Sink is where commits go. Its methods are called one at a time.
//
// A sink deals with what passes by itself, a target that is down above all: it
// tries again, with backoff, until ctx ends. An error that a method returns is
// final and stops the pipe; its text says what to do.
type Sink interface {
	// Resume returns the cursors that the target keeps itself, with the data. ok
	// is false if it keeps none: the pipe's cursor file counts then. It is called
	// once, before everything else, and connects. ok with no cursor for a stream
	// is a target that has nothing of it yet.
	Resume(ctx context.Context) (at map[string]changes.Cursor, ok bool, err error)
	// Write delivers commits, of each stream in order. When it returns nil they
	// are durable in the target; where Resume is ok, in one transaction with the
	// cursor Next of the last commit of each stream. A commit without Frames
	// only moves the cursor to its Next. The commits and their bytes are the
	// caller's again afterwards. A commit is never split between two calls.
	Write(ctx context.Context, commits []*changes.Commit) error
	// Close ends the connection to the target. Nothing is lost by leaving it out.
	Close(ctx context.Context) error
}

// SnapshotSink is a Sink that can begin from the state of the store. The three
// come in this order; a start may come again, which voids what came before.
// When SnapshotEnd returns nil, the state is durable in the target, with the
// cursor where Resume is ok.
type SnapshotSink interface {
	Sink
	SnapshotStart(ctx context.Context, stream, token string) error
	SnapshotPart(ctx context.Context, p *changes.SnapshotPart) error
	SnapshotEnd(ctx context.Context, stream string, at changes.Cursor) error
}

// Target says what a sink is to be opened for.
type Target struct {
	URL *url.URL
	// Options are the sink's own: those of the URL's query, except for webhooks,
	// whose query is the receiver's, and those given beside it. A sink takes the
	// ones that it knows; what is left is refused.
	Options url.Values
	// Name tells pipes into the same target apart.
	Name string
	// Streams are those that the pipe carries, as commits name them.
	Streams []string
	// Filter and Rewrite are what the pipe does with keys before the sink sees
	// them: a sink asks them which of the target's keys are the pipe's.
	Filter  changes.Filter
	Rewrite Rewrite
	// Snapshot says that the pipe begins with a snapshot where the target has no
	// cursor. With Anew it does so in any case.
	Snapshot, Anew bool
	// Format is the form of records, "" for the sink's own choice.
	Format string
	// Version names the program, Source the server that is read.
	Version, Source string
	// Stdout is what stdout: is.
	Stdout io.Writer
	FS     vfs.FS
	Log    *slog.Logger
}

// Option takes an option of the sink and returns its value, def if it was not
// given.
func (t *Target) Option(name, def string) string {
	if !t.Options.Has(name) {
		return def
	}
	v := t.Options.Get(name)
	delete(t.Options, name)
	return v
}

// sinks are the kinds of target by the scheme of their URL. An opener checks
// what it is given and does not connect.
var sinks = map[string]func(t *Target) (Sink, error){
	"file":   openFile,
	"http":   openWebhook,
	"https":  openWebhook,
	"kafka":  openKafka,
	"kafkas": openKafka,
	"nats":   openNATS,
	"natss":  openNATS,
	"redis":  openRedis,
	"rediss": openRedis,
	"stdout": openStdout,
}

// Schemes returns the schemes that Open takes, sorted.
func Schemes() []string { return slices.Sorted(maps.Keys(sinks)) }

// errScheme is wrapped by the error of Open for a URL of a kind that is not
// known.
var errScheme = errors.New("no such kind of target")

// Open returns the sink for a target. It does not connect.
func Open(t *Target) (Sink, error) {
	open, ok := sinks[t.URL.Scheme]
	if !ok {
		return nil, fmt.Errorf("%w: %q; a target is a URL that begins with one of %s", errScheme, t.URL.Scheme, strings.Join(Schemes(), ", "))
	}
	s, err := open(t)
	if err != nil {
		return nil, err
	}
	if len(t.Options) > 0 {
		return nil, fmt.Errorf("%s targets have no option %q", t.URL.Scheme, slices.Sorted(maps.Keys(t.Options))[0])
	}
	return s, nil
}

// Targets is a table of the kinds of targets, for help.
const Targets = `  redis://host:port[/db]    exactly once   ttl=exact|none|1h replace=yes accept-diverged=yes
  rediss://…                exactly once   the same over TLS, and cacert=FILE cert=FILE key=FILE insecure=yes
  file:///path.jsonl        exactly once   rotate-size=1gb rotate-age=24h keep=10   (formats but json: at least once)
  kafka://broker/topic      exactly once   mode=history|changelog partition=key|stream transactions=no …
  nats://host/stream        exactly once   subject=stream.{key} replicas=3; kafkas:// and natss:// as rediss
  https://… http://…        at least once  header=Name:value secret-file=FILE timeout=30s; https: as rediss
  stdout:                   at least once`
