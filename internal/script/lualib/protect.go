package lualib

import (
	"fmt"

	lua "github.com/yuin/gopher-lua"
)

// maxNested bounds calls from functions of libraries, such as pcall and gsub,
// within each other. Lua 5.1 has 200 for them and for the calls below a script.
const maxNested = 196

// enter counts a call from a function of a library; leave, its end.
func (s *State) enter(l *lua.LState) {
	s.nested++
	if s.nested > maxNested {
		s.nested--
		raise(l, lua.LString("C stack overflow"))
	}
}

func (s *State) leave() { s.nested-- }

// thread returns a thread for a protected call, which parent waits for.
//
// A protected call has a stack of its own because gopher-lua, when it raises an
// error, closes the variables that closures share with every function on the
// stack: those of functions beyond the protected call, too, which go on.
func (s *State) thread(parent *lua.LState) *lua.LState {
	if s.nested < maxIdle && s.idle[s.nested] != nil {
		l := s.idle[s.nested]
		s.idle[s.nested] = nil
		l.Context().(*meter).parent = parent
		return l
	}
	// The deeper, the smaller: the sum is what bounds the stack of the goroutine.
	options := s.l.Options
	s.l.Options.CallStackSize = max(256, maxCallDepth/(s.nested+1))
	l, _ := s.l.NewThread()
	s.l.Options = options
	s.adopt(l, parent)
	return l
}

// maxIdle is for how many levels of protected calls a thread is kept.
const maxIdle = 8

// protected calls a function. Errors are handed to onError, if there is one, while
// the stack still stands, and what that returns is the error. err is nil if there
// was none.
func (s *State) protected(parent *lua.LState, fn lua.LValue, args []lua.LValue,
	onError func(*lua.LState, lua.LValue) lua.LValue,
) (rets []lua.LValue, err lua.LValue) {
	l := s.thread(parent)
	nested := s.nested
	err = s.attempt(l, fn, args, onError)
	s.nested = nested
	if err != nil {
		return nil, err // and the thread is dropped as it is
	}
	n := l.GetTop()
	rets = make([]lua.LValue, n)
	for i := range rets {
		rets[i] = l.Get(i + 1)
	}
	l.SetTop(0)
	if nested < maxIdle {
		s.idle[nested] = l
	}
	return rets, nil
}

// attempt calls a function in a thread and leaves what it returns there.
func (s *State) attempt(l *lua.LState, fn lua.LValue, args []lua.LValue,
	onError func(*lua.LState, lua.LValue) lua.LValue,
) (err lua.LValue) {
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		e, ok := r.(*lua.ApiError)
		if !ok {
			// gopher-lua's own limits, and its own faults. Closures may outlive
			// what has failed: raise is what closes their variables.
			e = s.caught(l, fmt.Sprint(r))
		}
		err = e.Object
		if onError != nil {
			err = s.handled(l, err, onError)
		}
	}()
	l.Push(fn)
	for _, a := range args {
		l.Push(a)
	}
	l.Call(len(args), lua.MultRet)
	return nil
}

// caught raises a text in a thread whose call has failed.
func (s *State) caught(l *lua.LState, text string) (e *lua.ApiError) {
	defer func() {
		r := recover()
		var ok bool
		if e, ok = r.(*lua.ApiError); !ok {
			e = &lua.ApiError{Object: lua.LString(text)}
		}
	}()
	f := frameAt(l, 0)
	if f != nil && f.chunk == nil {
		f = frameAt(l, 1)
	}
	raise(l, lua.LString(f.where()+machineError(text, site{})))
	return nil
}

// handled is what a handler makes of an error, or the error of the handler.
func (s *State) handled(l *lua.LState, v lua.LValue, handler func(*lua.LState, lua.LValue) lua.LValue) (result lua.LValue) {
	defer func() {
		if r := recover(); r != nil {
			s.raising = false
			result = lua.LString("error in error handling")
		}
	}()
	return handler(l, v)
}

// call1 calls a function from one of a library, for one value.
func (s *State) call1(l *lua.LState, fn lua.LValue, args ...lua.LValue) lua.LValue {
	s.enter(l)
	if _, ok := fn.(*lua.LFunction); !ok {
		if _, ok := metaField(l, fn, "__call").(*lua.LFunction); !ok {
			raise(l, lua.LString(typeError("call", named{}, typeName(fn))))
		}
	}
	l.Push(fn)
	push(l, args...)
	l.Call(len(args), 1)
	v := l.Get(-1)
	l.Pop(1)
	s.leave()
	return v
}

func luaPcall(l *lua.LState) int {
	if l.GetTop() == 0 {
		// Redis's pcall takes its own place holder for the function.
		return push(l, lua.LFalse, lua.LString(typeError("call", named{}, "boolean")))
	}
	return protectedCall(l, l.Get(1), arguments(l, 2), nil, func(e lua.LValue) lua.LValue {
		// Redis raises tables: its pcall shows their text.
		if t, ok := e.(*lua.LTable); ok {
			if v := contents(l, t).RawGetString("err"); v.Type() == lua.LTString || v.Type() == lua.LTNumber {
				return v
			}
		}
		return e
	})
}

func luaXpcall(l *lua.LState) int {
	if l.GetTop() < 2 {
		argError(l, 2, "value expected")
	}
	handler := l.Get(2)
	return protectedCall(l, l.Get(1), nil, func(t *lua.LState, e lua.LValue) lua.LValue {
		return of(t).call1(t, handler, e)
	}, func(e lua.LValue) lua.LValue { return e })
}

func protectedCall(l *lua.LState, fn lua.LValue, args []lua.LValue,
	onError func(*lua.LState, lua.LValue) lua.LValue, shown func(lua.LValue) lua.LValue,
) int {
	s := of(l)
	if s.nested >= maxNested {
		return push(l, lua.LFalse, lua.LString("C stack overflow"))
	}
	if _, ok := fn.(*lua.LFunction); !ok {
		if _, ok := metaField(l, fn, "__call").(*lua.LFunction); !ok {
			e := lua.LValue(lua.LString(typeError("call", named{}, typeName(fn))))
			if onError != nil {
				e = s.handled(l, e, onError)
			}
			return push(l, lua.LFalse, e)
		}
	}
	s.nested++
	rets, err := s.protected(l, fn, args, onError)
	s.nested--
	if err != nil {
		return push(l, lua.LFalse, shown(err))
	}
	l.Push(lua.LTrue)
	return 1 + push(l, rets...)
}

// arguments are those from the nth on.
func arguments(l *lua.LState, n int) []lua.LValue {
	var args []lua.LValue
	for i := n; i <= l.GetTop(); i++ {
		args = append(args, l.Get(i))
	}
	return args
}
