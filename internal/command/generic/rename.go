package generic

import (
	"bytes"

	"kevy/internal/command"
	"kevy/shard"
)

const renameDifferences = "The change is logged as a DEL and the ops that rebuild the new key, so it costs what the value weighs."

func rename() *command.Spec {
	return &command.Spec{
		Name: "rename", Arity: 3, Flags: command.Write, Category: command.CatKeyspace,
		Keys: []command.KeySpec{
			command.Range(1, 0, 1, command.RW|command.Access|command.Delete),
			command.Range(2, 0, 1, command.OW|command.Update),
		},
		Group: "generic", Since: "1.0.0", Complexity: "O(N) with a value of N elements or bytes",
		Syntax:      "key newkey",
		Summary:     "Renames a key; what the new name held is replaced.",
		Differences: renameDifferences,
		Run:         runRename,
	}
}

func renameNX() *command.Spec {
	return &command.Spec{
		Name: "renamenx", Arity: 3, Flags: command.Write | command.Fast, Category: command.CatKeyspace,
		Keys: []command.KeySpec{
			command.Range(1, 0, 1, command.RW|command.Access|command.Delete),
			command.Range(2, 0, 1, command.OW|command.Insert),
		},
		Group: "generic", Since: "1.0.0", Complexity: "O(N) with a value of N elements or bytes",
		Syntax:      "key newkey",
		Summary:     "Renames a key unless the new name exists.",
		Differences: renameDifferences,
		Run:         runRenameNX,
	}
}

func runRename(c *command.Ctx) {
	key, to := c.Args[1], c.Args[2]
	if !c.Tx.Exists(key) {
		c.W.Error(command.ErrNoSuchKey)
		return
	}
	if !bytes.Equal(key, to) {
		moveKey(c, key, to)
	}
	c.W.OK()
}

func runRenameNX(c *command.Ctx) {
	key, to := c.Args[1], c.Args[2]
	switch {
	case !c.Tx.Exists(key):
		c.W.Error(command.ErrNoSuchKey)
	case c.Tx.Exists(to): // the same name exists, too
		c.W.Int(0)
	default:
		moveKey(c, key, to)
		c.W.Int(1)
	}
}

// moveKey gives a key another name.
func moveKey(c *command.Ctx, key, to []byte) {
	c.Tx.Move(key, c.Tx.DB(), to)
	c.Tx.Notify(shard.OfGeneric, "rename_from", key)
	c.Tx.Notify(shard.OfGeneric, "rename_to", to)
}
