package changes

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"slices"
	"time"
)

// What a field of Options that is zero stands for, and its bounds.
const (
	DefaultWindow        = 64
	DefaultCount         = 1024
	DefaultBytes         = 256 << 10
	DefaultHeartbeat     = 5 * time.Second
	DefaultMinBackoff    = 100 * time.Millisecond
	DefaultMaxBackoff    = 10 * time.Second
	DefaultMaxAheadBytes = 64 << 20

	maxWindow    = 1 << 16
	maxCount     = 1 << 16  // COUNT at most
	maxBytes     = 64 << 20 // BYTES at most
	maxHeartbeat = time.Minute
	maxStreams   = 1 << 14 // hash slots: no store has more shards
)

// Options says what a Consumer reads, from where, and how.
type Options struct {
	// Addr is host:port of the server. Dial, if set, connects in its place.
	Addr string
	Dial func(ctx context.Context) (net.Conn, error)
	// TLS, if set, is spoken on what Addr or Dial connects to.
	TLS *tls.Config
	// Username and Password log in; a Password alone is that of "default".
	Username, Password string

	// Streams are the streams to read: "ALL", or shard numbers. None stands for
	// ALL, unless EveryShard is set: then all shard streams are read, each in its
	// own order and at the same time as the others.
	Streams    []string
	EveryShard bool
	// Connections is over how many connections several streams are spread; 0 is
	// one for each.
	Connections int
	// Start is where a stream begins of which Store has no cursor.
	Start Start
	// Filter selects frames.
	Filter Filter
	// Durable leaves out what is not fsynced yet, so that no crash of the server
	// can make the consumer resync.
	Durable bool

	// Poll asks with SINCE … BLOCK even where the server can SUBSCRIBE.
	Poll bool
	// Window is how many messages of a stream may wait for the handler; beyond
	// that the server waits. 64 by default, 65536 at most.
	Window int
	// Count and Bytes are how many frames and bytes the server puts into a
	// message, rounded up to the end of a commit: 1024 and 256 KiB by default.
	Count, Bytes int
	// Heartbeat is how often the server says how far it is while nothing passes,
	// and how often the consumer asks how far the stream goes. A connection on
	// which nothing comes for three of them is given up. 5 seconds by default, a
	// minute at most.
	Heartbeat time.Duration
	// MaxMessageBytes bounds one message, and so one commit; 1 GiB by default.
	// MaxAheadBytes bounds what waits for the handler on one connection, beside
	// one message; 64 MiB by default.
	MaxMessageBytes, MaxAheadBytes int64

	// Store keeps the cursors. Without one they are kept for as long as the
	// Consumer exists. A handler that stores Commit.Next in its target's own
	// transactions gives KeptByTarget.
	Store CursorStore
	// Save is how often the cursors go to Store; every commit by default.
	Save SavePolicy
	// Hold, if set, is the name of a hold on the server: it keeps the log from the
	// saved cursors on, also while the consumer is away, up to the server's
	// feed-hold-max-bytes. It is moved with each heartbeat. Two consumers of one
	// name need different HoldEpochs: the lower one, which was replaced, is
	// stopped with the server's HOLDSTALE. Remove a hold that nobody needs any
	// more with CHANGES HOLD DEL.
	Hold      string
	HoldEpoch uint64
	// OnResync is what to do when a cursor cannot be served.
	OnResync OnResync

	// MinBackoff and MaxBackoff bound the wait before a lost connection is tried
	// again: it doubles each time, and a random part of up to a half is left out.
	// 100 milliseconds and 10 seconds by default.
	MinBackoff, MaxBackoff time.Duration
	// Logger is told of lost connections and of what is done about them.
	Logger *slog.Logger
}

// SavePolicy says when a cursor is saved. It is always saved when Run returns.
// What was handled and not saved comes again after a crash of the consumer.
type SavePolicy struct {
	// Commits is after how many commits; 0 means after each, unless Every is set:
	// then the time alone counts.
	Commits int
	// Every is how long a handled commit may stand unsaved; 0 for no limit.
	Every time.Duration
}

func (p SavePolicy) due(commits int) bool {
	if p.Commits == 0 {
		return p.Every == 0
	}
	return commits >= p.Commits
}

// withDefaults checks the options and fills in what is not set.
func (o Options) withDefaults(h Handler) (Options, error) {
	switch {
	case h == nil:
		return o, errors.New("changes: a Handler is needed")
	case o.Addr == "" && o.Dial == nil:
		return o, errors.New("changes: Options need an Addr or a Dial")
	case o.EveryShard && len(o.Streams) > 0:
		return o, errors.New("changes: Options have Streams and EveryShard: give one of them")
	case len(o.Streams) > maxStreams:
		return o, fmt.Errorf("changes: %d Streams; at most %d", len(o.Streams), maxStreams)
	case o.Start.kind == startAt && (o.EveryShard || len(o.Streams) > 1):
		return o, errors.New("changes: Start is a cursor, which is good for one stream: save the cursors of several in the Store")
	case o.Window < 0 || o.Window > maxWindow:
		return o, fmt.Errorf("changes: Options.Window must be 1 to %d", maxWindow)
	case o.Count < 0 || o.Count > maxCount:
		return o, fmt.Errorf("changes: Options.Count must be 1 to %d", maxCount)
	case o.Bytes < 0 || o.Bytes > maxBytes:
		return o, fmt.Errorf("changes: Options.Bytes must be 1 to %d", maxBytes)
	case o.Heartbeat < 0 || o.Heartbeat > maxHeartbeat || o.Heartbeat > 0 && o.Heartbeat < time.Millisecond:
		return o, fmt.Errorf("changes: Options.Heartbeat must be a millisecond to %v", maxHeartbeat)
	case o.HoldEpoch > math.MaxInt64:
		return o, errors.New("changes: Options.HoldEpoch has more than 63 bits")
	case o.HoldEpoch > 0 && o.Hold == "":
		return o, errors.New("changes: Options.HoldEpoch without a Hold")
	case o.Connections < 0 || o.MaxMessageBytes < 0 || o.MaxAheadBytes < 0 || o.MinBackoff < 0 || o.MaxBackoff < 0 ||
		o.Save.Commits < 0 || o.Save.Every < 0:
		return o, errors.New("changes: Options have a negative number")
	}
	if err := o.Filter.check(); err != nil {
		return o, err
	}
	if _, ok := h.(SnapshotHandler); !ok && (o.Start.kind == startSnapshot || o.OnResync.kind == resyncSnapshot) {
		return o, errors.New("changes: a snapshot is asked for, and the handler is no SnapshotHandler")
	}
	if o.OnResync.kind == resyncRebuild && o.OnResync.rebuild == nil {
		return o, errors.New("changes: ResyncRebuild of nil")
	}
	if len(o.Streams) == 0 && !o.EveryShard {
		o.Streams = []string{All}
	}
	o.Streams = slices.Clone(o.Streams)
	for i, s := range o.Streams {
		if s == "" || slices.Contains(o.Streams[:i], s) {
			return o, fmt.Errorf("changes: Options.Streams name %q twice, or not at all", s)
		}
	}
	orDefault(&o.Window, DefaultWindow)
	orDefault(&o.Count, DefaultCount)
	orDefault(&o.Bytes, DefaultBytes)
	orDefault(&o.Heartbeat, DefaultHeartbeat)
	orDefault(&o.MaxMessageBytes, DefaultMaxMessageBytes)
	orDefault(&o.MaxAheadBytes, DefaultMaxAheadBytes)
	orDefault(&o.MinBackoff, DefaultMinBackoff)
	orDefault(&o.MaxBackoff, max(DefaultMaxBackoff, o.MinBackoff))
	if o.MaxBackoff < o.MinBackoff {
		return o, errors.New("changes: Options.MaxBackoff is less than MinBackoff")
	}
	if o.Store == nil {
		o.Store = new(MemoryStore)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

func orDefault[T int | int64 | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}
