package lualib

import (
	"fmt"
	"math"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// jsonNull stands for null in what is decoded: the null pointer of C.
var jsonNull = &lua.LUserData{Metatable: lua.LNil}

// jsonConfig is what the functions of one table of cjson can be told.
type jsonConfig struct {
	sparseConvert bool
	sparseRatio   int
	sparseSafe    int
	encodeDepth   int
	decodeDepth   int
	precision     int
	keepBuffer    bool
	encodeInvalid int // invalidOff, invalidOn or invalidNull
	decodeInvalid bool
}

const (
	invalidOff = iota
	invalidOn
	invalidNull
)

func newJSONConfig() *jsonConfig {
	return &jsonConfig{
		sparseRatio: 2, sparseSafe: 10, encodeDepth: 1000, decodeDepth: 1000, precision: 14, keepBuffer: true, decodeInvalid: true,
	}
}

// newJSON makes a table of cjson with settings of its own.
func newJSON() *lua.LTable {
	c := newJSONConfig()
	t := newTable(0, 16)
	for name, fn := range map[string]lua.LGFunction{
		"encode": c.encode, "decode": c.decode, "encode_sparse_array": c.setSparse, "encode_max_depth": c.setEncodeDepth,
		"decode_max_depth": c.setDecodeDepth, "encode_number_precision": c.setPrecision, "encode_keep_buffer": c.setKeepBuffer,
		"encode_invalid_numbers": c.setEncodeInvalid, "decode_invalid_numbers": c.setDecodeInvalid,
		"new": func(l *lua.LState) int { return push(l, newJSON()) },
	} {
		t.RawSetString(name, builtin(fn))
	}
	t.RawSetString("null", jsonNull)
	t.RawSetString("_NAME", lua.LString("cjson"))
	t.RawSetString("_VERSION", lua.LString("2.1.0"))
	return t
}

// atMost fails if a function has more than n arguments.
func atMost(l *lua.LState, n int) {
	if l.GetTop() > n {
		argError(l, n+1, "found too many arguments")
	}
}

// setInt sets a number if the nth argument is one, and pushes what it is.
func setInt(l *lua.LState, n int, setting *int, low int) int {
	if !absent(l, n) {
		v := int(int32(checkInteger(l, n)))
		if v < low {
			argError(l, 1, fmt.Sprintf("expected integer between %d and %d", low, math.MaxInt32))
		}
		*setting = v
	}
	return pushNumber(l, float64(*setting))
}

// setBool sets a boolean, which may be called off or on, and pushes what it is.
func setBool(l *lua.LState, n int, setting *bool) int {
	if !absent(l, n) {
		if b, ok := l.Get(n).(lua.LBool); ok {
			*setting = bool(b)
		} else {
			*setting = checkOption(l, n, "", "off", "on") == 1
		}
	}
	return push(l, lua.LBool(*setting))
}

func (c *jsonConfig) setSparse(l *lua.LState) int {
	atMost(l, 3)
	a, b, d := l.Get(1), l.Get(2), l.Get(3)
	l.SetTop(0)
	push(l, a, b, d)
	return setBool(l, 1, &c.sparseConvert) + setInt(l, 2, &c.sparseRatio, 0) + setInt(l, 3, &c.sparseSafe, 0)
}

func (c *jsonConfig) setEncodeDepth(l *lua.LState) int {
	atMost(l, 1)
	return setInt(l, 1, &c.encodeDepth, 1)
}

func (c *jsonConfig) setDecodeDepth(l *lua.LState) int {
	atMost(l, 1)
	return setInt(l, 1, &c.decodeDepth, 1)
}

func (c *jsonConfig) setPrecision(l *lua.LState) int {
	atMost(l, 1)
	if !absent(l, 1) {
		if v := int(int32(checkInteger(l, 1))); 1 <= v && v <= 14 {
			c.precision = v
		} else {
			argError(l, 1, "expected integer between 1 and 14")
		}
	}
	return pushNumber(l, float64(c.precision))
}

func (c *jsonConfig) setKeepBuffer(l *lua.LState) int {
	atMost(l, 1)
	return setBool(l, 1, &c.keepBuffer)
}

func (c *jsonConfig) setEncodeInvalid(l *lua.LState) int {
	atMost(l, 1)
	if !absent(l, 1) {
		if b, ok := l.Get(1).(lua.LBool); ok {
			c.encodeInvalid = invalidOff
			if b {
				c.encodeInvalid = invalidOn
			}
		} else {
			c.encodeInvalid = checkOption(l, 1, "", "off", "on", "null")
		}
	}
	if c.encodeInvalid == invalidNull {
		return pushString(l, "null")
	}
	return push(l, lua.LBool(c.encodeInvalid == invalidOn))
}

func (c *jsonConfig) setDecodeInvalid(l *lua.LState) int {
	atMost(l, 1)
	return setBool(l, 1, &c.decodeInvalid)
}

// encoder writes a value as JSON.
type encoder struct {
	*jsonConfig
	l     *lua.LState
	b     []byte
	taken int
	slots int // that C would have on Lua's stack
}

func (c *jsonConfig) encode(l *lua.LState) int {
	if l.GetTop() != 1 {
		argError(l, 1, "expected 1 argument")
	}
	e := &encoder{jsonConfig: c, l: l, slots: 1}
	e.value(l.Get(1), 0)
	return pushString(l, string(e.b))
}

// grown counts what has been written.
func (e *encoder) grown() {
	if n := len(e.b) - e.taken; n > lookBytes {
		e.taken = len(e.b)
		tooLarge(e.l, len(e.b))
		of(e.l).take(e.l, n)
	}
}

func (e *encoder) refuse(v lua.LValue, reason string) {
	fail(e.l, "Cannot serialise %s: %s", typeName(v), reason)
}

func (e *encoder) value(v lua.LValue, depth int) {
	switch v := v.(type) {
	case lua.LString:
		e.text(string(v))
	case lua.LNumber:
		e.number(v)
	case lua.LBool:
		e.b = append(e.b, v.String()...)
	case *lua.LNilType:
		e.b = append(e.b, "null"...)
	case *lua.LTable:
		e.table(contents(e.l, v), depth+1)
	default:
		if v != lua.LValue(jsonNull) {
			e.refuse(v, "type not supported")
		}
		e.b = append(e.b, "null"...)
	}
}

func (e *encoder) text(s string) {
	const hex = "0123456789abcdef"
	e.b = append(e.b, '"')
	for i := range len(s) {
		if i&(1<<16-1) == 1<<16-1 {
			e.grown()
		}
		c := s[i]
		switch {
		case c == '"' || c == '\\' || c == '/':
			e.b = append(e.b, '\\', c)
		case c >= 32 && c != 127:
			e.b = append(e.b, c)
		default:
			if i := strings.IndexByte("\b\t\n\f\r", c); i >= 0 {
				e.b = append(e.b, '\\', "btnfr"[i])
				continue
			}
			e.b = append(e.b, `\u00`...)
			e.b = append(e.b, hex[c>>4], hex[c&15])
		}
	}
	e.b = append(e.b, '"')
	e.grown()
}

func (e *encoder) number(n lua.LNumber) {
	f := float64(n)
	if math.IsNaN(f) || math.IsInf(f, 0) {
		switch {
		case e.encodeInvalid == invalidOff:
			e.refuse(n, "must not be NaN or Inf")
		case e.encodeInvalid == invalidNull:
			e.b = append(e.b, "null"...)
			return
		case math.IsNaN(f):
			e.b = append(e.b, "nan"...)
			return
		}
	}
	if e.precision == 14 {
		e.b = appendNumber(e.b, f)
		return
	}
	e.b = appendG(e.b, f, e.precision, false)
}

// length is how many elements a table has as an array, or -1 if it is none.
func (e *encoder) length(t *lua.LTable) int {
	largest, items := 0.0, 0
	array := true
	each(t, func(k, _ lua.LValue) bool {
		n, ok := k.(lua.LNumber)
		f := float64(n)
		if array = ok && f >= 1 && math.Floor(f) == f; array {
			largest = max(largest, f)
			items++
		}
		return array
	})
	if !array {
		return -1
	}
	n := toInt32(largest)
	if e.sparseRatio > 0 && n > items*e.sparseRatio && n > e.sparseSafe {
		if !e.sparseConvert {
			e.refuse(t, "excessively sparse array")
		}
		return -1
	}
	return n
}

func (e *encoder) table(t *lua.LTable, depth int) {
	if depth > e.encodeDepth || e.slots+3 > maxUnpacked {
		fail(e.l, "Cannot serialise, excessive nesting (%d)", depth)
	}
	if n := e.length(t); n > 0 {
		e.b = append(e.b, '[')
		e.slots++
		for i := 1; i <= n; i++ {
			if i > 1 {
				e.b = append(e.b, ',')
			}
			e.value(t.RawGet(lua.LNumber(i)), depth)
			e.grown()
		}
		e.slots--
		e.b = append(e.b, ']')
		return
	}
	e.b = append(e.b, '{')
	e.slots += 2
	first := true
	each(t, func(k, v lua.LValue) bool {
		if !first {
			e.b = append(e.b, ',')
		}
		first = false
		switch k := k.(type) {
		case lua.LNumber:
			e.b = append(e.b, '"')
			e.number(k)
			e.b = append(e.b, '"', ':')
		case lua.LString:
			e.text(string(k))
			e.b = append(e.b, ':')
		default:
			e.refuse(k, "table key must be a number or string")
		}
		e.value(v, depth)
		e.grown()
		return true
	})
	e.slots -= 2
	e.b = append(e.b, '}')
}
