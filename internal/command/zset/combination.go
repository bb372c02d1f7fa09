package zset

import (
	"bytes"
	"cmp"
	"slices"

	"kevy/internal/command"
	"kevy/resp"
	"kevy/shard"
)

// operand is a sorted set, or a set, in which every score is 1. That of a
// missing key is empty.
type operand struct {
	zset   shard.ZSetView
	set    shard.SetView
	weight float64
}

func (o *operand) Len() int { return o.zset.Len() + o.set.Len() }

// each calls fn for each member until it returns false. member is valid until
// fn returns.
func (o *operand) each(fn func(member []byte, score float64) bool) {
	o.zset.EachRank(0, o.zset.Len(), false, fn)
	o.set.Each(func(member []byte) bool { return fn(member, 1) })
}

func (o *operand) score(member []byte) (score float64, ok bool) {
	if o.set.Has(member) {
		return 1, true
	}
	return o.zset.Score(member)
}

// weighted returns a score times the weight; infinity times 0 is 0.
func (o *operand) weighted(score float64) float64 {
	if w := o.weight * score; w == w {
		return w
	}
	return 0
}

// operandOf returns what the key holds.
func operandOf(tx *shard.Tx, key []byte) (o operand, err error) {
	o.weight = 1
	switch kind, ok := tx.Kind(key); {
	case !ok:
	case kind == shard.KindSet:
		o.set, err = tx.SetOf(key)
	default:
		o.zset, err = tx.ZSet(key)
	}
	return o, err
}

// aggregate makes one score of those that a member has in several operands.
type aggregate uint8

const (
	sumScores aggregate = iota
	minScore
	maxScore
)

func (a aggregate) of(x, y float64) float64 {
	switch {
	case a == minScore && y < x, a == maxScore && y > x:
		return y
	case a != sumScores:
		return x
	}
	// The sum of two opposite infinities is 0.
	if sum := x + y; sum == sum {
		return sum
	}
	return 0
}

// combination is what ZUNION, ZINTER, ZDIFF and their kin are told.
type combination struct {
	operands   []operand
	aggregate  aggregate
	withScores bool
	limit      int64 // 0 is none
}

// combinationOptions are those that a command takes.
type combinationOptions uint8

const (
	takesWeights combinationOptions = 1 << iota // and AGGREGATE
	takesScores
	takesLimit
)

var (
	errWeight        = &resp.Error{Code: "ERR", Text: "weight value is not a float"}
	errNegativeLimit = &resp.Error{Code: "ERR", Text: "LIMIT can't be negative"}
)

// parseCombination reads a combination from argument from on, where numkeys
// stands. The keys are read before the options are, as in Redis: a key of the
// wrong type is found before a syntax error.
func parseCombination(c *command.Ctx, from int, takes combinationOptions) (k combination, err error) {
	a := c.Scan(from)
	n := a.Int()
	if n < 1 {
		a.Fail(resp.Errorf("ERR", "at least 1 input key is needed for '%s' command", c.Spec.FullName()))
	}
	if n > int64(a.Len()) {
		a.Fail(command.ErrSyntax)
	}
	if err := a.Err(); err != nil {
		return k, err
	}
	k.operands = make([]operand, n)
	for i := range k.operands {
		if k.operands[i], err = operandOf(c.Tx, a.Bytes()); err != nil {
			return k, err
		}
	}
	k.parseOptions(&a, takes)
	if err := a.Err(); err != nil {
		return k, err
	}
	return k, nil
}

func (k *combination) parseOptions(a *command.Args, takes combinationOptions) {
	for a.More() {
		switch {
		case takes&takesWeights != 0 && a.Len() > len(k.operands) && a.Is("WEIGHTS"):
			for i := range k.operands {
				var ok bool
				if k.operands[i].weight, ok = command.ParseFloat(a.Bytes()); !ok {
					a.Fail(errWeight)
				}
			}
		case takes&takesWeights != 0 && a.Is("AGGREGATE"):
			k.aggregate = parseAggregate(a)
		case takes&takesScores != 0 && a.Is("WITHSCORES"):
			k.withScores = true
		case takes&takesLimit != 0 && a.Is("LIMIT"):
			k.limit = a.AtLeast(0, errNegativeLimit)
		default:
			a.Fail(command.ErrSyntax)
		}
	}
}

func parseAggregate(a *command.Args) aggregate {
	switch {
	case a.Is("SUM"):
		return sumScores
	case a.Is("MIN"):
		return minScore
	case a.Is("MAX"):
		return maxScore
	}
	a.Fail(command.ErrSyntax)
	return sumScores
}

// sortOperands puts the smallest first. Those of one size keep their order: it
// is the order in which scores are added.
func (k *combination) sortOperands() {
	slices.SortStableFunc(k.operands, func(a, b operand) int { return cmp.Compare(a.Len(), b.Len()) })
}

// result is members with scores, gathered from other keys.
type result struct {
	members command.Members
	scores  []float64
}

// add appends a member, of which it keeps a copy.
func (r *result) add(member []byte, score float64) {
	r.members.Append(member)
	r.scores = append(r.scores, score)
}

// inOrder returns the members in the order of a sorted set.
func (r *result) inOrder() []shard.Scored {
	out := make([]shard.Scored, len(r.scores))
	for i, score := range r.scores {
		out[i] = shard.Scored{Member: r.members.At(i), Score: plain(score)}
	}
	slices.SortFunc(out, func(a, b shard.Scored) int {
		switch {
		case a.Score < b.Score:
			return -1
		case a.Score > b.Score:
			return 1
		}
		return bytes.Compare(a.Member, b.Member)
	})
	return out
}

// operation makes a result of the operands, which it may reorder.
type operation func(k *combination) result

// combining is a handler that replies with what the operation makes of the keys.
func combining(op operation, takes combinationOptions) command.Handler {
	return func(c *command.Ctx) {
		k, err := parseCombination(c, 1, takes)
		if err != nil {
			c.W.Err(err)
			return
		}
		found := op(&k)
		r := membersReply{c, k.withScores}
		r.begin(len(found.scores))
		for _, m := range found.inOrder() {
			r.add(m.Member, m.Score)
		}
	}
}

// storing is a handler that makes the first key hold what the operation makes of
// the others, and replies with the number of members. event is what it is called.
func storing(event string, op operation, takes combinationOptions) command.Handler {
	return func(c *command.Ctx) {
		k, err := parseCombination(c, 2, takes)
		if err != nil {
			c.W.Err(err)
			return
		}
		found := op(&k)
		store(c, c.Key(1), found.inOrder(), event)
	}
}

// store makes the key hold the members, whatever it held, and replies with their
// number; no members, no key. The members are copies. event is what it is called.
func store(c *command.Ctx, key []byte, members []shard.Scored, event string) {
	command.StoreZSet(c.Tx, key, members, event)
	c.W.Int(int64(len(members)))
}
