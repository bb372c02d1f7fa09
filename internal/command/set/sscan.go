package set

import "kevy/internal/command"

func sScan() *command.Spec {
	return &command.Spec{
		Name: "sscan", Arity: -3, Flags: command.ReadOnly, Category: command.CatSet,
		Keys: command.One(1, command.RO|command.Access), Tips: []string{"nondeterministic_output"},
		Group: "set", Since: "2.8.0", Complexity: "O(1) a call, O(N) for all N members",
		Syntax:      "key cursor [MATCH pattern] [COUNT count]",
		Summary:     "Walks over the members of a set, a few a call.",
		Differences: "A set of up to 128 members is answered whole, as Redis does since 7.2.",
		Run:         runSScan,
	}
}

// scannedWhole is how many members are answered at once, whatever COUNT says:
// up to so many a set is packed in Redis since 7.2.
const scannedWhole = 128

func runSScan(c *command.Ctx) {
	a := c.Scan(2)
	cursor := a.Cursor()
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	s, err := c.Tx.SetOf(c.Key(1))
	if err != nil {
		c.W.Err(err)
		return
	}
	if !s.Exists() {
		// Redis does not read the options where there is nothing to scan.
		replyScan(c, 0, new(command.Members))
		return
	}
	o := a.ScanOptions(false)
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	var found command.Members
	visit := func(member []byte) bool {
		if o.Matches(member) {
			found.Append(member)
		}
		return true
	}
	next := uint64(0)
	if s.Len() <= scannedWhole {
		s.Each(visit)
	} else {
		next = s.Scan(cursor, o.Count, func(member []byte) { visit(member) })
	}
	replyScan(c, next, &found)
}

func replyScan(c *command.Ctx, cursor uint64, found *command.Members) {
	c.W.Array(2)
	c.W.BulkInt(int64(cursor))
	c.W.Array(found.Len())
	for i := range found.Len() {
		c.W.Bulk(found.At(i))
	}
}
