package lualib

import (
	"fmt"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// raise raises a value as an error.
func raise(l *lua.LState, v lua.LValue) {
	of(l).raising = true
	if s, ok := v.(lua.LString); ok {
		l.Error(s, 0)
	}
	l.Error(v, 0)
}

// fail raises a text as an error that says where the function was called.
func fail(l *lua.LState, format string, args ...any) {
	raise(l, lua.LString(where(l, 1)+fmt.Sprintf(format, args...)))
}

// throw ends what runs with the error on top of the stack. It is where errors of
// gopher-lua's machine become those of Lua's.
func throw(l *lua.LState) {
	s := of(l)
	v := l.Get(-1)
	if !s.raising {
		v = s.translate(l, v)
	}
	s.raising = false
	// A stack trace that is there is not made.
	panic(&lua.ApiError{Type: lua.ApiErrorRun, Object: v, StackTrace: "-"})
}

// frame is a function that is being called.
type frame struct {
	fn    *lua.LFunction
	chunk *chunk // nil for functions of libraries
	site  site   // where it is, in a function of Lua
}

func (f *frame) where() string {
	if f == nil || f.chunk == nil || f.chunk.source == hiddenChunk {
		return ""
	}
	return f.chunk.name + ":" + strconv.Itoa(f.site.line) + ": "
}

// frameAt returns who calls whom: level 0 is what runs, 1 who called it. It goes
// on into the threads that wait for this one. nil is beyond all.
func frameAt(l *lua.LState, level int) *frame {
	for l != nil {
		n := 0
		for ; ; n++ {
			dbg, ok := l.GetStack(n)
			if !ok {
				break
			}
			if n < level {
				continue
			}
			v, err := l.GetInfo("fl", dbg, lua.LNil)
			fn, ok := v.(*lua.LFunction)
			if err != nil || !ok {
				return nil
			}
			f := &frame{fn: fn}
			if !fn.IsG {
				f.chunk = chunkOf(fn)
				if 0 <= dbg.CurrentLine && dbg.CurrentLine < len(f.chunk.sites) {
					f.site = f.chunk.sites[dbg.CurrentLine]
				}
			}
			return f
		}
		level -= n
		l = l.Context().(*meter).parent
	}
	return nil
}

// where is what an error begins with that is about the function at level.
func where(l *lua.LState, level int) string { return frameAt(l, level).where() }

// typeError is the error of an operation on a value of the wrong type.
func typeError(op string, name named, typ string) string {
	if name.kind == noName {
		return "attempt to " + op + " a " + typ + " value"
	}
	return "attempt to " + op + " " + nameKinds[name.kind] + " '" + name.name + "' (a " + typ + " value)"
}

// translate makes an error of gopher-lua's machine one of Lua's.
func (s *State) translate(l *lua.LState, v lua.LValue) lua.LValue {
	if s.ending != nil {
		return s.endError()
	}
	text, ok := v.(lua.LString)
	if !ok {
		return v
	}
	f := frameAt(l, 0)
	if f == nil {
		return v
	}
	if f.chunk == nil {
		f = frameAt(l, 1)
	}
	message := string(text)
	if rest, ok := strings.CutPrefix(message, chunkName+":"); ok {
		_, message, _ = strings.Cut(rest, ": ")
	}
	var at site
	if f != nil {
		at = f.site
	}
	return lua.LString(f.where() + machineError(message, at))
}

// machineError words an error of gopher-lua's machine as Lua does.
func machineError(message string, at site) string {
	switch {
	case strings.HasPrefix(message, "attempt to index a non-table object("):
		typ, _, _ := strings.Cut(message[len("attempt to index a non-table object("):], ")")
		name := at.a
		if at.kind == callSite {
			name = at.b
		}
		return typeError("index", name, typ)
	case message == "attempt to call a non-function object":
		if at.kind == forSite {
			at.a = named{}
		}
		return typeError("call", at.a, "table")
	case strings.HasPrefix(message, "cannot perform "):
		_, types, _ := strings.Cut(message, " between ")
		a, b, _ := strings.Cut(types, " and ")
		if a == "number" {
			return typeError("perform arithmetic on", at.b, b)
		}
		return typeError("perform arithmetic on", at.a, a)
	case message == "__unm undefined":
		return typeError("perform arithmetic on", at.a, "table")
	case strings.HasPrefix(message, "attempt to compare "):
		a, b, _ := strings.Cut(message[len("attempt to compare "):], " with ")
		if a == b {
			return "attempt to compare two " + a + " values"
		}
	case message == "registry overflow" || message == "lua callstack overflow":
		return "stack overflow"
	case message == "too many recursions in gettable":
		return "loop in gettable"
	case message == "too many recursions in settable":
		return "loop in settable"
	}
	return message
}

// endError is the error of a script that the host or the memory ends.
func (s *State) endError() lua.LValue {
	return errorTable(s.ending.Error())
}

// errorTable is an error as redis.call raises it.
func errorTable(text string) *lua.LTable {
	t := newTable(0, 1)
	t.RawSetString("err", lua.LString(text))
	return t
}

// argError raises the error of an argument, by the name that the function was
// called by.
func argError(l *lua.LState, n int, text string) {
	name := "?"
	if f := frameAt(l, 1); f != nil && f.chunk != nil && (f.site.kind == callSite || f.site.kind == forSite) {
		if f.site.a.kind != noName {
			name = f.site.a.name
		}
		if f.site.a.kind == methodName {
			n--
			if n == 0 {
				fail(l, "calling '%s' on bad self (%s)", name, text)
			}
		}
	}
	fail(l, "bad argument #%d to '%s' (%s)", n, name, text)
}

// argTypeError raises the error of an argument of the wrong type.
func argTypeError(l *lua.LState, n int, expected string) {
	argError(l, n, expected+" expected, got "+argTypeName(l, n))
}

func argTypeName(l *lua.LState, n int) string {
	if n > l.GetTop() {
		return "no value"
	}
	return typeName(l.Get(n))
}

func typeName(v lua.LValue) string { return v.Type().String() }
