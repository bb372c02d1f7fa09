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

// reading is a handler that looks at single fields of the hash that the first
// argument names.
func reading(run func(c *command.Ctx, h shard.HashView)) command.Handler {
	return readingBy((*shard.Tx).HashFields, run)
}

// readingAll is a handler that looks at the whole hash.
func readingAll(run func(c *command.Ctx, h shard.HashView)) command.Handler {
	return readingBy((*shard.Tx).Hash, run)
}

func readingBy(view func(*shard.Tx, []byte) (shard.HashView, error), run func(c *command.Ctx, h shard.HashView)) command.Handler {
	return func(c *command.Ctx) {
		h, err := view(c.Tx, c.Key(1))
		if err != nil {
			c.W.Err(err)
			return
		}
		run(c, h)
	}
}
