package lualib

import (
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// operatorFunctions are what the compiler puts in the place of operators: see
// lower.go.
var operatorFunctions = map[string]lua.LGFunction{
	"concat": opConcat, "len": opLen, "mod": opArithmetic("__mod", mod), "pow": opArithmetic("__pow", pow),
	"values": func(l *lua.LState) int { return l.GetTop() }, "ended": opEnded, "suspend": luaCoYield,
	forInitial: opFor("initial value"), forLimit: opFor("limit"), forStep: opFor("step"),
}

func opConcat(l *lua.LState) int {
	n := l.GetTop()
	bytes := 0
	for i := 1; i <= n; i++ {
		switch v := l.Get(i).(type) {
		case lua.LString:
			bytes += len(v)
		case lua.LNumber:
			bytes += 24
		default:
			return concatSlow(l, n)
		}
	}
	tooLarge(l, bytes)
	of(l).take(l, bytes)
	if n == 2 {
		if a, ok := l.Get(1).(lua.LString); ok {
			if b, ok := l.Get(2).(lua.LString); ok {
				return push(l, a+b)
			}
		}
	}
	var b strings.Builder
	b.Grow(bytes)
	var scratch [32]byte
	for i := 1; i <= n; i++ {
		switch v := l.Get(i).(type) {
		case lua.LString:
			b.WriteString(string(v))
		case lua.LNumber:
			b.Write(appendNumber(scratch[:0], float64(v)))
		}
	}
	return pushString(l, b.String())
}

// concatSlow concatenates from the right, with metamethods.
func concatSlow(l *lua.LState, n int) int {
	acc := l.Get(n)
	for i := n - 1; i > 0; i-- {
		v := l.Get(i)
		a, okA := toString(v)
		b, okB := toString(acc)
		if okA && okB {
			tooLarge(l, len(a)+len(b))
			of(l).take(l, len(a)+len(b))
			acc = lua.LString(a + b)
			continue
		}
		m := metaField(l, v, "__concat")
		if m == lua.LNil {
			m = metaField(l, acc, "__concat")
		}
		if m == lua.LNil {
			var at site
			if f := frameAt(l, 1); f != nil {
				at = f.site
			}
			bad, operand := v, i-1
			if okA {
				bad, operand = acc, i
			}
			var name named
			if operand < len(at.operands) && (operand == i-1 || i == n-1) {
				name = at.operands[operand]
			}
			fail(l, "%s", typeError("concatenate", name, typeName(bad)))
		}
		acc = of(l).call1(l, m, v, acc)
	}
	return push(l, acc)
}

func opLen(l *lua.LState) int {
	switch v := l.Get(1).(type) {
	case lua.LString:
		return pushNumber(l, float64(len(v)))
	case *lua.LTable:
		// Lua 5.1 asks no metamethod of a table.
		return pushNumber(l, float64(tableLen(contents(l, v))))
	}
	var name named
	if f := frameAt(l, 1); f != nil {
		name = f.site.a
	}
	fail(l, "%s", typeError("get length of", name, typeName(l.Get(1))))
	return 0
}

// opArithmetic is an operator that gopher-lua's machine has another way.
func opArithmetic(event string, fn func(a, b float64) float64) lua.LGFunction {
	return func(l *lua.LState) int {
		if a, ok := l.Get(1).(lua.LNumber); ok {
			if b, ok := l.Get(2).(lua.LNumber); ok {
				return pushNumber(l, fn(float64(a), float64(b)))
			}
		}
		return arithmeticSlow(l, event, fn)
	}
}

// arithmeticSlow converts strings, or asks metamethods.
func arithmeticSlow(l *lua.LState, event string, fn func(a, b float64) float64) int {
	x, y := l.Get(1), l.Get(2)
	for _, v := range []lua.LValue{x, y} {
		if s, ok := v.(lua.LString); ok {
			of(l).work(l, len(s))
		}
	}
	a, okA := toNumber(x)
	b, okB := toNumber(y)
	if okA && okB {
		return pushNumber(l, fn(a, b))
	}
	m := metaField(l, x, event)
	if m == lua.LNil {
		m = metaField(l, y, event)
	}
	if m != lua.LNil {
		return push(l, of(l).call1(l, m, x, y))
	}
	var at site
	if f := frameAt(l, 1); f != nil {
		at = f.site
	}
	if okA {
		fail(l, "%s", typeError("perform arithmetic on", at.b, typeName(y)))
	}
	fail(l, "%s", typeError("perform arithmetic on", at.a, typeName(x)))
	return 0
}

// opFor sees that a value of a numeric for is a number.
func opFor(what string) lua.LGFunction {
	return func(l *lua.LState) int {
		f, ok := toNumber(l.Get(1))
		if !ok {
			fail(l, "'for' %s must be a number", what)
		}
		return pushNumber(l, f)
	}
}

// stringArithmetic are the metamethods that make strings numbers: gopher-lua
// reads some numbers another way. The machine calls them; scripts do not see them.
var stringArithmetic = func() map[string]*lua.LFunction {
	m := map[string]*lua.LFunction{}
	for event, fn := range map[string]func(a, b float64) float64{
		"__add": func(a, b float64) float64 { return a + b },
		"__sub": func(a, b float64) float64 { return a - b },
		"__mul": func(a, b float64) float64 { return a * b },
		"__div": func(a, b float64) float64 { return a / b },
	} {
		m[event] = builtin(func(l *lua.LState) int { return arithmeticSlow(l, event, fn) })
	}
	m["__unm"] = builtin(func(l *lua.LState) int {
		l.SetTop(1)
		l.Push(l.Get(1))
		return arithmeticSlow(l, "__unm", func(a, _ float64) float64 { return -a })
	})
	return m
}()

// callError is the __call of what cannot be called.
var callError = builtin(func(l *lua.LState) int {
	var name named
	if f := frameAt(l, 1); f != nil && f.site.kind == callSite {
		name = f.site.a
	}
	fail(l, "%s", typeError("call", name, typeName(l.Get(1))))
	return 0
})

// negateError is the __unm of what is no number.
var negateError = builtin(func(l *lua.LState) int {
	var name named
	if f := frameAt(l, 1); f != nil {
		name = f.site.a
	}
	fail(l, "%s", typeError("perform arithmetic on", name, typeName(l.Get(1))))
	return 0
})
