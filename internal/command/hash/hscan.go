package hash

import "kevy/internal/command"

func hScan() *command.Spec {
	return &command.Spec{
		Name: "hscan", Arity: -3, Flags: command.ReadOnly, Category: command.CatHash,
		Keys: command.One(1, command.RO|command.Access), Tips: []string{"nondeterministic_output"},
		Group: "hash", Since: "2.8.0", Complexity: "O(1) a call, O(N) for all N fields",
		Syntax:      "key cursor [MATCH pattern] [COUNT count] [NOVALUES]",
		Summary:     "Walks over the fields of a hash, a few a call.",
		Differences: "NOVALUES, which Redis has since 7.4.",
		Run:         runHScan,
	}
}

func runHScan(c *command.Ctx) {
	a := c.Scan(2)
	cursor := a.Cursor()
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	h, err := c.Tx.HashFields(c.Key(1))
	if err != nil {
		c.W.Err(err)
		return
	}
	if !h.Exists() {
		// Redis does not read the options where there is nothing to scan.
		replyScan(c, 0, nil)
		return
	}
	o := a.HashScanOptions()
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	var found [][]byte
	next := h.Scan(cursor, o.Count, func(field, value []byte) {
		switch {
		case !o.Matches(field):
		case o.NoValues:
			found = append(found, field)
		default:
			found = append(found, field, value)
		}
	})
	replyScan(c, next, found)
}

func replyScan(c *command.Ctx, next uint64, found [][]byte) {
	c.W.Array(2)
	c.W.BulkInt(int64(next))
	c.W.Array(len(found))
	for _, b := range found {
		c.W.Bulk(b)
	}
}
