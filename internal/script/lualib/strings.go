package lualib

import (
	"bytes"
	"math"
	"slices"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// maxTextBytes bounds one string.
const maxTextBytes = 512 << 20

var stringFunctions = map[string]lua.LGFunction{
	"byte": strByte, "char": strChar, "dump": strDump, "find": strFind, "format": strFormat, "gfind": strGmatch,
	"gmatch": strGmatch, "gsub": strGsub, "len": strLen, "lower": strLower, "match": strMatch, "rep": strRep,
	"reverse": strReverse, "sub": strSub, "upper": strUpper,
}

// place is a place in a string of n bytes, counted from its end if negative.
func place(at int64, n int) int64 {
	if at < 0 {
		at += int64(n) + 1
	}
	return max(at, 0)
}

// text pushes a string that a function has made.
func text(l *lua.LState, s string) int {
	of(l).take(l, len(s))
	return pushString(l, s)
}

// tooLarge fails if a string of n bytes is too large.
func tooLarge(l *lua.LState, n int) {
	if n > maxTextBytes {
		raise(l, lua.LString(memoryText))
	}
}

func strByte(l *lua.LState) int {
	s := checkString(l, 1)
	from := place(optInteger(l, 2, 1), len(s))
	to := place(optInteger(l, 3, from), len(s))
	from, to = max(from, 1), min(to, int64(len(s)))
	if from > to {
		return 0
	}
	n := int(to - from + 1)
	if n > maxUnpacked-l.GetTop() {
		fail(l, "stack overflow (string slice too long)")
	}
	for i := range n {
		l.Push(lua.LNumber(s[int(from)-1+i]))
	}
	return n
}

func strChar(l *lua.LState) int {
	b := make([]byte, l.GetTop())
	for i := range b {
		c := checkInt(l, i+1)
		if c != int(byte(c)) {
			argError(l, i+1, "invalid value")
		}
		b[i] = byte(c)
	}
	return pushString(l, string(b))
}

func strLen(l *lua.LState) int { return pushNumber(l, float64(len(checkString(l, 1)))) }

func strLower(l *lua.LState) int {
	b := copied(l, checkString(l, 1))
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c | 0x20
		}
	}
	return pushString(l, string(b))
}

// copied returns a copy of what becomes another string.
func copied(l *lua.LState, s string) []byte {
	of(l).take(l, 2*len(s))
	return []byte(s)
}

func strUpper(l *lua.LState) int {
	b := copied(l, checkString(l, 1))
	for i, c := range b {
		if 'a' <= c && c <= 'z' {
			b[i] = c &^ 0x20
		}
	}
	return pushString(l, string(b))
}

func strReverse(l *lua.LState) int {
	b := copied(l, checkString(l, 1))
	slices.Reverse(b)
	return pushString(l, string(b))
}

func strRep(l *lua.LState) int {
	s := checkString(l, 1)
	n := max(checkInt(l, 2), 0)
	if s == "" || n == 0 {
		return pushString(l, "")
	}
	if n > maxTextBytes/len(s) {
		tooLarge(l, maxTextBytes+1)
	}
	of(l).take(l, n*len(s))
	return pushString(l, strings.Repeat(s, n))
}

func strSub(l *lua.LState) int {
	s := checkString(l, 1)
	from := max(place(checkInteger(l, 2), len(s)), 1)
	to := min(place(optInteger(l, 3, -1), len(s)), int64(len(s)))
	if from > to {
		return pushString(l, "")
	}
	return pushString(l, s[from-1:to])
}

func strFind(l *lua.LState) int  { return find(l, true) }
func strMatch(l *lua.LState) int { return find(l, false) }

func find(l *lua.LState, positions bool) int {
	s, p := checkString(l, 1), checkString(l, 2)
	from := int(min(max(place(optInteger(l, 3, 1), len(s))-1, 0), int64(len(s))))
	if positions && (lua.LVAsBool(l.Get(4)) || !strings.ContainsAny(cText(p), "^$*+?.([%-")) {
		of(l).work(l, (len(s)-from)/bytesPerStep)
		i := strings.Index(s[from:], p)
		if i < 0 {
			return push(l, lua.LNil)
		}
		return push(l, lua.LNumber(from+i+1), lua.LNumber(from+i+len(p)))
	}
	m := newMatcher(l, s, p)
	start := 0
	if m.byteAt(0) == '^' {
		start = 1
	}
	for ; from <= len(s); from++ {
		m.n = 0
		if e := m.at(from, start); e >= 0 {
			if positions {
				push(l, lua.LNumber(from+1), lua.LNumber(e))
				return 2 + push(l, m.values(from, e, false)...)
			}
			return push(l, m.values(from, e, true)...)
		}
		if start == 1 {
			break
		}
	}
	return push(l, lua.LNil)
}

func strGmatch(l *lua.LState) int {
	s, p := checkString(l, 1), checkString(l, 2)
	from := 0
	return push(l, l.NewFunction(func(l *lua.LState) int {
		m := newMatcher(l, s, p)
		for ; from <= len(s); from++ {
			m.n = 0
			if e := m.at(from, 0); e >= 0 {
				at := from
				from = e
				if e == at {
					from++
				}
				return push(l, m.values(at, e, true)...)
			}
		}
		return 0
	}))
}

func strGsub(l *lua.LState) int {
	s, p := checkString(l, 1), checkString(l, 2)
	repl := l.Get(3)
	limit := optInt(l, 4, len(s)+1)
	switch repl.Type() {
	case lua.LTNumber, lua.LTString, lua.LTFunction, lua.LTTable:
	default:
		argError(l, 3, "string/function/table expected")
	}
	m := newMatcher(l, s, p)
	start := 0
	if m.byteAt(0) == '^' {
		start = 1
	}
	var b bytes.Buffer
	at, n := 0, 0
	for n < limit {
		m.n = 0
		e := m.at(at, start)
		if e >= 0 {
			n++
			m.replace(&b, repl, at, e)
		}
		if e > at {
			at = e
		} else if at < len(s) {
			b.WriteByte(s[at])
			at++
		} else {
			break
		}
		if start == 1 {
			break
		}
	}
	if at < len(s) {
		b.WriteString(s[at:])
	}
	text(l, b.String())
	return 1 + pushNumber(l, float64(n))
}

// replace writes what takes the place of a match.
func (m *matcher) replace(b *bytes.Buffer, repl lua.LValue, s, e int) {
	var v lua.LValue
	switch r := repl.(type) {
	case *lua.LFunction:
		v = of(m.l).call1(m.l, r, m.values(s, e, true)...)
	case *lua.LTable:
		v = index(m.l, r, m.value(0, s, e))
	default:
		text, _ := toString(r)
		m.expand(b, text, s, e)
		return
	}
	if lua.LVIsFalse(v) {
		m.write(b, m.subject[s:e])
		return
	}
	text, ok := toString(v)
	if !ok {
		fail(m.l, "invalid replacement value (a %s)", typeName(v))
	}
	m.write(b, text)
}

func (m *matcher) write(b *bytes.Buffer, part string) {
	m.s.take(m.l, len(part))
	tooLarge(m.l, b.Len()+len(part))
	b.WriteString(part)
}

// expand writes a replacement in which %1 stands for a capture.
func (m *matcher) expand(b *bytes.Buffer, text string, s, e int) {
	for {
		plain, rest, more := strings.Cut(text, "%")
		m.write(b, plain)
		if !more {
			return
		}
		c, after := "\x00", "" // what C finds behind the end
		if rest != "" {
			c, after = rest[:1], rest[1:]
		}
		switch {
		case !isDigit(c[0]):
			m.write(b, c)
		case c == "0":
			m.write(b, m.subject[s:e])
		default:
			part, _ := toString(m.value(int(c[0]-'1'), s, e))
			m.write(b, part)
		}
		text = after
	}
}

// index is t[k], metamethods included.
func index(l *lua.LState, t lua.LValue, k lua.LValue) lua.LValue {
	s := of(l)
	s.enter(l)
	v := l.GetTable(t, k)
	s.leave()
	return v
}

func strFormat(l *lua.LState) int {
	f := checkString(l, 1)
	var b []byte
	arg := 1
	for i := 0; i < len(f); i++ {
		if f[i] != '%' {
			b = append(b, f[i])
			continue
		}
		i++
		if i < len(f) && f[i] == '%' {
			b = append(b, '%')
			continue
		}
		arg++
		if arg > l.GetTop() {
			argError(l, arg, "no value")
		}
		var v verb
		i = v.parse(l, f, i)
		before := len(b)
		b = v.append(l, b, arg)
		tooLarge(l, len(b))
		of(l).take(l, len(b)-before)
	}
	return text(l, string(b))
}

// verb is an item of a format.
type verb struct {
	minus, plus, space, sharp, zero bool
	width, precision                int // precision is -1 if there is none
	kind                            byte
}

// parse reads a verb behind its %, and returns the place of its last byte.
func (v *verb) parse(l *lua.LState, f string, i int) int {
	at := func() byte {
		if i < len(f) {
			return f[i]
		}
		return 0
	}
	start := i
flags:
	for {
		switch at() {
		case '-':
			v.minus = true
		case '+':
			v.plus = true
		case ' ':
			v.space = true
		case '#':
			v.sharp = true
		case '0':
			v.zero = true
		default:
			break flags
		}
		i++
	}
	if i-start > len("-+ #0") {
		fail(l, "invalid format (repeated flags)")
	}
	digits := func() (n int) {
		for j := 0; j < 2 && isDigit(at()); j++ {
			n = n*10 + int(at()-'0')
			i++
		}
		return n
	}
	v.width, v.precision = digits(), -1
	if at() == '.' {
		i++
		v.precision = digits()
	}
	if isDigit(at()) {
		fail(l, "invalid format (width or precision too long)")
	}
	v.kind = at()
	return i
}

// append appends an argument as the verb says.
func (v *verb) append(l *lua.LState, b []byte, arg int) []byte {
	switch v.kind {
	case 'c':
		// C prints a zero byte into a buffer and then looks for the end of the text.
		item := v.pad(nil, []byte{byte(checkNumberInt(l, arg))}, false)
		return append(b, cText(string(item))...)
	case 'd', 'i':
		return v.integer(b, toInt64(checkNumber(l, arg)))
	case 'o', 'u', 'x', 'X':
		return v.unsigned(b, toUint64(checkNumber(l, arg)))
	case 'e', 'E', 'f', 'g', 'G':
		return v.float(b, checkNumber(l, arg))
	case 'q':
		s := checkString(l, arg)
		n := len(s) + strings.Count(s, `"`) + strings.Count(s, `\`) + strings.Count(s, "\n") + strings.Count(s, "\r") + 3*strings.Count(s, "\x00")
		tooLarge(l, len(b)+n)
		of(l).take(l, n)
		return quoted(b, s)
	case 's':
		s := checkString(l, arg)
		if v.precision < 0 && len(s) >= 100 {
			return append(b, s...)
		}
		s = cText(s)
		if v.precision >= 0 && len(s) > v.precision {
			s = s[:v.precision]
		}
		return v.pad(b, []byte(s), false)
	}
	fail(l, "invalid option '%%%s' to 'format'", cText(string([]byte{v.kind})))
	return nil
}

// checkNumberInt is an argument that C converts to an int at once.
func checkNumberInt(l *lua.LState, n int) int {
	f := checkNumber(l, n)
	if f >= -(1<<31) && f < 1<<31 {
		return int(f)
	}
	return math.MinInt32
}

// toUint64 converts as the processor does for C.
func toUint64(f float64) uint64 {
	switch {
	case f >= 1<<64:
		return 0
	case f >= 1<<63:
		return uint64(f)
	}
	return uint64(toInt64(f))
}

// pad appends an item in its width. number says that zeros may fill it, behind
// the sign or the 0x.
func (v *verb) pad(b, item []byte, number bool) []byte {
	n := v.width - len(item)
	if n <= 0 {
		return append(b, item...)
	}
	if v.minus {
		return append(append(b, item...), bytes.Repeat([]byte{' '}, n)...)
	}
	if v.zero && number {
		sign := 0
		if len(item) > 0 && strings.IndexByte("+- ", item[0]) >= 0 {
			sign = 1
		}
		if len(item) > sign+1 && item[sign] == '0' && item[sign+1]|0x20 == 'x' {
			sign += 2
		}
		b = append(b, item[:sign]...)
		b = append(b, bytes.Repeat([]byte{'0'}, n)...)
		return append(b, item[sign:]...)
	}
	return append(append(b, bytes.Repeat([]byte{' '}, n)...), item...)
}

// sign appends a number's sign, or what stands in its place.
func (v *verb) sign(b []byte, negative bool) []byte {
	switch {
	case negative:
		return append(b, '-')
	case v.plus:
		return append(b, '+')
	case v.space:
		return append(b, ' ')
	}
	return b
}

func (v *verb) integer(b []byte, n int64) []byte {
	magnitude := uint64(n)
	if n < 0 {
		magnitude = -magnitude
	}
	item := v.sign(nil, n < 0)
	return v.pad(b, append(item, v.digits(magnitude, 10)...), v.precision < 0)
}

func (v *verb) unsigned(b []byte, n uint64) []byte {
	base := 10
	switch v.kind {
	case 'o':
		base = 8
	case 'x', 'X':
		base = 16
	}
	d := v.digits(n, base)
	switch {
	case v.sharp && base == 8 && (len(d) == 0 || d[0] != '0'):
		d = append([]byte{'0'}, d...)
	case v.sharp && base == 16 && n != 0:
		d = append([]byte{'0', v.kind}, d...)
	}
	return v.pad(b, d, v.precision < 0)
}

// digits are those of a number, as many as the precision asks for.
func (v *verb) digits(n uint64, base int) []byte {
	letters := "0123456789abcdef"
	if v.kind == 'X' {
		letters = "0123456789ABCDEF"
	}
	var d []byte
	for ; n > 0; n /= uint64(base) {
		d = append(d, letters[n%uint64(base)])
	}
	for len(d) < v.precision || v.precision < 0 && len(d) == 0 {
		d = append(d, '0')
	}
	for i, j := 0, len(d)-1; i < j; i, j = i+1, j-1 {
		d[i], d[j] = d[j], d[i]
	}
	return d
}

func (v *verb) float(b []byte, f float64) []byte {
	item := v.sign(nil, math.Signbit(f))
	special := math.IsNaN(f) || math.IsInf(f, 0)
	magnitude := math.Abs(f)
	precision := v.precision
	if precision < 0 {
		precision = 6
	}
	switch {
	case special:
		item, _ = appendSpecial(item, magnitude)
	case v.kind|0x20 == 'g':
		item = appendG(item, magnitude, precision, v.sharp)
	default:
		item = appendFixed(item, magnitude, v.kind|0x20, precision)
		if v.sharp && precision == 0 {
			item = withPoint(item)
		}
	}
	if v.kind < 'a' {
		item = bytes.ToUpper(item)
	}
	return v.pad(b, item, !special)
}

// quoted appends a string as %q shows it.
func quoted(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; c {
		case '"', '\\', '\n':
			b = append(b, '\\', c)
		case '\r':
			b = append(b, `\r`...)
		case 0:
			b = append(b, `\000`...)
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
