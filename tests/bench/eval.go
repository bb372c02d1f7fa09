package main

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
)

// evalScript is a script that is called by its SHA1 again and again.
type evalScript struct {
	name    string
	part    int // one in so many of plan.commands are run
	prepare [][]string
	keys    []string
	args    []string
	source  string
}

// evalScripts are what programs run most, from next to nothing to loops that only
// Lua's machine is busy with.
func evalScripts() []evalScript {
	jobs := [][]string{{"DEL", "bench:wait", "bench:active", "bench:marker"}}
	for i := range 100 {
		id := fmt.Sprint(i)
		jobs = append(jobs, []string{"LPUSH", "bench:wait", id},
			[]string{"HSET", "bench:job:" + id, "name", "send", "data", `{"to":"somebody","text":"something"}`, "opts", `{"attempts":3}`, "timestamp", "1700000000000"})
	}
	list := []string{"RPUSH", "bench:numbers"}
	for i := range 100 {
		list = append(list, fmt.Sprint(i))
	}
	return []evalScript{
		{name: "nothing", part: 8, source: "return 1"},
		{
			name: "limiter", part: 8, keys: []string{"bench:limit:__rand_int__"}, args: []string{"60", "100"},
			source: `local n = redis.call('INCR', KEYS[1])
if n == 1 then redis.call('EXPIRE', KEYS[1], ARGV[1]) end
if n > tonumber(ARGV[2]) then return 0 end
return 1`,
		},
		{
			name: "compare and delete", part: 8, keys: []string{"bench:lock:__rand_int__"}, args: []string{"token"},
			source: "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end",
		},
		{
			// The next job of a queue becomes active and is looked at, as queues do
			// it; it goes back, so that the queue stays as it is.
			name: "next job", part: 32, prepare: jobs, keys: []string{"bench:wait", "bench:active", "bench:marker", "bench:job:"}, args: []string{"1700000001000", "worker:1"},
			source: `local function fields(key)
  local job, flat = {}, redis.call('HGETALL', key)
  for i = 1, #flat, 2 do job[flat[i]] = flat[i + 1] end
  return job
end
redis.call('ZREM', KEYS[3], '0')
local id = redis.call('LMOVE', KEYS[1], KEYS[2], 'RIGHT', 'LEFT')
if not id then return false end
local key = KEYS[4] .. id
local job = fields(key)
local opts = cjson.decode(job.opts)
redis.call('SET', key .. ':lock', ARGV[2], 'PX', 30000)
redis.call('HSET', key, 'processedOn', ARGV[1], 'attemptsMade', (tonumber(job.attemptsMade) or 0) % opts.attempts + 1)
redis.call('LREM', KEYS[2], 1, id)
redis.call('LPUSH', KEYS[1], id)
return {redis.call('HGETALL', key), id, 0, 0}`,
		},
		{
			name: "sum of LRANGE 100", part: 32, prepare: [][]string{{"DEL", "bench:numbers"}, list}, keys: []string{"bench:numbers"},
			source: "local s = 0 for _, v in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do s = s + v end return s",
		},
		{
			name: "strings and JSON", part: 128,
			source: `local v, parts = cjson.decode('{"user":{"id":17,"name":"somebody","tags":["a","b","c"]},"items":[1,2.5,true,null]}'), {}
for i = 1, 100 do parts[#parts + 1] = v.user.name .. ':' .. i end
v.text = table.concat(parts, ',')
v.short = string.format('%s/%d', string.sub(v.text, 1, 10), #v.text)
return cjson.encode(v)`,
		},
		{name: "1,000 additions", part: 128, source: "local s = 0 for i = 1, 1000 do s = s + i end return s"},
		{name: "1,000 remainders", part: 128, source: "local s = 0 for i = 1, 1000 do s = s + i % 7 end return s"},
	}
}

// evalLoads are the scripts without pipelining and with.
func (p *plan) evalLoads() []load {
	var loads []load
	for _, s := range evalScripts() {
		sum := sha1.Sum([]byte(s.source))
		args := append([]string{"EVALSHA", hex.EncodeToString(sum[:]), fmt.Sprint(len(s.keys))}, s.keys...)
		for _, pipeline := range []int{1, 16} {
			loads = append(loads, load{
				command: "EVALSHA " + s.name, pipeline: pipeline, commands: max(p.commands/s.part, 100), args: append(args, s.args...),
				prepare: append([][]string{{"SCRIPT", "LOAD", s.source}}, s.prepare...),
			})
		}
	}
	return loads
}

// eval measures scripts.
func (p *plan) eval() error { return p.compare(p.evalLoads()) }
