package hyperloglog

import (
	"kevy/internal/command"
	"kevy/shard"
)

func pfAdd() *command.Spec {
	return &command.Spec{
		Name: "pfadd", Arity: -2, Flags: command.Write | command.DenyOOM | command.Fast, Category: command.CatHyperLogLog,
		Keys:  command.One(1, command.RW|command.Insert),
		Group: "hyperloglog", Since: "2.8.9", Complexity: "O(1) for every element",
		Syntax:  "key [element [element ...]]",
		Summary: "Adds elements to an estimate; answers 1 if that changes it, or if it is new.",
		Run:     runPFAdd,
	}
}

func runPFAdd(c *command.Ctx) {
	key := c.Key(1)
	value, err := valueToChange(c.Tx, key)
	if err != nil {
		c.W.Err(err)
		return
	}
	changed, ok := false, true
	switch {
	case value == nil:
		s := scratch.Get().(*sketch)
		s.reset()
		for _, e := range c.Args[2:] {
			s.raise(place(e))
		}
		s.outdate()
		s.store(c.Tx, key, nil)
		scratch.Put(s)
		changed = true
	case value[encodingAt] == dense:
		changed = addDense(c.Tx, key, value, c.Args[2:])
	default:
		changed, ok = addSparse(c.Tx, key, value, c.Args[2:])
	}
	switch {
	case !ok:
		c.W.Error(errCorrupt)
	case changed:
		c.Tx.Notify(shard.OfStrings, "pfadd", key)
		c.W.Int(1)
	default:
		c.W.Int(0)
	}
}

// maxPatches is how many registers a PFADD writes one by one; more are one op.
const maxPatches = 32

// addDense adds elements to a dense value and reports whether that changes it.
func addDense(tx *shard.Tx, key, value []byte, elements [][]byte) (changed bool) {
	patches := 0
	for i, e := range elements {
		index, run := place(e)
		if denseGet(value, index) >= run {
			continue
		}
		if patches == maxPatches {
			addMany(tx, key, value, elements[i:])
			return true
		}
		patches++
		if !changed {
			outdate(tx, key, value)
		}
		changed = true
		at, patch, n := densePatch(value, index, run)
		setRange(tx, key, at, patch[:n])
		value, _, _ = tx.String(key)
	}
	return changed
}

// addMany adds elements to a dense value at once.
func addMany(tx *shard.Tx, key, value []byte, elements [][]byte) {
	s := scratch.Get().(*sketch)
	s.load(value)
	for _, e := range elements {
		s.raise(place(e))
	}
	s.store(tx, key, value)
	scratch.Put(s)
}

// outdate says in a value that its count is out of date. The value is not valid
// afterwards.
func outdate(tx *shard.Tx, key, value []byte) {
	if b := value[outdatedAt]; b&outdatedBit == 0 {
		setRange(tx, key, outdatedAt, []byte{b | outdatedBit})
	}
}

// addSparse adds elements to a sparse value, as many as it is sound for, and
// reports whether that changes it and whether it is sound for all.
func addSparse(tx *shard.Tx, key, value []byte, elements [][]byte) (changed, ok bool) {
	var s *sketch
	ok = true
	for i := 0; i < len(elements) && ok; i++ {
		index, run := place(elements[i])
		if s == nil {
			// Most elements of a large set change nothing.
			var raises bool
			raises, ok = raisesSparse(value, index, run)
			if run <= maxRunValue && !raises {
				continue
			}
			s = scratch.Get().(*sketch)
			s.load(value)
		}
		var raised bool
		raised, ok = s.raise(index, run)
		changed = changed || raised
	}
	if s == nil {
		return changed, ok
	}
	if changed && ok {
		s.outdate()
	}
	s.store(tx, key, value)
	scratch.Put(s)
	return changed, ok
}
