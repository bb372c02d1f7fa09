// Package hash has the commands on hashes.
package hash

import (
	"kevy/internal/command"
	"kevy/shard"
)

// Commands returns the family.
func Commands() []*command.Spec {
	return []*command.Spec{
		hSet(), hMSet(), hSetNX(), hDel(),
		hGet(), hMGet(), hGetAll(), hKeys(), hVals(), hLen(), hExists(), hStrLen(),
		hIncrBy(), hIncrByFloat(),
		hRandField(), hScan(),
		hExpire(), hPExpire(), hExpireAt(), hPExpireAt(), hPersist(),
		hTTL(), hPTTL(), hExpireTime(), hPExpireTime(),
		hGetDel(), hGetEX(), hSetEX(),
	}
}

// reading is a handler that gets the hash that the first argument names.
func reading(run func(c *command.Ctx, h shard.HashView)) command.Handler {
	return func(c *command.Ctx) {
		h, err := c.Tx.Hash(c.Key(1))
		if err != nil {
			c.W.Err(err)
			return
		}
		run(c, h)
	}
}
