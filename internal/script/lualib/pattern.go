package lualib

import (
	"strings"

	lua "github.com/yuin/gopher-lua"
)

const (
	// maxCaptures is how many captures a pattern may have.
	maxCaptures = 32
	// maxMatchDepth bounds how deep the parts of a pattern nest in a match.
	maxMatchDepth = 100_000
)

// The length of a capture that is not one.
const (
	openCapture     = -1 // its end has not been found
	positionCapture = -2 // it is ()
)

// matcher tries a pattern of Lua at places of a subject.
type matcher struct {
	l        *lua.LState
	s        *State
	subject  string
	pattern  string // ends at its first zero byte, as C's does
	captures [maxCaptures]capture
	n        int // captures that have begun
	depth    int
}

type capture struct{ start, length int }

func newMatcher(l *lua.LState, subject, pattern string) *matcher {
	return &matcher{l: l, s: of(l), subject: subject, pattern: cText(pattern)}
}

// byteAt is the pattern's byte at p, 0 beyond its end.
func (m *matcher) byteAt(p int) byte {
	if p < len(m.pattern) {
		return m.pattern[p]
	}
	return 0
}

// at matches the pattern from p on with the subject from s on. It returns where
// the match ends, or -1.
func (m *matcher) at(s, p int) int {
	m.depth++
	if m.depth > maxMatchDepth {
		fail(m.l, "pattern too complex")
	}
	defer func() { m.depth-- }()
	for {
		m.s.work(m.l, 1) // there are patterns that never end
		switch c := m.byteAt(p); {
		case c == 0:
			return s
		case c == '(' && m.byteAt(p+1) == ')':
			return m.capture(s, p+2, positionCapture)
		case c == '(':
			return m.capture(s, p+1, openCapture)
		case c == ')':
			return m.endCapture(s, p+1)
		case c == '%' && m.byteAt(p+1) == 'b':
			if s = m.balanced(s, p+2); s < 0 {
				return -1
			}
			p += 4
			continue
		case c == '%' && m.byteAt(p+1) == 'f':
			p += 2
			if m.byteAt(p) != '[' {
				fail(m.l, "missing '[' after '%%f' in pattern")
			}
			end := m.classEnd(p)
			var before, after byte
			if s > 0 {
				before = m.subject[s-1]
			}
			if s < len(m.subject) {
				after = m.subject[s]
			}
			if m.inSet(before, p, end-1) || !m.inSet(after, p, end-1) {
				return -1
			}
			p = end
			continue
		case c == '%' && isDigit(m.byteAt(p+1)):
			if s = m.again(s, m.byteAt(p+1)); s < 0 {
				return -1
			}
			p += 2
			continue
		case c == '$' && p+1 == len(m.pattern):
			if s == len(m.subject) {
				return s
			}
			return -1
		}
		end := m.classEnd(p)
		switch m.byteAt(end) {
		case '?':
			if m.one(s, p, end) {
				if e := m.at(s+1, end+1); e >= 0 {
					return e
				}
			}
			p = end + 1
		case '*':
			return m.longest(s, p, end)
		case '+':
			if !m.one(s, p, end) {
				return -1
			}
			return m.longest(s+1, p, end)
		case '-':
			return m.shortest(s, p, end)
		default:
			if !m.one(s, p, end) {
				return -1
			}
			s, p = s+1, end
		}
	}
}

// longest tries as many repetitions as there are, then fewer.
func (m *matcher) longest(s, p, end int) int {
	n := 0
	for m.one(s+n, p, end) {
		n++
	}
	m.s.work(m.l, n)
	for ; n >= 0; n-- {
		if e := m.at(s+n, end+1); e >= 0 {
			return e
		}
	}
	return -1
}

// shortest tries as few repetitions as there can be.
func (m *matcher) shortest(s, p, end int) int {
	for {
		if e := m.at(s, end+1); e >= 0 {
			return e
		}
		if !m.one(s, p, end) {
			return -1
		}
		s++
	}
}

func (m *matcher) capture(s, p, length int) int {
	if m.n >= maxCaptures {
		fail(m.l, "too many captures")
	}
	m.captures[m.n] = capture{s, length}
	m.n++
	e := m.at(s, p)
	if e < 0 {
		m.n--
	}
	return e
}

func (m *matcher) endCapture(s, p int) int {
	i := m.n - 1
	for i >= 0 && m.captures[i].length != openCapture {
		i--
	}
	if i < 0 {
		fail(m.l, "invalid pattern capture")
	}
	m.captures[i].length = s - m.captures[i].start
	e := m.at(s, p)
	if e < 0 {
		m.captures[i].length = openCapture
	}
	return e
}

// balanced matches %b with the two bytes at p.
func (m *matcher) balanced(s, p int) int {
	if m.byteAt(p) == 0 || m.byteAt(p+1) == 0 {
		fail(m.l, "unbalanced pattern")
	}
	open, closing := m.pattern[p], m.pattern[p+1]
	if s >= len(m.subject) || m.subject[s] != open {
		return -1
	}
	depth := 1
	for i := s + 1; i < len(m.subject); i++ {
		m.s.work(m.l, 1)
		switch m.subject[i] {
		case closing:
			depth--
			if depth == 0 {
				return i + 1
			}
		case open:
			depth++
		}
	}
	return -1
}

// again matches what a capture has matched.
func (m *matcher) again(s int, digit byte) int {
	i := int(digit) - '1'
	if i < 0 || i >= m.n || m.captures[i].length == openCapture {
		fail(m.l, "invalid capture index")
	}
	c := m.captures[i]
	m.s.work(m.l, max(c.length, 0)/bytesPerStep)
	if c.length < 0 || !strings.HasPrefix(m.subject[s:], m.subject[c.start:c.start+c.length]) {
		return -1
	}
	return s + c.length
}

// classEnd is where the class of characters at p ends.
func (m *matcher) classEnd(p int) int {
	c := m.byteAt(p)
	p++
	switch c {
	case '%':
		if m.byteAt(p) == 0 {
			fail(m.l, "malformed pattern (ends with '%%')")
		}
		return p + 1
	case '[':
		if m.byteAt(p) == '^' {
			p++
		}
		for first := true; first || m.byteAt(p) != ']'; first = false {
			c := m.byteAt(p)
			if c == 0 {
				fail(m.l, "malformed pattern (missing ']')")
			}
			m.s.work(m.l, 1)
			p++
			if c == '%' && m.byteAt(p) != 0 {
				p++
			}
		}
		return p + 1
	}
	return p
}

// one reports whether the subject's byte at s is of the class from p to end.
func (m *matcher) one(s, p, end int) bool {
	if s >= len(m.subject) {
		return false
	}
	c := m.subject[s]
	switch m.pattern[p] {
	case '.':
		return true
	case '%':
		return inClass(c, m.pattern[p+1])
	case '[':
		m.s.work(m.l, end-p)
		return m.inSet(c, p, end-1)
	}
	return m.pattern[p] == c
}

// inSet reports whether a byte is of the set whose brackets are at p and end.
func (m *matcher) inSet(c byte, p, end int) bool {
	found := true
	p++
	if m.pattern[p] == '^' {
		found = false
		p++
	}
	for ; p < end; p++ {
		switch {
		case m.pattern[p] == '%':
			p++
			if inClass(c, m.pattern[p]) {
				return found
			}
		case m.byteAt(p+1) == '-' && p+2 < end:
			if m.pattern[p] <= c && c <= m.pattern[p+2] {
				return found
			}
			p += 2
		case m.pattern[p] == c:
			return found
		}
	}
	return !found
}

// inClass reports whether a byte is of a class such as %a, or is what an escape
// stands for.
func inClass(c, class byte) bool {
	var in bool
	switch class | 0x20 {
	case 'a':
		in = isAlpha(c)
	case 'c':
		in = c < 32 || c == 127
	case 'd':
		in = isDigit(c)
	case 'l':
		in = 'a' <= c && c <= 'z'
	case 'p':
		in = 32 < c && c < 127 && !isAlnum(c)
	case 's':
		in = isSpace(c)
	case 'u':
		in = 'A' <= c && c <= 'Z'
	case 'w':
		in = isAlnum(c)
	case 'x':
		in = hexDigit(c) >= 0
	case 'z':
		in = c == 0
	default:
		return class == c
	}
	if !isAlpha(class) {
		return class == c
	}
	return in == (class&0x20 != 0)
}

// value is a capture's value; without captures the first is the whole match.
func (m *matcher) value(i, s, e int) lua.LValue {
	if i >= m.n {
		if i != 0 {
			fail(m.l, "invalid capture index")
		}
		return lua.LString(m.subject[s:e])
	}
	c := m.captures[i]
	switch c.length {
	case openCapture:
		fail(m.l, "unfinished capture")
	case positionCapture:
		return lua.LNumber(c.start + 1)
	}
	return lua.LString(m.subject[c.start : c.start+c.length])
}

// values are those of all captures; whole says that without any it is the match.
func (m *matcher) values(s, e int, whole bool) []lua.LValue {
	n := m.n
	if n == 0 && whole {
		n = 1
	}
	values := make([]lua.LValue, n)
	for i := range values {
		values[i] = m.value(i, s, e)
	}
	return values
}
