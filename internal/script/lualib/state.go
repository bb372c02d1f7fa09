package lualib

import (
	"fmt"

	lua "github.com/yuin/gopher-lua"

	"kevy/resp"
)

const (
	// maxCallDepth bounds how deep functions of Lua call each other: as deep as
	// Lua 5.1's stack of calls grows.
	maxCallDepth = 16 << 10
	// mainCallDepth is that of the main thread, which functions of Go alone use.
	mainCallDepth = 256
	// maxStackSlots bounds the values on the stack of a thread.
	maxStackSlots = 1 << 19
	// stackSlots is how many a thread has at first.
	stackSlots = 128
	// stackStep is by how many it grows.
	stackStep = 4 << 10
	// maxArrayIndex is up to which index a table is an array. One assignment
	// beyond the end fills what lies between, so this is also what one instruction
	// can take.
	maxArrayIndex = 1 << 18
)

func init() { lua.MaxArrayIndex = maxArrayIndex }

// State runs programs, one at a time. It is used by one goroutine at a time.
type State struct {
	l     *lua.LState
	host  Host // of what runs; nil while nothing does
	proto int  // of redis.setresp
	// globals are what scripts may read, as _G shows them.
	globals *lua.LTable
	// env is _G itself.
	env        *lua.LTable
	stringMeta *lua.LTable // of strings, as scripts see it
	readonly   map[*lua.LTable]readonly
	redis      *lua.LTable // the contents of redis
	random     random
	watch      watch
	ending     error          // why what runs has to end
	done       chan struct{}  // closed once ending is set
	raising    bool           // raise has pushed the error that throw finds
	body       *lua.LFunction // makes what a coroutine runs
	// args and argBytes are the arguments of the command that is being called.
	args     [][]byte
	argBytes []byte
	nested   int                  // calls from functions of libraries, within each other
	idle     [maxIdle]*lua.LState // threads for protected calls, by the level of nesting
	// loadGlobals are what a library sees while it is loaded; nil where none is.
	loadGlobals *lua.LTable
	loading     *loading // the library that is being loaded, nil: none
}

// New returns a state in which nothing has run.
func New() *State {
	s := &State{readonly: map[*lua.LTable]readonly{}}
	s.watch.maxBytes = MaxMemoryBytes
	s.random.seed(firstSeed)
	s.l = lua.NewState(lua.Options{
		// All that runs does so in threads of its own: see protected.
		CallStackSize: mainCallDepth, MinimizeStackMemory: true,
		RegistrySize: stackSlots, RegistryMaxSize: maxStackSlots, RegistryGrowStep: stackStep,
		SkipOpenLibs: true,
	})
	// gopher-lua takes the first thread that calls anything for the main one.
	s.l.G.MainThread, s.l.G.CurrentThread = s.l, s.l
	s.adopt(s.l, nil)
	s.open()
	return s
}

// adopt makes a thread one of the state, which parent waits for.
func (s *State) adopt(l, parent *lua.LState) *meter {
	m := &meter{s: s, l: l, parent: parent}
	l.SetContext(m)
	l.Panic = throw
	return m
}

// Close frees what the state has.
func (s *State) Close() { s.l.Close() }

// SetMaxMemory says how many bytes a script may hold from now on.
func (s *State) SetMaxMemory(n uint64) { s.watch.maxBytes = n }

// Outcome says how a script ended.
type Outcome struct {
	// Failed says that the reply is an error that the script raised.
	Failed bool
	// Counted says that the reply is an error that Host.Call returned, which has
	// been counted among the errors already.
	Counted bool
}

// Eval runs a program with the tables KEYS and ARGV and writes exactly one reply.
// name is what an error says of the script: its SHA1.
func (s *State) Eval(p *Program, name string, keys, args [][]byte, h Host, w *resp.Writer) Outcome {
	s.globals.RawSetString("KEYS", s.list(keys))
	s.globals.RawSetString("ARGV", s.list(args))
	out := s.run(s.function(p), nil, name, h, w)
	// The tables go; the entries stay for the next script, as to remove and to make
	// them costs more than a short one.
	s.globals.RawSetString("KEYS", lua.LFalse)
	s.globals.RawSetString("ARGV", lua.LFalse)
	return out
}

// function makes a function of a program.
func (s *State) function(p *Program) *lua.LFunction { return s.l.NewFunctionFromProto(p.proto) }

// list makes a table of byte strings.
func (s *State) list(values [][]byte) *lua.LTable {
	t := newTable(len(values), 0)
	for i, v := range values {
		t.RawSetInt(i+1, lua.LString(v))
	}
	return t
}

// run calls a function and writes what it returns, or its error.
func (s *State) run(fn *lua.LFunction, args []lua.LValue, name string, h Host, w *resp.Writer) (out Outcome) {
	s.proto = 2
	s.start(h)
	v, err := s.call(fn, args)
	if err != nil {
		out.Failed = true
		e := s.errorOf(err)
		out.Counted = e.counted
		e.write(w, name)
	} else {
		if t, ok := v.(*lua.LTable); ok {
			// An error that redis.pcall returned may be the script's reply.
			out.Counted = contents(s.l, t).RawGetString("ignore_error_stats_update") == lua.LTrue
		}
		start := w.Len()
		if !s.reply(w, v) {
			w.Truncate(start)
			out.Failed = true
			s.errorOf(s.endError()).write(w, name)
		}
	}
	s.host, s.ending, s.done = nil, nil, nil
	return out
}

// call calls a function for one value. An error comes with where it was raised.
func (s *State) call(fn *lua.LFunction, args []lua.LValue) (v lua.LValue, err lua.LValue) {
	rets, err := s.protected(s.l, fn, args, func(l *lua.LState, e lua.LValue) lua.LValue { return s.locate(l, e) })
	if err != nil {
		return nil, err
	}
	if len(rets) == 0 {
		return lua.LNil, nil
	}
	return rets[0], nil
}

// locate adds to an error where it was raised: in what runs, or in what called it
// if that is a function of a library.
func (s *State) locate(l *lua.LState, v lua.LValue) lua.LValue {
	f := frameAt(l, 0)
	for level := 1; level <= 2 && f != nil && (level == 1 && f.chunk == nil || f.chunk != nil && f.chunk.source == hiddenChunk); level++ {
		f = frameAt(l, level)
	}
	t, ok := v.(*lua.LTable)
	if !ok {
		text, ok := toString(v)
		if !ok {
			text = toText(l, v)
		}
		t = errorTable("ERR " + text)
	} else if _, ok := s.readonly[t]; ok {
		return lua.LString(readonlyText)
	}
	if f != nil {
		source, line := "=[C]", -1
		if f.chunk != nil {
			source, line = f.chunk.source, f.site.line
		}
		t.RawSetString("source", lua.LString(source))
		t.RawSetString("line", lua.LNumber(line))
	}
	return t
}

// scriptError is an error as a script ends with it.
type scriptError struct {
	text    string
	source  string
	line    string
	counted bool
}

// errorOf takes an error apart.
func (s *State) errorOf(v lua.LValue) scriptError {
	t, ok := v.(*lua.LTable)
	if !ok {
		text, _ := toString(v)
		return scriptError{text: "ERR " + text}
	}
	return tableError(t)
}

// tableError is the error that a table is.
func tableError(t *lua.LTable) scriptError {
	var e scriptError
	e.text, _ = toString(t.RawGetString("err"))
	e.source, _ = toString(t.RawGetString("source"))
	e.line, _ = toString(t.RawGetString("line"))
	e.counted = t.RawGetString("ignore_error_stats_update") == lua.LTrue
	return e
}

// maxErrorBytes is how much of an error's text is sent.
const maxErrorBytes = 1 << 20

// write writes the error as the client gets it.
func (e scriptError) write(w *resp.Writer, name string) {
	text := cText(e.text[:min(len(e.text), maxErrorBytes)])
	if e.line != "" && e.source != "" {
		text = fmt.Sprintf("%s script: %s, on %s:%s.", text, name, cText(e.source), cText(e.line))
	}
	writeError(w, text)
}
