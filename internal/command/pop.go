package command

import (
	"kevy/resp"
	"kevy/shard"
)

// Popper is what LMPOP, BLPOP and their like do with a key that holds a value of
// a kind.
type Popper interface {
	Kind() shard.Kind
	// Pop pops of such a key, replies, and reports true, as Wait.Try does.
	Pop(c *Ctx, key []byte) bool
}

// PopFirst pops of the first of the keys that is there and reports whether it
// has replied, if only that this is of another kind.
func PopFirst[P Popper](c *Ctx, keys [][]byte, p P) bool {
	for _, key := range keys {
		switch kind, ok := c.Tx.Kind(key); {
		case !ok:
		case kind != p.Kind():
			c.W.Err(ErrWrongType)
			return true
		default:
			return p.Pop(c, key)
		}
	}
	return false
}

// PopOrWait is PopFirst and, where no key is there, waits for one, at most for
// the seconds that the argument at timeoutAt says.
func PopOrWait[P Popper](c *Ctx, keys [][]byte, p P, timeoutAt int) {
	a := c.Scan(timeoutAt)
	timeoutMs := a.TimeoutSeconds()
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	if !PopFirst(c, keys, p) {
		c.Block(Wait{Keys: keys, Kind: p.Kind(), TimeoutMs: timeoutMs, Try: p.Pop})
	}
}

var errPopCount = &resp.Error{Code: "ERR", Text: "count should be greater than 0"}

// PopCount returns how many LMPOP and its like pop, which COUNT says where it
// ends the command; otherwise it is 1.
func (a *Args) PopCount() int64 {
	if !a.More() {
		return 1
	}
	if !a.Is("COUNT") {
		a.Fail(ErrSyntax)
	}
	n := a.AtLeast(1, errPopCount)
	if a.Len() > 0 {
		a.Fail(ErrSyntax)
	}
	return n
}
