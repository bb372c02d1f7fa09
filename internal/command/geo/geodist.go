package geo

import "kevy/internal/command"

func geoDist() *command.Spec {
	return &command.Spec{
		Name: "geodist", Arity: -4, Flags: command.ReadOnly, Category: command.CatGeo,
		Keys:  command.One(1, command.RO|command.Access),
		Group: "geo", Since: "3.2.0", Complexity: "O(1)",
		Syntax:  "key member1 member2 [M | KM | FT | MI]",
		Summary: "Answers the distance between two members, in meters if no unit is given; null if one is missing.",
		Run:     runGeoDist,
	}
}

func runGeoDist(c *command.Ctx) {
	a := c.Scan(4)
	unit := 1.0
	switch {
	case a.Len() > 1:
		a.Fail(command.ErrSyntax)
	case a.More():
		unit = parseUnit(&a)
	}
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	z, err := c.Tx.ZSet(c.Key(1))
	if err != nil {
		c.W.Err(err)
		return
	}
	from, ok1 := z.Score(c.Args[2])
	to, ok2 := z.Score(c.Args[3])
	if !ok1 || !ok2 {
		c.W.Null()
		return
	}
	writeDistance(c.W, distance(pointOf(from), pointOf(to))/unit)
}
