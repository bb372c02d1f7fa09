package geo

import "kevy/internal/command"

func geoPos() *command.Spec {
	return &command.Spec{
		Name: "geopos", Arity: -2, Flags: command.ReadOnly, Category: command.CatGeo,
		Keys:  command.One(1, command.RO|command.Access),
		Group: "geo", Since: "3.2.0", Complexity: "O(1) for every member",
		Syntax:      "key [member [member ...]]",
		Summary:     "Answers the positions of members, each as longitude and latitude, null for a missing member.",
		Differences: shortest,
		Run:         runGeoPos,
	}
}

func runGeoPos(c *command.Ctx) {
	z, err := c.Tx.ZSet(c.Key(1))
	if err != nil {
		c.W.Err(err)
		return
	}
	c.W.Array(len(c.Args) - 2)
	for _, member := range c.Args[2:] {
		if score, ok := z.Score(member); ok {
			writePoint(c.W, pointOf(score))
		} else {
			c.W.NullArray()
		}
	}
}
