// Package strings has the commands on string values.
package strings

import "kevy/internal/command"

// Commands returns the family.
func Commands() []*command.Spec {
	return []*command.Spec{
		set(), setNX(), setEX(), pSetEX(), get(), getSet(), getDel(), getEX(),
		delEX(), delIfEQ(), digest(),
		mGet(), mSet(), mSetNX(), mSetEX(),
		strLen(), appendTo(), setRange(), getRange(), substr(),
		incr(), decr(), incrBy(), decrBy(), incrByFloat(),
		lcs(),
	}
}

// replyString replies with the key's value, null if there is none, or
// WRONGTYPE, which it reports as false.
func replyString(c *command.Ctx, key []byte) (found, ok bool) {
	value, found, err := c.Tx.String(key)
	switch {
	case err != nil:
		c.W.Err(err)
		return false, false
	case found:
		c.W.Bulk(value)
	default:
		c.W.Null()
	}
	return found, true
}
