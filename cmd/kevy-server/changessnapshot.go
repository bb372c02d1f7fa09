package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"kevy/changes"
	"kevy/internal/pipe"
	"kevy/internal/server"
)

const snapshotLong = `
Writes the ops that rebuild every key that the filters pass, as of one moment,
and the cursor from which the changes since follow. Writers are not held up.

With --format resp the output is commands: redis-cli --pipe loads them. The
cursor goes to standard error, and with --format json into the last line.`

const snapshotExamples = `  kevy-server changes snapshot > dump.resp && redis-cli -p 6380 --pipe < dump.resp
  kevy-server changes snapshot --format json --prefix user: > users.jsonl
  kevy-server changes snapshot --db 0 | gzip > db0.resp.gz`

func snapshotCommand(c *connection, stdout, stderr io.Writer) *cobra.Command {
	var s selection
	var format string
	cmd := &cobra.Command{
		Use:     "snapshot [filters] [--format NAME]",
		Short:   "Write the state as of one moment",
		Long:    snapshotLong,
		Example: snapshotExamples,
		Args:    optionsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options, err := c.options(&s)
			if err != nil {
				return err
			}
			form, err := pipe.NewFormat(format, c.addr, server.Version())
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			if err := c.reach(ctx); err != nil {
				return err
			}
			options.Start = changes.Snapshot
			options.Logger = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
			out := bufio.NewWriterSize(stdout, 256<<10)
			t := &snapshotWriter{tail: tail{out: out, format: form}}
			consumer, err := changes.New(options, t)
			if err != nil {
				return err
			}
			err = consumer.Run(ctx)
			switch {
			case t.end.IsZero() && err == nil:
				return errors.New("stopped before the end of the snapshot, so what was written is a part of the state")
			case !errors.Is(err, errEnough):
				return c.explain(err)
			}
			if err := out.Flush(); err != nil {
				return fmt.Errorf("the output: %w", err)
			}
			fmt.Fprintf(stderr, "%s; what follows: kevy-server changes tail --addr %s --stream %s --from %v%s\n",
				counted(int64(t.frames), "op"), c.addr, options.Streams[0], t.end, s.words())
			return nil
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&format, "format", pipe.FormatRESP, "form of the output: resp, json, debezium, debezium-schema, text")
	s.add(cmd, false)
	return cmd
}

// snapshotWriter is a tail that ends with the snapshot.
type snapshotWriter struct {
	tail
	end changes.Cursor
}

// SnapshotStart implements changes.SnapshotHandler. What was written before of
// a snapshot that could not be resumed cannot be taken back.
func (s *snapshotWriter) SnapshotStart(ctx context.Context, stream, token string) error {
	if s.token != "" {
		return errors.New("the snapshot was cut off and cannot be resumed, so what was written is a part of it: start again")
	}
	return s.tail.SnapshotStart(ctx, stream, token)
}

// SnapshotEnd implements changes.SnapshotHandler.
func (s *snapshotWriter) SnapshotEnd(ctx context.Context, stream string, at changes.Cursor) error {
	if err := s.tail.SnapshotEnd(ctx, stream, at); err != nil {
		return err
	}
	s.end = at
	return errEnough
}
