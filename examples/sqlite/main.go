// Command sqlite keeps a SQLite database in step with a kevy-server, exactly
// once: what commits do to the database, and the cursor behind them, are one
// transaction. Whoever is killed at whatever moment, nothing is missing in
// the database and nothing is in it twice.
//
//	go run . -addr 127.0.0.1:6379 -db copy.db
//
// It copies strings, and counts how often each key was changed: a number that
// would show a commit that was done twice, or not at all.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	_ "modernc.org/sqlite"

	"kevy/changes"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:6379", "host:port of the server")
	path := flag.String("db", "copy.db", "the SQLite database")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := follow(ctx, *addr, *path, slog.Default()); err != nil {
		log.Fatal(err)
	}
}

// follow runs until ctx ends.
func follow(ctx context.Context, addr, path string, logger *slog.Logger) (err error) {
	t, err := open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.db.Close()) }()
	c, err := changes.New(changes.Options{
		Addr: addr,
		// Where there is no cursor yet, begin with the oldest history.
		Start: changes.Oldest,
		// What is not fsynced on the server may be gone after its crash: let the
		// database be no further than what stays.
		Durable: true,
		Store:   changes.KeptByTarget(t.cursor),
		Logger:  logger,
	}, t)
	if err != nil {
		return err
	}
	return c.Run(ctx)
}

const schema = `
	CREATE TABLE IF NOT EXISTS strings (key BLOB PRIMARY KEY, value BLOB NOT NULL);
	CREATE TABLE IF NOT EXISTS counts (key BLOB PRIMARY KEY, n INTEGER NOT NULL);
	CREATE TABLE IF NOT EXISTS cursors (stream TEXT PRIMARY KEY, generation INTEGER NOT NULL, next INTEGER NOT NULL);
`

// target is the database, as a handler of commits.
type target struct{ db *sql.DB }

func open(path string) (*target, error) {
	// synchronous=FULL: a transaction that has committed survives a power cut too.
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)")
	if err != nil {
		return nil, err
	}
	if _, err := db.Exec(schema); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &target{db: db}, nil
}

// cursor returns where the database is.
func (t *target) cursor(ctx context.Context, stream string) (at changes.Cursor, ok bool, err error) {
	err = t.db.QueryRowContext(ctx, `SELECT generation, next FROM cursors WHERE stream = ?`, stream).Scan(&at.Generation, &at.Offset)
	if errors.Is(err, sql.ErrNoRows) {
		return at, false, nil
	}
	return at, err == nil, err
}

// Commits does what commits say and moves the cursor behind them, or neither. A
// transaction for each commit would do as well, and wait for the disk more often.
func (t *target) Commits(ctx context.Context, commits []changes.Commit) error {
	last := &commits[len(commits)-1]
	return t.update(ctx, last.Stream, last.Next, func(tx *sql.Tx) error {
		for _, c := range commits {
			for i := range c.Frames {
				if err := apply(tx, &c.Frames[i]); err != nil {
					return fmt.Errorf("frame %d of stream %s: %w", c.Frames[i].Offset, c.Stream, err)
				}
			}
		}
		return nil
	})
}

// Commit does what one commit says.
func (t *target) Commit(ctx context.Context, c *changes.Commit) error {
	return t.Commits(ctx, []changes.Commit{*c})
}

// Progress moves the cursor where there was nothing to do.
func (t *target) Progress(ctx context.Context, stream string, at changes.Cursor) error {
	return t.update(ctx, stream, at, func(*sql.Tx) error { return nil })
}

// update is the recipe: the work and the cursor in one transaction.
func (t *target) update(ctx context.Context, stream string, next changes.Cursor, work func(*sql.Tx) error) error {
	tx, err := t.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	err = work(tx)
	if err == nil {
		_, err = tx.Exec(`INSERT INTO cursors VALUES (?1, ?2, ?3) ON CONFLICT (stream) DO UPDATE SET generation = ?2, next = ?3`,
			stream, int64(next.Generation), int64(next.Offset))
	}
	if err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// apply does what one frame says.
func apply(tx *sql.Tx, f *changes.Frame) error {
	op, err := changes.Decode(f)
	if err != nil {
		return err
	}
	switch op := op.(type) {
	case changes.Set:
		_, err = tx.Exec(`INSERT INTO strings VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2`, op.Key, op.Value)
	case changes.SetRange:
		err = setRange(tx, op)
	case changes.Del:
		_, err = tx.Exec(`DELETE FROM strings WHERE key = ?`, op.Key)
	case changes.FlushDB, changes.FlushAll:
		_, err = tx.Exec(`DELETE FROM strings`)
	}
	if err != nil || f.Key() == nil {
		return err
	}
	_, err = tx.Exec(`INSERT INTO counts VALUES (?, 1) ON CONFLICT (key) DO UPDATE SET n = n + 1`, f.Key())
	return err
}

// setRange overwrites a part of a string.
func setRange(tx *sql.Tx, op changes.SetRange) error {
	var value []byte
	err := tx.QueryRow(`SELECT value FROM strings WHERE key = ?`, op.Key).Scan(&value)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if end := int(op.Offset) + len(op.Bytes); end > len(value) {
		value = append(value, make([]byte, end-len(value))...)
	}
	copy(value[op.Offset:], op.Bytes)
	_, err = tx.Exec(`INSERT INTO strings VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2`, op.Key, value)
	return err
}
