package lualib

import (
	"crypto/sha1"
	"encoding/hex"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// Version is the version of Redis that scripts are told.
const (
	Version       = "7.0.15"
	versionNumber = 7<<16 | 0<<8 | 15
)

// How a script may ask what it does to be propagated; all of it is.
const (
	propagateAOF     = 1
	propagateReplica = 2
)

var redisFunctions = map[string]lua.LGFunction{
	"acl_check_cmd": redisACLCheck, "breakpoint": redisBreakpoint, "call": redisCall, "debug": redisDebug,
	"error_reply": redisErrorReply, "log": redisLog, "pcall": redisPcall, "replicate_commands": redisReplicate,
	"set_repl": redisSetRepl, "setresp": redisSetResp, "sha1hex": redisSHA1, "status_reply": redisStatusReply,
}

var redisConstants = map[string]lua.LValue{
	"LOG_DEBUG": lua.LNumber(LogDebug), "LOG_VERBOSE": lua.LNumber(LogVerbose), "LOG_NOTICE": lua.LNumber(LogNotice),
	"LOG_WARNING": lua.LNumber(LogWarning),
	"REPL_NONE":   lua.LNumber(0), "REPL_AOF": lua.LNumber(propagateAOF), "REPL_SLAVE": lua.LNumber(propagateReplica),
	"REPL_REPLICA": lua.LNumber(propagateReplica), "REPL_ALL": lua.LNumber(propagateAOF | propagateReplica),
	"REDIS_VERSION": lua.LString(Version), "REDIS_VERSION_NUM": lua.LNumber(versionNumber),
}

// refuse raises an error as redis.call does: a table.
func refuse(l *lua.LState, text string) int {
	raise(l, replyError(text))
	return 0
}

// running fails outside of a script.
func running(l *lua.LState, name string) *State {
	s := of(l)
	if s.host == nil {
		refuse(l, name+" can only be called inside a script invocation")
	}
	return s
}

// commandArgs are a function's arguments as those of a command; fault says what is
// wrong with them. They are the state's until the next call.
func (s *State) commandArgs(l *lua.LState) (args [][]byte, fault string) {
	n := l.GetTop()
	if n == 0 {
		return nil, "Please specify at least one argument for this redis lib call"
	}
	args, b := s.args[:0], s.argBytes[:0]
	for i := range n {
		from := len(b)
		switch v := l.Get(i + 1).(type) {
		case lua.LString:
			s.take(l, len(v))
			b = append(b, v...)
		case lua.LNumber:
			b = appendArgument(b, float64(v))
		default:
			return nil, "Lua redis lib command arguments must be strings or integers"
		}
		// What b outgrows is still that argument's.
		args = append(args, b[from:len(b):len(b)])
	}
	if cap(args) <= maxKeptArgs && cap(b) <= maxKeptArgBytes {
		s.args, s.argBytes = args, b
	}
	return args, ""
}

// maxKeptArgs and maxKeptArgBytes are how much room for arguments is kept from one
// call to the next.
const (
	maxKeptArgs     = 1 << 10
	maxKeptArgBytes = 64 << 10
)

// valueWeight is about how many bytes a small value takes for each byte of its reply.
const valueWeight = 6

func redisCall(l *lua.LState) int { return command(l, true) }

func redisPcall(l *lua.LState) int { return command(l, false) }

// command is redis.call, which raises errors, and redis.pcall, which returns them.
func command(l *lua.LState, raises bool) int {
	s := running(l, "redis.call/pcall")
	args, fault := s.commandArgs(l)
	if fault != "" {
		if raises {
			return refuse(l, fault)
		}
		return push(l, replyError(fault))
	}
	reply := s.host.Call(args, s.proto)
	if s.tick() != nil {
		raise(l, s.endError())
	}
	// A failed take still has the command done, as any error has.
	weight := len(reply)
	if len(reply) > 0 && reply[0] != '$' {
		weight *= valueWeight
	}
	s.take(l, weight)
	v := s.value(reply)
	if raises && len(reply) > 0 && reply[0] == '-' {
		raise(l, v)
	}
	return push(l, v)
}

func redisErrorReply(l *lua.LState) int {
	v, ok := l.Get(1).(lua.LString)
	if !ok || l.GetTop() != 1 {
		return push(l, replyError("wrong number or type of arguments"))
	}
	text := cText(string(v))
	of(l).take(l, 2*len(text))
	if !strings.HasPrefix(text, "-") {
		text = "-" + text
	}
	return push(l, replyError(text))
}

func redisStatusReply(l *lua.LState) int {
	v, ok := l.Get(1).(lua.LString)
	if !ok || l.GetTop() != 1 {
		return push(l, replyError("wrong number or type of arguments"))
	}
	return push(l, field("ok", v))
}

func redisSHA1(l *lua.LState) int {
	if l.GetTop() != 1 {
		return refuse(l, "wrong number of arguments")
	}
	text, _ := toString(l.Get(1))
	of(l).work(l, len(text)/4)
	sum := sha1.Sum([]byte(text))
	return pushString(l, hex.EncodeToString(sum[:]))
}

func redisSetResp(l *lua.LState) int {
	s := running(l, "redis.setresp")
	if l.GetTop() != 1 {
		return refuse(l, "redis.setresp() requires one argument.")
	}
	f, _ := toNumber(l.Get(1))
	n := toInt32(f)
	if n != 2 && n != 3 {
		return refuse(l, "RESP version must be 2 or 3.")
	}
	s.proto = n
	return 0
}

func redisLog(l *lua.LState) int {
	n := l.GetTop()
	if n < 2 {
		return refuse(l, "redis.log() requires two arguments or more.")
	}
	f, ok := toNumber(l.Get(1))
	if !ok {
		return refuse(l, "First argument must be a number (log level).")
	}
	level := toInt32(f)
	if level < LogDebug || level > LogWarning {
		return refuse(l, "Invalid debug level.")
	}
	var b strings.Builder
	for i := 2; i <= n; i++ {
		text, ok := toString(l.Get(i))
		if !ok {
			continue
		}
		if i > 2 {
			b.WriteByte(' ')
		}
		b.WriteString(text)
	}
	if s := of(l); s.host != nil {
		s.host.Log(level, b.String())
	}
	return 0
}

func redisSetRepl(l *lua.LState) int {
	running(l, "redis.set_repl")
	if l.GetTop() != 1 {
		return refuse(l, "redis.set_repl() requires two arguments.")
	}
	f, _ := toNumber(l.Get(1))
	if toInt32(f)&^(propagateAOF|propagateReplica) != 0 {
		return refuse(l, "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.")
	}
	return 0
}

// redisReplicate is true ever since what a script does is what is propagated.
func redisReplicate(l *lua.LState) int { return push(l, lua.LTrue) }

// redisBreakpoint and redisDebug are for a debugger; there is none.
func redisBreakpoint(l *lua.LState) int { return push(l, lua.LFalse) }

func redisDebug(*lua.LState) int { return 0 }

func redisACLCheck(l *lua.LState) int {
	s := running(l, "redis.acl_check_cmd")
	args, fault := s.commandArgs(l)
	if fault != "" {
		return refuse(l, fault)
	}
	allowed, known := s.host.Permitted(args)
	if !known {
		return refuse(l, "Invalid command passed to redis.acl_check_cmd()")
	}
	return push(l, lua.LBool(allowed))
}
