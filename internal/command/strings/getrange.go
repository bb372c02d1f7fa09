package strings

import "kevy/internal/command"

func getRange() *command.Spec {
	return &command.Spec{
		Name: "getrange", Arity: 4, Flags: command.ReadOnly, Category: command.CatString,
		Keys:  command.One(1, command.RO|command.Access),
		Group: "string", Since: "2.4.0", Complexity: "O(N) with N bytes answered",
		Syntax:  "key start end",
		Summary: "Answers part of the key's string; positions count from the end if they are negative.",
		Run:     runGetRange,
	}
}

func substr() *command.Spec {
	return &command.Spec{
		Name: "substr", Arity: 4, Flags: command.ReadOnly, Category: command.CatString,
		Keys:  command.One(1, command.RO|command.Access),
		Group: "string", Since: "1.0.0", Complexity: "O(N) with N bytes answered",
		Syntax:  "key start end",
		Summary: "GETRANGE under its former name.",
		Run:     runGetRange,
	}
}

func runGetRange(c *command.Ctx) {
	a := c.Scan(2)
	start, end := a.Int(), a.Int()
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	value, _, err := c.Tx.String(c.Args[1])
	if err != nil {
		c.W.Err(err)
		return
	}
	c.W.Bulk(between(value, start, end))
}

// between returns the bytes from start to end, both included. Negative
// positions count from the end; those before the start become the start, as in
// Redis before 8, so that a range wholly before it still yields the first byte.
func between(value []byte, start, end int64) []byte {
	n := int64(len(value))
	if start < 0 && end < 0 && start > end {
		return nil
	}
	if start < 0 {
		start = max(start+n, 0)
	}
	if end < 0 {
		end = max(end+n, 0)
	}
	end = min(end, n-1)
	if start > end {
		return nil
	}
	return value[start : end+1]
}
