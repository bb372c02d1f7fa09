package engine

import (
	"bytes"
	"fmt"
	"strconv"

	"kevy/aof"
	"kevy/feed"
	"kevy/internal/op"
	"kevy/shard"
)

// loader interprets the log into a keyspace while it is read. It implements
// aof.Sink.
type loader struct {
	e       *Engine
	set     *shard.Set
	tx      *shard.Tx
	scanner op.Scanner
	counted *feed.Recovery // nil where the feed knows the log already

	baseDB    int // the database that the base is in
	foreignDB int // the database that another server's commands are in
	args      [][]byte
	misfits   int // ops that were left out
}

func newLoader(e *Engine, set *shard.Set, counted *feed.Recovery) *loader {
	l := &loader{e: e, set: set, tx: set.NewTx(&e.pos), counted: counted}
	l.tx.BeginReplay(e.all, e.NowMs())
	return l
}

// keys returns how many keys each database has now.
func (l *loader) keys() []shard.DBStats { return l.tx.Stats() }

func (l *loader) Position(stream int, generation, next uint64) error {
	if l.counted == nil {
		return nil
	}
	return l.counted.Position(stream, generation, next)
}

func (l *loader) Generation(draw, lsn uint64) error {
	if l.counted == nil {
		return nil
	}
	return l.counted.Generation(draw, lsn)
}

func (l *loader) BasePayload(payload []byte) error {
	l.scanner.Reset(payload, l.baseDB)
	for {
		f, err := l.scanner.Next()
		if err != nil || f == nil {
			l.baseDB = l.scanner.DB()
			return err
		}
		if err := l.apply(f); err != nil {
			return err
		}
	}
}

// apply applies an op. Where damage was left out, what is behind it may not fit
// any more, such as an element for a list whose DEL of a string is missing: it is
// left out too.
func (l *loader) apply(f *op.Frame) error {
	if f.DB >= l.tx.DBs() {
		return tooFewDatabases(f.DB, l.tx.DBs())
	}
	if l.e.opt.Divert != nil {
		return l.e.opt.Divert(f)
	}
	err := l.tx.Apply(f)
	if err == nil || l.e.opt.Recover != aof.RecoverSkip {
		return err
	}
	if l.misfits++; l.misfits <= shownMisfits {
		l.e.opt.Logger.Warn("an op does not fit what the damage has left, and is left out", "reason", err)
	}
	return nil
}

// shownMisfits bounds how many of them the store's own log shows.
const shownMisfits = 10

func tooFewDatabases(db, dbs int) error {
	return fmt.Errorf("it has keys in database %d, and there are %d databases: set databases to %d or more", db, dbs, db+1)
}

func (l *loader) Block(b aof.BlockHeader, payload []byte) error {
	if l.counted != nil {
		l.counted.Block(b.FirstLSN, len(payload))
	}
	l.scanner.Reset(payload, 0)
	ops := 0
	for {
		f, err := l.scanner.Next()
		if err != nil {
			return err
		}
		if f == nil {
			break
		}
		if err := l.apply(f); err != nil {
			return fmt.Errorf("LSN %d: %w", b.FirstLSN+uint64(ops), err)
		}
		ops++
		if l.counted == nil {
			continue
		}
		stream := op.EveryStream
		if key := f.Key(); key != nil {
			stream = l.set.ShardOf(key)
		}
		l.counted.Op(stream)
	}
	if ops != b.Ops {
		return fmt.Errorf("the block at LSN %d holds %d ops, its header says %d", b.FirstLSN, ops, b.Ops)
	}
	return nil
}

// Foreign runs what another server wrote: commands, which are not yet resolved
// into ops. A transaction needs no care here, since only whole ones arrive.
func (l *loader) Foreign(payload []byte) error {
	if l.e.opt.Divert != nil {
		return ErrNeedsKeyspace
	}
	l.tx.Select(l.foreignDB)
	defer func() { l.foreignDB = l.tx.DB() }()
	for rest := payload; len(rest) > 0; {
		if rest[0] == '#' {
			_, rest, _ = bytes.Cut(rest, []byte("\n"))
			continue
		}
		n, args, err := op.ReadCommand(rest, l.args[:0])
		if err == nil {
			l.args = args
			err = l.foreign(args)
		}
		if err != nil {
			return &aof.CommandError{Offset: int64(len(payload) - len(rest)), Err: err}
		}
		rest = rest[n:]
	}
	return nil
}

func (l *loader) foreign(args [][]byte) error {
	switch name := string(bytes.ToUpper(args[0])); {
	case name == "MULTI" || name == "EXEC":
		return nil
	case name == "SELECT" && len(args) == 2:
		db, err := strconv.Atoi(string(args[1]))
		if err != nil || db < 0 {
			return fmt.Errorf("it selects database %q", args[1])
		}
		if db >= l.tx.DBs() {
			return tooFewDatabases(db, l.tx.DBs())
		}
		l.tx.Select(db)
		return nil
	}
	if l.e.opt.Foreign == nil {
		return fmt.Errorf("it holds command '%.128s' of another server, which cannot be run here", args[0])
	}
	return l.e.opt.Foreign(l.tx, args)
}
