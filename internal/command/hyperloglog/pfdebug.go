package hyperloglog

import (
	"fmt"

	"kevy/internal/command"
	"kevy/resp"
)

func pfDebug() *command.Spec {
	return &command.Spec{
		Name: "pfdebug", Arity: 3, Flags: command.Write | command.DenyOOM | command.Admin, Category: command.CatHyperLogLog,
		Keys:  command.One(2, command.RW|command.Access),
		Group: "hyperloglog", Since: "2.8.9", Complexity: "O(1)",
		Syntax:      "<GETREG | DECODE | ENCODING | TODENSE> key",
		Summary:     "Looks at how an estimate is kept: its registers, its runs, its form; or gives it the dense form, as GETREG does, too.",
		Differences: "DECODE shows 16384 runs at most; only a corrupt value has more. A change of form fails the transactions that watch the key.",
		Run:         runPFDebug,
	}
}

var (
	errNoKey     = &resp.Error{Code: "ERR", Text: "The specified key does not exist"}
	errNotSparse = &resp.Error{Code: "ERR", Text: "HLL encoding is not sparse"}
)

func runPFDebug(c *command.Ctx) {
	key := c.Key(2)
	value, err := valueToChange(c.Tx, key)
	if err == nil && value == nil {
		err = errNoKey
	}
	if err != nil {
		c.W.Err(err)
		return
	}
	isDense := value[encodingAt] == dense
	a := c.Scan(1)
	switch {
	case a.Is("GETREG"):
		if !makeDense(c, key, value) {
			return
		}
		value, _, _ = c.Tx.String(key)
		c.W.Array(registers)
		for i := range registers {
			c.W.Int(int64(denseGet(value, i)))
		}
	case a.Is("DECODE"):
		if isDense {
			c.W.Error(errNotSparse)
			return
		}
		c.W.Bulk(decode(value))
	case a.Is("ENCODING"):
		if isDense {
			c.W.Simple("dense")
		} else {
			c.W.Simple("sparse")
		}
	case a.Is("TODENSE"):
		if !makeDense(c, key, value) {
			return
		}
		if isDense {
			c.W.Int(0)
		} else {
			c.W.Int(1)
		}
	default:
		c.W.Error(resp.Errorf("ERR", "Unknown PFDEBUG subcommand '%s'", command.CText(c.Args[1])))
	}
}

// makeDense gives the value of the key the dense form; if it is corrupt it
// replies with that and returns false.
func makeDense(c *command.Ctx, key, value []byte) bool {
	s := scratch.Get().(*sketch)
	defer scratch.Put(s)
	s.load(value)
	if !s.toDense() {
		c.W.Error(errCorrupt)
		return false
	}
	s.store(c.Tx, key, value)
	return true
}

// decode writes the runs of a sparse value as text.
func decode(value []byte) (text []byte) {
	at := headerBytes
	for n := 0; n < registers && at < len(value); n++ {
		r := runAt(value, at)
		switch {
		case r.value > 0:
			text = fmt.Appendf(text, "v:%d,%d ", r.value, r.length)
		case r.bytes == 2:
			text = fmt.Appendf(text, "Z:%d ", r.length)
		default:
			text = fmt.Appendf(text, "z:%d ", r.length)
		}
		at += r.bytes
	}
	return text[:max(len(text)-1, 0)]
}
