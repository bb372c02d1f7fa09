package lualib

import (
	"errors"
	"strings"

	lua "github.com/yuin/gopher-lua"

	"kevy/resp"
)

// Function is a function that a library registered. It belongs to the state that
// loaded the library.
type Function struct {
	Name  string
	Desc  string
	Descs bool // there is a description, which may be empty
	Flags []string
	fn    *lua.LFunction
}

// loading is a library that is being loaded.
type loading struct {
	functions []*Function
	accept    func(f *Function) *resp.Error
}

// NewFunctions returns a state for libraries of functions.
func NewFunctions() *State {
	s := New()
	registrar := builtin(redisRegister)
	redis := newTable(0, 8)
	for name, v := range redisConstants {
		switch name {
		case "LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING", "REDIS_VERSION", "REDIS_VERSION_NUM":
			redis.RawSetString(name, v)
		}
	}
	redis.RawSetString("log", builtins["redis.log"])
	redis.RawSetString("register_function", registrar)
	s.loadGlobals = s.strict(1)
	s.loadGlobals.RawSetString("redis", s.protect(withMissing(redis, s), nil))
	return s
}

// strict returns a table whose missing entries are errors.
func (s *State) strict(n int) *lua.LTable { return withMissing(newTable(0, n), s) }

func withMissing(t *lua.LTable, s *State) *lua.LTable {
	meta := newTable(0, 1)
	meta.RawSetString("__index", missingGlobal)
	t.Metatable = meta
	return t
}

// show makes _G show a table's entries.
func (s *State) show(t *lua.LTable) {
	s.env.Metatable.(*lua.LTable).RawSetString("__index", t)
}

// Load runs a library, which registers its functions; accept may refuse each. A
// library sees little but redis.register_function and redis.log while it is loaded.
// p is of CompileLibrary and is loaded once.
// The error is as a client is to see it behind what its command says.
func (s *State) Load(p *Program, h Host, accept func(f *Function) *resp.Error) ([]*Function, error) {
	s.loading = &loading{accept: accept}
	s.show(s.loadGlobals)
	defer func() {
		s.loading = nil
		s.show(s.globals)
	}()
	s.proto = 2
	s.start(h)
	_, err := s.call(s.function(p), nil)
	s.host, s.ending, s.done = nil, nil, nil
	if err != nil {
		return nil, errors.New(cText(s.errorOf(err).text))
	}
	loaded(p.proto, p.library)
	return s.loading.functions, nil
}

// Call runs a function with keys and args as its arguments and writes exactly one
// reply.
func (s *State) Call(f *Function, keys, args [][]byte, h Host, w *resp.Writer) Outcome {
	return s.run(f.fn, []lua.LValue{s.list(keys), s.list(args)}, f.Name, h, w)
}

// redisRegister is redis.register_function(name, callback), or with one table of
// named arguments.
func redisRegister(l *lua.LState) int {
	s := of(l)
	if s.loading == nil {
		return refuse(l, "redis.register_function can only be called on FUNCTION LOAD command")
	}
	f := &Function{}
	switch l.GetTop() {
	case 1:
		t, ok := l.Get(1).(*lua.LTable)
		if !ok {
			return refuse(l, "calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments).")
		}
		if text := f.readNamed(t); text != "" {
			return refuse(l, text)
		}
	case 2:
		name, ok := toString(l.Get(1))
		if !ok {
			return refuse(l, "first argument to redis.register_function must be a string")
		}
		f.Name = name
		if f.fn, ok = l.Get(2).(*lua.LFunction); !ok {
			return refuse(l, "second argument to redis.register_function must be a function")
		}
	default:
		return refuse(l, "wrong number of arguments to redis.register_function")
	}
	for _, other := range s.loading.functions {
		// FCALL knows no case, so that one of two would never run.
		if strings.EqualFold(other.Name, f.Name) {
			return refuse(l, "Function already exists in the library")
		}
	}
	if err := s.loading.accept(f); err != nil {
		return refuse(l, err.Text)
	}
	s.loading.functions = append(s.loading.functions, f)
	return 0
}

// readNamed reads the named arguments. text says what is wrong with them.
func (f *Function) readNamed(t *lua.LTable) (text string) {
	named := false
	var key, value lua.LValue = lua.LNil, nil
	for key, value = t.Next(lua.LNil); key != lua.LNil; key, value = t.Next(key) {
		name, ok := key.(lua.LString)
		if !ok {
			return "named argument key given to redis.register_function is not a string"
		}
		switch name {
		case "function_name":
			v, ok := toString(value)
			if !ok {
				return "function_name argument given to redis.register_function must be a string"
			}
			f.Name, named = v, true
		case "description":
			v, ok := toString(value)
			if !ok {
				return "description argument given to redis.register_function must be a string"
			}
			f.Desc, f.Descs = v, true
		case "callback":
			if f.fn, ok = value.(*lua.LFunction); !ok {
				return "callback argument given to redis.register_function must be a function"
			}
		case "flags":
			list, ok := value.(*lua.LTable)
			if !ok {
				return "flags argument to redis.register_function must be a table representing function flags"
			}
			for i := 1; ; i++ {
				v := list.RawGetInt(i)
				if v == lua.LNil {
					break
				}
				flag, ok := toString(v)
				if !ok {
					return "unknown flag given"
				}
				f.Flags = append(f.Flags, flag)
			}
		default:
			return "unknown argument given to redis.register_function"
		}
	}
	switch {
	case !named:
		return "redis.register_function must get a function name argument"
	case f.fn == nil:
		return "redis.register_function must get a callback argument"
	}
	return ""
}
