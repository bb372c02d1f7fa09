package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"kevy/aof"
	"kevy/internal/command/all"
	"kevy/internal/config"
	"kevy/internal/engine"
	"kevy/internal/exec"
	"kevy/internal/rdb"
	"kevy/internal/script"
	"kevy/internal/server"
	"kevy/internal/transfer"
)

// storeFlags are what import and export both ask for.
type storeFlags struct {
	dir       string
	databases int
	db        int
	json      bool
}

func (f *storeFlags) add(cmd *cobra.Command) {
	settings := config.New()
	databases, _ := strconv.Atoi(settings.Lookup("databases").Default)
	cmd.Flags().StringVar(&f.dir, "dir", settings.Lookup("dir").Default, "the data directory; no server may be using it")
	cmd.Flags().IntVar(&f.databases, "databases", databases, "how many databases the store has, as the server's setting")
	cmd.Flags().IntVar(&f.db, "db", transfer.EveryDB, "take this database only (every one by default)")
	cmd.Flags().Lookup("db").DefValue = "0" // which is not shown: -1 would puzzle
	cmd.Flags().BoolVar(&f.json, "json", false, "answer with the figures as JSON")
	// What kevy-server answers to --help is about settings.
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		fmt.Fprintf(cmd.OutOrStdout(), "%s\n\n%s", strings.TrimSpace(cmd.Long), cmd.UsageString())
	})
	cmd.DisableFlagsInUseLine = true
	cmd.Args = func(cmd *cobra.Command, words []string) error {
		if len(words) == 1 {
			return nil
		}
		return seeHelp(cmd, fmt.Errorf("name one FILE, not %d", len(words)))
	}
	cmd.SetFlagErrorFunc(seeHelp)
}

// check refuses numbers that name no database.
func (f *storeFlags) check() error {
	switch {
	case f.databases < 1 || f.databases > engine.MaxDBs:
		return fmt.Errorf("--databases takes a number from 1 to %d", engine.MaxDBs)
	case f.db != transfer.EveryDB && (f.db < 0 || f.db >= f.databases):
		return fmt.Errorf("--db takes a number from 0 to %d", f.databases-1)
	}
	return nil
}

// options returns what the store is opened with. Warnings of it go to stderr.
func (f *storeFlags) options(shards int, stderr io.Writer) engine.Options {
	return engine.Options{
		Dir: f.dir, Shards: shards, DBs: f.databases, Fsync: aof.PolicyEverySec, Foreign: exec.RunForeign(all.Table()), Version: server.Version(),
		Logger: slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
}

// report writes the figures as JSON, or as text says.
func (f *storeFlags) report(out io.Writer, figures any, text func()) error {
	if !f.json {
		text()
		return nil
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(figures)
}

const importLong = `
Fills a data directory from an RDB file, as SAVE, BGSAVE and redis-cli --rdb make
them: of every Redis up to 8.0, of Valkey up to 8, and of export.

Into a directory without a store, all of the file or nothing: a store is made of
it. Into one with a store only if that has no keys, or with --replace: then keys
of the file take the place of those of the same name, all others stay, and the
change feed shows each. A store whose import did not end, by a fault or a crash,
is not served before another import has ended, or its file IMPORTING is removed.

Keys keep their expiry; those that have expired already are passed over, as Redis
does. Libraries of functions are loaded, whatever --db says; one that does not
compile, or whose functions another one has, is an error that names it, and nothing
is imported. Values of Redis modules are an error too. --leave-out goes on without
either and says what they were.`

const importExamples = `  kevy-server import dump.rdb --dir /srv/kevy        then: kevy-server --dir /srv/kevy
  kevy-server import dump.rdb --db 3                 what is in database 3
  kevy-server import dump.rdb --replace              into a store that has keys
  kevy-server import dump.rdb --leave-out functions --json`

func importCommand(stdout, stderr io.Writer) *cobra.Command {
	var f storeFlags
	var shards int
	var replace bool
	var leaveOut []string
	cmd := &cobra.Command{
		Use:     "import FILE [--dir DIR] [--db N] [--replace] [--leave-out functions,modules] [--json]",
		Short:   "Fill a data directory from an RDB file",
		Long:    importLong,
		Example: importExamples,
		RunE: func(_ *cobra.Command, args []string) error {
			leave, err := parseLeaveOut(leaveOut)
			if err = errors.Join(err, f.check()); err != nil {
				return err
			}
			bar := newBar(stderr, "importing")
			r, err := transfer.Import(transfer.ImportOptions{
				Store: f.options(shards, stderr), File: args[0], DB: f.db, Replace: replace, LeaveOut: leave, CheckLibraries: script.CheckLibraries, Progress: bar.tell,
			})
			bar.end()
			if err != nil {
				return advise(err, f.dir)
			}
			return f.report(stdout, r, func() { describeImport(stdout, r) })
		},
	}
	f.add(cmd)
	defaultShards, _ := strconv.Atoi(config.New().Lookup("shards").Default)
	cmd.Flags().IntVar(&shards, "shards", defaultShards, "the number of shards of a new store, fixed for ever")
	cmd.Flags().BoolVar(&replace, "replace", false, "let keys of the file take the place of those in the store")
	cmd.Flags().StringSliceVar(&leaveOut, "leave-out", nil, "go on without functions, modules, or both")
	return cmd
}

func parseLeaveOut(words []string) (leave rdb.LeaveOut, err error) {
	for _, w := range words {
		switch w {
		case "functions":
			leave.Functions = true
		case "modules":
			leave.Modules = true
		default:
			return leave, fmt.Errorf("--leave-out takes functions and modules, not %q", w)
		}
	}
	return leave, nil
}

const exportLong = `
Writes what is in a data directory to an RDB file, which redis-server, redis-cli
and every tool for such files read: Redis 7.0 and later; 7.4 and later if fields
of hashes expire. The file is there whole or not at all, and one of that name is
replaced. Keys keep their expiry; those that have expired are left out. Libraries
of functions are in it, whatever --db says.

Memory holds the largest value, however much there is: the log is sorted into
temporary files beside FILE first, so the disk there needs room for all of the
log and for FILE. Only where a Redis wrote to the directory last, memory holds all of it.`

const exportExamples = `  kevy-server export dump.rdb --dir /srv/kevy
  kevy-server export dump.rdb && redis-server --dbfilename dump.rdb`

func exportCommand(stdout, stderr io.Writer) *cobra.Command {
	var f storeFlags
	cmd := &cobra.Command{
		Use:     "export FILE [--dir DIR] [--db N] [--json]",
		Short:   "Write a data directory to an RDB file",
		Long:    exportLong,
		Example: exportExamples,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			bar := newBar(stderr, "exporting")
			r, err := transfer.Export(transfer.ExportOptions{Store: f.options(1, stderr), File: args[0], DB: f.db, Progress: bar.tell})
			bar.end()
			if err != nil {
				return advise(err, f.dir)
			}
			return f.report(stdout, r, func() { describeExport(stdout, r) })
		},
	}
	f.add(cmd)
	return cmd
}

func describeImport(out io.Writer, r *transfer.ImportReport) {
	from := fmt.Sprintf("RDB version %d", r.RDBVersion)
	if r.Writer != "" {
		from += " by " + r.Writer
	}
	fmt.Fprintf(out, "imported %s, %s with an expiry, from %s (%s, %s) into %s in %s\n", counted(r.Keys, "key"), counted(r.Expiring, "key"),
		r.File, inBytes(r.Bytes), from, r.Dir, inSeconds(r.Seconds))
	alsoLibraries(out, r.Libraries)
	passedOver(out, r.Expired, "that had expired")
	passedOver(out, int64(r.Empty), "without elements")
	passedOver(out, r.OtherDBs, "of other databases")
	passedOver(out, int64(r.ModuleKeys), "of the module types "+strings.Join(r.Modules, ", "))
	if len(r.Functions) > 0 {
		fmt.Fprintf(out, "left out: the function libraries %s\n", strings.Join(r.Functions, ", "))
	}
	if r.ModuleKeys == 0 && len(r.Modules) > 0 {
		fmt.Fprintf(out, "left out: what the modules of %s keep beside the keys\n", strings.Join(r.Modules, ", "))
	}
}

func describeExport(out io.Writer, r *transfer.ExportReport) {
	fmt.Fprintf(out, "exported %s, %s with an expiry, from %s to %s (%s, RDB version %d) in %s\n", counted(r.Keys, "key"), counted(r.Expiring, "key"),
		r.Dir, r.File, inBytes(r.Bytes), r.RDBVersion, inSeconds(r.Seconds))
	alsoLibraries(out, r.Libraries)
	passedOver(out, r.Expired, "that had expired")
}

func alsoLibraries(out io.Writer, names []string) {
	if len(names) > 0 {
		fmt.Fprintf(out, "and the function libraries %s\n", strings.Join(names, ", "))
	}
}

func passedOver(out io.Writer, n int64, what string) {
	if n > 0 {
		fmt.Fprintf(out, "passed over: %s %s\n", counted(n, "key"), what)
	}
}

func counted(n int64, what string) string {
	if n != 1 {
		what += "s"
	}
	digits := strconv.FormatInt(n, 10)
	var groups []string
	for len(digits) > 3 {
		groups = append(groups, digits[len(digits)-3:])
		digits = digits[:len(digits)-3]
	}
	groups = append(groups, digits)
	slices.Reverse(groups)
	return strings.Join(groups, ",") + " " + what
}

func inBytes(n int64) string {
	const step = 1024
	size, unit := float64(n), 0
	for size >= step && unit < 3 {
		size /= step
		unit++
	}
	if unit == 0 {
		return counted(n, "byte")
	}
	return fmt.Sprintf("%.1f %s", size, []string{"", "KiB", "MiB", "GiB"}[unit])
}

func inSeconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond).String()
}

// bar shows how far a transfer has come, in bytes, if it goes to a terminal.
type bar struct {
	out      io.Writer
	what     string
	terminal bool
	shown    *progressbar.ProgressBar
}

func newBar(out io.Writer, what string) *bar {
	b := &bar{out: out, what: what}
	if f, ok := out.(*os.File); ok {
		info, err := f.Stat()
		b.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return b
}

// tell is the transfer's progress.
func (b *bar) tell(done, total int64) {
	if !b.terminal {
		return
	}
	if b.shown == nil {
		options := []progressbar.Option{
			progressbar.OptionSetWriter(b.out), progressbar.OptionSetDescription(b.what), progressbar.OptionSetWidth(30),
			progressbar.OptionThrottle(100 * time.Millisecond), progressbar.OptionClearOnFinish(), progressbar.OptionShowCount(),
			progressbar.OptionSetPredictTime(true), progressbar.OptionShowBytes(true),
		}
		b.shown = progressbar.NewOptions64(total, options...)
	}
	_ = b.shown.Set64(done)
}

// end takes the bar away.
func (b *bar) end() {
	if b.shown != nil {
		_ = b.shown.Clear()
	}
}
