package lualib

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"

	"kevy/resp"
)

const (
	// maxCallDepth bounds how deep functions of Lua call each other.
	maxCallDepth = 16 << 10
	// maxStackSlots bounds the values on the stack of a state.
	maxStackSlots = 1 << 20
	// stackSlots is how many a state has at first.
	stackSlots = 1 << 10
)

// Program is compiled Lua. It is immutable.
type Program struct{ proto *lua.FunctionProto }

// Compile compiles a script that errors and tracebacks call name, such as
// user_script. The error's text is that of the compiler.
func Compile(name string, source []byte) (*Program, error) {
	chunk, err := parse.Parse(bytes.NewReader(source), name)
	if err != nil {
		return nil, fmt.Errorf("%s", strings.TrimSpace(err.Error()))
	}
	proto, err := lua.Compile(chunk, name)
	if err != nil {
		return nil, err
	}
	return &Program{proto}, nil
}

// State runs programs, one at a time. It is used by one goroutine at a time.
type State struct {
	l     *lua.LState
	meter meter
	host  Host // of what runs; nil while nothing does
	proto int  // of redis.setresp
	// handler is the function that adds to an error where it was raised.
	handler *lua.LFunction
}

// New returns a state in which nothing has run.
func New() *State {
	s := &State{l: lua.NewState(lua.Options{
		CallStackSize: maxCallDepth, MinimizeStackMemory: true,
		RegistrySize: stackSlots, RegistryMaxSize: maxStackSlots, RegistryGrowStep: stackSlots,
		SkipOpenLibs: true,
	})}
	s.l.SetContext(&s.meter)
	s.open()
	return s
}

// Close frees what the state has.
func (s *State) Close() { s.l.Close() }

// Outcome says how a script ended.
type Outcome struct {
	// Failed says that the reply is an error that the script raised.
	Failed bool
	// Counted says that this error is one that Host.Call returned, which has
	// been counted among the errors already.
	Counted bool
}

// Eval runs a program with the tables KEYS and ARGV and writes exactly one reply.
// name is what an error says of the script: its SHA1.
func (s *State) Eval(p *Program, name string, keys, args [][]byte, h Host, w *resp.Writer) Outcome {
	g := s.l.G.Global
	g.RawSetString("KEYS", s.list(keys))
	g.RawSetString("ARGV", s.list(args))
	return s.run(s.l.NewFunctionFromProto(p.proto), nil, name, h, w)
}

// list makes a table of byte strings.
func (s *State) list(values [][]byte) *lua.LTable {
	t := s.l.CreateTable(len(values), 0)
	for _, v := range values {
		t.Append(lua.LString(v))
	}
	return t
}

// run calls a function and writes what it returns, or its error.
func (s *State) run(fn *lua.LFunction, args []lua.LValue, name string, h Host, w *resp.Writer) (out Outcome) {
	s.host, s.proto = h, 2
	s.meter.start(h)
	err := s.call(fn, args)
	if err != nil {
		out.Failed = true
		e := s.errorOf(err)
		out.Counted = e.counted
		w.Error(e.reply(name))
	} else {
		s.reply(w, s.l.Get(-1))
	}
	s.l.SetTop(0)
	s.host = nil
	s.meter.start(nil)
	return out
}

// call calls a function for one value, which is then on the stack.
func (s *State) call(fn *lua.LFunction, args []lua.LValue) error {
	s.l.Push(fn)
	for _, a := range args {
		s.l.Push(a)
	}
	return s.l.PCall(len(args), 1, s.handler)
}

// scriptError is an error as a script ends with it.
type scriptError struct {
	text    string
	source  string
	line    string
	counted bool
}

// errorOf takes an error of PCall apart.
func (s *State) errorOf(err error) scriptError {
	if s.meter.err != nil {
		return scriptError{text: "ERR " + s.meter.err.Error()}
	}
	var api *lua.ApiError
	if !errors.As(err, &api) {
		return scriptError{text: "ERR " + err.Error()}
	}
	t, ok := api.Object.(*lua.LTable)
	if !ok {
		return scriptError{text: "ERR " + errorText(api)}
	}
	e := scriptError{text: "ERR unknown error"}
	if text, ok := t.RawGetString("err").(lua.LString); ok {
		e.text = string(text)
	}
	e.source = lua.LVAsString(t.RawGetString("source"))
	e.line = lua.LVAsString(t.RawGetString("line"))
	e.counted = lua.LVAsBool(t.RawGetString("ignore_error_stats_update"))
	return e
}

func errorText(api *lua.ApiError) string {
	if api.Object != nil && api.Object != lua.LNil {
		return api.Object.String()
	}
	if api.Cause != nil {
		return api.Cause.Error()
	}
	return "unknown error"
}

// reply is the error as the client gets it.
func (e scriptError) reply(name string) *resp.Error {
	text := e.text
	if e.line != "" && e.source != "" {
		text = fmt.Sprintf("%s script: %s, on %s:%s.", text, name, e.source, e.line)
	}
	code, rest, _ := strings.Cut(text, " ")
	return &resp.Error{Code: code, Text: rest}
}
