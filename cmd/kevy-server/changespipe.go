package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kevy/changes"
	"kevy/internal/pipe"
	"kevy/internal/server"
	"kevy/internal/vfs"
)

const pipeLong = `
Carries changes into another system, and goes on where it was when it is started
again. What is delivered has its cursor with it. Targets that can keep the cursor
with the data get every change exactly once; for the others the cursor is in
--cursor-file, and after a crash the last batch may come again.

  --to                      guarantee      options (--set NAME=VALUE)
@TARGETS

It ends on SIGTERM or Ctrl-C, once what was read is delivered. docs/pipe.md says
the rest.`

const pipeExamples = `  kevy-server changes pipe --to redis://replica:6379 --snapshot
  kevy-server changes pipe --to redis://cache:6379 --prefix user: --rewrite user:=u: --snapshot
  kevy-server changes pipe --to https://example.org/in --cursor-file in.cursor
  kevy-server changes pipe --to file:///var/log/kevy/changes.jsonl --set rotate-size=100mb --set keep=10
  kevy-server changes pipe --to stdout: --format debezium --cursor-file out.cursor`

// pipeFlags are what a pipe is told beside what it reads.
type pipeFlags struct {
	to, from, name, hold, cursorFile, format, onResync, level string
	set, rewrite                                              []string
	snapshot, anew                                            bool
	commits                                                   int
	bytes                                                     string
	wait, report                                              time.Duration
}

func pipeCommand(c *connection, stdout, stderr io.Writer) *cobra.Command {
	var s selection
	var f pipeFlags
	cmd := &cobra.Command{
		Use:     "pipe --to URL [--snapshot] [filters] [--rewrite OLD=NEW]… [--set NAME=VALUE]…",
		Short:   "Carry changes into another system",
		Long:    strings.ReplaceAll(pipeLong, "@TARGETS", pipe.Targets),
		Example: pipeExamples,
		Args:    optionsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runPipe(cmd, c, &s, &f, stdout, stderr)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.to, "to", "", "URL of the target")
	flags.BoolVar(&f.snapshot, "snapshot", false, "begin with the state, where the target has nothing yet")
	flags.BoolVar(&f.anew, "anew", false, "begin with the state in any case: for once")
	flags.StringVar(&f.from, "from", "tail", "where to begin without a snapshot: tail, oldest, generation:offset, a time, or how long ago")
	flags.StringVar(&f.onResync, "on-resync", "stop", "when the server has no longer what comes next: stop, or snapshot")
	flags.StringVar(&f.hold, "hold", "", "keep a hold of this name on the server, so that what comes next stays there while the pipe is away")
	flags.StringVar(&f.cursorFile, "cursor-file", "", "file for the cursor, where the target does not keep it")
	flags.StringVar(&f.name, "name", "default", "name of the pipe, if several have one target")
	flags.StringVar(&f.format, "format", "", "form of records, where the target takes several: "+strings.Join(pipe.Formats, ", "))
	flags.StringArrayVar(&f.set, "set", nil, "an option of the target; may be given again")
	flags.StringArrayVar(&f.rewrite, "rewrite", nil, "put NEW in the place of OLD at the beginning of keys; may be given again")
	flags.IntVar(&f.commits, "batch-commits", pipe.DefaultBatchCommits, "commits in a batch at most")
	flags.StringVar(&f.bytes, "batch-bytes", "1mb", "size of a batch at most; a larger commit is one of its own")
	flags.DurationVar(&f.wait, "batch-wait", 0, "how long a batch waits for more")
	flags.DurationVar(&f.report, "report-every", pipe.DefaultReportEvery, "how often the log says how far the pipe is")
	flags.StringVar(&f.level, "loglevel", "info", "debug, info, warn or error")
	flags.BoolVar(&s.shards, "every-shard", false, "read each shard's stream for itself, in place of ALL; order is then kept for each key")
	s.add(cmd, true)
	return cmd
}

func runPipe(cmd *cobra.Command, c *connection, s *selection, f *pipeFlags, stdout, stderr io.Writer) error {
	options, err := c.options(s)
	if err != nil {
		return err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.level)); err != nil {
		return fmt.Errorf("--loglevel takes debug, info, warn or error, not %q", f.level)
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	o := pipe.Options{
		Snapshot: f.snapshot, Anew: f.anew, Hold: f.hold, CursorFile: f.cursorFile, FS: vfs.OS(), Log: log,
		BatchCommits: f.commits, BatchWait: f.wait, ReportEvery: f.report,
	}
	switch f.onResync {
	case "snapshot":
		o.SnapshotOnResync = true
	case "stop":
	default:
		return fmt.Errorf("--on-resync takes stop or snapshot, not %q", f.onResync)
	}
	size, err := pipe.ParseSize(f.bytes)
	if err != nil || size > 1<<30 {
		return fmt.Errorf("--batch-bytes takes a size up to 1gb, such as 1mb, not %q", f.bytes)
	}
	if o.BatchBytes = int(size); f.commits < 1 || f.wait < 0 || f.report <= 0 {
		return errors.New("--batch-commits and --report-every take at least 1, and --batch-wait no less than 0")
	}
	if o.Rewrite, err = pipe.ParseRewrite(f.rewrite); err != nil {
		return fmt.Errorf("--rewrite: %w", err)
	}
	ctx, stop := closeOnSignal(log)
	defer stop()
	target := &pipe.Target{
		Name: f.name, Streams: options.Streams, Filter: options.Filter, Rewrite: o.Rewrite, Snapshot: f.snapshot, Anew: f.anew,
		Format: f.format, Version: server.Version(), Source: c.addr, Stdout: stdout, FS: o.FS, Log: log,
	}
	if options.EveryShard {
		if target.Streams, err = c.shards(ctx); err != nil {
			return err
		}
		options.EveryShard, options.Streams = false, target.Streams
	}
	if err := f.parseTo(target); err != nil {
		return err
	}
	if f.comesBack(target.URL, c.addr, s) {
		return errors.New("--to is the server that is read, so what the pipe writes there would come back to it, for ever: name another with --to, or read another with -h and -p")
	}
	if o.Sink, err = pipe.Open(target); err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	if !f.snapshot && !f.anew {
		if options.Start, err = startFrom(ctx, c, options.Streams[0], f.from); err != nil {
			return err
		}
		if len(options.Streams) > 1 && options.Start != changes.Tail && options.Start != changes.Oldest {
			return errors.New("--every-shard begins at tail, oldest or with a snapshot: a cursor or a time is that of one stream")
		}
	}
	o.Consumer = options
	return c.explain(pipe.Run(ctx, o))
}

// parseTo reads the URL and the options of the target.
func (f *pipeFlags) parseTo(target *pipe.Target) error {
	if f.to == "" {
		return fmt.Errorf("say where to with --to URL, which begins with one of %s", strings.Join(pipe.Schemes(), ", "))
	}
	to := f.to
	if to == "-" || to == "stdout" {
		to = "stdout:"
	}
	u, err := url.Parse(to)
	if err != nil {
		return errors.New("--to is no URL") // whose text may hold a password
	}
	target.URL, target.Options = u, url.Values{}
	if u.Scheme != "http" && u.Scheme != "https" {
		target.Options = u.Query()
	}
	for _, text := range f.set {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return fmt.Errorf("--set takes NAME=VALUE, not %q", text)
		}
		target.Options.Add(name, value)
	}
	return nil
}

// comesBack reports whether a pipe is sure to read what it writes: the target is
// called what the source is. Some keys under other names, or those of a database in
// another one, may be meant.
func (f *pipeFlags) comesBack(to *url.URL, source string, s *selection) bool {
	if to.Scheme != "redis" && to.Scheme != "rediss" {
		return false
	}
	filtered := len(s.prefixes)+len(s.matches)+len(s.regexes) > 0
	if db := strings.Trim(to.Path, "/"); filtered && len(f.rewrite) > 0 || db != "" && db != s.db {
		return false
	}
	place := func(host, port string) string {
		if host == "localhost" || host == "::1" {
			host = "127.0.0.1"
		}
		return net.JoinHostPort(host, cmp.Or(port, "6379"))
	}
	host, port, err := net.SplitHostPort(source)
	return err == nil && place(host, port) == place(to.Hostname(), to.Port())
}

// shards names the streams of all shards.
func (c *connection) shards(ctx context.Context) ([]string, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	r, err := conn.Call("CHANGES", "SHARDS")
	if err != nil {
		return nil, c.explain(err)
	}
	names := make([]string, r.Int)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	return names, nil
}
