package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kevy/changes"
	"kevy/internal/client"
	"kevy/resp"
)

const changesLong = `
Reads the change feed of a running server: shows it, saves it, carries it on.

The server is the one at 127.0.0.1:6379 unless -h and -p, or --addr, name another.
A user and a password come from --user and --password, or from KEVY_USER and
KEVY_PASSWORD (or REDISCLI_AUTH), which no list of processes shows.`

const changesExamples = `  kevy-server changes tail                             what is written from now on
  kevy-server changes tail --from oldest --prefix user:
  kevy-server changes snapshot > dump.resp             then: redis-cli --pipe < dump.resp
  kevy-server changes info
  kevy-server changes pipe --to redis://replica:6379 --snapshot`

func changesCommand(stdout, stderr io.Writer) *cobra.Command {
	var c connection
	cmd := &cobra.Command{
		Use:     "changes",
		Short:   "Read the change feed of a running server",
		Long:    changesLong,
		Example: changesExamples,
		// A word that names no subcommand is an error, not a cry for help.
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("there is no %q; see kevy-server changes --help", "changes "+args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	reading := []*cobra.Command{
		tailCommand(&c, stdout, stderr), snapshotCommand(&c, stdout, stderr), infoCommand(&c, stdout), holdCommand(&c, stdout), pipeCommand(&c, stdout, stderr),
	}
	for _, sub := range reading {
		c.add(sub)
	}
	cmd.AddCommand(append(reading, chaosCommand(stdout, stderr))...)
	plainHelp(cmd)
	return cmd
}

// plainHelp gives a command, and those below it, help about itself: what kevy-server answers to
// --help is about settings. -h is the host, as redis-cli has it.
func plainHelp(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		plainHelp(sub)
	}
	if args := cmd.Args; args != nil && !cmd.HasSubCommands() {
		cmd.Args = func(cmd *cobra.Command, words []string) error { return seeHelp(cmd, args(cmd, words)) }
	}
	cmd.SetFlagErrorFunc(seeHelp)
	cmd.Flags().Bool("help", false, "this help")
	cmd.DisableFlagsInUseLine = true
	cmd.Flags().SortFlags = false
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		fmt.Fprintf(cmd.OutOrStdout(), "%s\n\n%s", strings.TrimSpace(cmd.Long), cmd.UsageString())
	})
}

// seeHelp adds to an error about a command line where what it takes stands.
func seeHelp(cmd *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())
}

// optionsOnly refuses words that are no options.
func optionsOnly(_ *cobra.Command, words []string) error {
	if len(words) > 0 {
		return fmt.Errorf("%q stands alone, and here are options only (keys that begin so: --prefix %s)", words[0], shellWord(words[0]))
	}
	return nil
}

// connection says how the server is reached, by the flags of redis-cli.
type connection struct {
	host, addr     string
	port           int
	user, password string
	tls, insecure  bool
	ca, cert, key  string
	sni            string
}

func (c *connection) add(cmd *cobra.Command) {
	flags := cmd.PersistentFlags()
	flags.SortFlags = false
	flags.StringVarP(&c.host, "host", "h", "127.0.0.1", "host of the server")
	flags.IntVarP(&c.port, "port", "p", 6379, "port of the server")
	flags.StringVar(&c.addr, "addr", "", "host:port in one, in place of -h and -p")
	flags.StringVar(&c.user, "user", "", "user to log in as (KEVY_USER)")
	flags.StringVar(&c.password, "password", "", "its password; better in KEVY_PASSWORD, which others do not see")
	flags.BoolVar(&c.tls, "tls", false, "speak TLS")
	flags.StringVar(&c.ca, "cacert", "", "file of certificates to trust, in place of the system's")
	flags.StringVar(&c.cert, "cert", "", "file of the client's certificate")
	flags.StringVar(&c.key, "key", "", "file of its key")
	flags.StringVar(&c.sni, "sni", "", "name that the server's certificate must have")
	flags.BoolVar(&c.insecure, "insecure", false, "take any certificate of the server")
}

// fill completes what flags left open from the environment, and checks it.
func (c *connection) fill() error {
	if c.addr == "" {
		c.addr = net.JoinHostPort(c.host, strconv.Itoa(c.port))
	}
	if _, _, err := net.SplitHostPort(c.addr); err != nil {
		return fmt.Errorf("--addr takes host:port, not %q", c.addr)
	}
	if c.user == "" {
		c.user = os.Getenv("KEVY_USER")
	}
	for _, name := range []string{"KEVY_PASSWORD", "REDISCLI_AUTH"} {
		if c.password == "" {
			c.password = os.Getenv(name)
		}
	}
	if (c.cert == "") != (c.key == "") {
		return errors.New("--cert and --key go together")
	}
	if !c.tls && (c.ca != "" || c.cert != "" || c.sni != "" || c.insecure) {
		return errors.New("--cacert, --cert, --key, --sni and --insecure need --tls")
	}
	return nil
}

func (c *connection) tlsConfig() (*tls.Config, error) {
	if !c.tls {
		return nil, nil
	}
	host, _, err := net.SplitHostPort(c.addr)
	if err != nil {
		return nil, err
	}
	config, err := client.Certificates{CA: c.ca, Cert: c.cert, Key: c.key}.Config()
	if err != nil {
		return nil, fmt.Errorf("--%w", err)
	}
	config.ServerName, config.InsecureSkipVerify = host, c.insecure
	if c.sni != "" {
		config.ServerName = c.sni
	}
	return config, nil
}

// options returns what a consumer needs to reach the server and to read a
// selection.
func (c *connection) options(s *selection) (changes.Options, error) {
	if err := c.fill(); err != nil {
		return changes.Options{}, err
	}
	config, err := c.tlsConfig()
	o := changes.Options{Addr: c.addr, Username: c.user, Password: c.password, TLS: config}
	return o, errors.Join(err, s.apply(&o))
}

// dial connects for commands, in RESP3.
func (c *connection) dial(ctx context.Context) (*client.Conn, error) {
	if err := c.fill(); err != nil {
		return nil, err
	}
	config, err := c.tlsConfig()
	if err != nil {
		return nil, err
	}
	conn, err := client.Dial(ctx, client.Options{Addr: c.addr, TLS: config})
	if err != nil {
		return nil, c.explain(err)
	}
	// As consumers log in: a server without passwords takes any, but has no AUTH.
	hello := []string{"HELLO", "3"}
	if c.password != "" {
		hello = append(hello, "AUTH", cmp.Or(c.user, "default"), c.password)
	}
	if _, err := conn.Call(hello...); err != nil {
		return nil, errors.Join(c.explain(err), conn.Close())
	}
	return conn, nil
}

// reach finds out whether a server is there that can be read. A consumer tries
// for ever, which is right for a connection that was lost and says nothing to
// who has named the wrong server.
func (c *connection) reach(ctx context.Context) error {
	conn, err := c.dial(ctx)
	if err != nil {
		return err
	}
	if _, err := conn.Call("CHANGES", "SHARDS"); err != nil {
		return errors.Join(c.explain(err), conn.Close())
	}
	return conn.Close()
}

// explain says what to do about an error of the server, or of the way to it.
func (c *connection) explain(err error) error {
	var answer *resp.Error
	if !errors.As(err, &answer) {
		var network *net.OpError
		if errors.As(err, &network) && network.Op == "dial" {
			return fmt.Errorf("no server at %s: %w; start one (kevy-server), or name another with -h and -p", c.addr, err)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			if c.tls {
				return fmt.Errorf("no answer from %s: leave out --tls if the server speaks none: %w", c.addr, err)
			}
			return fmt.Errorf("no answer from %s: %w; is a server there, and does it speak TLS (--tls)?", c.addr, err)
		}
		if errors.Is(err, resp.ErrReply) {
			return fmt.Errorf("what listens at %s does not speak the protocol of Redis: name the server's port, not that of HTTP, and --tls if it speaks TLS: %w", c.addr, err)
		}
		return err
	}
	switch {
	case answer.Code == "NOAUTH" || answer.Code == "WRONGPASS":
		return fmt.Errorf("%w; log in with --user and --password, or KEVY_USER and KEVY_PASSWORD", err)
	case strings.HasPrefix(answer.Text, "unknown command"):
		return fmt.Errorf("the server at %s has no CHANGES, so it is no kevy-server: %w", c.addr, err)
	case answer.Text == "feed is disabled":
		return fmt.Errorf("%w: start the server with --feed yes", err)
	case strings.HasPrefix(answer.Text, "no such stream"):
		return fmt.Errorf("%w; a stream is ALL, or the number of a shard, from 0 on", err)
	case answer.Text == "feed cursor ahead of stream":
		return fmt.Errorf("%w: nothing has that offset yet; kevy-server changes info shows oldest and next", err)
	case answer.Code == "FEEDRESYNC":
		return fmt.Errorf("%w: the history does not reach from that cursor on; kevy-server changes info shows where it begins and ends", err)
	}
	return err
}

// selection is which frames are read.
type selection struct {
	stream        string
	shards        bool
	prefixes      []string
	matches       []string
	regexes       []string
	valueExact    []string
	valuePrefixes []string
	valueRegexes  []string
	db            string
	byteMode      bool
	durable       bool
}

func (s *selection) add(cmd *cobra.Command, live bool) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&s.stream, "stream", changes.All, "stream to read: ALL, or the number of a shard")
	flags.StringArrayVar(&s.prefixes, "prefix", nil, "keys that begin so; may be given again, as the next five")
	flags.StringArrayVar(&s.matches, "match", nil, "keys that a glob fits")
	flags.StringArrayVar(&s.regexes, "regex", nil, "keys in which a regular expression is found; PREFIX=RE looks behind a prefix")
	if live {
		flags.StringArrayVar(&s.valueExact, "value", nil, "values that are this")
		flags.StringArrayVar(&s.valuePrefixes, "value-prefix", nil, "values that begin so")
		flags.StringArrayVar(&s.valueRegexes, "value-regex", nil, "values in which a regular expression is found")
	}
	flags.BoolVar(&s.byteMode, "bytemode", false, "regular expressions look at bytes, not at UTF-8 text")
	flags.StringVar(&s.db, "db", "*", "number of the database; * for all")
	if live {
		flags.BoolVar(&s.durable, "durable", false, "leave out what is not fsynced yet")
	}
}

// words writes the filters as the options that they came from.
func (s *selection) words() string {
	var text strings.Builder
	for _, o := range []struct {
		name   string
		values []string
	}{
		{"prefix", s.prefixes}, {"match", s.matches}, {"regex", s.regexes},
		{"value", s.valueExact}, {"value-prefix", s.valuePrefixes}, {"value-regex", s.valueRegexes},
	} {
		for _, v := range o.values {
			fmt.Fprintf(&text, " --%s %s", o.name, shellWord(v))
		}
	}
	if s.byteMode {
		text.WriteString(" --bytemode")
	}
	if s.db != "*" {
		text.WriteString(" --db " + s.db)
	}
	return text.String()
}

// shellWord quotes a text for a shell where it has to be.
func shellWord(text string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.,:/=@%+"
	if text != "" && strings.Trim(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// apply puts the selection into a consumer's options.
func (s *selection) apply(o *changes.Options) error {
	if s.shards {
		o.EveryShard = true
	} else {
		o.Streams = []string{strings.ToUpper(s.stream)}
	}
	o.Durable = s.durable
	for name, values := range map[string][]string{
		"prefix": s.prefixes, "match": s.matches, "regex": s.regexes,
		"value": s.valueExact, "value-prefix": s.valuePrefixes, "value-regex": s.valueRegexes,
	} {
		if slices.Contains(values, "") {
			return fmt.Errorf("--%s has nothing to look for: leave it out, and everything passes", name)
		}
	}
	f := &o.Filter
	f.Prefixes, f.Matches, f.ByteMode = s.prefixes, s.matches, s.byteMode
	f.ValueExact, f.ValuePrefixes, f.ValueRegexes = s.valueExact, s.valuePrefixes, s.valueRegexes
	for _, text := range s.regexes {
		prefix, re, ok := strings.Cut(text, "=")
		if !ok {
			prefix, re = "", text
		}
		f.Regexes = append(f.Regexes, changes.KeyRegex{Prefix: prefix, Pattern: re})
	}
	if s.db == "*" {
		f.AllDBs = true
		return nil
	}
	n, err := strconv.Atoi(s.db)
	if err != nil || n < 0 {
		return fmt.Errorf("--db takes the number of a database, or *, not %q", s.db)
	}
	f.DB = n
	return nil
}

// startFrom reads --from: tail, oldest, a cursor, or a time.
func startFrom(ctx context.Context, c *connection, stream, from string) (changes.Start, error) {
	switch strings.ToLower(from) {
	case "tail", "":
		return changes.Tail, nil
	case "oldest":
		return changes.Oldest, nil
	case "snapshot":
		return changes.Snapshot, nil
	}
	if at, err := changes.ParseCursor(from); err == nil {
		return changes.At(at), nil
	}
	when, err := parseTime(from, time.Now())
	if err != nil {
		return changes.Start{}, err
	}
	conn, err := c.dial(ctx)
	if err != nil {
		return changes.Start{}, err
	}
	defer conn.Close()
	r, err := conn.Call("CHANGES", "AT", strings.ToUpper(stream), strconv.FormatInt(when.UnixMilli(), 10))
	if err != nil {
		return changes.Start{}, c.explain(err)
	}
	at, err := cursorOf(r)
	return changes.At(at), err
}

// parseTime reads a point in time: as RFC 3339 has it, a date, or how long ago.
func parseTime(text string, now time.Time) (time.Time, error) {
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t, nil
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("--from takes tail, oldest, a cursor as generation:offset, or a time as 2026-01-31T15:04:05Z or 10m (ago), not %q", text)
}

// cursorOf reads [generation, offset].
func cursorOf(r resp.Reply) (changes.Cursor, error) {
	if len(r.Elems) != 2 {
		return changes.Cursor{}, fmt.Errorf("%w: %.100s", client.ErrReply, r.String())
	}
	generation, err := client.Uint(r.Elems[0])
	if err != nil {
		return changes.Cursor{}, err
	}
	offset, err := client.Uint(r.Elems[1])
	return changes.Cursor{Generation: generation, Offset: offset}, err
}

// isTerminal reports whether an output is shown to somebody.
func isTerminal(out any) bool {
	f, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
