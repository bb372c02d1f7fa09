package engine

import (
	"bytes"
	"context"

	"kevy/feed"
	"kevy/internal/ds"
	"kevy/shard"
)

// maxDigests is how many digests are taken at a time: each is a whole processor,
// and a view of the keyspace that writers copy from. Others wait.
const maxDigests = 1

// Digest returns the digest of the keys of a database that begin with prefix and
// whose frames are in a stream of the feed, how many they are, and the stream's
// cursor that it belongs to. Overdue keys whose DEL has not come are among them.
// Commits stand still for microseconds, while a view is taken; the scan is beside
// them. The error is that of ctx, or says that the store is closed.
func (e *Engine) Digest(ctx context.Context, stream, db int, prefix []byte) (at feed.Cursor, keys uint64, sum shard.Digest, err error) {
	select {
	case e.digests <- struct{}{}:
		defer func() { <-e.digests }()
	case <-ctx.Done():
		return at, 0, sum, ctx.Err()
	}
	shards := e.all
	if stream < len(e.all) {
		shards = e.all[stream : stream+1]
	}
	e.set.Lock(shards)
	at = e.source.Tail(stream)
	snap := e.set.FreezeDB(shards, db)
	e.set.Unlock(shards)

	rest := e.newRest()
	defer rest.Close()
	d := shard.Digester{Pause: rest.Look} // in large values
	err = walk(snap, rest, func(_, _ int, entry *ds.Entry) error {
		if bytes.HasPrefix(entry.Key(), prefix) {
			keys++
			d.AddKey(entry)
		}
		if e.closing.Load() {
			return errClosing
		}
		return ctx.Err()
	})
	return at, keys, d.Sum(), err
}
