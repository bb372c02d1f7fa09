// Package glob matches glob-style patterns as Redis does in KEYS, SCAN, CONFIG
// GET and PSUBSCRIBE.
//
// A pattern is made of * (any bytes), ? (one byte), [abc] [a-z] [^a-z] (one
// byte of a class, or not of it) and \x (the byte x). It is matched byte by
// byte. The borders are Redis's: the ends of a range may stand in either order;
// a class that is not closed reaches to the end of the pattern; a backslash at
// the very end stands for itself; and the empty string matches the empty
// pattern only.
package glob

// Match reports whether the pattern matches all of s. The work is at most in
// proportion to len(pattern) × len(s).
func Match[P, S ~string | ~[]byte](pattern P, s S) bool {
	return match(pattern, s, false)
}

// MatchFold is Match without regard to (ASCII) case.
func MatchFold[P, S ~string | ~[]byte](pattern P, s S) bool {
	return match(pattern, s, true)
}

// maxStars is how many * a pattern may need: beyond it nothing matches, as in
// Redis, which guards its recursion so.
const maxStars = 1000

func match[P, S ~string | ~[]byte](pattern P, s S, fold bool) bool {
	if len(s) == 0 {
		return len(pattern) == 0
	}
	p, i := 0, 0
	// Where the pattern goes on behind the last *, and up to where that * has
	// taken s. Only the last one is ever widened: what an earlier one could gain
	// by taking more, the last one can gain as well.
	star, taken := -1, 0
	stars := 0
	for i < len(s) {
		if p < len(pattern) {
			if pattern[p] == '*' {
				for p < len(pattern) && pattern[p] == '*' {
					p++
				}
				if stars++; stars > maxStars && p < len(pattern) {
					return false
				}
				star, taken = p, i
				continue
			}
			if ok, next := matchByte(pattern, p, s[i], fold); ok {
				p, i = next, i+1
				continue
			}
		}
		if star < 0 {
			return false
		}
		taken++
		p, i = star, taken
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// matchByte matches c with what stands in the pattern at p, which is no *, and
// returns where the pattern goes on.
func matchByte[P ~string | ~[]byte](pattern P, p int, c byte, fold bool) (ok bool, next int) {
	switch pattern[p] {
	case '?':
		return true, p + 1
	case '[':
		return matchClass(pattern, p+1, c, fold)
	case '\\':
		if p+1 < len(pattern) {
			p++
		}
	}
	return same(pattern[p], c, fold), p + 1
}

// matchClass matches c with a class whose [ stands before p.
func matchClass[P ~string | ~[]byte](pattern P, p int, c byte, fold bool) (ok bool, next int) {
	negated := p < len(pattern) && pattern[p] == '^'
	if negated {
		p++
	}
	for ; p < len(pattern) && pattern[p] != ']'; p++ {
		switch {
		case pattern[p] == '\\' && p+1 < len(pattern):
			p++
			ok = ok || same(pattern[p], c, fold)
		case p+2 < len(pattern) && pattern[p+1] == '-':
			ok = ok || inRange(pattern[p], pattern[p+2], c, fold)
			p += 2
		default:
			ok = ok || same(pattern[p], c, fold)
		}
	}
	return ok != negated, min(p+1, len(pattern))
}

func same(a, b byte, fold bool) bool {
	return a == b || fold && lower(a) == lower(b)
}

func inRange(a, b, c byte, fold bool) bool {
	if a > b {
		a, b = b, a
	}
	// Redis folds the ends once they are in order, which may put them out of it:
	// [[-T] then holds nothing.
	if fold {
		a, b, c = lower(a), lower(b), lower(c)
	}
	return a <= c && c <= b
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
