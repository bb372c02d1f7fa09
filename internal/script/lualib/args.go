package lualib

import (
	"math"

	lua "github.com/yuin/gopher-lua"
)

// toNumber converts as arithmetic does.
func toNumber(v lua.LValue) (float64, bool) {
	switch v := v.(type) {
	case lua.LNumber:
		return float64(v), true
	case lua.LString:
		return parseNumber(cText(string(v)))
	}
	return 0, false
}

// toString converts as .. does.
func toString(v lua.LValue) (string, bool) {
	switch v := v.(type) {
	case lua.LString:
		return string(v), true
	case lua.LNumber:
		return numberString(float64(v)), true
	}
	return "", false
}

func checkNumber(l *lua.LState, n int) float64 {
	f, ok := toNumber(l.Get(n))
	if !ok {
		argTypeError(l, n, "number")
	}
	return f
}

// checkInt is an argument that C takes as an int.
func checkInt(l *lua.LState, n int) int { return toInt32(checkNumber(l, n)) }

// checkInteger is an argument that C takes as a ptrdiff_t.
func checkInteger(l *lua.LState, n int) int64 { return toInt64(checkNumber(l, n)) }

func absent(l *lua.LState, n int) bool { return l.Get(n) == lua.LNil }

func optInt(l *lua.LState, n, otherwise int) int {
	if absent(l, n) {
		return otherwise
	}
	return checkInt(l, n)
}

func optInteger(l *lua.LState, n int, otherwise int64) int64 {
	if absent(l, n) {
		return otherwise
	}
	return checkInteger(l, n)
}

func checkString(l *lua.LState, n int) string {
	s, ok := toString(l.Get(n))
	if !ok {
		argTypeError(l, n, "string")
	}
	return s
}

func optString(l *lua.LState, n int, otherwise string) string {
	if absent(l, n) {
		return otherwise
	}
	return checkString(l, n)
}

func checkAny(l *lua.LState, n int) lua.LValue {
	if n > l.GetTop() {
		argError(l, n, "value expected")
	}
	return l.Get(n)
}

func checkTable(l *lua.LState, n int) *lua.LTable {
	t, ok := l.Get(n).(*lua.LTable)
	if !ok {
		argTypeError(l, n, "table")
	}
	return t
}

// checkOption is an argument that is one of a few words: its place among them.
func checkOption(l *lua.LState, n int, otherwise string, words ...string) int {
	word := otherwise
	if otherwise == "" || !absent(l, n) {
		word = checkString(l, n)
	}
	for i, w := range words {
		if w == cText(word) {
			return i
		}
	}
	argError(l, n, "invalid option '"+cText(word)+"'")
	return 0
}

// push pushes values and returns how many they are.
func push(l *lua.LState, values ...lua.LValue) int {
	for _, v := range values {
		l.Push(v)
	}
	return len(values)
}

func pushString(l *lua.LState, s string) int { return push(l, lua.LString(s)) }

func pushNumber(l *lua.LState, f float64) int { return push(l, number(f)) }

// smallNumbers are values that need no memory of their own.
var smallNumbers = func() (values [1024]lua.LValue) {
	for i := range values {
		values[i] = lua.LNumber(i)
	}
	return values
}()

// number makes a value of a number.
func number(f float64) lua.LValue {
	if i := int(f); uint(i) < uint(len(smallNumbers)) && float64(i) == f && (i != 0 || !math.Signbit(f)) {
		return smallNumbers[i]
	}
	return lua.LNumber(f)
}

// metaField is a metamethod of a value, nil if it has none.
func metaField(l *lua.LState, v lua.LValue, name string) lua.LValue {
	if mt := rawMetatable(l, v); mt != nil {
		return contents(l, mt).RawGetString(name)
	}
	return lua.LNil
}

// newTable makes a table with room for n elements and so many fields.
func newTable(n, fields int) *lua.LTable { return emptyState.CreateTable(n, fields) }

// emptyState serves to make tables; it never runs.
var emptyState = new(lua.LState)
