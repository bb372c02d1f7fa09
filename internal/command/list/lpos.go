package list

import (
	"bytes"
	"math"

	"kevy/internal/command"
	"kevy/resp"
	"kevy/shard"
)

func lPos() *command.Spec {
	return &command.Spec{
		Name: "lpos", Arity: -3, Flags: command.ReadOnly, Category: command.CatList,
		Keys:  command.One(1, command.RO|command.Access),
		Group: "list", Since: "6.0.6", Complexity: "O(N) for N elements compared",
		Syntax:  "key element [RANK rank] [COUNT num-matches] [MAXLEN len]",
		Summary: "Answers the index of the first element that equals element, or the indexes of several.",
		Run:     runLPos,
	}
}

var (
	errRankZero  = &resp.Error{Code: "ERR", Text: "RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list"}
	errPosCount  = &resp.Error{Code: "ERR", Text: "COUNT can't be negative"}
	errPosMaxLen = &resp.Error{Code: "ERR", Text: "MAXLEN can't be negative"}
)

// search is what LPOS looks for.
type search struct {
	elem     []byte
	fromTail bool
	skip     int64 // matches that are passed over
	matches  int64 // are wanted at most
	compared int64 // elements are looked at, at most
	counted  bool  // an array is wanted
}

func parseSearch(c *command.Ctx) (s search, err *resp.Error) {
	s = search{elem: c.Args[2], matches: 1, compared: math.MaxInt64}
	a := c.Scan(3)
	for a.More() {
		switch {
		case a.Is("RANK"):
			rank := a.Int()
			if rank == 0 {
				a.Fail(errRankZero)
			}
			s.fromTail = rank < 0
			// The smallest integer is its own negative; Redis takes it for -1.
			if s.skip = max(rank, -rank) - 1; rank == math.MinInt64 {
				s.skip = 0
			}
		case a.Is("COUNT"):
			s.counted = true
			if s.matches = a.AtLeast(0, errPosCount); s.matches == 0 {
				s.matches = math.MaxInt64
			}
		case a.Is("MAXLEN"):
			if s.compared = a.AtLeast(0, errPosMaxLen); s.compared == 0 {
				s.compared = math.MaxInt64
			}
		default:
			a.Fail(command.ErrSyntax)
		}
	}
	return s, a.Err()
}

func runLPos(c *command.Ctx) {
	s, parseErr := parseSearch(c)
	if parseErr != nil {
		c.W.Error(parseErr)
		return
	}
	l, ok := view(c)
	if !ok {
		return
	}
	m := c.W.Begin()
	n := s.each(l, func(i int) { c.W.Int(int64(i)) })
	switch {
	case s.counted:
		c.W.EndArray(m, n)
	case n == 0:
		c.W.Null()
	}
}

// each calls fn with the index of each match and returns how many there are.
func (s search) each(l shard.ListView, fn func(i int)) (matches int) {
	i, step := 0, 1
	if s.fromTail {
		i, step = l.Len()-1, -1
	}
	l.Each(i, int(min(s.compared, int64(l.Len()))), s.fromTail, func(elem []byte) bool {
		if bytes.Equal(elem, s.elem) {
			if s.skip > 0 {
				s.skip--
			} else {
				fn(i)
				matches++
			}
		}
		i += step
		return int64(matches) < s.matches
	})
	return matches
}
