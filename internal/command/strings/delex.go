package strings

import (
	"kevy/internal/command"
	"kevy/resp"
	"kevy/shard"
)

func delEX() *command.Spec {
	return &command.Spec{
		Name: "delex", Arity: -2, Flags: command.Write | command.Fast, Category: command.CatString,
		Keys:  delEXKeys(),
		Group: "string", Since: "8.4.0", Complexity: "O(1); O(N) for IFDEQ and IFDNE with N bytes in the string",
		Syntax:      "key [IFEQ value | IFNE value | IFDEQ digest | IFDNE digest]",
		Summary:     "Deletes the key if its string, or the digest of it, is or is not the one given.",
		Differences: "As in Redis 8.4; Valkey has DELIFEQ for DELEX IFEQ.",
		Run:         runDelEX,
	}
}

// delEXKeys: DELEX looks at the value only where it has a condition.
func delEXKeys() []command.KeySpec {
	keys := command.One(1, command.RW|command.Delete|command.VariableFlags)
	keys[0].Vary = func(args [][]byte) command.KeyFlags {
		if len(args) == 2 {
			return command.RM | command.Delete
		}
		return command.RW | command.Access | command.Delete
	}
	return keys
}

var (
	errDelEXType      = &resp.Error{Code: "ERR", Text: "Key should be of string type if conditions are specified"}
	errDelEXCondition = &resp.Error{Code: "ERR", Text: "Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE"}
)

func runDelEX(c *command.Ctx) {
	key := c.Args[1]
	switch len(c.Args) {
	case 2:
		c.W.Int(deleted(c, key, true))
		return
	case 4:
	default:
		c.W.Error(c.Spec.ArityError())
		return
	}
	value, found, wrong := c.Tx.String(key)
	kind, ok := matchKind(c.Args[2])
	switch {
	case wrong != nil:
		c.W.Error(errDelEXType)
		return
	case !found:
		c.W.Int(0)
		return
	case !ok:
		c.W.Error(errDelEXCondition)
		return
	}
	cond := condition{kind: kind, match: c.Args[3]}
	holds, err := cond.holds(value, true)
	if err != nil {
		c.W.Error(err)
		return
	}
	c.W.Int(deleted(c, key, holds))
}

// deleted deletes the key if it is to go, and returns how many went.
func deleted(c *command.Ctx, key []byte, do bool) int64 {
	if do && c.Tx.Del(key) {
		c.Tx.Notify(shard.OfGeneric, "del", key)
		return 1
	}
	return 0
}
