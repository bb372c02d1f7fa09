package strings

import (
	"math"

	"kevy/internal/command"
	"kevy/resp"
)

// unit says how the expiry of SET or GETEX is given.
type unit uint8

const (
	noExpiry unit = iota
	inSeconds
	inMilliseconds
	atSecond
	atMillisecond
)

// deadline turns an expiry as it was given into unix ms.
func (u unit) deadline(c *command.Ctx, given []byte) (atMs int64, err *resp.Error) {
	n, ok := command.ParseInt(given)
	if !ok {
		return 0, command.ErrNotInt
	}
	seconds := u == inSeconds || u == atSecond
	if n <= 0 || seconds && n > math.MaxInt64/1000 {
		return 0, c.Spec.InvalidExpire()
	}
	if seconds {
		n *= 1000
	}
	if u == inSeconds || u == inMilliseconds {
		if n > math.MaxInt64-c.Tx.NowMs() {
			return 0, c.Spec.InvalidExpire()
		}
		n += c.Tx.NowMs()
	}
	return n, nil
}

// expiry is the expiry option of SET or GETEX: its unit and its text, which is
// read only once all options are known to be in order.
type expiry struct {
	unit  unit
	given []byte
}

// take consumes an expiry option. The same one may come again, the last holds.
func (e *expiry) take(a *command.Args) bool {
	switch {
	case e.allows(inSeconds) && a.Is("EX"):
		e.unit = inSeconds
	case e.allows(inMilliseconds) && a.Is("PX"):
		e.unit = inMilliseconds
	case e.allows(atSecond) && a.Is("EXAT"):
		e.unit = atSecond
	case e.allows(atMillisecond) && a.Is("PXAT"):
		e.unit = atMillisecond
	default:
		return false
	}
	e.given = a.Bytes()
	return true
}

func (e *expiry) allows(u unit) bool { return e.unit == noExpiry || e.unit == u }
