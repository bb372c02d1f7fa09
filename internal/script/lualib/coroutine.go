package lualib

import (
	"sync"

	lua "github.com/yuin/gopher-lua"
)

// coroutine is a thread that scripts make.
type coroutine struct {
	fn      *lua.LFunction
	dead    bool
	running bool // it runs, or waits for one that it has resumed
	// values is how many values it has returned or yielded: gopher-lua returns one
	// nil for none.
	values int
}

// body makes what a coroutine runs: its function, whose values are counted.
var body = hidden("return function(f, ended) return function(...) return ended(f(...)) end end")

// yield is coroutine.yield. What resume hands to gopher-lua's is as many values as
// there are, whatever the caller wants, and none where a call is the last thing
// that a function does: a function of Lua between both sets that right.
var yield = hidden("local suspend, values = ... return function(...) return values(suspend(...)) end")

// hidden compiles a chunk that errors do not name, once for all states.
func hidden(source string) func() *lua.FunctionProto {
	return sync.OnceValue(func() *lua.FunctionProto {
		proto, err := compile(source, hiddenChunk, foldNotRedis)
		if err != nil {
			panic(err)
		}
		return proto
	})
}

// made runs a chunk for the one function that it makes.
func (s *State) made(chunk func() *lua.FunctionProto, args ...lua.LValue) *lua.LFunction {
	rets, raised := s.protected(s.l, s.l.NewFunctionFromProto(chunk()), args, nil)
	if raised != nil {
		panic(raised.String())
	}
	return rets[0].(*lua.LFunction)
}

// hiddenChunk is the name of a chunk that errors do not name.
const hiddenChunk = "=[C]"

func opEnded(l *lua.LState) int {
	l.Context().(*meter).co.values = l.GetTop()
	return l.GetTop()
}

func coroutineOf(l *lua.LState, n int) *lua.LState {
	co, ok := l.Get(n).(*lua.LState)
	if !ok {
		argError(l, n, "coroutine expected")
	}
	return co
}

func newCoroutine(l *lua.LState) *lua.LState {
	fn, ok := l.Get(1).(*lua.LFunction)
	if !ok || fn.IsG || chunkOf(fn).source == hiddenChunk {
		argError(l, 1, "Lua function expected")
	}
	s := of(l)
	options := s.l.Options
	s.l.Options.CallStackSize = max(256, maxCallDepth/(s.nested+1))
	co, _ := s.l.NewThread()
	s.l.Options = options
	made, err := s.protected(l, s.body, []lua.LValue{fn, builtins["ended"]}, nil)
	if err != nil {
		raise(l, err)
	}
	s.adopt(co, nil).co = &coroutine{fn: made[0].(*lua.LFunction)}
	s.take(l, 4<<10)
	return co
}

// status of a coroutine, as seen from l.
func (s *State) status(l, co *lua.LState) string {
	c := co.Context().(*meter).co
	switch {
	case co == current(l):
		return "running"
	case c == nil || c.running:
		return "normal"
	case c.dead:
		return "dead"
	}
	return "suspended"
}

// current is the coroutine that l runs in, or the main thread.
func current(l *lua.LState) *lua.LState {
	for {
		m := l.Context().(*meter)
		if m.co != nil || m.parent == nil {
			return l
		}
		l = m.parent
	}
}

// resume runs a coroutine to its end or its next yield.
func (s *State) resume(l, co *lua.LState, args []lua.LValue) (rets []lua.LValue, err lua.LValue) {
	if status := s.status(l, co); status != "suspended" {
		return nil, lua.LString("cannot resume " + status + " coroutine")
	}
	s.enter(l)
	nested := s.nested
	m := co.Context().(*meter)
	m.parent, m.co.running = l, true
	main := s.l.G.CurrentThread
	s.l.G.CurrentThread = l
	state, failed, rets := l.Resume(co, m.co.fn, args...)
	s.l.G.CurrentThread = main
	m.parent, m.co.running = nil, false
	m.co.dead = state != lua.ResumeYield
	s.nested = nested
	s.leave()
	if state == lua.ResumeError {
		v := lua.LValue(lua.LNil)
		if e, ok := failed.(*lua.ApiError); ok {
			v = e.Object
		}
		return nil, v
	}
	return rets[:min(len(rets), m.co.values)], nil
}

func luaCoCreate(l *lua.LState) int { return push(l, newCoroutine(l)) }

func luaCoResume(l *lua.LState) int {
	co := coroutineOf(l, 1)
	rets, err := of(l).resume(l, co, arguments(l, 2))
	if err != nil {
		return push(l, lua.LFalse, err)
	}
	l.Push(lua.LTrue)
	return 1 + push(l, rets...)
}

func luaCoWrap(l *lua.LState) int {
	co := newCoroutine(l)
	return push(l, l.NewFunction(func(l *lua.LState) int {
		rets, err := of(l).resume(l, co, arguments(l, 1))
		if err != nil {
			if text, ok := toString(err); ok {
				err = lua.LString(where(l, 1) + text)
			}
			raise(l, err)
		}
		return push(l, rets...)
	}))
}

func luaCoRunning(l *lua.LState) int {
	if co := current(l); co.Context().(*meter).co != nil {
		return push(l, co)
	}
	return push(l, lua.LNil)
}

func luaCoStatus(l *lua.LState) int {
	co := coroutineOf(l, 1)
	return pushString(l, of(l).status(l, co))
}

func luaCoYield(l *lua.LState) int {
	if l.Context().(*meter).co == nil {
		raise(l, lua.LString("attempt to yield across metamethod/C-call boundary"))
	}
	// Every call between here and resume must be one of a function of Lua by one.
	for level := 1; ; level++ {
		dbg, ok := l.GetStack(level)
		if !ok {
			break
		}
		v, err := l.GetInfo("fl", dbg, lua.LNil)
		fn, ok := v.(*lua.LFunction)
		if err != nil || !ok || fn.IsG || chunkOf(fn).sites[dbg.CurrentLine].kind != callSite {
			raise(l, lua.LString("attempt to yield across metamethod/C-call boundary"))
		}
	}
	l.Context().(*meter).co.values = l.GetTop()
	return l.Yield(arguments(l, 1)...)
}
