// Package transfer moves whole stores between a data directory and an RDB file,
// while no server uses the directory.
package transfer

import (
	"math"

	"kevy/internal/engine"
	"kevy/shard"
)

// EveryDB takes all databases rather than one.
const EveryDB = -1

// Progress is told from time to time how much of the work is done.
type Progress func(done, total int64)

func (p Progress) tell(done, total int64) {
	if p != nil {
		p(done, total)
	}
}

// tellEvery is how many keys there are between two reports of progress.
const tellEvery = 1024

// offline returns the options with which a store is opened for a transfer:
// nothing in it moves by itself, and nothing of the feed's history is let go.
func offline(opt engine.Options) engine.Options {
	opt.Offline = true
	opt.FeedDiskBytes, opt.FeedAgeMs = math.MaxInt64, 0
	opt.FeedMemoryBytes = 1 << 20
	opt.Rewrite = engine.RewriteRule{}
	return opt
}

func allShards(set *shard.Set) []int {
	all := make([]int, set.Shards())
	for i := range all {
		all[i] = i
	}
	return all
}
