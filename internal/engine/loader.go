package engine

import (
	"bytes"
	"fmt"

	"kevy/aof"
	"kevy/feed"
	"kevy/internal/op"
	"kevy/shard"
)

// loader interprets the log into the keyspace while it is recovered. It
// implements aof.Sink.
type loader struct {
	e       *Engine
	tx      *shard.Tx
	scanner op.Scanner
	counted *feed.Recovery

	baseDB    int // the database that the base is in
	foreignDB int // the database that another server's commands are in
	args      [][]byte
}

func newLoader(e *Engine, counted *feed.Recovery) *loader {
	l := &loader{e: e, tx: e.NewTx(), counted: counted}
	l.tx.BeginReplay(e.all, e.NowMs())
	return l
}

// keys returns how many keys each database has now.
func (l *loader) keys() []shard.DBStats { return l.tx.Stats() }

func (l *loader) Position(stream int, generation, next uint64) error {
	return l.counted.Position(stream, generation, next)
}

func (l *loader) Generation(draw, lsn uint64) error { return l.counted.Generation(draw, lsn) }

func (l *loader) BasePayload(payload []byte) error {
	l.scanner.Reset(payload, l.baseDB)
	for {
		f, err := l.scanner.Next()
		if err != nil || f == nil {
			l.baseDB = l.scanner.DB()
			return err
		}
		if err := l.tx.Apply(f); err != nil {
			return err
		}
	}
}

func (l *loader) Block(b aof.BlockHeader, payload []byte) error {
	l.counted.Block(b.FirstLSN, len(payload))
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
		if err := l.tx.Apply(f); err != nil {
			return fmt.Errorf("LSN %d: %w", b.FirstLSN+uint64(ops), err)
		}
		ops++
		stream := op.EveryStream
		if key := f.Key(); key != nil {
			stream = l.e.set.ShardOf(key)
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
	l.tx.Select(l.foreignDB)
	defer func() { l.foreignDB = l.tx.DB() }()
	for len(payload) > 0 {
		if payload[0] == '#' {
			_, payload, _ = bytes.Cut(payload, []byte("\n"))
			continue
		}
		n, args, err := op.ReadCommand(payload, l.args[:0])
		if err != nil {
			return err
		}
		l.args, payload = args, payload[n:]
		if err := l.foreign(args); err != nil {
			return err
		}
	}
	return nil
}

func (l *loader) foreign(args [][]byte) error {
	switch name := string(bytes.ToUpper(args[0])); {
	case name == "MULTI" || name == "EXEC":
		return nil
	case name == "SELECT" && len(args) == 2:
		var db int
		if _, err := fmt.Sscanf(string(args[1]), "%d", &db); err != nil || db < 0 || db >= l.tx.DBs() {
			return fmt.Errorf("the log selects database %q, but there are %d", args[1], l.tx.DBs())
		}
		l.tx.Select(db)
		return nil
	}
	if l.e.opt.Foreign == nil {
		return fmt.Errorf("the log holds command '%.128s' of another server, which cannot be run here", args[0])
	}
	return l.e.opt.Foreign(l.tx, args)
}
