package shard

import (
	"fmt"

	"kevy/internal/ds"
	"kevy/internal/op"
	"kevy/resp"
)

// Kind is the type of a key's value.
type Kind = ds.Kind

// The kinds of value.
const (
	KindString = ds.KindString
	KindList   = ds.KindList
	KindSet    = ds.KindSet
	KindZSet   = ds.KindZSet
	KindHash   = ds.KindHash
	KindStream = ds.KindStream
)

// ErrWrongType answers an operation on a key that holds another kind of value.
var ErrWrongType = &resp.Error{Code: "WRONGTYPE", Text: "Operation against a key holding the wrong kind of value"}

// Tx reads and changes the keys of locked shards. It is used by one goroutine;
// between Begin and End the shards it was given stay locked by the caller.
//
// Slices and views that its methods return are read-only and valid until the
// next change of the same key, at the latest until End.
type Tx struct {
	// By is on whose behalf the Tx changes keys, nil for the store's own. This package
	// does not look at it. Serves is the same of one who waited and is served now.
	By, Serves any

	set    *Set
	held   []int
	only   *Shard // the shard, if one is held
	commit op.Commit
	db     int
	nowMs  int64
	cause  op.Cause
	replay bool
	// keepOverdue: see KeepOverdue.
	keepOverdue bool
	// seeOverdue: see SeeOverdue.
	seeOverdue bool
	// untouched: see Untouch. It outlasts End.
	untouched bool
	undo      *undo
	eff       [][]byte // scratch: the arguments of an op that had an effect

	ready   []*Queue // of keys that have changed and are waited for, in that order
	readyAt int      // how many of them NextReady has returned

	grown     grown // where what is counted has changed, see memory.go
	alsoGrown []grown

	hits, misses int64 // values asked for since TakeLookups
	noted        noted
	// Whether missing keys are told of, and whether new keys are not.
	tellMisses, replacing bool
}

// NewTx returns a Tx over the set; log is the position of the log that its
// commits go to.
func (s *Set) NewTx(log *op.LogPosition) *Tx {
	tx := &Tx{set: s}
	tx.commit.Bind(log)
	return tx
}

// Begin starts on locked shards in database db at time nowMs (unix ms).
func (tx *Tx) Begin(shards []int, db int, nowMs int64) {
	tx.held = shards
	tx.only = nil
	if len(shards) == 1 {
		tx.only = tx.set.shards[shards[0]]
	}
	tx.db = db
	tx.nowMs = nowMs
}

// BeginReplay starts a Tx that applies what happened before without recording
// it and without expiring keys by itself: what happened is in the log.
func (tx *Tx) BeginReplay(shards []int, nowMs int64) {
	tx.Begin(shards, 0, nowMs)
	tx.replay = true
}

// Replaying reports whether the Tx was begun with BeginReplay: a deadline that
// has passed must then be kept rather than acted on.
func (tx *Tx) Replaying() bool { return tx.replay }

// Commit returns the recorded ops for the log. It is valid until End.
func (tx *Tx) Commit() *op.Commit { return &tx.commit }

// Committed says that what the Tx recorded is in the log, up to lsn. It is called
// before the shards are unlocked; Rollback is over with it.
func (tx *Tx) Committed(lsn uint64) {
	for _, i := range tx.held {
		tx.set.shards[i].lastLSN = lsn
	}
	tx.publish()
	if u := tx.undo; u != nil {
		tx.undo = nil
		tx.dirty(u.touched)
	}
}

// Held returns the shards that the Tx holds: those that it was begun on, or that
// Widen made of them.
func (tx *Tx) Held() []int { return tx.held }

// End forgets the recorded ops and the shards.
func (tx *Tx) End() {
	tx.commit.Reset()
	tx.held, tx.only, tx.undo = nil, nil, nil
	tx.replay = false
	if tx.Noted() {
		tx.TakeNoted() // of a replay, or of what was taken back
	}
	if cap(tx.eff) > 4096 {
		tx.eff = nil
	}
}

// NowMs returns the time of the commit in unix milliseconds; it does not move
// while the Tx lasts.
func (tx *Tx) NowMs() int64 { return tx.nowMs }

// Proceed lets the time of what follows, which is a commit of its own, be another
// one.
func (tx *Tx) Proceed(nowMs int64) { tx.nowMs = nowMs }

// DB returns the selected database.
func (tx *Tx) DB() int { return tx.db }

// Select changes the database; db must be within DBs.
func (tx *Tx) Select(db int) { tx.db = db }

// DBs returns the number of databases.
func (tx *Tx) DBs() int { return tx.set.dbs }

// Holds reports whether the key's shard is locked, so that the key may be used.
func (tx *Tx) Holds(key []byte) bool { return tx.holds(tx.set.ShardOf(key)) }

func (tx *Tx) holds(shard int) bool {
	if len(tx.held) == len(tx.set.shards) {
		return true
	}
	for _, i := range tx.held {
		if i == shard {
			return true
		}
	}
	return false
}

// shard returns the locked shard of a key. A key whose shard is not locked is a
// bug of the caller: its key spec names too few keys.
func (tx *Tx) shard(key []byte) *Shard {
	if tx.only != nil {
		return tx.only
	}
	i := tx.set.ShardOf(key)
	if !tx.holds(i) {
		panic(fmt.Sprintf("shard: key %q is not among the locked shards", key))
	}
	return tx.set.shards[i]
}

func (tx *Tx) at(key []byte) (*Shard, *database) {
	sh := tx.shard(key)
	return sh, &sh.dbs[tx.db]
}

// lookup returns the entry of a live key. A key whose deadline has passed goes
// now, as a DEL, and fields of a hash whose deadline has passed, as an HDEL.
func (tx *Tx) lookup(key []byte) *ds.Entry {
	sh, d := tx.at(key)
	e := d.keys.Get(key)
	if e == nil {
		return nil
	}
	if tx.overdue(e) && !tx.seeOverdue {
		if !tx.keepOverdue {
			tx.expire(sh, d, key)
		}
		return nil
	}
	if d.fields != nil {
		return tx.withoutDueFields(sh, d, key, e)
	}
	return e
}

func (tx *Tx) overdue(e *ds.Entry) bool { return tx.due(e.Aux()) }

// due reports whether a deadline, 0 for none, has passed and is to be acted on.
func (tx *Tx) due(atMs int64) bool {
	return atMs != 0 && atMs <= tx.nowMs && !tx.replay
}

// KeepOverdue makes keys that are overdue stay, although they are not seen, for who
// changes nothing.
func (tx *Tx) KeepOverdue(keep bool) { tx.keepOverdue = keep }

// SeeOverdue makes keys that are overdue be seen as long as they are there, for who shows
// what there is.
func (tx *Tx) SeeOverdue(see bool) { tx.seeOverdue = see }

// expire deletes an overdue key, records why and tells of it.
func (tx *Tx) expire(sh *Shard, d *database, key []byte) {
	tx.end(sh, d, key)
	tx.Notify(OfExpired, "expired", key)
}

// end deletes an overdue key and records why.
func (tx *Tx) end(sh *Shard, d *database, key []byte) {
	cause := tx.cause
	tx.cause = op.Expired
	tx.delete(sh, d, key)
	tx.cause = cause
	tx.set.expiry.Expired.Add(1)
}

// delete removes a key that exists and records DEL.
func (tx *Tx) delete(sh *Shard, d *database, key []byte) {
	tx.save(sh, key)
	tx.record(sh, op.Del, key, 0)
	tx.recorded()
	if e := d.drop(key); e != nil && !tx.replay && e.Object() != nil && e.Object().Len() > freedAtOnce {
		tx.set.freedLater.Add(1)
	}
}

// drop removes a key and its deadlines, and returns it, nil if there was none.
func (d *database) drop(key []byte) *ds.Entry {
	e := d.keys.Delete(key)
	if e == nil {
		return nil
	}
	if e.Aux() != 0 {
		d.deadlines.Set(key, e.Aux(), 0)
	}
	d.forgetFields(e)
	return e
}

// freedAtOnce is how many elements a value may have so that the work to free it is not
// worth counting; as in Redis, which frees such a one at once.
const freedAtOnce = 64

// save keeps what a rollback needs, before a key is changed.
func (tx *Tx) save(sh *Shard, key []byte) {
	if tx.undo != nil {
		tx.undo.saveKey(sh, tx.db, key)
	}
}

// record begins the op of a change of key with nargs arguments behind it; arg…
// and recorded follow. What is recorded is also what those who WATCH the key, or
// wait for it, are told. During a replay the three do nothing.
func (tx *Tx) record(sh *Shard, v op.Verb, key []byte, nargs int) {
	if tx.replay {
		return
	}
	if !unwatched(v) {
		tx.touch(sh, key, wakes(v))
	}
	tx.grow(sh, tx.db)
	tx.commit.Begin(v, tx.db, sh.index, tx.cause, nargs+2)
	tx.commit.Arg(key)
}

// recordSub is record for a verb with a subcommand, behind which the key stands.
// Those who WATCH the key or wait for it are not told.
func (tx *Tx) recordSub(sh *Shard, v op.Verb, subcommand string, key []byte, nargs int) {
	if tx.replay {
		return
	}
	tx.grow(sh, tx.db)
	tx.commit.Begin(v, tx.db, sh.index, tx.cause, nargs+3)
	tx.commit.ArgString(subcommand)
	tx.commit.Arg(key)
}

func (tx *Tx) arg(b []byte) {
	if !tx.replay {
		tx.commit.Arg(b)
	}
}

func (tx *Tx) argInt(n int64) {
	if !tx.replay {
		tx.commit.ArgInt(n)
	}
}

func (tx *Tx) argString(s string) {
	if !tx.replay {
		tx.commit.ArgString(s)
	}
}

func (tx *Tx) argFloat(f float64) {
	if !tx.replay {
		tx.commit.ArgFloat(f)
	}
}

func (tx *Tx) recorded() {
	if !tx.replay {
		tx.commit.End()
	}
}

// recordArgs records an op on a key with the arguments that follow it.
func (tx *Tx) recordArgs(sh *Shard, v op.Verb, key []byte, args [][]byte) {
	tx.record(sh, v, key, len(args))
	for _, a := range args {
		tx.arg(a)
	}
	tx.recorded()
}

// setDeadline moves a key's deadline in its entry and in the index.
func (d *database) setDeadline(e *ds.Entry, atMs int64) {
	if old := e.Aux(); old != atMs {
		d.deadlines.Set(e.Key(), old, atMs)
		d.keys.SetAux(e, atMs)
	}
}

// TakeLookups returns how many values were asked for and there, and not there,
// and begins to count anew.
func (tx *Tx) TakeLookups() (hits, misses int64) {
	hits, misses = tx.hits, tx.misses
	tx.hits, tx.misses = 0, 0
	return hits, misses
}
