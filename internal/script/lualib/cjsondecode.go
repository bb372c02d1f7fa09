package lualib

import (
	"math"
	"strings"
	"unicode/utf8"

	lua "github.com/yuin/gopher-lua"
)

// jsonToken is a kind of token, named as errors name it.
type jsonToken string

const (
	jsonObjectBegin jsonToken = "T_OBJ_BEGIN"
	jsonObjectEnd   jsonToken = "T_OBJ_END"
	jsonArrayBegin  jsonToken = "T_ARR_BEGIN"
	jsonArrayEnd    jsonToken = "T_ARR_END"
	jsonString      jsonToken = "T_STRING"
	jsonNumber      jsonToken = "T_NUMBER"
	jsonBoolean     jsonToken = "T_BOOLEAN"
	jsonNullToken   jsonToken = "T_NULL"
	jsonColon       jsonToken = "T_COLON"
	jsonComma       jsonToken = "T_COMMA"
	jsonEnd         jsonToken = "T_END"
	jsonError       jsonToken = "T_ERROR"
)

// jsonReader reads one value of JSON.
type jsonReader struct {
	*jsonConfig
	l     *lua.LState
	data  string
	at    int
	depth int
	slots int
	taken int // where the memory of what has been read was counted

	token jsonToken
	index int // where it begins
	value lua.LValue
	fault string // of an error
}

func (c *jsonConfig) decode(l *lua.LState) int {
	if l.GetTop() != 1 {
		argError(l, 1, "expected 1 argument")
	}
	d := &jsonReader{jsonConfig: c, l: l, data: checkString(l, 1), slots: 1}
	if len(d.data) >= 2 && (d.data[0] == 0 || d.data[1] == 0) {
		fail(l, "JSON parser does not support UTF-16 or UTF-32")
	}
	d.next()
	v := d.read()
	d.next()
	if d.token != jsonEnd {
		d.expected("the end")
	}
	return push(l, v)
}

func (d *jsonReader) byteAt(i int) byte {
	if i < len(d.data) {
		return d.data[i]
	}
	return 0
}

func (d *jsonReader) expected(what string) {
	found := string(d.token)
	if d.token == jsonError {
		found = d.fault
	}
	fail(d.l, "Expected %s but found %s at character %d", what, found, d.index+1)
}

// error makes the token an error at the place that has been reached.
func (d *jsonReader) error(fault string) {
	d.token, d.index, d.fault = jsonError, d.at, fault
}

var jsonMarks = map[byte]jsonToken{
	'{': jsonObjectBegin, '}': jsonObjectEnd, '[': jsonArrayBegin, ']': jsonArrayEnd, ':': jsonColon, ',': jsonComma,
}

// next reads a token.
func (d *jsonReader) next() {
	if d.at-d.taken > 1<<16 {
		// What a table takes is many times its text.
		of(d.l).take(d.l, 16*(d.at-d.taken))
		d.taken = d.at
	}
	c := d.byteAt(d.at)
	for c == ' ' || c == '\t' || c == '\n' || c == '\r' {
		d.at++
		c = d.byteAt(d.at)
	}
	d.index = d.at
	rest := d.data[min(d.at, len(d.data)):]
	switch {
	case c == 0:
		d.token = jsonEnd
	case jsonMarks[c] != "":
		d.token = jsonMarks[c]
		d.at++
	case c == '"':
		d.string()
	case c == '-' || isDigit(c):
		if !d.decodeInvalid && isInvalidNumber(rest) {
			d.error("invalid number")
			return
		}
		d.number(rest)
	case strings.HasPrefix(rest, "true"):
		d.token, d.value = jsonBoolean, lua.LTrue
		d.at += 4
	case strings.HasPrefix(rest, "false"):
		d.token, d.value = jsonBoolean, lua.LFalse
		d.at += 5
	case strings.HasPrefix(rest, "null"):
		d.token, d.value = jsonNullToken, jsonNull
		d.at += 4
	case d.decodeInvalid && strings.IndexByte("+fiInNt", c) >= 0 && isInvalidNumber(rest):
		d.number(rest)
	default:
		d.error("invalid token")
	}
}

func (d *jsonReader) number(rest string) {
	f, n := strtod(rest)
	if n == 0 {
		d.error("invalid number")
		return
	}
	d.token, d.value = jsonNumber, lua.LNumber(f)
	d.at += n
}

// isInvalidNumber reports whether a text begins with what C reads as a number and
// JSON does not have.
func isInvalidNumber(s string) bool {
	at := func(i int) byte {
		if i < len(s) {
			return s[i]
		}
		return 0
	}
	i := 0
	switch at(0) {
	case '+':
		return true
	case '-':
		i = 1
	}
	if at(i) == '0' {
		return at(i+1)|0x20 == 'x' || isDigit(at(i+1))
	}
	if at(i) <= '9' {
		return false
	}
	word := strings.ToLower(s[i:min(len(s), i+3)])
	return word == "inf" || word == "nan"
}

func (d *jsonReader) string() {
	d.at++
	var b []byte
	for {
		// What needs no translation is most of it.
		start := d.at
		for c := d.byteAt(d.at); c != '"' && c != '\\' && c != 0; c = d.byteAt(d.at) {
			d.at++
		}
		part := d.data[start:min(d.at, len(d.data))]
		switch d.byteAt(d.at) {
		case 0:
			d.error("unexpected end of string")
			return
		case '"':
			d.at++
			d.token = jsonString
			if b == nil {
				d.value = lua.LString(part)
			} else {
				d.value = lua.LString(append(b, part...))
			}
			return
		}
		b = append(b, part...)
		c := d.byteAt(d.at + 1)
		if c == 'u' {
			var ok bool
			if b, ok = d.unicode(b); !ok {
				d.error("invalid unicode escape code")
				return
			}
			continue
		}
		i := strings.IndexByte(`"\/btnfr`, c)
		if i < 0 || c == 0 {
			d.error("invalid escape code")
			return
		}
		b = append(b, "\"\\/\b\t\n\f\r"[i])
		d.at += 2
	}
}

// unicode reads \uXXXX, or two of them that are one character.
func (d *jsonReader) unicode(b []byte) ([]byte, bool) {
	code := d.hex4(d.at + 2)
	if code < 0 {
		return b, false
	}
	n := 6
	if code&0xf800 == 0xd800 {
		if code&0x400 != 0 || d.byteAt(d.at+6) != '\\' || d.byteAt(d.at+7) != 'u' {
			return b, false
		}
		low := d.hex4(d.at + 8)
		if low < 0 || low&0xfc00 != 0xdc00 {
			return b, false
		}
		code = (code&0x3ff<<10 | low&0x3ff) + 0x10000
		n = 12
	}
	d.at += n
	return utf8.AppendRune(b, code), true
}

func (d *jsonReader) hex4(i int) rune {
	var n rune
	for range 4 {
		h := hexDigit(d.byteAt(i))
		if h < 0 {
			return -1
		}
		n = n<<4 | rune(h)
		i++
	}
	return n
}

// descend goes into an object or an array, whose values C keeps on Lua's stack.
func (d *jsonReader) descend(slots int) {
	d.depth++
	if d.depth > d.decodeDepth || d.slots+slots > maxUnpacked {
		fail(d.l, "Found too many nested data structures (%d) at character %d", d.depth, d.at)
	}
}

// read reads the value that the token begins.
func (d *jsonReader) read() lua.LValue {
	switch d.token {
	case jsonString, jsonNumber, jsonBoolean, jsonNullToken:
		return d.value
	case jsonObjectBegin:
		return d.object()
	case jsonArrayBegin:
		return d.array()
	}
	d.expected("value")
	return nil
}

func (d *jsonReader) object() lua.LValue {
	d.descend(3)
	t := newTable(0, 0)
	d.next()
	if d.token == jsonObjectEnd {
		d.depth--
		return t
	}
	d.slots += 2
	for {
		if d.token != jsonString {
			d.expected("object key string")
		}
		key := d.value.(lua.LString)
		d.next()
		if d.token != jsonColon {
			d.expected("colon")
		}
		d.next()
		t.RawSetString(string(key), d.read())
		d.next()
		if d.token == jsonObjectEnd {
			d.depth--
			d.slots -= 2
			return t
		}
		if d.token != jsonComma {
			d.expected("comma or object end")
		}
		d.next()
	}
}

func (d *jsonReader) array() lua.LValue {
	d.descend(2)
	t := newTable(0, 0)
	d.next()
	if d.token == jsonArrayEnd {
		d.depth--
		return t
	}
	d.slots++
	for i := 1; ; i++ {
		t.RawSet(lua.LNumber(i), d.read())
		d.next()
		if d.token == jsonArrayEnd {
			d.depth--
			d.slots--
			return t
		}
		if d.token != jsonComma {
			d.expected("comma or array end")
		}
		d.next()
	}
}

// isInt32 reports whether a number is one that C's int holds.
func isInt32(f float64) bool { return math.Trunc(f) == f && -(1<<31) <= f && f < 1<<31 }
