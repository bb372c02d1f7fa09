// Package set has the commands on sets.
package set

import (
	"kevy/internal/command"
	"kevy/shard"
)

// Commands returns the family.
func Commands() []*command.Spec {
	return []*command.Spec{
		sAdd(), sRem(), sCard(), sIsMember(), sMIsMember(), sMembers(),
		sPop(), sRandMember(), sMove(),
		sInter(), sInterCard(), sInterStore(), sUnion(), sUnionStore(), sDiff(), sDiffStore(),
		sScan(),
	}
}

// reading is a handler that gets the set that the first argument names.
func reading(run func(c *command.Ctx, s shard.SetView)) command.Handler {
	return func(c *command.Ctx) {
		s, err := c.Tx.SetOf(c.Key(1))
		if err != nil {
			c.W.Err(err)
			return
		}
		run(c, s)
	}
}

func replyInt(c *command.Ctx, n int, err error) {
	if err != nil {
		c.W.Err(err)
		return
	}
	c.W.Int(int64(n))
}

func boolInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
