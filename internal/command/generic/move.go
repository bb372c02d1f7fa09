package generic

import (
	"kevy/internal/command"
	"kevy/shard"
)

func move() *command.Spec {
	return &command.Spec{
		Name: "move", Arity: 3, Flags: command.Write | command.Fast, Category: command.CatKeyspace,
		Keys:  command.One(1, command.RW|command.Access|command.Update),
		Group: "generic", Since: "1.0.0", Complexity: "O(N) with a value of N elements or bytes",
		Syntax:      "key db",
		Summary:     "Moves a key to another database unless it exists there.",
		Differences: renameDifferences,
		Run:         runMove,
	}
}

func runMove(c *command.Ctx) {
	key := c.Args[1]
	n, ok := command.ParseInt(c.Args[2])
	if !ok {
		c.W.Error(command.ErrNotInt)
		return
	}
	db, err := dbIndex(c, n)
	switch {
	case err != nil:
		c.W.Error(err)
	case db == c.Tx.DB():
		c.W.Error(errSameKey)
	case !c.Tx.Exists(key) || existsIn(c, db, key):
		c.W.Int(0)
	default:
		c.Tx.Move(key, db, key)
		c.Tx.Notify(shard.OfGeneric, "move_from", key)
		c.Tx.NotifyIn(db, shard.OfGeneric, "move_to", key)
		c.W.Int(1)
	}
}
