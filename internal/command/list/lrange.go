package list

import "kevy/internal/command"

func lRange() *command.Spec {
	return &command.Spec{
		Name: "lrange", Arity: 4, Flags: command.ReadOnly, Category: command.CatList,
		Keys:  command.One(1, command.RO|command.Access),
		Group: "list", Since: "1.0.0", Complexity: "O(S + N) for N elements, S from the nearer end",
		Syntax:  "key start stop",
		Summary: "Answers the elements from one index to another, both included; negative ones count from the end.",
		Run:     runLRange,
	}
}

func runLRange(c *command.Ctx) {
	a := c.Scan(2)
	start, stop := a.Int(), a.Int()
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	l, ok := view(c)
	if !ok {
		return
	}
	from, n := span(start, stop, l.Len())
	c.W.Array(n)
	l.Each(from, n, false, func(elem []byte) bool {
		c.W.Bulk(elem)
		return true
	})
}

// span returns where the elements from start to stop of a list begin, and how
// many they are.
func span(start, stop int64, length int) (from, n int) {
	last := int64(length) - 1
	if start < 0 {
		start = max(start+int64(length), 0)
	}
	if stop < 0 {
		stop += int64(length)
	}
	stop = min(stop, last)
	if start > stop {
		return 0, 0
	}
	return int(start), int(stop - start + 1)
}
