package engine

import (
	"kevy/internal/ds"
	"kevy/shard"
)

// View is the keyspace as of one moment, for who writes it elsewhere.
type View struct {
	// LSN is the last op in it, NowMs the time, by which keys in it may be overdue.
	LSN   uint64
	NowMs int64
	DBs   []shard.DBStats

	e    *Engine
	snap *shard.Snapshot
}

// View takes one. All commits stand still for microseconds. Walk or Release must be
// called, before the store is closed.
func (e *Engine) View() (*View, error) {
	if e.closing.Load() {
		return nil, errClosing
	}
	v := &View{e: e}
	tx := e.NewTx()
	e.set.Lock(e.all)
	defer e.set.Unlock(e.all)
	v.NowMs = e.NowMs()
	tx.Begin(e.all, 0, v.NowMs)
	v.DBs = tx.Stats()
	tx.End()
	v.LSN = e.log.Last()
	v.snap = e.set.Freeze()
	return v, nil
}

// Libraries returns the libraries of functions.
func (v *View) Libraries() []shard.Library { return v.snap.Libraries() }

// EachValue calls fn with every value until it returns false. It may be called before
// Walk only.
func (v *View) EachValue(fn func(value shard.Value) bool) { v.snap.EachValue(fn) }

// Walk calls fn with every key, overdue ones included, until it returns an error, and
// releases the view. It leaves the processor to others now and then.
func (v *View) Walk(fn func(db int, e *ds.Entry) error) error {
	rest := v.e.newRest()
	defer rest.Close()
	return walk(v.snap, rest, func(db, _ int, e *ds.Entry) error { return fn(db, e) })
}

// Release gives up a view that Walk was not called on.
func (v *View) Release() { v.snap.Release() }
