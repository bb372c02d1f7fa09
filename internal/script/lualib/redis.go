package lualib

import (
	"crypto/sha1"
	"encoding/hex"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// open makes the libraries of the state.
func (s *State) open() {
	for _, lib := range []struct {
		name string
		open lua.LGFunction
	}{
		{lua.BaseLibName, lua.OpenBase}, {lua.TabLibName, lua.OpenTable},
		{lua.StringLibName, lua.OpenString}, {lua.MathLibName, lua.OpenMath},
	} {
		s.l.Push(s.l.NewFunction(lib.open))
		s.l.Push(lua.LString(lib.name))
		s.l.Call(1, 0)
	}
	for _, name := range []string{"dofile", "loadfile", "print", "require", "module", "newproxy", "_printregs", "_GOPHER_LUA_VERSION"} {
		s.l.SetGlobal(name, lua.LNil)
	}
	t := s.l.NewTable()
	for name, fn := range map[string]lua.LGFunction{
		"call":         func(*lua.LState) int { return s.redisCall(true) },
		"pcall":        func(*lua.LState) int { return s.redisCall(false) },
		"error_reply":  func(*lua.LState) int { return s.errorReply() },
		"status_reply": func(*lua.LState) int { return s.singleField("ok") },
		"sha1hex":      func(*lua.LState) int { return s.sha1hex() },
		"setresp":      func(*lua.LState) int { return s.setResp() },
		"log":          func(*lua.LState) int { return s.log() },
	} {
		t.RawSetString(name, s.l.NewFunction(fn))
	}
	for i, name := range []string{"LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"} {
		t.RawSetString(name, lua.LNumber(i))
	}
	s.l.SetGlobal("redis", t)
	s.l.SetGlobal("server", t)
	s.handler = s.l.NewFunction(func(*lua.LState) int { return s.locate() })
}

// locate is called with an error where it was raised and makes it a table that
// says so.
func (s *State) locate() int {
	t, ok := s.l.Get(1).(*lua.LTable)
	if !ok {
		t = s.l.NewTable()
		t.RawSetString("err", lua.LString("ERR "+lua.LVAsString(s.l.Get(1))))
	}
	for level := 1; ; level++ {
		dbg, ok := s.l.GetStack(level)
		if !ok {
			break
		}
		if _, err := s.l.GetInfo("Sl", dbg, lua.LNil); err != nil || dbg.What == "G" || dbg.CurrentLine < 0 {
			continue
		}
		t.RawSetString("source", lua.LString("@"+dbg.Source))
		t.RawSetString("line", lua.LNumber(dbg.CurrentLine))
		break
	}
	s.l.Push(t)
	return 1
}

// raise raises an error with the text that a client would see.
func (s *State) raise(text string) int {
	s.l.Error(s.errorTable(text), 1)
	return 0
}

func (s *State) errorTable(text string) *lua.LTable {
	t := s.l.NewTable()
	t.RawSetString("err", lua.LString(text))
	return t
}

// redisCall is redis.call, which raises errors, and redis.pcall, which returns
// them.
func (s *State) redisCall(raises bool) int {
	fail := func(t *lua.LTable) int {
		if raises {
			s.l.Error(t, 1)
		}
		s.l.Push(t)
		return 1
	}
	n := s.l.GetTop()
	if n == 0 {
		return fail(s.errorTable("ERR Please specify at least one argument for this redis.call() call"))
	}
	args := make([][]byte, n)
	for i := range args {
		switch v := s.l.Get(i + 1).(type) {
		case lua.LString:
			args[i] = []byte(v)
		case lua.LNumber:
			args[i] = []byte(numberText(v))
		default:
			return fail(s.errorTable("ERR Lua redis lib command arguments must be strings or integers"))
		}
	}
	reply := s.host.Call(args, s.proto)
	if s.meter.tick() != nil {
		return 0 // the next instruction raises it
	}
	v := s.value(reply)
	if t, ok := v.(*lua.LTable); ok && len(reply) > 0 && reply[0] == '-' {
		t.RawSetString("ignore_error_stats_update", lua.LTrue)
		return fail(t)
	}
	s.l.Push(v)
	return 1
}

func (s *State) singleField(name string) int {
	v, ok := s.l.Get(1).(lua.LString)
	if !ok || s.l.GetTop() != 1 {
		return s.raise("ERR wrong number or type of arguments")
	}
	t := s.l.NewTable()
	t.RawSetString(name, v)
	s.l.Push(t)
	return 1
}

func (s *State) errorReply() int {
	v, ok := s.l.Get(1).(lua.LString)
	if !ok || s.l.GetTop() != 1 {
		return s.raise("ERR wrong number or type of arguments")
	}
	text := string(v)
	if strings.HasPrefix(text, "-") {
		text = text[1:]
	} else if !strings.Contains(text, " ") {
		text = "ERR " + text
	}
	s.l.Push(s.errorTable(text))
	return 1
}

func (s *State) sha1hex() int {
	if s.l.GetTop() != 1 {
		return s.raise("ERR wrong number of arguments")
	}
	sum := sha1.Sum([]byte(lua.LVAsString(s.l.Get(1))))
	s.l.Push(lua.LString(hex.EncodeToString(sum[:])))
	return 1
}

func (s *State) setResp() int {
	if s.l.GetTop() != 1 {
		return s.raise("ERR redis.setresp() requires one argument.")
	}
	n, _ := s.l.Get(1).(lua.LNumber)
	if n != 2 && n != 3 {
		return s.raise("ERR RESP version must be 2 or 3.")
	}
	s.proto = int(n)
	return 0
}

func (s *State) log() int {
	if s.l.GetTop() < 2 {
		return s.raise("ERR redis.log() requires two arguments or more.")
	}
	level, ok := s.l.Get(1).(lua.LNumber)
	if !ok {
		return s.raise("ERR First argument must be a number (log level).")
	}
	if level < LogDebug || level > LogWarning {
		return s.raise("ERR Invalid log level.")
	}
	var parts []string
	for i := 2; i <= s.l.GetTop(); i++ {
		parts = append(parts, lua.LVAsString(s.l.Get(i)))
	}
	s.host.Log(int(level), strings.Join(parts, " "))
	return 0
}
