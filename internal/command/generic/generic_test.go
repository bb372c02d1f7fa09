package generic_test

import (
	"strconv"
	"testing"

	"kevy/internal/command"
	"kevy/internal/command/bitmap"
	"kevy/internal/command/commandtest"
	"kevy/internal/command/generic"
	"kevy/internal/command/hash"
	"kevy/internal/command/list"
	"kevy/internal/command/strings"
	"kevy/shard"
)

func TestSpecs(t *testing.T) { commandtest.Specs(t, generic.Commands()) }

func TestScripts(t *testing.T) {
	commandtest.Scripts(t, strings.Commands(), generic.Commands(), bitmap.Commands(), hash.Commands(), list.Commands(), standins())
}

func standins() []*command.Spec {
	return []*command.Spec{
		{Name: "sadd", Arity: -3, Run: func(c *command.Ctx) {
			n, _ := c.Tx.SAdd(c.Args[1], c.Args[2:]...)
			c.W.Int(int64(n))
		}},
		{Name: "smembers", Arity: 2, Run: func(c *command.Ctx) {
			s, _ := c.Tx.SetOf(c.Args[1])
			c.W.Set(s.Len())
			s.Each(func(m []byte) bool { c.W.Bulk(m); return true })
		}},
		{Name: "zadd", Arity: -4, Run: func(c *command.Ctx) {
			n := 0
			for i := 2; i < len(c.Args); i += 2 {
				f, _ := strconv.ParseFloat(string(c.Args[i]), 64)
				k, _ := c.Tx.ZAdd(c.Args[1], shard.Scored{Member: c.Args[i+1], Score: f})
				n += k
			}
			c.W.Int(int64(n))
		}},
		{Name: "zrange", Arity: 4, Run: func(c *command.Ctx) {
			z, _ := c.Tx.ZSet(c.Args[1])
			c.W.Array(z.Len())
			z.EachRank(0, z.Len(), false, func(m []byte, _ float64) bool { c.W.Bulk(m); return true })
		}},
	}
}
