package lualib_test

import (
	"testing"

	"kevy/internal/script/lualib"
	"kevy/resp"
)

// What scripts of queues and limiters are made of.
func BenchmarkEval(b *testing.B) {
	for _, c := range []struct{ name, source string }{
		{"empty", "return 1"},
		{"limiter", "local c = redis.call('incr', KEYS[1]) if #c == 1 then redis.call('expire', KEYS[1], ARGV[2]) end if #c > tonumber(ARGV[2]) then return 0 end return 1"},
		{"loop", "local s = 0 for i = 1, 1000 do s = s + i end return s"},
		{"modulo", "local s = 0 for i = 1, 1000 do s = s + i % 7 end return s"},
		{"array", "local t = {} for i = 1, 1000 do t[#t + 1] = i end local s = 0 for _, v in ipairs(t) do s = s + v end return s"},
		{"concat", "local s for i = 1, 1000 do s = 'key:' .. i .. ':x' end return s"},
		{"json", `local t = cjson.decode('{"a":[1,2,3],"b":{"c":"x","d":true}}') return cjson.encode(t)`},
		{"pcall", "for i = 1, 100 do pcall(tostring, i) end"},
		{"error", "for i = 1, 100 do pcall(error, 'x') end"},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := lualib.New()
			defer s.Close()
			p, err := lualib.Compile("user_script", []byte(c.source))
			if err != nil {
				b.Fatal(err)
			}
			w := resp.NewWriter(2)
			keys, args := bytesOf([]string{"k"}), bytesOf([]string{"a", "10"})
			h := &host{}
			b.ReportAllocs()
			for b.Loop() {
				w.Reset()
				s.Eval(p, "sha", keys, args, h, w)
			}
		})
	}
}
