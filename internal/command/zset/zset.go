// Package zset has the commands on sorted sets.
//
// A score of -0 is 0: the two are equal in every order, and redis-server keeps
// and answers the one or the other depending on how the sorted set is encoded.
package zset

import (
	"kevy/internal/command"
	"kevy/shard"
)

// Commands returns the family.
func Commands() []*command.Spec {
	return []*command.Spec{
		zAdd(), zIncrBy(), zRem(), zCard(), zScore(), zMScore(), zRank(), zRevRank(), zCount(), zLexCount(),
		zRange(), zRevRange(), zRangeByScore(), zRevRangeByScore(), zRangeByLex(), zRevRangeByLex(), zRangeStore(),
		zRemRangeByRank(), zRemRangeByScore(), zRemRangeByLex(),
		zPopMin(), zPopMax(), zMPop(), bzPopMin(), bzPopMax(), bzMPop(), zRandMember(),
		zUnion(), zUnionStore(), zInter(), zInterCard(), zInterStore(), zDiff(), zDiffStore(),
		zScan(),
	}
}

// reading is a handler that gets the sorted set that the first argument names.
func reading(run func(c *command.Ctx, z shard.ZSetView)) command.Handler {
	return func(c *command.Ctx) {
		z, err := c.Tx.ZSet(c.Key(1))
		if err != nil {
			c.W.Err(err)
			return
		}
		run(c, z)
	}
}

// negativeZero is how -0 differs among the answers.
const negativeZero = "-0 is answered and stored as 0."

// plain makes 0 of -0.
func plain(score float64) float64 {
	if score == 0 {
		return 0
	}
	return score
}

// membersReply replies with members, with their scores or without.
type membersReply struct {
	c          *command.Ctx
	withScores bool
}

func (r membersReply) begin(n int) {
	if r.withScores {
		r.c.W.Pairs(n)
	} else {
		r.c.W.Array(n)
	}
}

func (r membersReply) add(member []byte, score float64) {
	if r.withScores {
		r.c.W.Pair()
		r.c.W.Bulk(member)
		r.c.W.Double(score)
	} else {
		r.c.W.Bulk(member)
	}
}
