package main

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"kevy/internal/chaos"
)

const chaosLong = `
Stands between a consumer and its server, and does what crashes and networks do:
drops connections, delivers again from an older cursor, stalls, and says that the
history is gone where it is not. It stays within the contract, so a consumer that
ends with the right result behind it is one that can be trusted.

Rates go from 0 to 1: of messages (drop, stall), and of requests to begin at a
cursor (redeliver, resync). Without --resync 0 the consumer needs a way to begin
anew, such as ResyncSnapshot. The seed is printed; --seed repeats it.`

const chaosExamples = `  kevy-server changes chaos --listen 127.0.0.1:7777 --to 127.0.0.1:6379
  kevy-server changes chaos --to 127.0.0.1:6379 --drop 0.2 --resync 0 --seed 42
  kevy-server changes tail -p 7777                      through it`

func chaosCommand(stdout, stderr io.Writer) *cobra.Command {
	o := chaos.Options{}
	var listen string
	var quiet, useTLS bool
	cmd := &cobra.Command{
		Use:     "chaos --to HOST:PORT [--listen HOST:PORT] [--drop RATE] [--redeliver RATE] [--stall RATE] [--resync RATE] [--seed N]",
		Short:   "Stand before a server and try its consumers",
		Long:    chaosLong,
		Example: chaosExamples,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			level := slog.LevelInfo
			if quiet {
				level = slog.LevelWarn
			}
			o.Log = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
			if o.To == "" {
				return fmt.Errorf("say which server to stand before: --to host:port")
			}
			if _, _, err := net.SplitHostPort(o.To); err != nil {
				return fmt.Errorf("--to takes host:port, not %q", o.To)
			}
			if useTLS {
				c := connection{addr: o.To, tls: true}
				var err error
				if o.TLS, err = c.tlsConfig(); err != nil {
					return err
				}
			}
			if !cmd.Flags().Changed("seed") {
				o.Seed = rand.Uint64()
				if text := os.Getenv("KEVY_SEED"); text != "" {
					var err error
					if o.Seed, err = strconv.ParseUint(text, 10, 64); err != nil {
						return fmt.Errorf("KEVY_SEED is no number: %q", text)
					}
				}
			}
			proxy, err := chaos.New(o)
			if err != nil {
				return err
			}
			l, err := net.Listen("tcp", listen)
			if err != nil {
				return fmt.Errorf("--listen: %w", err)
			}
			ctx, stop := closeOnSignal(o.Log)
			defer stop()
			fmt.Fprintf(stdout, "listening on %s, before %s; seed %d\n", l.Addr(), o.To, o.Seed)
			err = proxy.Serve(ctx, l)
			n := proxy.Counts()
			fmt.Fprintf(stdout, "%d connections, %d messages: %d drops, %d redeliveries, %d stalls, %d resyncs; seed %d\n",
				n.Connections, n.Messages, n.Drops, n.Redeliveries, n.Stalls, n.Resyncs, o.Seed)
			return err
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&o.To, "to", "", "host:port of the server")
	flags.BoolVar(&useTLS, "to-tls", false, "speak TLS with it")
	flags.StringVar(&listen, "listen", "127.0.0.1:7777", "host:port for consumers")
	flags.Float64Var(&o.Drop, "drop", 0.02, "how often a message is the last of its connection")
	flags.Float64Var(&o.Redeliver, "redeliver", 0.2, "how often reading begins at an older cursor than was asked for")
	flags.Float64Var(&o.Stall, "stall", 0.01, "how often a message is held back")
	flags.DurationVar(&o.StallMax, "stall-max", 2*time.Second, "for how long at most")
	flags.Float64Var(&o.Resync, "resync", 0.02, "how often a cursor is answered with FEEDRESYNC")
	flags.Uint64Var(&o.Seed, "seed", 0, "seed of chance; by default KEVY_SEED, or a new one")
	flags.BoolVar(&quiet, "quiet", false, "say nothing of what is done")
	return cmd
}
