package hash

import (
	"kevy/internal/command"
	"kevy/resp"
	"kevy/shard"
)

var (
	errNoFields   = &resp.Error{Code: "ERR", Text: "Mandatory argument FIELDS is missing or not at the right position"}
	errNumFields  = &resp.Error{Code: "ERR", Text: "Number of fields must be a positive integer"}
	errFieldCount = &resp.Error{Code: "ERR", Text: "The `numfields` parameter must match the number of arguments"}
	errNegative   = &resp.Error{Code: "ERR", Text: "invalid expire time, must be >= 0"}
)

// countedFields reads FIELDS, the number of the fields, and these, which end the
// arguments. What is no number above 0 is errNumber.
func countedFields(c *command.Ctx, a *command.Args, errNumber *resp.Error) [][]byte {
	if !a.Is("FIELDS") {
		a.Fail(errNoFields)
		return nil
	}
	if !a.More() {
		a.Fail(c.Spec.ArityError())
	}
	n := a.AtLeast(1, errNumber)
	fields := a.Rest()
	if n != int64(len(fields)) {
		a.Fail(errFieldCount)
		return nil
	}
	return fields
}

// deadline reads a time in units of unitMs that counts from baseMs and returns
// it in unix ms.
func deadline(c *command.Ctx, a *command.Args, unitMs, baseMs int64) int64 {
	n := a.Int()
	switch {
	case n < 0:
		a.Fail(errNegative)
	case n > shard.MaxFieldDeadlineMs/unitMs || n*unitMs > shard.MaxFieldDeadlineMs-baseMs:
		a.Fail(c.Spec.InvalidExpire())
	}
	return n*unitMs + baseMs
}

// clock is how an option gives a deadline.
type clock struct {
	word   string
	unitMs int64
	fromMs func(c *command.Ctx) int64
}

var clocks = []clock{
	{"EX", 1000, now}, {"PX", 1, now}, {"EXAT", 1000, epoch}, {"PXAT", 1, epoch},
}

func now(c *command.Ctx) int64 { return c.Tx.NowMs() }
func epoch(*command.Ctx) int64 { return 0 }

// takeClock consumes EX, PX, EXAT or PXAT, and returns which it was; nil if it
// was none.
func takeClock(a *command.Args) *clock {
	for i := range clocks {
		if a.Is(clocks[i].word) {
			return &clocks[i]
		}
	}
	return nil
}

// deadline reads the time that follows the option.
func (k *clock) deadline(c *command.Ctx, a *command.Args) int64 {
	return deadline(c, a, k.unitMs, k.fromMs(c))
}

// hashFirst replies with an error and returns false if the first argument names
// a key that holds no hash: these commands look at that before the arguments.
func hashFirst(c *command.Ctx) bool {
	if _, err := c.Tx.HashFields(c.Key(1)); err != nil {
		c.W.Err(err)
		return false
	}
	return true
}
