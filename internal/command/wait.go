package command

import (
	"math/big"

	"kevy/resp"
	"kevy/shard"
)

// Wait is what a command waits for that has found nothing.
type Wait struct {
	// Keys are those that it waits for; without any it waits for its time to be over.
	Keys [][]byte
	// Kind is the type of value that can serve it.
	Kind shard.Kind
	// AwaitsEnd says that Try is also asked when a key goes or becomes something
	// else.
	AwaitsEnd bool
	// Also are keys that Try uses beside the one that it is asked about.
	Also [][]byte
	// TimeoutMs is how long it waits at most, 0 for ever.
	TimeoutMs int64
	// Try serves the command from a key that holds a value of Kind (or not, with
	// AwaitsEnd): it changes what it must, writes the reply, be it an error, and reports
	// true. If there is nothing for it, it does nothing and reports false. It is
	// called by whoever changed the key, with a Ctx of its own whose Args are those
	// of the command and whose Session only says who waits.
	Try func(c *Ctx, key []byte) bool
	// Vain replies when its time is over, the null array if it is nil.
	Vain func(w *resp.Writer)
	// Refused replies where nothing may wait, as inside MULTI and in scripts, what
	// Vain does if it is nil.
	Refused func(w *resp.Writer)
}

// Block makes the command wait once its handler has returned, which has written
// no reply and calls this last. Args stay valid for as long as it waits.
func (c *Ctx) Block(w Wait) { c.wait, c.blocks = w, true }

// Waits returns what the handler asked to wait for, nil if it did not.
func (c *Ctx) Waits() *Wait {
	if !c.blocks {
		return nil
	}
	return &c.wait
}

// Unblock forgets what the handler asked to wait for.
func (c *Ctx) Unblock() {
	if c.blocks {
		c.wait, c.blocks = Wait{}, false
	}
}

// Refuse replies as a command does that may not wait, and forgets the wait.
func (c *Ctx) Refuse() {
	if c.wait.Refused != nil {
		c.wait.Refused(c.W)
	} else {
		c.wait.InVain(c.W)
	}
	c.Unblock()
}

// InVain replies that the time is over.
func (w *Wait) InVain(to *resp.Writer) {
	if w.Vain != nil {
		w.Vain(to)
	} else {
		to.NullArray()
	}
}

var (
	errTimeoutNotFloat = &resp.Error{Code: "ERR", Text: "timeout is not a float or out of range"}
	errTimeoutNotInt   = &resp.Error{Code: "ERR", Text: "timeout is not an integer or out of range"}
	errTimeoutNegative = &resp.Error{Code: "ERR", Text: "timeout is negative"}
)

// maxTimeoutSeconds is the most that is multiplied without a look at the range.
const maxTimeoutSeconds = 1 << 40

// TimeoutSeconds returns the next argument, seconds with or without a fraction,
// in milliseconds; a part of one counts as one. What has too many is negative,
// as it is to redis-server 7.0.15, which lets the number run over.
func (a *Args) TimeoutSeconds() (ms int64) {
	b := a.Bytes()
	if a.err != nil {
		return 0
	}
	if n, ok := ParseInt(b); ok && 0 <= n && n <= maxTimeoutSeconds {
		return n * 1000
	}
	seconds, ok := ParseLongDouble(b)
	switch {
	case !ok:
		a.Fail(errTimeoutNotFloat)
		return 0
	case seconds.IsInf():
		a.Fail(errTimeoutNegative)
		return 0
	}
	// Rounded up, which for what is negative is towards zero.
	product := new(big.Float).Mul(&seconds.f, big.NewFloat(1000))
	whole, accuracy := product.Int64()
	if accuracy == big.Below && product.Sign() > 0 {
		whole++ // beyond the largest follows the smallest
	}
	if whole < 0 {
		a.Fail(errTimeoutNegative)
		return 0
	}
	return whole
}

// TimeoutMs returns the next argument as milliseconds.
func (a *Args) TimeoutMs() (ms int64) {
	ms = a.AtLeast(-1<<63, errTimeoutNotInt)
	if ms < 0 {
		a.Fail(errTimeoutNegative)
		return 0
	}
	return ms
}
