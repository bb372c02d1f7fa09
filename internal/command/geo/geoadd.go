package geo

import (
	"kevy/internal/command"
	"kevy/shard"
)

func geoAdd() *command.Spec {
	return &command.Spec{
		Name: "geoadd", Arity: -5, Flags: command.Write | command.DenyOOM, Category: command.CatGeo,
		Keys:  command.One(1, command.RW|command.Update),
		Group: "geo", Since: "3.2.0", Complexity: "O(log(N)) for every member added to N",
		Syntax:  "key [NX | XX] [CH] longitude latitude member [longitude latitude member ...]",
		Summary: "Gives members of a sorted set positions; answers how many are new, with CH how many are new or moved.",
		Run:     runGeoAdd,
	}
}

func runGeoAdd(c *command.Ctx) {
	a := c.Scan(2)
	var cond shard.ZCond
	ch := false
	for options := true; options; {
		switch {
		case a.Is("NX"):
			cond |= shard.ZNew
		case a.Is("XX"):
			cond |= shard.ZOld
		case a.Is("CH"):
			ch = true
		default:
			options = false
		}
	}
	if a.Len() == 0 || a.Len()%3 != 0 || cond == shard.ZNew|shard.ZOld {
		a.Fail(command.ErrSyntax)
	}
	members := make([]shard.Scored, 0, a.Len()/3)
	for a.More() {
		p := parsePoint(&a)
		members = append(members, shard.Scored{Score: scoreOf(p), Member: a.Bytes()})
	}
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	created, changed, err := c.Tx.ZAddIf(c.Key(1), cond, members)
	if err != nil {
		c.W.Err(err)
		return
	}
	if created+changed > 0 {
		c.Tx.Notify(shard.OfZSets, "zadd", c.Key(1))
	}
	if ch {
		created += changed
	}
	c.W.Int(int64(created))
}
