package exec

import (
	"kevy/internal/command"
	"kevy/resp"
	"kevy/shard"
)

// Locked runs fn under the locks of the shards of keys, on behalf of a command that takes
// none for itself and is not part of a transaction or a script. What fn changes is a
// commit, and the command's reply stands for it. The error says why fn could not run.
func Locked(c *command.Ctx, keys [][]byte, fn func(tx *shard.Tx)) *resp.Error {
	s := sessionOf(c)
	x := s.x
	s.shards = s.shards[:0]
	for _, key := range keys {
		s.shards = insertSorted(s.shards, x.store.Set().ShardOf(key))
	}
	if !x.hold(s, s.shards, false) {
		return x.busy()
	}
	fn(s.tx)
	if lsn, _ := x.end(s); lsn != 0 {
		s.lockedLSN = lsn
	}
	s.staleClock()
	return nil
}
