// Command audit appends a line of JSON to a file for every change of every key:
// what, when, why a key went, and where in the feed it stands.
//
//	go run ./examples/audit -addr 127.0.0.1:6379 -log audit.jsonl
//
// Exactly once, though a file has no transactions: the cursor is in the lines
// themselves. A commit is written whole, then fsynced; at the start what a crash
// left of an unfinished commit is cut off, and the last line says where to go on.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"kevy/changes"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:6379", "host:port of the server")
	path := flag.String("log", "audit.jsonl", "the file that lines are appended to")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := record(ctx, *addr, *path, slog.Default()); err != nil {
		log.Fatal(err)
	}
}

// record runs until ctx ends.
func record(ctx context.Context, addr, path string, logger *slog.Logger) (err error) {
	a, err := open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.file.Close()) }()
	c, err := changes.New(changes.Options{
		Addr: addr, Start: changes.Oldest, Durable: true, Filter: changes.Filter{AllDBs: true},
		Store: changes.KeptByTarget(a.cursor), Hold: "audit", Logger: logger,
		// A hole in the record is worth a person's attention: OnResync stays
		// changes.ResyncStop.
	}, a)
	if err != nil {
		return err
	}
	return c.Run(ctx)
}

// line is one change. End stands on the last one of what was taken at once, with
// the cursor to go on from.
type line struct {
	Time   time.Time       `json:"time"`
	Stream string          `json:"stream"`
	At     string          `json:"at"` // generation:offset of the frame
	DB     int             `json:"db"`
	Cause  changes.Cause   `json:"cause"`
	Op     [][]byte        `json:"op"` // base64: keys and values are any bytes
	Text   string          `json:"text"`
	End    *changes.Cursor `json:"end,omitempty"`
}

// audit is the file, as a handler of commits.
type audit struct {
	file *os.File
	at   changes.Cursor // behind the last whole batch
	ok   bool
}

// open opens the file behind its last whole batch.
func open(path string) (*audit, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	a := &audit{file: file}
	if err := a.recover(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), file.Close())
	}
	return a, nil
}

func (a *audit) recover() error {
	in := bufio.NewReader(a.file)
	var read, whole int64
	for {
		text, err := in.ReadBytes('\n')
		if err == io.EOF {
			break // without a line end it is cut off
		}
		if err != nil {
			return err
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return fmt.Errorf("at byte %d: %w", read, err)
		}
		read += int64(len(text))
		if l.End != nil {
			whole, a.at, a.ok = read, *l.End, true
		}
	}
	if err := a.file.Truncate(whole); err != nil {
		return err
	}
	_, err := a.file.Seek(whole, io.SeekStart)
	return err
}

func (a *audit) cursor(context.Context, string) (changes.Cursor, bool, error) {
	return a.at, a.ok, nil
}

// Commits appends the changes of commits and waits for the disk.
func (a *audit) Commits(_ context.Context, commits []changes.Commit) error {
	var out bytes.Buffer
	to := json.NewEncoder(&out)
	for i := range commits {
		c := &commits[i]
		for j := range c.Frames {
			f := &c.Frames[j]
			l := line{
				Time: f.Time.UTC(), Stream: c.Stream, At: changes.Cursor{Generation: c.Generation, Offset: f.Offset}.String(),
				DB: f.DB, Cause: f.Cause, Op: f.Args, Text: fmt.Sprintf("%q", f.Args),
			}
			if i == len(commits)-1 && j == len(c.Frames)-1 {
				l.End = &c.Next
			}
			if err := to.Encode(l); err != nil {
				return err
			}
		}
	}
	if _, err := a.file.Write(out.Bytes()); err != nil {
		return err
	}
	return a.file.Sync()
}

// Commit appends the changes of one commit.
func (a *audit) Commit(ctx context.Context, c *changes.Commit) error {
	return a.Commits(ctx, []changes.Commit{*c})
}
