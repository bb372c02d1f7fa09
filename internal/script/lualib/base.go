package lualib

import (
	"fmt"
	"math"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// builtin makes a function of a library. It belongs to no state: what state it
// runs in, it learns from the thread.
func builtin(fn lua.LGFunction) *lua.LFunction {
	return &lua.LFunction{IsG: true, GFunction: fn, Env: newTable(0, 0)}
}

// maxUnpacked is how many values C may have on Lua's stack.
const maxUnpacked = 8000

var baseFunctions = map[string]lua.LGFunction{
	"assert": luaAssert, "collectgarbage": luaCollectGarbage, "error": luaError, "gcinfo": luaGCInfo,
	"getmetatable": luaGetMetatable, "ipairs": luaIpairs, "load": luaLoad, "loadstring": luaLoadString,
	"next": luaNext, "pairs": luaPairs, "pcall": luaPcall, "rawequal": luaRawEqual, "rawget": luaRawGet,
	"rawset": luaRawSet, "select": luaSelect, "setmetatable": luaSetMetatable, "tonumber": luaToNumber,
	"tostring": luaToString, "type": luaType, "unpack": luaUnpack, "xpcall": luaXpcall,
}

var coroutineFunctions = map[string]lua.LGFunction{
	"create": luaCoCreate, "resume": luaCoResume, "running": luaCoRunning, "status": luaCoStatus,
	"wrap": luaCoWrap,
}

func luaAssert(l *lua.LState) int {
	if lua.LVIsFalse(checkAny(l, 1)) {
		fail(l, "%s", cText(optString(l, 2, "assertion failed!")))
	}
	return l.GetTop()
}

func luaCollectGarbage(l *lua.LState) int {
	switch checkOption(l, 1, "collect", "stop", "restart", "collect", "count", "step", "setpause", "setstepmul") {
	case 3:
		return pushNumber(l, float64(heapBytes())/1024)
	case 4:
		optInt(l, 2, 0)
		return push(l, lua.LTrue)
	case 5, 6:
		optInt(l, 2, 0)
		return pushNumber(l, 200)
	}
	optInt(l, 2, 0)
	return pushNumber(l, 0)
}

func luaGCInfo(l *lua.LState) int { return pushNumber(l, math.Floor(float64(heapBytes())/1024)) }

func luaError(l *lua.LState) int {
	level := optInt(l, 2, 1)
	v := l.Get(1)
	if text, ok := toString(v); ok && level > 0 {
		v = lua.LString(where(l, level) + text)
	}
	raise(l, v)
	return 0
}

func luaGetMetatable(l *lua.LState) int {
	v := checkAny(l, 1)
	mt := rawMetatable(l, v)
	if mt == nil {
		return push(l, lua.LNil)
	}
	if hidden := contents(l, mt).RawGetString("__metatable"); hidden != lua.LNil {
		return push(l, hidden)
	}
	return push(l, mt)
}

func luaSetMetatable(l *lua.LState) int {
	t := checkTable(l, 1)
	mt := l.Get(2)
	if typ := mt.Type(); typ != lua.LTTable && (typ != lua.LTNil || l.GetTop() < 2) {
		argError(l, 2, "nil or table expected")
	}
	if metaField(l, t, "__metatable") != lua.LNil {
		fail(l, "cannot change a protected metatable")
	}
	writable(l, t)
	if m, ok := mt.(*lua.LTable); ok {
		// The machine reads metatables raw.
		mt = contents(l, m)
	}
	t.Metatable = mt
	return push(l, t)
}

func luaIpairs(l *lua.LState) int {
	t := checkTable(l, 1)
	return push(l, ipairsStep, t, lua.LNumber(0))
}

var ipairsStep = builtin(func(l *lua.LState) int {
	i := checkInt(l, 2) + 1
	t := checkTable(l, 1)
	v := contents(l, t).RawGet(lua.LNumber(i))
	if v == lua.LNil {
		return 0
	}
	return push(l, lua.LNumber(i), v)
})

func luaNext(l *lua.LState) int {
	t := contents(l, checkTable(l, 1))
	key := l.Get(2)
	k, v := t.Next(key)
	if k == lua.LNil {
		return push(l, lua.LNil)
	}
	return push(l, k, v)
}

func luaPairs(l *lua.LState) int {
	t := checkTable(l, 1)
	return push(l, builtins["next"], t, lua.LNil)
}

func luaRawEqual(l *lua.LState) int {
	checkAny(l, 1)
	checkAny(l, 2)
	return push(l, lua.LBool(l.RawEqual(l.Get(1), l.Get(2))))
}

func luaRawGet(l *lua.LState) int {
	t := checkTable(l, 1)
	checkAny(l, 2)
	return push(l, contents(l, t).RawGet(l.Get(2)))
}

func luaRawSet(l *lua.LState) int {
	t := checkTable(l, 1)
	checkAny(l, 2)
	checkAny(l, 3)
	setRaw(l, t, l.Get(2), l.Get(3))
	return push(l, t)
}

// setRaw sets an entry, which a key of nil or NaN cannot have.
func setRaw(l *lua.LState, t *lua.LTable, k, v lua.LValue) {
	writable(l, t)
	if n, ok := k.(lua.LNumber); ok && n != n {
		raise(l, lua.LString("table index is NaN"))
	}
	if k == lua.LNil {
		raise(l, lua.LString("table index is nil"))
	}
	t.RawSet(k, v)
}

func luaSelect(l *lua.LState) int {
	n := l.GetTop()
	if s, ok := l.Get(1).(lua.LString); ok && strings.HasPrefix(string(s), "#") {
		return pushNumber(l, float64(n-1))
	}
	i := checkInt(l, 1)
	if i < 0 {
		i = n + i
	} else if i > n {
		i = n
	}
	if i < 1 {
		argError(l, 1, "index out of range")
	}
	return n - i
}

func luaToNumber(l *lua.LState) int {
	base := optInt(l, 2, 10)
	if base == 10 {
		v := checkAny(l, 1)
		if s, ok := v.(lua.LString); ok {
			of(l).work(l, len(s))
		}
		if f, ok := toNumber(v); ok {
			return pushNumber(l, f)
		}
		return push(l, lua.LNil)
	}
	text := cText(checkString(l, 1))
	of(l).work(l, len(text))
	if base < 2 || base > 36 {
		argError(l, 2, "base out of range")
	}
	if n, ok := strtoul(text, base); ok {
		return pushNumber(l, n)
	}
	return push(l, lua.LNil)
}

// strtoul is C's for a text that is a number as a whole, white space around it.
func strtoul(s string, base int) (float64, bool) {
	s = strings.Trim(s, " \t\n\v\f\r")
	negative := strings.HasPrefix(s, "-")
	if negative || strings.HasPrefix(s, "+") {
		s = s[1:]
	}
	if base == 16 && len(s) > 2 && s[0] == '0' && s[1]|0x20 == 'x' {
		s = s[2:]
	}
	if s == "" {
		return 0, false
	}
	var n uint64
	over := false
	for i := range len(s) {
		d := 36
		switch c := s[i]; {
		case isDigit(c):
			d = int(c - '0')
		case isAlpha(c):
			d = int(c|0x20-'a') + 10
		}
		if d >= base {
			return 0, false
		}
		if n > (math.MaxUint64-uint64(d))/uint64(base) {
			over = true
		}
		n = n*uint64(base) + uint64(d)
	}
	if over {
		return float64(uint64(math.MaxUint64)), true
	}
	if negative {
		n = -n
	}
	return float64(n), true
}

func luaToString(l *lua.LState) int {
	v := checkAny(l, 1)
	if m := metaField(l, v, "__tostring"); m != lua.LNil {
		return push(l, of(l).call1(l, m, v))
	}
	return pushString(l, toText(l, v))
}

// toText is what tostring makes of a value without asking its metatable.
func toText(_ *lua.LState, v lua.LValue) string {
	switch v := v.(type) {
	case lua.LNumber:
		return numberString(float64(v))
	case *lua.LUserData:
		if v == jsonNull {
			return "userdata: (nil)"
		}
		return fmt.Sprintf("userdata: %p", v)
	case *lua.LTable, *lua.LFunction, *lua.LState:
		return fmt.Sprintf("%s: %p", typeName(v), v)
	}
	return v.String()
}

func luaType(l *lua.LState) int {
	return push(l, typeNames[checkAny(l, 1).Type()])
}

// typeNames are strings ready to be pushed.
var typeNames = func() (names [lua.LTChannel + 1]lua.LValue) {
	for t := range names {
		names[t] = lua.LString(lua.LValueType(t).String())
	}
	return names
}()

func luaUnpack(l *lua.LState) int {
	t := contents(l, checkTable(l, 1))
	i := optInt(l, 2, 1)
	e := 0
	if absent(l, 3) {
		e = tableLen(t)
	} else {
		e = checkInt(l, 3)
	}
	if i > e {
		return 0
	}
	n := e - i + 1
	if n > maxUnpacked-l.GetTop() {
		fail(l, "too many results to unpack")
	}
	for ; i <= e; i++ {
		l.Push(t.RawGet(lua.LNumber(i)))
	}
	return n
}

func luaLoadString(l *lua.LState) int {
	source := checkString(l, 1)
	return load(l, source, optString(l, 2, source))
}

func luaLoad(l *lua.LState) int {
	name := optString(l, 2, "=(load)")
	fn, ok := l.Get(1).(*lua.LFunction)
	if !ok {
		argTypeError(l, 1, "function")
	}
	var source strings.Builder
	s := of(l)
	reader := builtin(func(l *lua.LState) int {
		for {
			v := s.call1(l, fn)
			part, ok := toString(v)
			if !ok && v != lua.LNil {
				fail(l, "reader function must return a string")
			}
			if part == "" {
				return 0
			}
			s.take(l, len(part))
			tooLarge(l, source.Len()+len(part))
			source.WriteString(part)
		}
	})
	if _, err := s.protected(l, reader, nil, nil); err != nil {
		return push(l, lua.LNil, err)
	}
	return load(l, source.String(), name)
}

// load compiles source.
func load(l *lua.LState, source, name string) int {
	of(l).take(l, 64*len(source))
	proto, err := compile(source, cText(name), foldNotRedis)
	if err != nil {
		return push(l, lua.LNil, lua.LString(err.Error()))
	}
	return push(l, l.NewFunctionFromProto(proto))
}
