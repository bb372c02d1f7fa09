package changes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"kevy/resp"
)

// finalSaveTimeout is how long saving the cursors may take once Run is to end.
const finalSaveTimeout = 15 * time.Second

// Consumer hands the commits of streams to a handler, in order, and keeps the
// cursors. Lost connections are made again; what comes twice because of it is
// left out.
type Consumer struct {
	opt     Options
	handler Handler
	// snapshots, batches and progress are the handler, if it is more than a Handler.
	snapshots SnapshotHandler
	batches   BatchHandler
	progress  ProgressHandler

	running atomic.Bool
	poll    atomic.Bool // SINCE is used: asked for, or the server has no SUBSCRIBE

	mu      sync.Mutex
	streams []*stream          // guarded by mu; in the order in which they were named
	failed  error              // why Run ends, if not because it was asked to; guarded by mu
	stop    context.CancelFunc // of the run; guarded by mu
}

// New returns a Consumer. The error says which option is wrong.
func New(opt Options, h Handler) (*Consumer, error) {
	opt, err := opt.withDefaults(h)
	if err != nil {
		return nil, err
	}
	c := &Consumer{opt: opt, handler: h}
	c.snapshots, _ = h.(SnapshotHandler)
	c.batches, _ = h.(BatchHandler)
	c.progress, _ = h.(ProgressHandler)
	c.poll.Store(opt.Poll)
	for _, name := range opt.Streams {
		c.streams = append(c.streams, newStream(c, name))
	}
	return c, nil
}

// errRunning says that Run was called while it runs.
var errRunning = errors.New("changes: the Consumer runs already")

// Run reads until ctx ends, then saves the cursors and returns nil. It returns
// an error of the handler as it is, a *ResyncError if OnResync says so, and what
// trying again would not change: the server refuses the login, a stream, a
// filter. The cursors of what was handled are saved in any case, and everything
// that Run has started has ended. It may be called again, and goes on.
func (c *Consumer) Run(ctx context.Context) error {
	if !c.running.CompareAndSwap(false, true) {
		return errRunning
	}
	defer c.running.Store(false)
	run, stop := context.WithCancel(ctx)
	defer stop()
	c.mu.Lock()
	c.failed, c.stop = nil, stop
	c.mu.Unlock()
	if err := c.prepare(run); err != nil {
		_ = c.fatal(run, err)
	}
	if run.Err() == nil {
		var links sync.WaitGroup
		for _, group := range c.groups() {
			links.Go(func() {
				if err := c.link(run, group); err != nil {
					_ = c.fatal(run, err)
				}
			})
		}
		links.Wait()
	}
	c.mu.Lock()
	err := c.failed
	c.mu.Unlock()
	saving, cancel := context.WithTimeout(context.WithoutCancel(ctx), finalSaveTimeout)
	defer cancel()
	for _, s := range c.all() {
		s.say(func(st *StreamStatus) { st.State = Stopped })
		if serr := s.save(saving); serr != nil {
			err = errors.Join(err, serr)
		}
	}
	return err
}

// fatal ends Run with an error, and returns it. The first one counts; what only
// says that Run was ending is none.
func (c *Consumer) fatal(ctx context.Context, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ending := ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))); c.failed == nil && !ending {
		c.failed = err
	}
	c.stop()
	return err
}

func (c *Consumer) all() []*stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.streams)
}

// prepare finds the streams and their cursors.
func (c *Consumer) prepare(ctx context.Context) error {
	if c.opt.EveryShard && len(c.all()) == 0 {
		n, err := c.shards(ctx)
		if err != nil {
			return err
		}
		c.mu.Lock()
		for i := range n {
			c.streams = append(c.streams, newStream(c, strconv.Itoa(i)))
		}
		c.mu.Unlock()
	}
	for _, s := range c.all() {
		if s.placed {
			continue // Run goes on
		}
		at, ok, err := c.opt.Store.Load(ctx, s.name)
		if err != nil {
			return fmt.Errorf("changes: loading the cursor of stream %s: %w", s.name, err)
		}
		switch {
		case ok:
			s.place(at)
			s.say(func(st *StreamStatus) { st.Saved = at })
		case c.opt.Start.kind == startAt:
			s.place(c.opt.Start.at)
		}
		s.snapshot = snapshotState{wanted: !s.placed && c.opt.Start.kind == startSnapshot}
	}
	return nil
}

// shards asks the server how many there are, for as long as it takes.
func (c *Consumer) shards(ctx context.Context) (int, error) {
	pause := backoff{least: c.opt.MinBackoff, most: c.opt.MaxBackoff}
	for {
		n, err := c.askShards(ctx)
		if err == nil || isRefused(err) {
			return n, err
		}
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		d := pause.delay()
		c.opt.Logger.Warn("the server does not say how many streams it has; asking again", "error", err, "in", d)
		if !sleep(ctx, d) {
			return 0, context.Cause(ctx)
		}
	}
}

func (c *Consumer) askShards(ctx context.Context) (int, error) {
	conn, err := c.opt.open(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.nc.Close()
	stop := context.AfterFunc(ctx, func() { conn.nc.Close() })
	defer stop()
	reply, err := conn.do("CHANGES", "SHARDS")
	if err != nil {
		return 0, err
	}
	if refused, _ := reply.Err().(*resp.Error); refused != nil {
		return 0, refusal(refused)
	}
	if reply.Type != ':' || reply.Int < 1 || reply.Int > maxStreams {
		return 0, protocolError("%.100v for the number of shards", reply)
	}
	return int(reply.Int), nil
}

// groups spreads the streams over connections.
func (c *Consumer) groups() [][]*stream {
	streams := c.all()
	n := len(streams)
	if c.opt.Connections > 0 {
		n = min(n, c.opt.Connections)
	}
	groups := make([][]*stream, n)
	for i, s := range streams {
		groups[i%n] = append(groups[i%n], s)
	}
	return groups
}

// errNoSubscribe says that the server knows no SUBSCRIBE.
var errNoSubscribe = errors.New("changes: the server has no CHANGES SUBSCRIBE")

// link serves streams over one connection at a time until ctx ends, or until
// there is an error that another connection would not change. It returns nil
// only when ctx has ended.
func (c *Consumer) link(ctx context.Context, streams []*stream) error {
	if c.poll.Load() && len(streams) > 1 {
		return c.split(ctx, streams)
	}
	pause := backoff{least: c.opt.MinBackoff, most: c.opt.MaxBackoff}
	var large *TooLargeError
	for {
		for _, s := range streams {
			s.say(func(st *StreamStatus) { st.State = Connecting })
		}
		progress, err := c.connect(ctx, streams)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errNoSubscribe):
			c.opt.Logger.Info("the server has no CHANGES SUBSCRIBE; using SINCE with BLOCK")
			c.poll.Store(true)
			return c.link(ctx, streams)
		case isRefused(err), errors.As(err, &large):
			return err
		}
		if progress {
			pause.reset()
		}
		for _, s := range streams {
			s.say(func(st *StreamStatus) {
				st.Reconnects++
				st.LastError = err
			})
		}
		d := pause.delay()
		c.opt.Logger.Warn("no connection to the server; trying again", "addr", c.opt.Addr, "streams", names(streams), "error", err, "in", d.Round(time.Millisecond))
		if !sleep(ctx, d) {
			return nil
		}
	}
}

// split gives each of the streams a link of its own.
func (c *Consumer) split(ctx context.Context, streams []*stream) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(streams))
	var links sync.WaitGroup
	for i, s := range streams {
		links.Go(func() {
			if errs[i] = c.link(ctx, []*stream{s}); errs[i] != nil {
				cancel()
			}
		})
	}
	links.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// connect serves streams over a new connection until it ends. progress says that
// messages came.
func (c *Consumer) connect(ctx context.Context, streams []*stream) (progress bool, err error) {
	conn, err := c.opt.open(ctx)
	if err != nil {
		return false, err
	}
	polls := c.poll.Load()
	if !polls && !conn.push || polls && len(streams) > 1 {
		conn.nc.Close()
		return false, errNoSubscribe
	}
	return newSession(c, conn, streams, polls).run(ctx)
}

func names(streams []*stream) []string {
	all := make([]string, len(streams))
	for i, s := range streams {
		all[i] = s.name
	}
	return all
}
