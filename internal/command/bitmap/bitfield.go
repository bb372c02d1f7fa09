package bitmap

import (
	"math"

	"kevy/internal/command"
	"kevy/resp"
	"kevy/shard"
)

func bitField() *command.Spec {
	return &command.Spec{
		Name: "bitfield", Arity: -2, Flags: command.Write | command.DenyOOM, Category: command.CatBitmap,
		Keys:  bitFieldKeys(),
		Group: "bitmap", Since: "3.2.0", Complexity: "O(1) for each subcommand",
		Syntax: "key [GET type offset | [OVERFLOW WRAP | SAT | FAIL] " +
			"SET type offset value | INCRBY type offset increment] ...",
		Summary: "Reads, sets and increments integers of any width inside the key's string.",
		Differences: "An offset #N whose bit lies beyond what 64 bits can count is refused, as in Redis 8. With OVERFLOW SAT, a SET of a " +
			"value that is further below the type's maximum than 64 bits can count becomes the minimum; Redis's sum wraps around, and it becomes the maximum.",
		Run: func(c *command.Ctx) { runBitField(c, false) },
	}
}

// bitFieldKeys: BITFIELD changes its key unless it knows GET and OVERFLOW only.
func bitFieldKeys() []command.KeySpec {
	const reads, changes = command.RO | command.Access, command.RW | command.Access | command.Update
	keys := command.One(1, changes|command.VariableFlags, "This command allows both access and modification of the key")
	keys[0].Vary = func(args [][]byte) command.KeyFlags {
		for rest := args[2:]; len(rest) > 0; {
			switch {
			case command.EqualFold(rest[0], "GET") && len(rest) > 2:
				rest = rest[3:]
			case command.EqualFold(rest[0], "OVERFLOW") && len(rest) > 1:
				rest = rest[2:]
			default:
				return changes
			}
		}
		return reads
	}
	return keys
}

func bitFieldRO() *command.Spec {
	return &command.Spec{
		Name: "bitfield_ro", Arity: -2, Flags: command.ReadOnly | command.Fast, Category: command.CatBitmap,
		Keys:  command.One(1, command.RO|command.Access),
		Group: "bitmap", Since: "6.0.0", Complexity: "O(1) for each subcommand",
		Syntax:  "key [GET type offset ...]",
		Summary: "Reads integers of any width inside the key's string.",
		Run:     func(c *command.Ctx) { runBitField(c, true) },
	}
}

var (
	errFieldType = &resp.Error{Code: "ERR", Text: "Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is."}
	errOverflow  = &resp.Error{Code: "ERR", Text: "Invalid OVERFLOW type specified"}
	errOnlyGet   = &resp.Error{Code: "ERR", Text: "BITFIELD_RO only supports the GET subcommand"}
)

type fieldVerb uint8

const (
	fieldGet fieldVerb = iota
	fieldSet
	fieldIncrBy
)

// fieldOp is one subcommand of BITFIELD.
type fieldOp struct {
	field
	verb     fieldVerb
	n        int64
	overflow overflow
}

func parseFieldOps(a *command.Args) (ops []fieldOp, err error) {
	var o overflow
	for a.More() {
		op := fieldOp{overflow: o}
		switch {
		case a.Len() > 2 && a.Is("GET"):
		case a.Len() > 3 && a.Is("SET"):
			op.verb = fieldSet
		case a.Len() > 3 && a.Is("INCRBY"):
			op.verb = fieldIncrBy
		case a.Len() > 1 && a.Is("OVERFLOW"):
			switch {
			case a.Is("WRAP"):
				o = wrap
			case a.Is("SAT"):
				o = saturate
			case a.Is("FAIL"):
				o = fail
			default:
				return nil, errOverflow
			}
			continue
		default:
			return nil, command.ErrSyntax
		}
		var bad *resp.Error
		if op.field, bad = parseField(a.Bytes(), a.Bytes()); bad != nil {
			return nil, bad
		}
		if op.verb != fieldGet {
			op.n = a.Int()
			if bad := a.Err(); bad != nil {
				return nil, bad
			}
		}
		ops = append(ops, op)
	}
	return ops, nil
}

// parseField reads a type such as i16 or u8, and an offset: of a bit or, with #
// before it, of a field of that type.
func parseField(typ, offset []byte) (f field, err *resp.Error) {
	if len(typ) == 0 || typ[0] != 'i' && typ[0] != 'u' {
		return f, errFieldType
	}
	f.signed = typ[0] == 'i'
	bits, ok := command.ParseInt(typ[1:])
	if !ok || bits < 1 || bits > 64 || bits == 64 && !f.signed {
		return f, errFieldType
	}
	f.bits = uint(bits)
	if len(offset) > 0 && offset[0] == '#' {
		f.at, ok = command.ParseInt(offset[1:])
		if !ok || f.at < 0 || f.at > math.MaxInt64/bits {
			return f, errBitOffset
		}
		f.at *= bits
		return f, checkOffset(f.at)
	}
	f.at, err = parseOffset(offset)
	return f, err
}

func runBitField(c *command.Ctx, readOnly bool) {
	a := c.Scan(2)
	ops, err := parseFieldOps(&a)
	if err != nil {
		c.W.Err(err)
		return
	}
	var size int64 // what the string must be long enough for
	for i := range ops {
		if ops[i].verb != fieldGet {
			first, n := ops[i].bytes()
			size = max(size, first+int64(n))
		}
	}
	if readOnly && size > 0 {
		c.W.Error(errOnlyGet)
		return
	}
	key := c.Args[1]
	c.Tx.TellMisses(size == 0)
	value, _, err := c.Tx.String(key)
	if err != nil {
		c.W.Err(err)
		return
	}
	changed, grows := false, int64(len(value)) < size
	c.W.Array(len(ops))
	for i := range ops {
		patch, at, wrote := ops[i].run(c.W, value)
		if patch != nil {
			value = write(c, at, patch)
		}
		changed = changed || patch != nil || wrote && grows
	}
	if int64(len(value)) < size {
		// A subcommand that changed nothing, or failed, has made room all the same.
		var zero [1]byte
		write(c, size-1, zero[:])
	}
	if size > 0 {
		c.Tx.MarkRaw(key)
	}
	if changed {
		c.Tx.Notify(shard.OfStrings, "setbit", key)
	}
}

// run runs one subcommand on the value and replies. It returns the bytes that
// change, nil for none, and where they go; wrote says that it has set the field, be
// it to what it was.
func (op *fieldOp) run(w *resp.Writer, value []byte) (patch []byte, at int64, wrote bool) {
	old := op.get(value)
	if op.verb == fieldGet {
		w.Int(old)
		return nil, 0, false
	}
	base, delta := op.n, int64(0)
	if op.verb == fieldIncrBy {
		base, delta = old, op.n
	}
	n, ok := op.fit(base, delta, op.overflow)
	switch {
	case !ok:
		w.Null()
		return nil, 0, false
	case op.verb == fieldSet:
		w.Int(old)
	default:
		w.Int(n)
	}
	if n == old {
		return nil, 0, true
	}
	at, _ = op.bytes()
	return op.put(value, n), at, true
}

// write changes the key's string, whose type was looked at before, and returns
// the whole of it.
func write(c *command.Ctx, at int64, patch []byte) []byte {
	if err := c.Tx.SetRange(c.Args[1], int(at), patch); err != nil {
		panic(err)
	}
	value, _, err := c.Tx.String(c.Args[1])
	if err != nil {
		panic(err)
	}
	return value
}
