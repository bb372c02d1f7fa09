package lualib_test

import (
	"fmt"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"testing"
	"time"

	"kevy/internal/script/lualib"
	"kevy/resp"
)

// hungry are scripts that take all the memory there is, or all the stack. Each
// must end in an error of Lua.
var hungry = []struct{ name, source, want string }{
	{"rep", "return string.rep('x', 1e9)", "not enough memory"},
	{"rep of rep", "return #string.rep(string.rep('x', 1e6), 1e6)", "not enough memory"},
	{"doubling", "local s = 'x' while true do s = s .. s end", "not enough memory"},
	{"array", "local t = {} local i = 0 while true do i = i + 1 t[i] = i end", "not enough memory"},
	{"hash", "local t = {} local i = 0 while true do i = i + 1 t['k' .. i] = i end", "not enough memory"},
	{"far indexes", "local t = {} for i = 1, 1e9 do t[i] = {} t[i][262000] = 1 end", "not enough memory"},
	{"strings kept", "local t = {} for i = 1, 1e9 do t[i] = string.rep('x', 100000) .. i end", "not enough memory"},
	{"concat of a table", "local t = {} for i = 1, 1000 do t[i] = string.rep('x', 1e6) end return table.concat(t)", "not enough memory"},
	{"gsub", "return #string.gsub(string.rep('x', 1e6), 'x', string.rep('y', 1e5))", "not enough memory"},
	{"format", "local s = string.rep('x', 1e6) local f = string.rep('%s', 200) return #string.format(f, unpack((function() local t = {} for i = 1, 200 do t[i] = s end return t end)()))", "not enough memory"},
	{"json", "local s = string.rep('x', 1e6) local t = {} for i = 1, 200 do t[i] = s end return #cjson.encode(t)", "not enough memory"},
	{"msgpack", "local s = string.rep('x', 1e6) local t = {} for i = 1, 200 do t[i] = s end return #cmsgpack.pack(t)", "not enough memory"},
	{"reader", "local f, e = load(function() return string.rep('x', 1e6) end) error(e, 0)", "not enough memory"},
	{"closures", "local f = nil while true do local g = f f = function() return g end end", "not enough memory"},
	{"coroutines", "local t = {} while true do local c = coroutine.wrap(function() coroutine.yield() end) c() t[#t + 1] = c end", "not enough memory"},
	{"recursion", "local function f() return 1 + f() end return f()", "stack overflow"},
	{"recursion with many values", "local function f(...) return 1 + f(1, 2, 3, 4, 5, 6, 7, 8, ...) end return f()", "stack overflow"},
	{"recursion of metamethods", "local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k + 1] end return t[1]", "stack overflow"},
	{"recursion of tostring", "local t = setmetatable({}, {}) getmetatable(t).__tostring = function(t) return tostring(t) end return tostring(t)", "stack overflow"},
	{"recursion in gsub", "local function f() return (string.gsub('a', 'a', f)) end return f()", "stack overflow"},
	{"recursion in sort", "local function f() table.sort({2, 1}, f) end return f()", "stack overflow"},
	{"recursion in pcall", "local function f() local ok, e = pcall(f) error(e, 0) end return f()", "stack overflow"},
	{"recursion in pcall and metamethods", "local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) if k % 200 == 0 then local ok, e = pcall(function() return t[k + 1] end) error(e, 0) end return t[k + 1] end return t[1]", "stack overflow"},
	{"recursion in load", "local function f() local r, e = load(f) error(e, 0) end return f()", "stack overflow"},
	{"recursion of coroutines", "local function f() local ok, e = coroutine.resume(coroutine.create(f)) error(e, 0) end return f()", "stack overflow"},
	{"unpack", "return unpack({}, 1, 1e8)", "too many results to unpack"},
	{"deep JSON", "return cjson.decode(string.rep('[', 1e6))", "too many nested data structures"},
	{"deep MessagePack", "return cmsgpack.unpack(string.rep('\\145', 1e6))", "stack overflow"},
	{"claimed length", "return cmsgpack.unpack('\\221\\255\\255\\255\\255\\1')", "Missing bytes"},
	{"deep source", "return loadstring('return ' .. string.rep('(', 1e5))()", ""},
	{"deep blocks", "local f, e = loadstring(string.rep('do ', 1e5)) error(e, 0)", "too many syntax levels"},
	{"many locals", "local f, e = loadstring('local a' .. string.rep(',a', 300)) error(e, 0)", "more than 200 local variables"},
	{"deep pattern", "return string.find(string.rep('a', 2e5), string.rep('a?', 2e5))", "pattern too complex"},
	{"gsub of one match", "return #string.gsub(string.rep('x', 1e6), '.*', string.rep('%0', 1e6))", "not enough memory"},
	{"escaped JSON", "return #cjson.encode(string.rep('\\0', 2e7))", "not enough memory"},
	{"quoted", "return #string.format('%q', string.rep('\\0', 2e7))", "not enough memory"},
	{"separators", "local s, t = string.rep('x', 8e6), {} for i = 1, 30 do t[i] = '' end return #table.concat(t, s)", "not enough memory"},
	{"upper", "local t, s = {}, string.rep('x', 5e6) while true do t[#t + 1] = string.upper(s) end", "not enough memory"},
	{"arguments", "local s, t = string.rep('x', 5e6), {} for i = 1, 5000 do t[i] = s end return redis.call('x', unpack(t))", "not enough memory"},
	{"reply that holds itself", "local t = {} t[1] = t t[2] = t return t", "not enough memory"},
	{"map that holds itself", "local t = {} t.map = {a = t, b = t} return t", "not enough memory"},
	{"set that holds itself", "local t = {} t.set = {[t] = 1, [{map = {a = t}}] = 1} return t", "not enough memory"},
	{"reply of long strings", "local s, t = string.rep('x', 5e6), {} for i = 1, 5000 do t[i] = s end return t", "not enough memory"},
	{"table that holds itself", "local t = {} for i = 1, 99 do t[i] = t end return #cmsgpack.pack(t)", "not enough memory"},
	{"empty tables of MessagePack", "return #cmsgpack.unpack('\\221\\1\\0\\0\\0' .. string.rep('\\144', 2^24))", "not enough memory"},
	{"empty tables of JSON", "return #cjson.decode('[' .. string.rep('[],', 5e6) .. '[]]')", "not enough memory"},
	{"lying order", "local t = {} for i = 1, 1000 do t[i] = i end table.sort(t, function() return true end)", "invalid order function"},
}

// allowedBytes is what a script may hold in these tests.
const allowedBytes = 24 << 20

func TestMemory(t *testing.T) {
	for _, c := range hungry {
		t.Run(c.name, func(t *testing.T) {
			s := lualib.New()
			defer s.Close()
			s.SetMaxMemory(allowedBytes)
			runtime.GC()
			peak := peakBytes(t)
			reply := evalOurs(s, 2, c.source)
			if bytes := peak(); bytes > peakAllowedBytes {
				t.Errorf("at its most it took %d MiB", bytes>>20)
			}
			if !strings.HasPrefix(reply, "-") || !strings.Contains(reply, c.want) {
				t.Errorf("%.300q, want an error with %q", reply, c.want)
			}
			// The state goes on.
			if got := evalOurs(s, 2, "return string.rep('x', 10)"); got != "$10\r\nxxxxxxxxxx\r\n" {
				t.Errorf("after it: %q", got)
			}
		})
	}
}

// peakAllowedBytes is how much such a script may take for a moment: what it holds,
// what it is refused, copies of both and what is not collected yet.
const peakAllowedBytes = 512 << 20

// peakBytes looks at the heap until the returned function is called, which returns by
// how much it had grown at most.
func peakBytes(t *testing.T) (peak func() uint64) {
	heap := func() uint64 {
		sample := [1]metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(sample[:])
		return sample[0].Value.Uint64()
	}
	base, most := heap(), uint64(0)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			most = max(most, heap())
			if most > base+4<<30 {
				panic("a script takes all memory: " + t.Name())
			}
			select {
			case <-quit:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return func() uint64 {
		close(quit)
		<-done
		return max(most, base) - base
	}
}

// endless are scripts that never end by themselves, in places where no
// instruction of Lua runs or with what would catch an error.
var endless = []struct{ name, source string }{
	{"loop", "while true do end"},
	{"pcall in a loop", "while true do pcall(function() while true do end end) end"},
	{"xpcall that goes on", "while true do xpcall(function() while true do end end, function() while true do end end) end"},
	{"coroutine", "while true do coroutine.resume(coroutine.create(function() while true do end end)) end"},
	{"pattern", "return string.find(string.rep('a', 3000), string.rep('.-', 8) .. 'b')"},
	{"pattern of gsub", "return string.gsub(string.rep('a', 3000), string.rep('a*', 8) .. 'b', '')"},
	{"pattern of gmatch", "for _ in string.gmatch(string.rep('a', 3000), string.rep('.-', 8) .. 'b') do end"},
	{"pattern in pcall", "while true do pcall(string.find, string.rep('a', 3000), string.rep('.-', 8) .. 'b') end"},
	{"pattern with a large set", "return string.find(string.rep('b', 1e5), '[' .. string.rep('a', 1e6) .. ']*c')"},
	{"pattern of balance", "return string.find(string.rep('(', 1e6), '%b()')"},
	{"pattern that refers back", "return string.find(string.rep('a', 2e6), '(a*)%1b')"},
	{"pattern of optional parts", "return string.find(string.rep('a', 30), string.rep('a?', 30) .. string.rep('a', 30) .. 'b')"},
	{"find", "local s = string.rep('a', 1e7) while true do string.find(s, 'b') end"},
	{"upper", "local s = string.rep('x', 1e7) while true do local t = string.upper(s) end"},
	{"long keys", "local s, t = string.rep('x', 1e7), {} while true do t[s] = 1 end"},
	{"long strings that are compared", "local s, t = string.rep('x', 1e7), 'x' .. string.rep('x', 1e7 - 1) while s == t do end"},
	{"long strings that are sorted", "local s, t = string.rep('x', 1e6), {} for i = 1, 20 do t[i] = s .. i end while true do table.sort(t) end"},
	{"long numbers", "local s = string.rep('1', 1e7) while true do local n = s + 1 n = tonumber(s) end"},
	{"numbers in another base", "local s = string.rep('1', 1e7) while true do local n = tonumber(s, 16) end"},
	{"sha1hex", "local s = string.rep('1', 1e7) while true do redis.sha1hex(s) end"},
	{"reply that holds itself", "local t = {} for i = 1, 200 do t = {t, t} end return t"},
	{"sort", "local t = {} for i = 1, 1e5 do t[i] = i end while true do table.sort(t) end"},
	{"insert", "local t = {} for i = 1, 2e5 do t[i] = i end while true do table.insert(t, 1, 0) end"},
	{"reader of load", "load(function() return ' ' end)"},
	{"metamethod", "local t = setmetatable({}, {__index = function() while true do end end}) return t.x"},
	{"iterator", "for _ in function() return 1 end do end"},
	{"tail calls", "local function f() return f() end return f()"},
	{"command", "while true do redis.pcall('x') end"},
}

// stopper ends a script after a few ticks.
type stopper struct {
	host
	after int
}

var errStopped = &resp.Error{Code: "ERR", Text: "Script killed by user with SCRIPT KILL."}

func (h *stopper) Tick() error {
	h.after--
	if h.after < 0 {
		return errStopped
	}
	return nil
}

// killLimit is how long three ticks may take, on a machine that has other work and
// under the race detector.
const killLimit = 20 * time.Second

func TestKill(t *testing.T) {
	for _, c := range endless {
		t.Run(c.name, func(t *testing.T) {
			s := lualib.New()
			defer s.Close()
			p, err := lualib.Compile("user_script", []byte(c.source))
			if err != nil {
				t.Fatal(err)
			}
			w := resp.NewWriter(2)
			began := time.Now()
			out := s.Eval(p, "sha", nil, nil, &stopper{after: 3}, w)
			if got := string(w.Bytes()); !out.Failed || !strings.HasPrefix(got, "-ERR Script killed by user") {
				t.Errorf("%q", got)
			}
			if took := time.Since(began); took > killLimit {
				t.Errorf("it ended after %v", took)
			}
			if got := evalOurs(s, 2, "return 1"); got != ":1\r\n" {
				t.Errorf("after it: %q", got)
			}
		})
	}
}

// TestSource: source that would take the compiler all of the stack, or hours, is
// refused; what is just within the limits is compiled.
func TestSource(t *testing.T) {
	rep := strings.Repeat
	numbers := func(n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(strconv.Itoa(i) + ".5,")
		}
		return b.String()
	}
	const levels, complex = "too many syntax levels", "too complex"
	for _, c := range []struct{ name, source, want string }{
		{"operators", "local a = 1 return a" + rep(" + a", 900), ""},
		{"more operators", "local a = 1 return a" + rep(" + a", 1e6), levels},
		{"comparisons", "local a = 1 return a" + rep(" == a", 1e6), levels},
		{"and", "local a = 1 return a" + rep(" and a", 1e6), levels},
		{"fields", "local a = {} return a" + rep(".b", 1e6), levels},
		{"indexes", "local a = {} return a" + rep("[1]", 1e6), levels},
		{"calls", "local a = {} return a" + rep("()", 1e6), levels},
		{"methods", "local a = {} return a" + rep(":b()", 1e6), levels},
		{"elseif", "local a if a then" + rep(" elseif a then", 1e6) + " end", levels},
		{"signs", "local a return a" + rep(" - -a", 1e6), levels},
		{"all of them in parentheses", "local a return " + rep("(", 98) + "a" + rep(rep(".b", 900)+rep(" + a", 900)+")", 98), ""},
		{"calls in parentheses", "local a return " + rep("(", 98) + "a" + rep(rep("()", 900)+rep(" == a", 900)+")", 98), ""},
		{"elseif in elseif", "local a " + rep("if a then"+rep(" elseif a then", 900)+" ", 5) + rep(" end", 5), ""},
		{"more elseif in elseif", "local a " + rep("if a then"+rep(" elseif a then", 900)+" ", 95) + rep(" end", 95), complex},
		{"constants", "return {" + numbers(10_000) + "}", ""},
		{"many constants", "return {" + numbers(100_000) + "}", complex},
		{"constants in functions", rep("do local t = {"+numbers(5000)+"} end ", 30), complex},
		{"names in nested functions", rep("local function f(a, b, c, d, e, f, g, h) ", 90) + rep("x = y ", 150_000) + rep(" end", 90), complex},
		{"statements", rep("a = 1 ", 1e6), complex},
		{"values", "return {" + rep("1,", 1e6) + "}", complex},
		{"a long string", "return '" + rep("x", 1e7) + "'", ""},
		{"a long comment", "--" + rep("x", 1e7), ""},
		{"a long body of a numeric for", "local x = 0 for i = 1, 2 do " + rep("x = x + 1 ", 150_000) + " end return x", complex},
		{"a long body of while", "local x = 0 while x < 2 do " + rep("x = x + 1 ", 150_000) + " end return x", complex},
	} {
		t.Run(c.name, func(t *testing.T) {
			began := time.Now()
			_, err := lualib.Compile("user_script", []byte(c.source))
			if text := fmt.Sprint(err); c.want == "" && err != nil || !strings.Contains(text, c.want) {
				t.Errorf("%.200s, want %q", text, c.want)
			}
			if took := time.Since(began); took > killLimit {
				t.Errorf("it took %v", took)
			}
		})
	}
}
