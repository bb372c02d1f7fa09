package admin

import (
	"math"

	"kevy/internal/command"
	"kevy/resp"
)

func commandGetKeys(table func() *command.Table) *command.Spec {
	return &command.Spec{
		Name: "getkeys", Arity: -4, Flags: commandFlags, Category: command.CatConnection, Since: "2.8.13",
		Complexity: "O(N) for N arguments", Syntax: "command [arg [arg ...]]",
		Summary: "Answers the keys of a command line.",
		Run: func(c *command.Ctx) {
			runGetKeys(c, table(), func(w *resp.Writer, key []byte, _ command.KeyFlags) { w.Bulk(key) })
		},
	}
}

func commandGetKeysAndFlags(table func() *command.Table) *command.Spec {
	return &command.Spec{
		Name: "getkeysandflags", Arity: -4, Flags: commandFlags, Category: command.CatConnection, Since: "7.0.0",
		Complexity: "O(N) for N arguments", Syntax: "command [arg [arg ...]]",
		Summary: "Answers the keys of a command line and what is done to them.",
		Run: func(c *command.Ctx) {
			runGetKeys(c, table(), func(w *resp.Writer, key []byte, f command.KeyFlags) {
				w.Array(2)
				w.Bulk(key)
				writeStatuses(w, f.Names())
			})
		},
	}
}

func runGetKeys(c *command.Ctx, t *command.Table, write func(w *resp.Writer, key []byte, f command.KeyFlags)) {
	args := c.Args[2:]
	s := t.Lookup(args)
	switch {
	case s == nil || len(s.Sub) > 0 && len(args) > 1:
		c.W.Error(resp.Errorf("ERR", "Invalid command specified"))
		return
	case !s.HasKeys():
		c.W.Error(resp.Errorf("ERR", "The command has no key arguments"))
		return
	case !s.ArityFits(len(args)):
		c.W.Error(resp.Errorf("ERR", "Invalid number of arguments specified for command"))
		return
	}
	m := c.W.Begin()
	n := 0
	found := func(i int, f command.KeyFlags) {
		n++
		write(c.W, args[i], f)
	}
	if s.EachKey(args, found) != nil {
		c.W.Truncate(int(m))
		n = 0
		eachKeyByOldRule(s, args, found)
	}
	switch {
	case n > 0:
		c.W.EndArray(m, n)
	case s.Flags&command.NoMandatoryKeys != 0:
		c.W.Array(0)
	default:
		c.W.Error(resp.Errorf("ERR", "Invalid arguments specified for command"))
	}
}

// eachKeyByOldRule finds the keys that a number of keys announces as Redis did
// before it had key specs, which it falls back to: the number is read as C's
// atoi does, a key written to comes last, and what is done to keys is not known.
func eachKeyByOldRule(s *command.Spec, args [][]byte, fn func(i int, f command.KeyFlags)) {
	stored := 0
	for i := range s.Keys {
		k := &s.Keys[i]
		if !k.NumKeys {
			stored = k.Index
			continue
		}
		first := k.Index + k.FirstKey
		n := leadingInt(args[k.Index+k.CountAt])
		if n < 1 || n > (len(args)-first)/k.Step {
			return
		}
		for j := range n {
			fn(first+j*k.Step, 0)
		}
		if stored > 0 {
			fn(stored, 0)
		}
	}
}

// leadingInt reads an integer as C's atoi does: blanks, a sign, and as many
// digits as come, in 32 bits of what is clamped to 64.
func leadingInt(b []byte) int {
	for len(b) > 0 && (b[0] == ' ' || '\t' <= b[0] && b[0] <= '\r') {
		b = b[1:]
	}
	negative := false
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		negative = b[0] == '-'
		b = b[1:]
	}
	n := int64(0)
	for _, c := range b {
		if c < '0' || c > '9' {
			break
		}
		d := int64(c - '0')
		if n > (math.MaxInt64-d)/10 {
			if negative {
				return 0 // the low half of the smallest number
			}
			n = math.MaxInt64
			break
		}
		n = n*10 + d
	}
	if negative {
		n = -n
	}
	return int(int32(n))
}
