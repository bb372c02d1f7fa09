package lualib_test

import (
	"runtime"
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
			reply := evalOurs(s, 2, c.source)
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
			t.Log(time.Since(began))
			if got := evalOurs(s, 2, "return 1"); got != ":1\r\n" {
				t.Errorf("after it: %q", got)
			}
		})
	}
}
