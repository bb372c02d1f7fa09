package config

// matchFold reports whether the glob matches all of name, whatever the case.
// name is in lower case. Pattern language: * ? [a-z] [^a-z] and backslash. Only
// the last * is ever widened, so the work is at most len(pattern) × len(name).
func matchFold(pattern, name string) bool {
	p, n := 0, 0
	star, starred := -1, 0 // position after the last *, and what it has eaten up to
	for n < len(name) {
		if p < len(pattern) && pattern[p] == '*' {
			p++
			star, starred = p, n
			continue
		}
		if p < len(pattern) {
			if ok, width := matchOne(pattern[p:], name[n]); ok {
				p, n = p+width, n+1
				continue
			}
		}
		if star < 0 {
			return false
		}
		starred++
		p, n = star, starred
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// matchOne matches one byte with what stands at the start of the pattern and
// returns how much of the pattern that is.
func matchOne(pattern string, c byte) (ok bool, width int) {
	switch pattern[0] {
	case '?':
		return true, 1
	case '[':
		return matchClass(pattern, c)
	case '\\':
		if len(pattern) > 1 {
			return lower(pattern[1]) == c, 2
		}
	}
	return lower(pattern[0]) == c, 1
}

// matchClass matches a [...] class; one that is not closed reaches to the end.
func matchClass(pattern string, c byte) (ok bool, width int) {
	i := 1
	negated := i < len(pattern) && pattern[i] == '^'
	if negated {
		i++
	}
	for ; i < len(pattern) && pattern[i] != ']'; i++ {
		switch {
		case pattern[i] == '\\' && i+1 < len(pattern):
			i++
			ok = ok || lower(pattern[i]) == c
		case i+2 < len(pattern) && pattern[i+1] == '-':
			low, high := lower(pattern[i]), lower(pattern[i+2])
			ok = ok || min(low, high) <= c && c <= max(low, high)
			i += 2
		default:
			ok = ok || lower(pattern[i]) == c
		}
	}
	return ok != negated, min(i+1, len(pattern))
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
