package geo

import "kevy/internal/command"

func geoHash() *command.Spec {
	return &command.Spec{
		Name: "geohash", Arity: -2, Flags: command.ReadOnly, Category: command.CatGeo,
		Keys:  command.One(1, command.RO|command.Access),
		Group: "geo", Since: "3.2.0", Complexity: "O(1) for every member",
		Syntax:  "key [member [member ...]]",
		Summary: "Answers the positions of members as standard geohashes of 11 letters, null for a missing member.",
		Run:     runGeoHash,
	}
}

func runGeoHash(c *command.Ctx) {
	z, err := c.Tx.ZSet(c.Key(1))
	if err != nil {
		c.W.Err(err)
		return
	}
	c.W.Array(len(c.Args) - 2)
	for _, member := range c.Args[2:] {
		score, ok := z.Score(member)
		if !ok {
			c.W.Null()
			continue
		}
		var text [11]byte
		c.W.Bulk(geohashText(text[:0], pointOf(score)))
	}
}
