// Package list has the commands on lists.
package list

import (
	"kevy/internal/command"
	"kevy/shard"
)

// Commands returns the family.
func Commands() []*command.Spec {
	return []*command.Spec{
		lPush(), rPush(), lPushX(), rPushX(), lPop(), rPop(), lMPop(),
		lLen(), lRange(), lIndex(), lPos(),
		lSet(), lInsert(), lRem(), lTrim(),
		lMove(), rPopLPush(),
		blPop(), brPop(), blMPop(), blMove(), brPopLPush(),
	}
}

// side is an end of a list.
type side uint8

const (
	left side = iota
	right
)

// parseSide returns the next argument as LEFT or RIGHT; anything else is a
// syntax error.
func parseSide(a *command.Args) side {
	switch {
	case a.Is("LEFT"):
		return left
	case a.Is("RIGHT"):
		return right
	}
	a.Fail(command.ErrSyntax)
	return left
}

func (s side) push(tx *shard.Tx, key []byte, elems ...[]byte) (length int, err error) {
	event := "lpush"
	if s == left {
		length, err = tx.PushLeft(key, elems...)
	} else {
		event = "rpush"
		length, err = tx.PushRight(key, elems...)
	}
	if err == nil {
		tx.Notify(shard.OfLists, event, key)
	}
	return length, err
}

func (s side) pop(tx *shard.Tx, key []byte, n int, fn func(elem []byte)) (popped int, err error) {
	event := "lpop"
	if s == left {
		popped, err = tx.PopLeft(key, n, fn)
	} else {
		event = "rpop"
		popped, err = tx.PopRight(key, n, fn)
	}
	if popped > 0 {
		tx.NotifyRemoval(shard.OfLists, event, key)
	}
	return popped, err
}

// end returns the element at this end of a list.
func (s side) end(l shard.ListView) (elem []byte, ok bool) {
	if s == left {
		return l.Index(0)
	}
	return l.Index(-1)
}

// view returns the list that the first argument names; otherwise it replies
// with the error.
func view(c *command.Ctx) (l shard.ListView, ok bool) {
	l, err := c.Tx.List(c.Key(1))
	if err != nil {
		c.W.Err(err)
		return l, false
	}
	return l, true
}

// replyInt replies with a count, or with the error if there is one.
func replyInt(c *command.Ctx, n int, err error) {
	if err != nil {
		c.W.Err(err)
		return
	}
	c.W.Int(int64(n))
}
