package connection

import (
	"math"

	"kevy/internal/command"
	"kevy/resp"
)

func selectDB() *command.Spec {
	return &command.Spec{
		Name: "select", Arity: 2, Flags: command.Loading | command.Stale | command.Fast | command.Unlocked, Category: command.CatConnection,
		Group: "connection", Since: "1.0.0", Complexity: "O(1)", Syntax: "index",
		Summary: "Changes the database of this connection.",
		Run: func(c *command.Ctx) {
			n, ok := command.ParseInt(c.Args[1])
			switch {
			case !ok:
				c.W.Error(command.ErrNotInt)
			case n < math.MinInt32 || n > math.MaxInt32:
				c.W.Error(resp.Errorf("ERR", "value is out of range, value must between %d and %d", math.MinInt32, math.MaxInt32))
			case n < 0 || n >= int64(conn(c).DBs()):
				c.W.Error(resp.Errorf("ERR", "DB index is out of range"))
			default:
				conn(c).Select(int(n))
				c.W.OK()
			}
		},
	}
}
