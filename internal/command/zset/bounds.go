package zset

import (
	"bytes"

	"kevy/internal/command"
	"kevy/resp"
	"kevy/shard"
)

var (
	errScoreRange = &resp.Error{Code: "ERR", Text: "min or max is not a float"}
	errLexRange   = &resp.Error{Code: "ERR", Text: "min or max not valid string range item"}
)

// scoreRange is the scores from one bound to another.
type scoreRange struct{ min, max scoreBound }

type scoreBound struct {
	score     float64
	exclusive bool
}

func parseScoreRange(min, max []byte) (r scoreRange, err *resp.Error) {
	var ok1, ok2 bool
	r.min, ok1 = parseScoreBound(min)
	r.max, ok2 = parseScoreBound(max)
	if !ok1 || !ok2 {
		return r, errScoreRange
	}
	return r, nil
}

// parseScoreBound reads a bound as C's strtod reads a text that ends with a zero
// byte: blanks before the number are skipped, no text at all is 0, and what is
// out of range is an infinity or 0.
func parseScoreBound(b []byte) (s scoreBound, ok bool) {
	b = command.CText(b)
	if len(b) > 0 && b[0] == '(' {
		s.exclusive = true
		b = b[1:]
	}
	if len(b) == 0 {
		return s, true
	}
	s.score, ok = command.ParseFloatClamped(bytes.TrimLeft(b, " \t\n\v\f\r"))
	return s, ok
}

// ranks returns the rank of the first member in the range and the rank behind
// the last.
func (r scoreRange) ranks(z shard.ZSetView) (first, end int) {
	first = z.SeekScore(r.min.score, r.min.exclusive)
	end = z.SeekScore(r.max.score, !r.max.exclusive)
	return first, max(first, end)
}

// lexRange is the members from one bound to another.
type lexRange struct{ min, max lexBound }

// lexBound is a member, or what lies below or above all members.
type lexBound struct {
	member    []byte
	exclusive bool
	open      bool // '-' or '+'
	above     bool // '+'
}

func parseLexRange(min, max []byte) (r lexRange, err *resp.Error) {
	var ok1, ok2 bool
	r.min, ok1 = parseLexBound(min)
	r.max, ok2 = parseLexBound(max)
	if !ok1 || !ok2 {
		return r, errLexRange
	}
	return r, nil
}

func parseLexBound(b []byte) (l lexBound, ok bool) {
	if len(b) == 0 {
		return l, false
	}
	switch b[0] {
	case '[':
		return lexBound{member: b[1:]}, true
	case '(':
		return lexBound{member: b[1:], exclusive: true}, true
	case '-', '+':
		return lexBound{open: true, above: b[0] == '+'}, len(command.CText(b)) == 1
	}
	return l, false
}

// ranks is as that of scoreRange. All scores must be the same.
func (r lexRange) ranks(z shard.ZSetView) (first, end int) {
	first = r.min.rank(z, r.min.exclusive)
	end = r.max.rank(z, !r.max.exclusive)
	return first, max(first, end)
}

func (l lexBound) rank(z shard.ZSetView, exclusive bool) int {
	switch {
	case !l.open:
		return z.SeekLex(l.member, exclusive)
	case l.above:
		return z.Len()
	}
	return 0
}
