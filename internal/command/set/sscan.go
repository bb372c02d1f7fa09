package set

import "kevy/internal/command"

func sScan() *command.Spec {
	return &command.Spec{
		Name: "sscan", Arity: -3, Flags: command.ReadOnly, Category: command.CatSet,
		Keys: command.One(1, command.RO|command.Access), Tips: []string{"nondeterministic_output"},
		Group: "set", Since: "2.8.0", Complexity: "O(1) a call, O(N) for all N members",
		Syntax:  "key cursor [MATCH pattern] [COUNT count]",
		Summary: "Walks over the members of a set, a few a call.",
		Run:     runSScan,
	}
}

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
	var found command.Members
	if s.Exists() { // Redis does not read the options where there is nothing to scan
		o := a.ScanOptions(false)
		if err := a.Err(); err != nil {
			c.W.Error(err)
			return
		}
		cursor = s.Scan(cursor, o.Count, func(member []byte) {
			if o.Matches(member) {
				found.Append(member)
			}
		})
	} else {
		cursor = 0
	}
	c.W.Array(2)
	c.W.BulkInt(int64(cursor))
	c.W.Array(found.Len())
	for i := range found.Len() {
		c.W.Bulk(found.At(i))
	}
}
