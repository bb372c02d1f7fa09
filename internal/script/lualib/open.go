package lualib

import lua "github.com/yuin/gopher-lua"

// builtins are the functions that belong to no state, by what scripts call them.
// The compiler makes constants of those that are called by name.
var builtins map[string]*lua.LFunction

func init() {
	builtins = map[string]*lua.LFunction{}
	add := func(prefix string, fns map[string]lua.LGFunction) {
		for name, fn := range fns {
			builtins[prefix+name] = builtin(fn)
		}
	}
	add("", baseFunctions)
	add("coroutine.", coroutineFunctions)
	add("string.", stringFunctions)
	add("table.", tableFunctions)
	add("math.", mathFunctions)
	add("bit.", bitFunctions)
	add("struct.", structFunctions)
	add("cmsgpack.", packFunctions)
	add("redis.", redisFunctions)
	add("", operatorFunctions)
	builtins["string.gfind"] = builtins["string.gmatch"]
	builtins["math.mod"] = builtins["math.fmod"]
}

// library makes a table of functions and constants.
func library(prefix string, fns map[string]lua.LGFunction, constants map[string]lua.LValue) *lua.LTable {
	t := newTable(0, len(fns)+len(constants))
	for name := range fns {
		t.RawSetString(name, builtins[prefix+name])
	}
	for name, v := range constants {
		t.RawSetString(name, v)
	}
	return t
}

// open makes the libraries of the state, and what protects them.
func (s *State) open() {
	s.globals = library("", baseFunctions, nil)
	s.redis = library("redis.", redisFunctions, redisConstants)
	strings := s.protect(library("string.", stringFunctions, nil), nil)
	s.body = s.made(body)
	suspending := map[string]lua.LValue{"yield": s.made(yield, builtins["suspend"], builtins["values"])}
	for name, t := range map[string]*lua.LTable{
		"coroutine": library("coroutine.", coroutineFunctions, suspending),
		"table":     library("table.", tableFunctions, nil),
		"math":      library("math.", mathFunctions, mathConstants),
		"bit":       library("bit.", bitFunctions, nil),
		"struct":    library("struct.", structFunctions, nil),
		"cmsgpack":  library("cmsgpack.", packFunctions, packConstants),
		"cjson":     newJSON(),
		"redis":     s.redis,
	} {
		s.globals.RawSetString(name, s.protect(t, nil))
	}
	s.globals.RawSetString("string", strings)
	s.globals.RawSetString("_VERSION", lua.LString("Lua 5.1"))
	s.globals.RawSetString("__redis__err__handler", errorHandler)

	meta := newTable(0, 1)
	meta.RawSetString("__index", missingGlobal)
	s.globals.Metatable = meta
	s.env = s.protect(s.globals, s.protect(meta, nil))
	s.globals.RawSetString("_G", s.env)
	s.l.G.Global, s.l.Env = s.env, s.env

	ofStrings := newTable(0, 1)
	ofStrings.RawSetString("__index", strings)
	s.stringMeta = s.protect(ofStrings, nil)

	// What the machine asks of values that have no metatable of their own.
	machine := newTable(0, 8)
	machine.RawSetString("__index", strings)
	machine.RawSetString("__call", callError)
	for event, fn := range stringArithmetic {
		machine.RawSetString(event, fn)
	}
	s.l.SetMetatable(lua.LString(""), machine)
	for _, v := range []lua.LValue{lua.LNil, lua.LTrue, lua.LNumber(0), s.l} {
		t := newTable(0, 2)
		t.RawSetString("__call", callError)
		if v.Type() != lua.LTNumber {
			t.RawSetString("__unm", negateError)
		}
		s.l.SetMetatable(v, t)
	}
	fn := newTable(0, 1)
	fn.RawSetString("__unm", negateError)
	s.l.SetMetatable(missingGlobal, fn)
}

// missingGlobal is what the globals answer for what is none of them.
var missingGlobal = builtin(func(l *lua.LState) int {
	if l.GetTop() != 2 {
		fail(l, "Wrong number of arguments to luaProtectedTableError")
	}
	name, ok := toString(l.Get(2))
	if !ok {
		fail(l, "Second argument to luaProtectedTableError must be a string or number")
	}
	fail(l, "Script attempted to access nonexistent global variable '%s'", cText(name))
	return 0
})

// errorHandler adds to an error where it was raised. Scripts see it by accident.
var errorHandler = builtin(func(l *lua.LState) int {
	s := of(l)
	t, ok := l.Get(1).(*lua.LTable)
	if !ok {
		text := l.Get(1)
		if m := metaField(l, text, "__tostring"); m != lua.LNil {
			text = s.call1(l, m, text)
		}
		t = errorTable("ERR " + toText(l, text))
	}
	f := frameAt(l, 1)
	if f != nil && f.chunk == nil {
		f = frameAt(l, 2)
	}
	if f != nil {
		writable(l, t)
		source, line := "=[C]", -1
		if f.chunk != nil {
			source, line = f.chunk.source, f.site.line
		}
		t.RawSetString("source", lua.LString(source))
		t.RawSetString("line", lua.LNumber(line))
	}
	return push(l, t)
})
