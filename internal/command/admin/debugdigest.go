package admin

import "kevy/internal/command"

// debugDigest answers what a Redis with the same keys answers.
func debugDigest(c *command.Ctx, _ Server) { c.W.Simple(c.Tx.RedisDigest().String()) }

func debugDigestValue(c *command.Ctx, _ Server) {
	keys := c.Args[2:]
	c.W.Array(len(keys))
	for _, key := range keys {
		c.W.Simple(c.Tx.RedisDigestOf(key).String())
	}
}
