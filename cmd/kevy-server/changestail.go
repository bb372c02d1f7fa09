package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"kevy/changes"
	"kevy/internal/pipe"
	"kevy/internal/server"
)

const tailLong = `
Shows changes as they are committed, from the tail on or from any place in the
history. It goes on over lost connections. On a terminal the last line shows the
rate and how far behind the reading is.

Formats: text for people; json, one object a line, as docs/pipe.md states it;
resp, commands as redis-cli --pipe takes them; debezium.`

const tailExamples = `  kevy-server changes tail
  kevy-server changes tail --from oldest --prefix user: --format json | jq .args
  kevy-server changes tail --from 10m --no-follow          the last ten minutes
  kevy-server changes tail --from 2026-01-31T15:04:05Z --count 100
  kevy-server changes tail --from 3766674953956864:74`

func tailCommand(c *connection, stdout, stderr io.Writer) *cobra.Command {
	var s selection
	var from, format string
	var count uint64
	var noFollow bool
	cmd := &cobra.Command{
		Use:     "tail [--from WHERE] [filters] [--format NAME] [--count N] [--no-follow]",
		Short:   "Show changes as they are committed",
		Long:    tailLong,
		Example: tailExamples,
		Args:    optionsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options, err := c.options(&s)
			if err != nil {
				return err
			}
			form, err := tailFormat(format, stdout, c.addr)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			if options.Start, err = startFrom(ctx, c, options.Streams[0], from); err != nil {
				return err
			}
			if err := c.reach(ctx); err != nil {
				return err
			}
			t := &tail{out: stdout, format: form, most: count}
			if noFollow {
				if t.until, err = c.bound(ctx, "TAIL", options.Streams[0]); err != nil {
					return err
				}
			}
			if isTerminal(stderr) {
				t.status = stderr
			}
			return c.explain(t.run(ctx, options, slog.New(slog.NewTextHandler(t.logTo(stderr), &slog.HandlerOptions{Level: slog.LevelWarn}))))
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&from, "from", "tail", "where to begin: tail, oldest, generation:offset, a time, or how long ago")
	cmd.Flags().StringVar(&format, "format", pipe.FormatText, "form of the output: "+strings.Join(pipe.Formats, ", "))
	cmd.Flags().Uint64Var(&count, "count", 0, "end after so many frames, and the rest of their commit (0: never)")
	cmd.Flags().BoolVar(&noFollow, "no-follow", false, "end at what is the tail now")
	s.add(cmd, true)
	return cmd
}

// tailFormat returns the form of a name, in colours where text goes to a
// terminal.
func tailFormat(name string, out io.Writer, addr string) (pipe.Format, error) {
	if name == pipe.FormatText {
		return pipe.Text(isTerminal(out)), nil
	}
	return pipe.NewFormat(name, addr, server.Version())
}

// bound asks where a stream ends (TAIL), or begins (OLDEST).
func (c *connection) bound(ctx context.Context, which, stream string) (changes.Cursor, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return changes.Cursor{}, err
	}
	defer conn.Close()
	r, err := conn.Call("CHANGES", which, stream)
	if err != nil {
		return changes.Cursor{}, c.explain(err)
	}
	return cursorOf(r)
}

// tail shows commits.
type tail struct {
	format pipe.Format
	most   uint64         // frames; 0: no end
	until  changes.Cursor // where it ends; zero: nowhere

	mu     sync.Mutex
	out    io.Writer // guarded by mu, as what follows
	status io.Writer // for the line of a terminal; nil: none
	shown  bool      // that line stands there
	buf    []byte
	frames uint64
	token  string
}

// errEnough ends a run that has shown what it was to show.
var errEnough = errors.New("enough")

func (t *tail) run(ctx context.Context, options changes.Options, log *slog.Logger) error {
	options.Logger = log
	options.Heartbeat = time.Second
	consumer, err := changes.New(options, t)
	if err != nil {
		return err
	}
	reading, stop := context.WithCancel(ctx)
	var showing sync.WaitGroup
	if t.status != nil {
		showing.Go(func() { t.showStatus(reading, consumer) })
	}
	err = consumer.Run(reading)
	stop()
	showing.Wait()
	var resync *changes.ResyncError
	switch {
	case errors.Is(err, errEnough) || err == nil:
		return nil
	case errors.As(err, &resync):
		return fmt.Errorf("%w\nThe oldest change still there: --from %v (or oldest); from now on: --from tail", err, resync.Oldest)
	}
	return err
}

// Commit implements changes.Handler.
func (t *tail) Commit(_ context.Context, c *changes.Commit) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.passed(changes.Cursor{Generation: c.Generation, Offset: c.First}) {
		return errEnough
	}
	t.frames += uint64(len(c.Frames))
	t.buf = t.format.AppendCommit(t.buf[:0], c)
	if err := t.flush(); err != nil {
		return err
	}
	if t.most > 0 && t.frames >= t.most || t.passed(c.Next) {
		return errEnough
	}
	return nil
}

// Progress implements changes.ProgressHandler.
func (t *tail) Progress(_ context.Context, _ string, at changes.Cursor) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.passed(at) {
		return errEnough
	}
	return nil
}

// passed reports whether a cursor is at the end. A generation that the end is
// not in comes before it, or the end was in one that is over.
func (t *tail) passed(at changes.Cursor) bool {
	return !t.until.IsZero() && at.Generation == t.until.Generation && at.Offset >= t.until.Offset
}

// SnapshotStart implements changes.SnapshotHandler.
func (t *tail) SnapshotStart(_ context.Context, stream, token string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.token = token
	t.buf = t.format.AppendSnapshotStart(t.buf[:0], stream, token)
	return t.flush()
}

// SnapshotPart implements changes.SnapshotHandler.
func (t *tail) SnapshotPart(_ context.Context, p *changes.SnapshotPart) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = t.buf[:0]
	for i := range p.Ops {
		t.buf = t.format.AppendSnapshotOp(t.buf, p, i)
	}
	t.frames += uint64(len(p.Ops))
	return t.flush()
}

// SnapshotEnd implements changes.SnapshotHandler.
func (t *tail) SnapshotEnd(_ context.Context, stream string, at changes.Cursor) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = t.format.AppendSnapshotEnd(t.buf[:0], stream, t.token, at)
	return t.flush()
}

// flush writes what has been gathered. t.mu is held.
func (t *tail) flush() error {
	t.clear()
	if _, err := t.out.Write(t.buf); err != nil {
		return fmt.Errorf("the output: %w", err)
	}
	return nil
}

const clearLine = "\r\x1b[K"

// clear takes the status line away. t.mu is held.
func (t *tail) clear() {
	if t.shown {
		_, _ = io.WriteString(t.status, clearLine) // a terminal that is gone shows nothing
		t.shown = false
	}
}

// logTo keeps lines of the log and the status line apart.
func (t *tail) logTo(out io.Writer) io.Writer { return &lineWriter{t, out} }

type lineWriter struct {
	tail *tail
	out  io.Writer
}

func (w *lineWriter) Write(line []byte) (int, error) {
	w.tail.mu.Lock()
	defer w.tail.mu.Unlock()
	w.tail.clear()
	return w.out.Write(line)
}

const statusEvery = 250 * time.Millisecond

// showStatus keeps the last line of a terminal up to date.
func (t *tail) showStatus(ctx context.Context, consumer *changes.Consumer) {
	ticker := time.NewTicker(statusEvery)
	defer ticker.Stop()
	var rates []uint64 // frames of the last seconds, by tick
	var before uint64
	for {
		select {
		case <-ctx.Done():
			t.mu.Lock()
			t.clear()
			t.mu.Unlock()
			return
		case <-ticker.C:
		}
		status := consumer.Status()
		t.mu.Lock()
		rates = append(rates, t.frames-before)
		before = t.frames
		if len(rates) > 8 {
			rates = slices.Delete(rates, 0, 1)
		}
		_, _ = io.WriteString(t.status, clearLine+statusText(status, t.frames, rates))
		t.shown = true
		t.mu.Unlock()
	}
}

func statusText(status changes.Status, frames uint64, rates []uint64) string {
	var sum uint64
	for _, n := range rates {
		sum += n
	}
	perSecond := float64(sum) / (float64(len(rates)) * statusEvery.Seconds())
	text := fmt.Sprintf("%s  %.0f/s", counted(int64(frames), "frame"), perSecond)
	if len(status.Streams) == 0 {
		return text
	}
	s := status.Streams[0]
	switch {
	case s.State == changes.Connecting:
		text += "  connecting"
		if s.LastError != nil {
			text += fmt.Sprintf(": %.80v", s.LastError)
		}
	case s.LagFrames > 0:
		text += fmt.Sprintf("  %s behind", counted(s.LagFrames, "frame"))
		if s.Lag > 0 {
			text += ", " + s.Lag.Round(time.Millisecond).String()
		}
	case s.LagFrames == 0:
		text += "  up to date"
	}
	if !s.Cursor.IsZero() {
		text += "  at " + s.Cursor.String()
	}
	return text
}
