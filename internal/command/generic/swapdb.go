package generic

import (
	"math"

	"kevy/internal/command"
	"kevy/resp"
)

func swapDB() *command.Spec {
	return &command.Spec{
		Name: "swapdb", Arity: 3, Flags: command.Write | command.Fast | command.AllShards,
		Category: command.CatKeyspace | command.CatDangerous,
		Group:    "server", Since: "4.0.0", Complexity: "O(1)",
		Syntax:  "index1 index2",
		Summary: "Exchanges two databases, for every connection at once.",
		Run:     runSwapDB,
	}
}

var (
	errFirstDB  = &resp.Error{Code: "ERR", Text: "invalid first DB index"}
	errSecondDB = &resp.Error{Code: "ERR", Text: "invalid second DB index"}
)

func runSwapDB(c *command.Ctx) {
	first, ok := parseInt32(c.Args[1])
	if !ok {
		c.W.Error(errFirstDB)
		return
	}
	second, ok := parseInt32(c.Args[2])
	if !ok {
		c.W.Error(errSecondDB)
		return
	}
	if min(first, second) < 0 || max(first, second) >= c.Tx.DBs() {
		c.W.Error(errDBIndex)
		return
	}
	if first != second {
		c.Tx.SwapDB(first, second)
	}
	c.W.OK()
}

func parseInt32(b []byte) (int, bool) {
	n, ok := command.ParseInt(b)
	return int(n), ok && n >= math.MinInt32 && n <= math.MaxInt32
}
