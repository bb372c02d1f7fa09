package zset

import (
	"kevy/internal/command"
	"kevy/resp"
	"kevy/shard"
)

// rangeBy is what the bounds of a range are.
type rangeBy uint8

const (
	byRank rangeBy = iota
	byScore
	byLex
)

// rangeQuery is what ZRANGE and its kin ask for.
type rangeQuery struct {
	by         rangeBy
	reverse    bool
	withScores bool

	start, stop   int64 // by rank
	scores        scoreRange
	members       lexRange
	offset, limit int64 // not by rank; a negative limit is none

	// What the options may say: BYSCORE and BYLEX, REV, WITHSCORES.
	freeBy, freeOrder, freeScores bool
}

var (
	errLimitByRank = &resp.Error{Code: "ERR", Text: "syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX"}
	errScoresByLex = &resp.Error{Code: "ERR", Text: "syntax error, WITHSCORES not supported in combination with BYLEX"}
)

// noLimit is LIMIT's count where none is given.
const noLimit = -1

// parse reads the bounds and the options, which are all that is left.
func (q *rangeQuery) parse(a *command.Args) {
	low, high := a.Bytes(), a.Bytes()
	q.limit = noLimit
	for a.More() {
		switch {
		case q.freeScores && a.Is("WITHSCORES"):
			q.withScores = true
		case a.Len() > 2 && a.Is("LIMIT"):
			q.offset, q.limit = a.Int(), a.Int()
		case q.freeOrder && a.Is("REV"):
			q.reverse, q.freeOrder = true, false
		case q.freeBy && a.Is("BYLEX"):
			q.by, q.freeBy = byLex, false
		case q.freeBy && a.Is("BYSCORE"):
			q.by, q.freeBy = byScore, false
		default:
			a.Fail(command.ErrSyntax)
		}
	}
	switch {
	case q.by == byRank && q.limit != noLimit:
		a.Fail(errLimitByRank)
	case q.by == byLex && q.withScores:
		a.Fail(errScoresByLex)
	}
	if a.Err() == nil {
		if err := q.parseBounds(low, high); err != nil {
			a.Fail(err)
		}
	}
}

func (q *rangeQuery) parseBounds(low, high []byte) (err *resp.Error) {
	if q.by == byRank {
		q.start, q.stop, err = parseRanks(low, high)
		return err
	}
	if q.reverse {
		low, high = high, low
	}
	if q.by == byScore {
		q.scores, err = parseScoreRange(low, high)
	} else {
		q.members, err = parseLexRange(low, high)
	}
	return err
}

func parseRanks(start, stop []byte) (first, last int64, err *resp.Error) {
	first, ok1 := command.ParseInt(start)
	last, ok2 := command.ParseInt(stop)
	if !ok1 || !ok2 {
		return 0, 0, command.ErrNotInt
	}
	return first, last, nil
}

// span is n members from ascending rank first on, upwards or downwards.
type span struct {
	first, n int
	reverse  bool
}

// span finds what is asked for.
func (q *rangeQuery) span(z shard.ZSetView) span {
	if q.by == byRank {
		return rankSpan(z.Len(), q.start, q.stop, q.reverse)
	}
	var first, end int
	if q.by == byScore {
		first, end = q.scores.ranks(z)
	} else {
		first, end = q.members.ranks(z)
	}
	n := int64(end - first)
	if q.offset < 0 || q.offset >= n {
		return span{}
	}
	n -= q.offset
	if q.limit >= 0 {
		n = min(n, q.limit)
	}
	s := span{first: first + int(q.offset), n: int(n), reverse: q.reverse}
	if q.reverse {
		s.first = end - 1 - int(q.offset)
	}
	return s
}

// rankSpan is the members of n from position start to stop, both included, in
// the direction of reading; negative positions count from its end.
func rankSpan(n int, start, stop int64, reverse bool) span {
	if start < 0 {
		start = max(start+int64(n), 0)
	}
	if stop < 0 {
		stop += int64(n)
	}
	stop = min(stop, int64(n)-1)
	if start > stop {
		return span{}
	}
	s := span{first: int(start), n: int(stop - start + 1), reverse: reverse}
	if reverse {
		s.first = n - 1 - s.first
	}
	return s
}
