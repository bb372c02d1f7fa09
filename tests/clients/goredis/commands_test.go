package goredis

//lint:file-ignore SA1019 programs still call the methods that go-redis advises against, and their commands must work

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"kevy/tests/process"
)

// both are the protocols that every test of go-redis runs over.
var both = []int{2, 3}

// connect opens a go-redis client, which is closed at the end of the test.
func connect(t *testing.T, s *process.Server, opt redis.Options) *redis.Client {
	t.Helper()
	opt.Addr = s.Addr()
	c := redis.NewClient(&opt)
	t.Cleanup(func() {
		if err := c.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

// result is a go-redis command that has run.
type result[T any] interface {
	Name() string
	Args() []interface{}
	Result() (T, error)
}

// want checks what a command returned.
func want[T any](t *testing.T, cmd result[T], value T) {
	t.Helper()
	if got, err := cmd.Result(); err != nil || !reflect.DeepEqual(got, value) {
		t.Errorf("%.200q: %#v, %v; want %#v", cmd.Args(), got, err, value)
	}
}

// wantSet checks what a command returned without regard to order.
func wantSet(t *testing.T, cmd result[[]string], members ...string) {
	t.Helper()
	got, err := cmd.Result()
	sort.Strings(got)
	sort.Strings(members)
	if err != nil || fmt.Sprint(got) != fmt.Sprint(members) {
		t.Errorf("%.200q: %q, %v; want %q", cmd.Args(), got, err, members)
	}
}

// holds checks what a command returned by a condition.
func holds[T any](t *testing.T, cmd result[T], condition func(T) bool) {
	t.Helper()
	if got, err := cmd.Result(); err != nil || !condition(got) {
		t.Errorf("%.200q: %#v, %v", cmd.Args(), got, err)
	}
}

// fails checks that a command was refused with a text.
func fails[T any](t *testing.T, cmd result[T], text string) {
	t.Helper()
	got, err := cmd.Result()
	var refused redis.Error
	if err == nil || err.Error() != text || !errors.As(err, &refused) {
		t.Errorf("%.200q: %#v, %v; want the error %q", cmd.Args(), got, err, text)
	}
}

// isNil checks that a command found nothing.
func isNil[T any](t *testing.T, cmd result[T]) {
	t.Helper()
	if got, err := cmd.Result(); !errors.Is(err, redis.Nil) {
		t.Errorf("%.200q: %#v, %v; want redis.Nil", cmd.Args(), got, err)
	}
}

const wrongType = "WRONGTYPE Operation against a key holding the wrong kind of value"

// recorder is a hook that notes which commands go out.
type recorder struct {
	mu   sync.Mutex
	used map[string]bool // guarded by mu
}

func (r *recorder) note(cmds ...redis.Cmder) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, cmd := range cmds {
		r.used[strings.ToLower(cmd.Name())] = true
		if len(cmd.Args()) > 1 {
			r.used[strings.ToLower(fmt.Sprintf("%s|%v", cmd.Name(), cmd.Args()[1]))] = true
		}
	}
}

func (r *recorder) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *recorder) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		r.note(cmd)
		return next(ctx, cmd)
	}
}

func (r *recorder) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		r.note(cmds...)
		return next(ctx, cmds)
	}
}

const pushes = "its confirmation is a push message, of a kind that go-redis drops: package changes subscribes"

// uncalled are the commands of the server that TestCommands does not call, and why.
var uncalled = map[string]string{
	"multi": "TxPipeline sends it", "exec": "TxPipeline sends it", "discard": "go-redis never sends it", "unwatch": "Watch sends it",
	"watch": "TestWatch", "quit": "go-redis does not send it", "hello": "every connection sends it", "auth": "HELLO does it", "reset": "a pooled connection must not",
	"shutdown":     "TestShutdown",
	"script|debug": "go-redis never sends it", "script|help": "go-redis never sends it", "function|help": "go-redis never sends it",
	"subscribe": unhooked, "psubscribe": unhooked, "ssubscribe": unhooked, "unsubscribe": unhooked, "punsubscribe": unhooked, "sunsubscribe": unhooked,
	"changes|subscribe": pushes, "changes|credit": pushes, "changes|unsubscribe": pushes,
	"monitor": "the connection is for its lines then",
	"debug":   "off unless enabled", "debug|help": "off unless enabled", "debug|sleep": "off unless enabled", "debug|set-active-expire": "off unless enabled",
}

// TestCommands calls each command of the server through go-redis, by its typed method where there is one.
func TestCommands(t *testing.T) {
	s := process.Start(t, process.Subject(t), process.Config{})
	ctx := context.Background()
	for _, protocol := range both {
		t.Run(fmt.Sprintf("RESP%d", protocol), func(t *testing.T) {
			c := connect(t, s, redis.Options{Protocol: protocol})
			seen := &recorder{used: map[string]bool{}}
			c.AddHook(seen)
			for _, family := range []struct {
				name string
				run  func(t *testing.T, ctx context.Context, c *redis.Client)
			}{
				{"strings", useStrings}, {"bitmaps", useBitmaps}, {"keys", useKeys}, {"expiry", useExpiry}, {"hashes", useHashes}, {"lists", useLists},
				{"sets", useSets}, {"sorted sets", useSortedSets}, {"ranges of sorted sets", useSortedSetRanges}, {"blocking", useBlocking}, {"field expiry", useFieldExpiry}, {"newer strings", useNewerStrings}, {"streams", useStreams}, {"geo", useGeo},
				{"HyperLogLogs", useHyperLogLog}, {"sort", useSort}, {"dump", useDump}, {"server", useServer}, {"feed", useFeed}, {"pub/sub", usePubSub}, {"caching", useCaching}, {"scripts", useScripts}, {"functions", useFunctions},
			} {
				t.Run(family.name, func(t *testing.T) {
					want(t, c.FlushAll(ctx), "OK")
					family.run(t, ctx, c)
				})
			}
			names, err := c.CommandList(ctx, &redis.FilterBy{Pattern: "*"}).Result()
			if err != nil || len(names) < 180 {
				t.Fatalf("COMMAND LIST: %d commands, %v", len(names), err)
			}
			for _, name := range names {
				if uncalled[name] == "" && !seen.used[name] {
					t.Errorf("%s was not called: call it in its family, or say in uncalled why not", name)
				}
			}
		})
	}
}

func useStrings(t *testing.T, ctx context.Context, c *redis.Client) {
	want(t, c.Set(ctx, "k", "v", 0), "OK")
	want(t, c.Get(ctx, "k"), "v")
	isNil(t, c.Get(ctx, "missing"))
	binary := string([]byte{0, 1, 13, 10, 255})
	want(t, c.Set(ctx, "binary", binary, 0), "OK")
	want(t, c.Get(ctx, "binary"), binary)
	want(t, c.Set(ctx, "number", 42, time.Minute), "OK")
	if n, err := c.Get(ctx, "number").Int(); n != 42 || err != nil {
		t.Errorf("GET as a number: %d, %v", n, err)
	}
	want(t, c.Set(ctx, "number", "43", redis.KeepTTL), "OK")
	holds(t, c.TTL(ctx, "number"), func(d time.Duration) bool { return d > 50*time.Second && d <= time.Minute })
	want(t, c.SetNX(ctx, "k", "w", 0), false)
	want(t, c.SetNX(ctx, "nx", "w", time.Minute), true)
	want(t, c.SetXX(ctx, "k", "w", 0), true)
	want(t, c.SetXX(ctx, "missing", "w", 0), false)
	want(t, c.SetArgs(ctx, "k", "x", redis.SetArgs{Get: true}), "w")
	isNil(t, c.SetArgs(ctx, "k", "y", redis.SetArgs{Mode: "NX"}))
	want(t, c.SetArgs(ctx, "k", "y", redis.SetArgs{Mode: "XX", ExpireAt: time.Now().Add(time.Hour)}), "OK")
	want(t, c.SetEx(ctx, "ex", "v", time.Minute), "OK")
	want(t, c.Do(ctx, "PSETEX", "px", 60000, "v"), any("OK"))
	want(t, c.Do(ctx, "SETNX", "k", "v"), any(int64(0)))
	want(t, c.Do(ctx, "SETEX", "ex", 60, "v"), any("OK"))
	fails(t, c.Do(ctx, "SETEX", "ex", 0, "v"), "ERR invalid expire time in 'setex' command")
	want(t, c.GetSet(ctx, "k", "z"), "y")
	want(t, c.GetEx(ctx, "k", time.Minute), "z")
	want(t, c.GetDel(ctx, "k"), "z")
	isNil(t, c.GetDel(ctx, "k"))
	want(t, c.Append(ctx, "k", "Hello"), 5)
	want(t, c.Append(ctx, "k", " World"), 11)
	want(t, c.StrLen(ctx, "k"), 11)
	want(t, c.SetRange(ctx, "k", 6, "Redis"), 11)
	want(t, c.GetRange(ctx, "k", -5, -1), "Redis")
	want(t, c.Do(ctx, "SUBSTR", "k", 0, 4), any("Hello"))
	want(t, c.Incr(ctx, "n"), 1)
	want(t, c.IncrBy(ctx, "n", 41), 42)
	want(t, c.Decr(ctx, "n"), 41)
	want(t, c.DecrBy(ctx, "n", 1), 40)
	want(t, c.IncrByFloat(ctx, "n", 0.5), 40.5)
	fails(t, c.Incr(ctx, "n"), "ERR value is not an integer or out of range")
	want(t, c.MSet(ctx, "a", "1", "b", "2"), "OK")
	want(t, c.MSet(ctx, map[string]interface{}{"c": 3}), "OK")
	want(t, c.MGet(ctx, "a", "missing", "c"), []interface{}{"1", nil, "3"})
	want(t, c.MSetNX(ctx, "a", "x", "d", "4"), false)
	want(t, c.MSetNX(ctx, "e", "5", "d", "4"), true)
	want(t, c.Set(ctx, "left", "ohmytext", 0), "OK")
	want(t, c.Set(ctx, "right", "mynewtext", 0), "OK")
	want(t, c.LCS(ctx, &redis.LCSQuery{Key1: "left", Key2: "right"}), &redis.LCSMatch{MatchString: "mytext"})
	want(t, c.LCS(ctx, &redis.LCSQuery{Key1: "left", Key2: "right", Len: true}), &redis.LCSMatch{Len: 6})
	want(t, c.LCS(ctx, &redis.LCSQuery{Key1: "left", Key2: "right", Idx: true, MinMatchLen: 4, WithMatchLen: true}),
		&redis.LCSMatch{Len: 6, Matches: []redis.LCSMatchedPosition{{Key1: redis.LCSPosition{Start: 4, End: 7}, Key2: redis.LCSPosition{Start: 5, End: 8}, MatchLen: 4}}})
	want(t, c.RPush(ctx, "list", "x"), 1)
	fails(t, c.Get(ctx, "list"), wrongType)
}

func useBitmaps(t *testing.T, ctx context.Context, c *redis.Client) {
	want(t, c.SetBit(ctx, "b", 7, 1), 0)
	want(t, c.GetBit(ctx, "b", 7), 1)
	want(t, c.GetBit(ctx, "b", 100), 0)
	want(t, c.Set(ctx, "b", "foobar", 0), "OK")
	want(t, c.BitCount(ctx, "b", nil), 26)
	want(t, c.BitCount(ctx, "b", &redis.BitCount{Start: 1, End: 1}), 6)
	want(t, c.BitCount(ctx, "b", &redis.BitCount{Start: 5, End: 30, Unit: redis.BitCountIndexBit}), 17)
	want(t, c.BitPos(ctx, "b", 1), 1)
	want(t, c.BitPos(ctx, "b", 0, 2), 16)
	want(t, c.BitPosSpan(ctx, "b", 1, 7, 15, "bit"), 9)
	want(t, c.Set(ctx, "d", "abcdef", 0), "OK")
	want(t, c.BitOpAnd(ctx, "dst", "b", "d"), 6)
	want(t, c.Get(ctx, "dst"), "`bc`ab")
	want(t, c.BitOpOr(ctx, "dst", "b", "d"), 6)
	want(t, c.BitOpXor(ctx, "dst", "b", "b"), 6)
	want(t, c.Get(ctx, "dst"), "\x00\x00\x00\x00\x00\x00")
	want(t, c.BitOpNot(ctx, "dst", "b"), 6)
	want(t, c.BitField(ctx, "f", "INCRBY", "i5", 100, 1, "GET", "u4", 0), []int64{1, 0})
	want(t, c.BitField(ctx, "f", "OVERFLOW", "SAT", "SET", "u8", 0, 250, "INCRBY", "u8", 0, 10), []int64{0, 255})
	want(t, c.BitFieldRO(ctx, "f", "u8", 0), []int64{255})
	fails(t, c.SetBit(ctx, "b", 1, 2), "ERR bit is not an integer or out of range")
}

func useKeys(t *testing.T, ctx context.Context, c *redis.Client) {
	want(t, c.MSet(ctx, "a", "1", "b", "2", "c", "3", "d", "4"), "OK")
	want(t, c.Exists(ctx, "a", "a", "missing"), 2)
	want(t, c.Touch(ctx, "a", "missing"), 1)
	want(t, c.Type(ctx, "a"), "string")
	want(t, c.Type(ctx, "missing"), "none")
	want(t, c.Rename(ctx, "a", "z"), "OK")
	fails(t, c.Rename(ctx, "a", "z"), "ERR no such key")
	want(t, c.RenameNX(ctx, "z", "b"), false)
	want(t, c.RenameNX(ctx, "z", "a"), true)
	want(t, c.Copy(ctx, "a", "copy", 0, false), 1)
	want(t, c.Copy(ctx, "a", "copy", 0, false), 0)
	want(t, c.Copy(ctx, "a", "copy", 1, true), 1)
	want(t, c.Move(ctx, "copy", 1), false)
	want(t, c.Move(ctx, "d", 1), true)
	want(t, c.Del(ctx, "copy", "missing"), 1)
	want(t, c.Unlink(ctx, "c"), 1)
	wantSet(t, c.Keys(ctx, "*"), "a", "b")
	want(t, c.DBSize(ctx), 2)
	holds(t, c.RandomKey(ctx), func(k string) bool { return k == "a" || k == "b" })
	want(t, c.ObjectEncoding(ctx, "a"), "int")
	holds(t, c.ObjectRefCount(ctx, "a"), func(n int64) bool { return n > 0 })
	holds(t, c.ObjectIdleTime(ctx, "a"), func(d time.Duration) bool { return d < time.Minute })
	fails(t, c.ObjectFreq(ctx, "a"), "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.")
	holds(t, c.MemoryUsage(ctx, "a"), func(n int64) bool { return n > 0 && n < 1000 })
	one := c.Conn()
	want(t, one.SwapDB(ctx, 0, 1), "OK")
	wantSet(t, c.Keys(ctx, "*"), "copy", "d")
	want(t, one.SwapDB(ctx, 0, 1), "OK")
	if err := one.Close(); err != nil {
		t.Error(err)
	}

	for i := range 1000 {
		c.Set(ctx, fmt.Sprintf("scan:%d", i), i, 0)
	}
	want(t, c.SAdd(ctx, "scan:set", "m"), 1)
	found := map[string]bool{}
	it := c.Scan(ctx, 0, "scan:*", 100).Iterator()
	for it.Next(ctx) {
		found[it.Val()] = true
	}
	if it.Err() != nil || len(found) != 1001 {
		t.Errorf("SCAN found %d keys, %v", len(found), it.Err())
	}
	it = c.ScanType(ctx, 0, "scan:*", 100, "set").Iterator()
	if !it.Next(ctx) || it.Val() != "scan:set" || it.Next(ctx) || it.Err() != nil {
		t.Errorf("SCAN TYPE set: %q, %v", it.Val(), it.Err())
	}
	want(t, c.FlushDB(ctx), "OK")
	want(t, c.FlushDBAsync(ctx), "OK")
	want(t, c.DBSize(ctx), 0)
	isNil(t, c.RandomKey(ctx))
	isNil(t, c.ObjectEncoding(ctx, "a"))
}

func useExpiry(t *testing.T, ctx context.Context, c *redis.Client) {
	at := time.Now().Add(time.Hour).Truncate(time.Second)
	want(t, c.Set(ctx, "k", "v", 0), "OK")
	want(t, c.TTL(ctx, "k"), -1)
	want(t, c.TTL(ctx, "missing"), -2)
	want(t, c.PTTL(ctx, "k"), -1)
	want(t, c.Expire(ctx, "k", time.Hour), true)
	want(t, c.ExpireNX(ctx, "k", time.Hour), false)
	want(t, c.ExpireXX(ctx, "k", time.Hour), true)
	want(t, c.ExpireGT(ctx, "k", time.Minute), false)
	want(t, c.ExpireLT(ctx, "k", time.Minute), true)
	want(t, c.PExpire(ctx, "k", 90*time.Second), true)
	holds(t, c.PTTL(ctx, "k"), func(d time.Duration) bool { return d > 80*time.Second && d <= 90*time.Second })
	want(t, c.ExpireAt(ctx, "k", at), true)
	want(t, c.ExpireTime(ctx, "k"), time.Duration(at.Unix())*time.Second)
	want(t, c.PExpireAt(ctx, "k", at), true)
	want(t, c.PExpireTime(ctx, "k"), time.Duration(at.UnixMilli())*time.Millisecond)
	want(t, c.Persist(ctx, "k"), true)
	want(t, c.Persist(ctx, "k"), false)
	want(t, c.PExpire(ctx, "k", 5*time.Millisecond), true)
	time.Sleep(20 * time.Millisecond)
	want(t, c.Exists(ctx, "k"), 0)
	want(t, c.DBSize(ctx), 0)
}

func useHashes(t *testing.T, ctx context.Context, c *redis.Client) {
	type row struct {
		Name string `redis:"name"`
		Age  int    `redis:"age"`
	}
	want(t, c.HSet(ctx, "h", row{"Ada", 36}), 2)
	var got row
	if err := c.HGetAll(ctx, "h").Scan(&got); err != nil || got != (row{"Ada", 36}) {
		t.Errorf("HGETALL into a struct: %v, %v", got, err)
	}
	want(t, c.HSet(ctx, "h", "name", "Eve", "city", "London"), 1)
	want(t, c.HMSet(ctx, "h", "name", "Ada"), true)
	want(t, c.HGetAll(ctx, "h"), map[string]string{"name": "Ada", "age": "36", "city": "London"})
	want(t, c.HGetAll(ctx, "missing"), map[string]string{})
	want(t, c.HGet(ctx, "h", "name"), "Ada")
	isNil(t, c.HGet(ctx, "h", "missing"))
	want(t, c.HMGet(ctx, "h", "name", "missing"), []interface{}{"Ada", nil})
	want(t, c.HExists(ctx, "h", "age"), true)
	want(t, c.HLen(ctx, "h"), 3)
	want(t, c.HStrLen(ctx, "h", "city"), 6)
	wantSet(t, c.HKeys(ctx, "h"), "age", "city", "name")
	wantSet(t, c.HVals(ctx, "h"), "36", "Ada", "London")
	want(t, c.HSetNX(ctx, "h", "age", 1), false)
	want(t, c.HIncrBy(ctx, "h", "age", 1), 37)
	want(t, c.HIncrByFloat(ctx, "h", "age", 0.5), 37.5)
	fails(t, c.HIncrBy(ctx, "h", "name", 1), "ERR hash value is not an integer")
	want(t, c.HDel(ctx, "h", "age", "missing"), 1)
	holds(t, c.HRandField(ctx, "h", 1), func(f []string) bool { return len(f) == 1 && (f[0] == "name" || f[0] == "city") })
	holds(t, c.HRandField(ctx, "h", -5), func(f []string) bool { return len(f) == 5 })
	holds(t, c.HRandFieldWithValues(ctx, "h", 2), func(f []redis.KeyValue) bool { return len(f) == 2 && (f[0].Value == "Ada" || f[0].Value == "London") })
	for i := range 1000 {
		c.HSet(ctx, "large", fmt.Sprintf("f%d", i), i)
	}
	fields := map[string]string{}
	it := c.HScan(ctx, "large", 0, "f*", 50).Iterator()
	for it.Next(ctx) {
		f := it.Val()
		if !it.Next(ctx) {
			t.Fatal("HSCAN gives a field without a value")
		}
		fields[f] = it.Val()
	}
	if it.Err() != nil || len(fields) != 1000 || fields["f77"] != "77" {
		t.Errorf("HSCAN found %d fields, %v", len(fields), it.Err())
	}
	n := 0
	it = c.HScanNoValues(ctx, "large", 0, "f9?", 50).Iterator()
	for it.Next(ctx) {
		n++
	}
	if it.Err() != nil || n != 10 {
		t.Errorf("HSCAN NOVALUES found %d fields, %v", n, it.Err())
	}
	want(t, c.Set(ctx, "s", "x", 0), "OK")
	fails(t, c.HGetAll(ctx, "s"), wrongType)
}

func useLists(t *testing.T, ctx context.Context, c *redis.Client) {
	want(t, c.RPush(ctx, "l", "b", "c"), 2)
	want(t, c.LPush(ctx, "l", "a"), 3)
	want(t, c.LPushX(ctx, "missing", "a"), 0)
	want(t, c.RPushX(ctx, "l", "d"), 4)
	want(t, c.LRange(ctx, "l", 0, -1), []string{"a", "b", "c", "d"})
	want(t, c.LRange(ctx, "missing", 0, -1), []string{})
	want(t, c.LLen(ctx, "l"), 4)
	want(t, c.LIndex(ctx, "l", -1), "d")
	isNil(t, c.LIndex(ctx, "l", 9))
	want(t, c.LInsertBefore(ctx, "l", "c", "x"), 5)
	want(t, c.LInsertAfter(ctx, "l", "c", "x"), 6)
	want(t, c.LSet(ctx, "l", 0, "x"), "OK")
	fails(t, c.LSet(ctx, "l", 99, "x"), "ERR index out of range")
	want(t, c.LPos(ctx, "l", "x", redis.LPosArgs{}), 0)
	want(t, c.LPosCount(ctx, "l", "x", 0, redis.LPosArgs{Rank: -1}), []int64{4, 2, 0})
	isNil(t, c.LPos(ctx, "l", "missing", redis.LPosArgs{}))
	want(t, c.LRem(ctx, "l", -2, "x"), 2)
	want(t, c.LRange(ctx, "l", 0, -1), []string{"x", "b", "c", "d"})
	want(t, c.LTrim(ctx, "l", 1, -1), "OK")
	want(t, c.LPop(ctx, "l"), "b")
	want(t, c.RPopCount(ctx, "l", 5), []string{"d", "c"})
	isNil(t, c.RPop(ctx, "l"))
	isNil(t, c.LPopCount(ctx, "l", 1))
	want(t, c.RPush(ctx, "l", "1", "2", "3"), 3)
	want(t, c.RPopLPush(ctx, "l", "to"), "3")
	want(t, c.LMove(ctx, "l", "to", "LEFT", "RIGHT"), "1")
	want(t, c.LRange(ctx, "to", 0, -1), []string{"3", "1"})
	isNil(t, c.LMove(ctx, "missing", "to", "LEFT", "RIGHT"))
	key, elements, err := c.LMPop(ctx, "left", 5, "missing", "to").Result()
	if key != "to" || fmt.Sprint(elements) != "[3 1]" || err != nil {
		t.Errorf("LMPOP: %s %q, %v", key, elements, err)
	}
	if _, _, err := c.LMPop(ctx, "left", 5, "missing").Result(); !errors.Is(err, redis.Nil) {
		t.Errorf("LMPOP of nothing: %v", err)
	}
	want(t, c.SAdd(ctx, "set", "x"), 1)
	fails(t, c.LPush(ctx, "set", "x"), wrongType)
}

func useSets(t *testing.T, ctx context.Context, c *redis.Client) {
	want(t, c.SAdd(ctx, "s", "a", "b", "c"), 3)
	want(t, c.SAdd(ctx, "u", "b", "c", "d"), 3)
	want(t, c.SCard(ctx, "s"), 3)
	want(t, c.SIsMember(ctx, "s", "a"), true)
	want(t, c.SMIsMember(ctx, "s", "a", "x"), []bool{true, false})
	wantSet(t, c.SMembers(ctx, "s"), "a", "b", "c")
	want(t, c.SMembersMap(ctx, "u"), map[string]struct{}{"b": {}, "c": {}, "d": {}})
	wantSet(t, c.SMembers(ctx, "missing"))
	wantSet(t, c.SInter(ctx, "s", "u"), "b", "c")
	wantSet(t, c.SUnion(ctx, "s", "u"), "a", "b", "c", "d")
	wantSet(t, c.SDiff(ctx, "s", "u"), "a")
	want(t, c.SInterCard(ctx, 1, "s", "u"), 1)
	want(t, c.SInterStore(ctx, "dst", "s", "u"), 2)
	want(t, c.SUnionStore(ctx, "dst", "s", "u"), 4)
	want(t, c.SDiffStore(ctx, "dst", "s", "u"), 1)
	want(t, c.SMove(ctx, "s", "u", "a"), true)
	want(t, c.SMove(ctx, "s", "u", "missing"), false)
	holds(t, c.SRandMember(ctx, "s"), func(m string) bool { return m == "b" || m == "c" })
	holds(t, c.SRandMemberN(ctx, "s", -5), func(m []string) bool { return len(m) == 5 })
	want(t, c.SRem(ctx, "u", "a", "missing"), 1)
	holds(t, c.SPop(ctx, "s"), func(m string) bool { return m == "b" || m == "c" })
	holds(t, c.SPopN(ctx, "s", 10), func(m []string) bool { return len(m) == 1 })
	isNil(t, c.SPop(ctx, "s"))
	for i := range 1000 {
		c.SAdd(ctx, "large", fmt.Sprintf("m%d", i))
	}
	found := map[string]bool{}
	it := c.SScan(ctx, "large", 0, "m*", 50).Iterator()
	for it.Next(ctx) {
		found[it.Val()] = true
	}
	if it.Err() != nil || len(found) != 1000 {
		t.Errorf("SSCAN found %d members, %v", len(found), it.Err())
	}
	want(t, c.Set(ctx, "str", "x", 0), "OK")
	fails(t, c.SAdd(ctx, "str", "x"), wrongType)
}

func useSortedSets(t *testing.T, ctx context.Context, c *redis.Client) {
	want(t, c.ZAdd(ctx, "z", redis.Z{Score: 1, Member: "a"}, redis.Z{Score: 2.5, Member: "b"}), 2)
	want(t, c.ZAddNX(ctx, "z", redis.Z{Score: 9, Member: "a"}, redis.Z{Score: math.Inf(1), Member: "top"}), 1)
	want(t, c.ZAddXX(ctx, "z", redis.Z{Score: 3, Member: "new"}), 0)
	want(t, c.ZAddGT(ctx, "z", redis.Z{Score: 0, Member: "a"}), 0)
	want(t, c.ZAddLT(ctx, "z", redis.Z{Score: 0, Member: "a"}), 0)
	want(t, c.ZScore(ctx, "z", "a"), 0.0)
	want(t, c.ZScore(ctx, "z", "top"), math.Inf(1))
	isNil(t, c.ZScore(ctx, "z", "missing"))
	want(t, c.ZAddArgs(ctx, "z", redis.ZAddArgs{XX: true, Ch: true, Members: []redis.Z{{Score: 1, Member: "a"}}}), 1)
	want(t, c.ZAddArgsIncr(ctx, "z", redis.ZAddArgs{Members: []redis.Z{{Score: 0.5, Member: "a"}}}), 1.5)
	isNil(t, c.ZAddArgsIncr(ctx, "z", redis.ZAddArgs{NX: true, Members: []redis.Z{{Score: 0.5, Member: "a"}}}))
	want(t, c.ZIncrBy(ctx, "z", -0.5, "a"), 1.0)
	want(t, c.ZCard(ctx, "z"), 3)
	want(t, c.ZCount(ctx, "z", "(1", "+inf"), 2)
	want(t, c.ZMScore(ctx, "z", "a", "b"), []float64{1, 2.5})
	want(t, c.ZRank(ctx, "z", "b"), 1)
	want(t, c.ZRevRank(ctx, "z", "b"), 1)
	isNil(t, c.ZRank(ctx, "z", "missing"))
	want(t, c.ZRankWithScore(ctx, "z", "b"), redis.RankScore{Rank: 1, Score: 2.5})
	want(t, c.ZRevRankWithScore(ctx, "z", "a"), redis.RankScore{Rank: 2, Score: 1})
	want(t, c.ZRem(ctx, "z", "top", "missing"), 1)

	want(t, c.ZAdd(ctx, "y", redis.Z{Score: 10, Member: "b"}, redis.Z{Score: 20, Member: "c"}), 2)
	store := redis.ZStore{Keys: []string{"z", "y"}, Weights: []float64{2, 1}, Aggregate: "MAX"}
	want(t, c.ZUnionWithScores(ctx, store), []redis.Z{{Score: 2, Member: "a"}, {Score: 10, Member: "b"}, {Score: 20, Member: "c"}})
	want(t, c.ZUnion(ctx, store), []string{"a", "b", "c"})
	want(t, c.ZInter(ctx, &store), []string{"b"})
	want(t, c.ZInterWithScores(ctx, &store), []redis.Z{{Score: 10, Member: "b"}})
	want(t, c.ZDiff(ctx, "z", "y"), []string{"a"})
	want(t, c.ZDiffWithScores(ctx, "z", "y"), []redis.Z{{Score: 1, Member: "a"}})
	want(t, c.ZInterCard(ctx, 0, "z", "y"), 1)
	want(t, c.ZUnionStore(ctx, "dst", &store), 3)
	want(t, c.ZInterStore(ctx, "dst", &store), 1)
	want(t, c.ZDiffStore(ctx, "dst", "z", "y"), 1)
	holds(t, c.ZRandMember(ctx, "z", -5), func(m []string) bool { return len(m) == 5 })
	holds(t, c.ZRandMemberWithScores(ctx, "z", 1), func(m []redis.Z) bool { return len(m) == 1 && (m[0].Score == 1 || m[0].Score == 2.5) })
	want(t, c.ZPopMin(ctx, "z"), []redis.Z{{Score: 1, Member: "a"}})
	want(t, c.ZPopMax(ctx, "z", 5), []redis.Z{{Score: 2.5, Member: "b"}})
	want(t, c.ZPopMin(ctx, "missing"), []redis.Z{})
	key, elements, err := c.ZMPop(ctx, "max", 5, "missing", "y").Result()
	if key != "y" || !reflect.DeepEqual(elements, []redis.Z{{Score: 20, Member: "c"}, {Score: 10, Member: "b"}}) || err != nil {
		t.Errorf("ZMPOP: %s %v, %v", key, elements, err)
	}
	if _, _, err := c.ZMPop(ctx, "max", 5, "missing").Result(); !errors.Is(err, redis.Nil) {
		t.Errorf("ZMPOP of nothing: %v", err)
	}
	for i := range 1000 {
		c.ZAdd(ctx, "large", redis.Z{Score: float64(i), Member: fmt.Sprintf("m%d", i)})
	}
	found := map[string]string{}
	it := c.ZScan(ctx, "large", 0, "m*", 50).Iterator()
	for it.Next(ctx) {
		m := it.Val()
		if !it.Next(ctx) {
			t.Fatal("ZSCAN gives a member without a score")
		}
		found[m] = it.Val()
	}
	if it.Err() != nil || len(found) != 1000 || found["m77"] != "77" {
		t.Errorf("ZSCAN found %d members, %v", len(found), it.Err())
	}
	fails(t, c.Do(ctx, "ZADD", "z", "x", "a"), "ERR value is not a valid float")
	want(t, c.Set(ctx, "str", "x", 0), "OK")
	fails(t, c.ZAdd(ctx, "str", redis.Z{Member: "x"}), wrongType)
}

func useSortedSetRanges(t *testing.T, ctx context.Context, c *redis.Client) {
	z := func(score float64, member string) redis.Z { return redis.Z{Score: score, Member: member} }
	want(t, c.ZAdd(ctx, "z", z(1, "a"), z(2, "b"), z(3, "c"), z(4, "d")), 4)
	want(t, c.ZRange(ctx, "z", 1, 2), []string{"b", "c"})
	want(t, c.ZRangeWithScores(ctx, "z", 0, 1), []redis.Z{z(1, "a"), z(2, "b")})
	want(t, c.ZRevRange(ctx, "z", 0, 1), []string{"d", "c"})
	want(t, c.ZRevRangeWithScores(ctx, "z", 0, 0), []redis.Z{z(4, "d")})
	want(t, c.ZRangeByScore(ctx, "z", &redis.ZRangeBy{Min: "(1", Max: "3"}), []string{"b", "c"})
	want(t, c.ZRangeByScoreWithScores(ctx, "z", &redis.ZRangeBy{Min: "-inf", Max: "+inf", Offset: 1, Count: 2}), []redis.Z{z(2, "b"), z(3, "c")})
	want(t, c.ZRevRangeByScore(ctx, "z", &redis.ZRangeBy{Min: "2", Max: "3"}), []string{"c", "b"})
	want(t, c.ZRevRangeByScoreWithScores(ctx, "z", &redis.ZRangeBy{Min: "2", Max: "(3"}), []redis.Z{z(2, "b")})
	want(t, c.ZRangeArgs(ctx, redis.ZRangeArgs{Key: "z", Start: 4, Stop: "(1", ByScore: true, Rev: true, Offset: 1, Count: 2}), []string{"c", "b"})
	want(t, c.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{Key: "z", Start: 0, Stop: 0}), []redis.Z{z(1, "a")})
	want(t, c.ZRangeStore(ctx, "dst", redis.ZRangeArgs{Key: "z", Start: 2, Stop: -1}), 2)
	want(t, c.ZAdd(ctx, "lex", z(0, "a"), z(0, "b"), z(0, "c")), 3)
	want(t, c.ZRangeByLex(ctx, "lex", &redis.ZRangeBy{Min: "[b", Max: "+"}), []string{"b", "c"})
	want(t, c.ZRevRangeByLex(ctx, "lex", &redis.ZRangeBy{Min: "-", Max: "(c"}), []string{"b", "a"})
	want(t, c.ZLexCount(ctx, "lex", "-", "[b"), 2)
	want(t, c.ZRemRangeByLex(ctx, "lex", "[a", "[a"), 1)
	want(t, c.ZRemRangeByScore(ctx, "z", "-inf", "(2"), 1)
	want(t, c.ZRemRangeByRank(ctx, "z", -1, -1), 1)
	want(t, c.ZRange(ctx, "z", 0, -1), []string{"b", "c"})
	want(t, c.ZRange(ctx, "missing", 0, -1), []string{})
}

// useUsers leaves the connections of c as they were: what logs in is a client of its own.
func useUsers(t *testing.T, ctx context.Context, c *redis.Client) {
	want(t, c.Do(ctx, "ACL", "WHOAMI"), any("default"))
	want(t, c.ACLSetUser(ctx, "alice", "on", ">secret", "~a:*", "-@all", "+@read", "+client", "+hello"), "OK")
	want(t, c.ACLDryRun(ctx, "alice", "GET", "a:1"), "OK")
	want(t, c.ACLDryRun(ctx, "alice", "GET", "b:1"), "This user has no permissions to access the 'b:1' key")
	holds(t, c.ACLList(ctx), func(users []string) bool { return len(users) == 2 && strings.HasPrefix(users[0], "user alice on #") })
	holds(t, c.ACLUsers(ctx), func(names []string) bool { return slices.Equal(names, []string{"alice", "default"}) })
	holds(t, c.Do(ctx, "ACL", "GETUSER", "alice"), func(any) bool { return true })
	holds(t, c.ACLCat(ctx), func(names []string) bool { return len(names) == 21 })
	holds(t, c.ACLGenPass(ctx, 64), func(password string) bool { return len(password) == 16 })
	opt := *c.Options()
	opt.Username, opt.Password = "alice", "secret"
	alice := redis.NewClient(&opt)
	defer alice.Close()
	isNil(t, alice.Get(ctx, "a:1"))
	fails(t, alice.Get(ctx, "b:1"), "NOPERM this user has no permissions to access one of the keys used as arguments")
	opt.Password = "wrong"
	stranger := redis.NewClient(&opt)
	defer stranger.Close()
	fails(t, stranger.Get(ctx, "a:1"), "WRONGPASS invalid username-password pair or user is disabled.")
	holds(t, c.ACLLog(ctx, 10), func(entries []*redis.ACLLogEntry) bool {
		return len(entries) >= 2 && entries[0].Reason == "auth" && entries[0].Username == "alice"
	})
	want(t, c.ACLLogReset(ctx), "OK")
	const noFile = "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store users in the Redis configuration."
	fails(t, c.Do(ctx, "ACL", "SAVE"), noFile)
	fails(t, c.Do(ctx, "ACL", "LOAD"), noFile)
	want(t, c.ACLDelUser(ctx, "alice"), 1)
	holds(t, c.Do(ctx, "ACL", "HELP"), isHelp)
}

func useServer(t *testing.T, ctx context.Context, c *redis.Client) {
	want(t, c.Ping(ctx), "PONG")
	want(t, c.Echo(ctx, "hello"), "hello")
	holds(t, c.Time(ctx), func(at time.Time) bool { return math.Abs(time.Since(at).Seconds()) < 5 })
	want(t, c.Set(ctx, "k", "v", 0), "OK")
	want(t, c.DBSize(ctx), 1)
	want(t, c.FlushAllAsync(ctx), "OK")

	useUsers(t, ctx, c)
	one := c.Conn()
	defer one.Close()
	id, err := one.ClientID(ctx).Result()
	if err != nil || id <= 0 {
		t.Errorf("CLIENT ID: %d, %v", id, err)
	}
	want(t, one.ClientSetName(ctx, "a-name"), true)
	want(t, one.ClientGetName(ctx), "a-name")
	library := "my-library"
	want(t, one.ClientSetInfo(ctx, redis.LibraryInfo{LibName: &library}), "OK")
	holds(t, one.ClientInfo(ctx), func(i *redis.ClientInfo) bool {
		return i.ID == id && i.Name == "a-name" && i.LibName != "" && i.LastCmd == "client|info"
	})
	holds(t, c.ClientList(ctx), func(list string) bool {
		return strings.Contains(list, fmt.Sprintf("id=%d ", id)) && strings.Contains(list, " name=a-name ")
	})
	want(t, one.Select(ctx, 1), "OK")
	want(t, one.Set(ctx, "in1", "v", 0), "OK")
	want(t, c.Exists(ctx, "in1"), 0)
	fails(t, one.Select(ctx, 99), "ERR DB index is out of range")
	for _, args := range [][]any{{"NO-EVICT", "ON"}, {"NO-TOUCH", "ON"}, {"REPLY", "ON"}} {
		want(t, one.Do(ctx, append([]any{"CLIENT"}, args...)...), any("OK"))
	}
	want(t, c.ClientPause(ctx, time.Millisecond), true)
	want(t, c.ClientUnpause(ctx), true)
	want(t, c.ClientKillByFilter(ctx, "ID", fmt.Sprint(id)), 1)
	fails(t, c.ClientKill(ctx, "127.0.0.1:1"), "ERR No such client")
	holds(t, c.Do(ctx, "CLIENT", "HELP"), isHelp)

	holds(t, c.Command(ctx), func(all map[string]*redis.CommandInfo) bool {
		set, get := all["set"], all["get"]
		return len(all) > 150 && set != nil && set.FirstKeyPos == 1 && !set.ReadOnly && get != nil && get.ReadOnly && get.Arity == 2
	})
	holds(t, c.Do(ctx, "COMMAND", "COUNT"), func(n any) bool { return n.(int64) > 150 })
	holds(t, c.Do(ctx, "COMMAND", "INFO", "get", "nosuch"), func(v any) bool { return len(v.([]any)) == 2 && v.([]any)[1] == nil })
	if err := c.Do(ctx, "COMMAND", "DOCS", "get").Err(); err != nil {
		t.Errorf("COMMAND DOCS: %v", err)
	}
	want(t, c.CommandGetKeys(ctx, "MSET", "a", "1", "b", "2"), []string{"a", "b"})
	want(t, c.CommandGetKeysAndFlags(ctx, "GET", "a"), []redis.KeyFlags{{Key: "a", Flags: []string{"RO", "access"}}})
	wantSet(t, c.CommandList(ctx, &redis.FilterBy{Pattern: "hget*"}), "hget", "hgetall", "hgetdel", "hgetex")
	holds(t, c.Do(ctx, "COMMAND", "HELP"), isHelp)

	holds(t, c.ConfigGet(ctx, "append*"), func(m map[string]string) bool { return m["appendonly"] == "yes" && m["appendfsync"] == "everysec" })
	want(t, c.ConfigSet(ctx, "timeout", "100"), "OK")
	want(t, c.ConfigGet(ctx, "timeout"), map[string]string{"timeout": "100"})
	want(t, c.ConfigSet(ctx, "timeout", "0"), "OK")
	want(t, c.ConfigResetStat(ctx), "OK")
	fails(t, c.ConfigRewrite(ctx), "ERR The server is running without a config file")
	holds(t, c.Do(ctx, "CONFIG", "HELP"), isHelp)

	holds(t, c.Info(ctx), func(text string) bool {
		return strings.Contains(text, "redis_version:7.2.4\r\n") && strings.Contains(text, "kevy_version:") && strings.Contains(text, "role:master\r\n")
	})
	holds(t, c.Info(ctx, "keyspace"), func(text string) bool {
		return strings.Contains(text, "# Keyspace") && !strings.Contains(text, "# Server")
	})
	holds(t, c.InfoMap(ctx, "clients"), func(m map[string]map[string]string) bool { return m["Clients"]["connected_clients"] != "" })

	want(t, c.ConfigSet(ctx, "slowlog-log-slower-than", "0"), "OK")
	want(t, c.Do(ctx, "SLOWLOG", "RESET"), any("OK"))
	want(t, c.Set(ctx, "slow", "v", 0), "OK")
	want(t, c.ConfigSet(ctx, "slowlog-log-slower-than", "10000"), "OK")
	holds(t, c.SlowLogGet(ctx, 10), func(log []redis.SlowLog) bool {
		return len(log) == 2 && fmt.Sprint(log[0].Args) == "[set slow v]" && log[0].Duration >= 0 && log[0].ClientAddr != ""
	})
	want(t, c.Do(ctx, "SLOWLOG", "LEN"), any(int64(2)))
	holds(t, c.Do(ctx, "SLOWLOG", "HELP"), isHelp)
	want(t, c.Do(ctx, "LATENCY", "RESET"), any(int64(0)))
	want(t, c.Do(ctx, "LATENCY", "LATEST"), any([]any{}))
	want(t, c.Do(ctx, "LATENCY", "HISTORY", "command"), any([]any{}))
	fails(t, c.Do(ctx, "LATENCY", "GRAPH", "command"), "ERR No samples available for event 'command'")
	holds(t, c.Do(ctx, "LATENCY", "DOCTOR"), func(v any) bool { return v.(string) != "" })
	if err := c.Do(ctx, "LATENCY", "HISTOGRAM", "set").Err(); err != nil {
		t.Errorf("LATENCY HISTOGRAM: %v", err)
	}
	holds(t, c.Do(ctx, "LATENCY", "HELP"), isHelp)

	fails(t, c.ClusterSlots(ctx), "ERR This instance has cluster support disabled")
	fails(t, c.ClusterShards(ctx), "ERR This instance has cluster support disabled")
	subcommands, err := c.CommandList(ctx, &redis.FilterBy{Pattern: "cluster|*"}).Result()
	if err != nil || len(subcommands) < 5 {
		t.Errorf("subcommands of CLUSTER: %q, %v", subcommands, err)
	}
	for _, name := range subcommands {
		info, err := c.Do(ctx, "COMMAND", "INFO", name).Slice()
		if err != nil {
			t.Fatal(err)
		}
		args := []any{"CLUSTER", strings.TrimPrefix(name, "cluster|")}
		for arity := info[0].([]any)[1].(int64); int64(len(args)) < max(arity, -arity); {
			args = append(args, "1")
		}
		fails(t, c.Do(ctx, args...), "ERR This instance has cluster support disabled")
	}
	fails(t, c.ReadOnly(ctx), "ERR This instance has cluster support disabled")
	fails(t, c.ReadWrite(ctx), "ERR This instance has cluster support disabled")
	fails(t, c.Do(ctx, "ASKING"), "ERR This instance has cluster support disabled")
	want(t, c.Do(ctx, "MODULE", "LIST"), any([]any{}))
	holds(t, c.Do(ctx, "MODULE", "HELP"), isHelp)
	holds(t, c.LastSave(ctx), func(at int64) bool { return at > 0 })
	holds(t, c.BgRewriteAOF(ctx), func(text string) bool { return strings.HasPrefix(text, "Background append only file rewriting") })
	want(t, c.Migrate(ctx, "127.0.0.1", "1", "missing", 0, time.Second), "NOKEY")
	want(t, c.Save(ctx), "OK")
	want(t, c.BgSave(ctx), "Background saving started")
	for !strings.Contains(c.Info(ctx, "persistence").Val(), "rdb_bgsave_in_progress:0") {
		time.Sleep(time.Millisecond)
	}
	holds(t, c.Do(ctx, "MEMORY", "HELP"), isHelp)
	want(t, c.Do(ctx, "MEMORY", "PURGE"), any("OK"))
	if err := c.Do(ctx, "MEMORY", "STATS").Err(); err != nil {
		t.Errorf("MEMORY STATS: %v", err)
	}
	holds(t, c.Do(ctx, "MEMORY", "DOCTOR"), func(v any) bool { return v.(string) != "" })
	holds(t, c.Do(ctx, "MEMORY", "MALLOC-STATS"), func(v any) bool { return strings.Contains(v.(string), "heap: objects") })
	holds(t, c.Do(ctx, "LOLWUT"), func(v any) bool { return strings.HasSuffix(v.(string), "Redis ver. 7.2.4\n") })
	holds(t, c.Do(ctx, "OBJECT", "HELP"), isHelp)
	if err := c.Do(ctx, "DEBUG", "SLEEP", "0").Err(); err == nil || !strings.HasPrefix(err.Error(), "ERR DEBUG command not allowed") {
		t.Errorf("DEBUG: %v", err)
	}
	fails(t, c.Do(ctx, "NOSUCH", "a"), "ERR unknown command 'NOSUCH', with args beginning with: 'a' ")
	fails(t, c.Do(ctx, "GET"), "ERR wrong number of arguments for 'get' command")
}

func isHelp(v any) bool {
	lines, ok := v.([]any)
	return ok && len(lines) > 3 && strings.Contains(fmt.Sprint(lines[0]), "<subcommand>")
}
