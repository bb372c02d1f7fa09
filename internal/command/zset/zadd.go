package zset

import (
	"kevy/internal/command"
	"kevy/resp"
	"kevy/shard"
)

func zAdd() *command.Spec {
	return &command.Spec{
		Name: "zadd", Arity: -4, Flags: command.Write | command.DenyOOM | command.Fast, Category: command.CatSortedSet,
		Keys:  command.One(1, command.RW|command.Update),
		Group: "sorted-set", Since: "1.2.0", Complexity: "O(M*log(N)) for M members given and N in the sorted set",
		Syntax:      "key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]",
		Summary:     "Gives members their scores; answers how many are new, or with CH how many are new or changed.",
		Differences: negativeZero,
		Run:         func(c *command.Ctx) { addScores(c, zAddOptions{}) },
	}
}

func zIncrBy() *command.Spec {
	return &command.Spec{
		Name: "zincrby", Arity: 4, Flags: command.Write | command.DenyOOM | command.Fast, Category: command.CatSortedSet,
		Keys:  command.One(1, command.RW|command.Access|command.Update),
		Group: "sorted-set", Since: "1.2.0", Complexity: "O(log(N)) for N members",
		Syntax:      "key increment member",
		Summary:     "Adds to the score of a member; one that is missing has 0.",
		Differences: negativeZero,
		// As in Redis, which runs it as ZADD INCR, an increment that is called
		// NX or GT is an option and what is left a syntax error.
		Run: func(c *command.Ctx) { addScores(c, zAddOptions{incr: true}) },
	}
}

var (
	errNXAndXX = &resp.Error{Code: "ERR", Text: "XX and NX options at the same time are not compatible"}
	errGTAndLT = &resp.Error{Code: "ERR", Text: "GT, LT, and/or NX options at the same time are not compatible"}
	errIncrOne = &resp.Error{Code: "ERR", Text: "INCR option supports a single increment-element pair"}
	errNaN     = &resp.Error{Code: "ERR", Text: "resulting score is not a number (NaN)"}
)

// zAddOptions are the options of ZADD.
type zAddOptions struct {
	cond        shard.ZCond
	changed     bool // CH
	incr        bool
	memberPairs [][]byte // score, member, score, member, …
}

func (o *zAddOptions) parse(a *command.Args) {
	for more := true; more; {
		switch {
		case a.Is("NX"):
			o.cond |= shard.ZNew
		case a.Is("XX"):
			o.cond |= shard.ZOld
		case a.Is("GT"):
			o.cond |= shard.ZHigher
		case a.Is("LT"):
			o.cond |= shard.ZLower
		case a.Is("CH"):
			o.changed = true
		case a.Is("INCR"):
			o.incr = true
		default:
			more = false
		}
	}
	if o.memberPairs = a.Rest(); len(o.memberPairs) == 0 || len(o.memberPairs)%2 != 0 {
		a.Fail(command.ErrSyntax)
	}
	const bounds = shard.ZHigher | shard.ZLower
	switch {
	case o.cond&shard.ZNew != 0 && o.cond&shard.ZOld != 0:
		a.Fail(errNXAndXX)
	case o.cond&shard.ZNew != 0 && o.cond&bounds != 0 || o.cond&bounds == bounds:
		a.Fail(errGTAndLT)
	case o.incr && len(o.memberPairs) > 2:
		a.Fail(errIncrOne)
	}
}

// fewMembers is for how many members a ZADD needs no memory of its own.
const fewMembers = 8

func addScores(c *command.Ctx, o zAddOptions) {
	a := c.Scan(2)
	o.parse(&a)
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	var few [fewMembers]shard.Scored
	members := few[:0]
	for i := 0; i < len(o.memberPairs); i += 2 {
		score, ok := command.ParseFloat(o.memberPairs[i])
		if !ok {
			c.W.Error(command.ErrNotFloat)
			return
		}
		members = append(members, shard.Scored{Member: o.memberPairs[i+1], Score: score})
	}
	if o.incr {
		increment(c, o.cond, members[0])
		return
	}
	created, changed, err := c.Tx.ZAddIf(c.Key(1), o.cond, members)
	if err != nil {
		c.W.Err(err)
		return
	}
	if created+changed > 0 {
		c.Tx.Notify(shard.OfZSets, "zadd", c.Key(1))
	}
	if o.changed {
		created += changed
	}
	c.W.Int(int64(created))
}

// increment adds to one member's score and replies with the sum, or with null
// if the condition does not admit it.
func increment(c *command.Ctx, cond shard.ZCond, by shard.Scored) {
	z, err := c.Tx.ZSet(c.Key(1))
	if err != nil {
		c.W.Err(err)
		return
	}
	old, found := z.Score(by.Member)
	sum := plain(old + by.Score)
	switch {
	// Not a number passes GT and LT, which let through what does not compare.
	case !cond.Admits(found, old, sum):
		c.W.Null()
		return
	case sum != sum:
		c.W.Error(errNaN)
		return
	case !found || sum != old:
		if _, err := c.Tx.ZAdd(c.Key(1), shard.Scored{Member: by.Member, Score: sum}); err != nil {
			c.W.Err(err)
			return
		}
		c.Tx.Notify(shard.OfZSets, "zincr", c.Key(1))
	}
	c.W.Double(sum)
}
