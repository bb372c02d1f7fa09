package goredis

//lint:file-ignore SA1019 programs still call the methods that go-redis advises against, and their commands must work

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// useBlocking runs the commands that wait: with something there, and in vain.
func useBlocking(t *testing.T, ctx context.Context, c *redis.Client) {
	const short = 10 * time.Millisecond
	want(t, c.RPush(ctx, "l", "a", "b", "c", "d", "e", "f"), 6)
	want(t, c.BLPop(ctx, time.Second, "none", "l"), []string{"l", "a"})
	want(t, c.BRPop(ctx, time.Second, "none", "l"), []string{"l", "f"})
	want(t, c.BLMove(ctx, "l", "m", "LEFT", "RIGHT", time.Second), "b")
	want(t, c.BRPopLPush(ctx, "l", "m", time.Second), "e")
	if key, elems, err := c.BLMPop(ctx, time.Second, "left", 2, "none", "l").Result(); key != "l" || fmt.Sprint(elems) != "[c d]" || err != nil {
		t.Errorf("BLMPOP: %s %q, %v", key, elems, err)
	}
	isNil(t, c.BLMove(ctx, "l", "m", "LEFT", "RIGHT", time.Second))
	want(t, c.Wait(ctx, 1, short), 0)
	want(t, c.ZAdd(ctx, "z", redis.Z{Score: 1, Member: "a"}, redis.Z{Score: 2, Member: "b"}, redis.Z{Score: 3, Member: "c"}), 3)
	want(t, c.BZPopMin(ctx, time.Second, "z"), &redis.ZWithKey{Z: redis.Z{Score: 1, Member: "a"}, Key: "z"})
	want(t, c.BZPopMax(ctx, time.Second, "z"), &redis.ZWithKey{Z: redis.Z{Score: 3, Member: "c"}, Key: "z"})
	if key, members, err := c.BZMPop(ctx, time.Second, "min", 9, "z").Result(); key != "z" || len(members) != 1 || members[0].Member != "b" || err != nil {
		t.Errorf("BZMPOP: %s %v, %v", key, members, err)
	}
	isNil(t, c.Do(ctx, "BLPOP", "none", short.Seconds()))
	want(t, c.ClientUnblock(ctx, 1<<40), 0)

	served := make(chan error, 1)
	go func() {
		got, err := c.BLPop(ctx, 10*time.Second, "later").Result()
		if err == nil && fmt.Sprint(got) != "[later x]" {
			err = fmt.Errorf("BLPOP was served %q", got)
		}
		served <- err
	}()
	for c.InfoMap(ctx, "clients").Item("Clients", "blocked_clients") != "1" {
		time.Sleep(time.Millisecond)
	}
	want(t, c.RPush(ctx, "later", "x"), 1)
	if err := <-served; err != nil {
		t.Error(err)
	}
	want(t, c.Exists(ctx, "later"), 0)
}

func useFieldExpiry(t *testing.T, ctx context.Context, c *redis.Client) {
	want(t, c.HSet(ctx, "h", "a", "1", "b", "2", "c", "3"), 3)
	want(t, c.HExpire(ctx, "h", time.Hour, "a", "nosuch"), []int64{1, -2})
	want(t, c.HPExpire(ctx, "h", time.Hour, "b"), []int64{1})
	at := time.Now().Add(2 * time.Hour)
	want(t, c.HExpireAt(ctx, "h", at, "a"), []int64{1})
	want(t, c.HPExpireAt(ctx, "h", at, "b"), []int64{1})
	want(t, c.HExpireTime(ctx, "h", "a", "c"), []int64{at.Unix(), -1})
	want(t, c.HPExpireTime(ctx, "h", "b"), []int64{at.UnixMilli()})
	holds(t, c.HTTL(ctx, "h", "a"), func(s []int64) bool { return len(s) == 1 && s[0] > 7000 && s[0] <= 7200 })
	holds(t, c.HPTTL(ctx, "h", "b"), func(ms []int64) bool { return len(ms) == 1 && ms[0] > 7_000_000 && ms[0] <= 7_200_000 })
	want(t, c.HPersist(ctx, "h", "a", "c"), []int64{1, -1})
	want(t, c.HGetEX(ctx, "h", "a"), []string{"1"})
	want(t, c.HSetEX(ctx, "h", "d", "4"), 1)
	want(t, c.HGetDel(ctx, "h", "d"), []string{"4"})
	want(t, c.HExpire(ctx, "h", 0, "c"), []int64{2})
	want(t, c.HLen(ctx, "h"), 2)
}

func useNewerStrings(t *testing.T, ctx context.Context, c *redis.Client) {
	want(t, c.Set(ctx, "k", "v", 0), "OK")
	want(t, c.Set(ctx, "hello", "Hello world", 0), "OK")
	want(t, c.Do(ctx, "DIGEST", "hello"), any("b6acb9d84a38ff74"))
	want(t, c.Do(ctx, "SET", "k", "w", "IFEQ", "v"), any("OK"))
	isNil(t, c.Do(ctx, "SET", "k", "x", "IFEQ", "v"))
	want(t, c.Do(ctx, "DELEX", "k", "IFEQ", "v"), any(int64(0)))
	want(t, c.Do(ctx, "DELEX", "k", "IFEQ", "w"), any(int64(1)))
	want(t, c.Do(ctx, "MSETEX", 2, "a", "1", "b", "2", "EX", 100), any(int64(1)))
	want(t, c.Do(ctx, "DELIFEQ", "a", "1"), any(int64(1)))
	holds(t, c.TTL(ctx, "b"), func(d time.Duration) bool { return d > 90*time.Second })
}

func useStreams(t *testing.T, ctx context.Context, c *redis.Client) {
	add := func(id string) *redis.StringCmd {
		return c.XAdd(ctx, &redis.XAddArgs{Stream: "s", ID: id, Values: []string{"f", id}})
	}
	message := func(id string) redis.XMessage { return redis.XMessage{ID: id, Values: map[string]any{"f": id}} }
	for _, id := range []string{"1-1", "2-1", "3-1", "4-1"} {
		want(t, add(id), id)
	}
	fails(t, add("4-1"), "ERR The ID specified in XADD is equal or smaller than the target stream top item")
	want(t, c.XLen(ctx, "s"), 4)
	want(t, c.XRange(ctx, "s", "(1-1", "2"), []redis.XMessage{message("2-1")})
	want(t, c.XRevRangeN(ctx, "s", "+", "-", 1), []redis.XMessage{message("4-1")})
	want(t, c.XRead(ctx, &redis.XReadArgs{Streams: []string{"s", "3"}, Block: time.Second}), []redis.XStream{{Stream: "s", Messages: []redis.XMessage{message("3-1"), message("4-1")}}})
	isNil(t, c.XRead(ctx, &redis.XReadArgs{Streams: []string{"s", "$"}, Block: 10 * time.Millisecond}))

	want(t, c.XGroupCreate(ctx, "s", "g", "0"), "OK")
	fails(t, c.XGroupCreate(ctx, "s", "g", "0"), "BUSYGROUP Consumer Group name already exists")
	want(t, c.XGroupCreateConsumer(ctx, "s", "g", "bob"), 1)
	want(t, c.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: "ada", Streams: []string{"s", ">"}, Count: 2}),
		[]redis.XStream{{Stream: "s", Messages: []redis.XMessage{message("1-1"), message("2-1")}}})
	holds(t, c.XPending(ctx, "s", "g"), func(p *redis.XPending) bool {
		return p.Count == 2 && p.Lower == "1-1" && p.Higher == "2-1" && p.Consumers["ada"] == 2
	})
	holds(t, c.XPendingExt(ctx, &redis.XPendingExtArgs{Stream: "s", Group: "g", Start: "-", End: "+", Count: 9}), func(p []redis.XPendingExt) bool {
		return len(p) == 2 && p[0].ID == "1-1" && p[0].Consumer == "ada" && p[0].RetryCount == 1
	})
	want(t, c.XClaim(ctx, &redis.XClaimArgs{Stream: "s", Group: "g", Consumer: "bob", Messages: []string{"1-1"}}), []redis.XMessage{message("1-1")})
	if messages, next, err := c.XAutoClaim(ctx, &redis.XAutoClaimArgs{Stream: "s", Group: "g", Consumer: "bob", Start: "0"}).Result(); len(messages) != 2 || next != "0-0" || err != nil {
		t.Errorf("XAUTOCLAIM: %v %s, %v", messages, next, err)
	}
	want(t, c.XAck(ctx, "s", "g", "1-1"), 1)
	holds(t, c.XInfoStream(ctx, "s"), func(i *redis.XInfoStream) bool {
		return i.Length == 4 && i.Groups == 1 && i.LastGeneratedID == "4-1" && i.FirstEntry.ID == "1-1"
	})
	holds(t, c.XInfoStreamFull(ctx, "s", 10), func(i *redis.XInfoStreamFull) bool {
		return len(i.Entries) == 4 && len(i.Groups) == 1 && i.Groups[0].PelCount == 1
	})
	holds(t, c.XInfoGroups(ctx, "s"), func(g []redis.XInfoGroup) bool {
		return len(g) == 1 && g[0].Name == "g" && g[0].Consumers == 2 && g[0].Pending == 1 && g[0].LastDeliveredID == "2-1" && g[0].Lag == 2
	})
	holds(t, c.XInfoConsumers(ctx, "s", "g"), func(all []redis.XInfoConsumer) bool {
		return len(all) == 2 && all[1].Name == "bob" && all[1].Pending == 1
	})
	want(t, c.Do(ctx, "XACKDEL", "s", "g", "IDS", 1, "2-1"), any([]any{int64(1)}))
	want(t, c.Do(ctx, "XDELEX", "s", "IDS", 1, "3-1"), any([]any{int64(1)}))
	want(t, c.XDel(ctx, "s", "1-1", "9-9"), 1)
	want(t, add("5-1"), "5-1")
	want(t, c.XTrimMaxLen(ctx, "s", 1), 1)
	want(t, c.Do(ctx, "XSETID", "s", "7-0"), any("OK"))
	want(t, c.XGroupSetID(ctx, "s", "g", "$"), "OK")
	want(t, c.XGroupDelConsumer(ctx, "s", "g", "bob"), 0)
	want(t, c.XGroupDestroy(ctx, "s", "g"), 1)
	holds(t, c.Do(ctx, "XGROUP", "HELP"), isHelp)
	holds(t, c.Do(ctx, "XINFO", "HELP"), isHelp)
}

func useGeo(t *testing.T, ctx context.Context, c *redis.Client) {
	palermo := &redis.GeoLocation{Name: "Palermo", Longitude: 13.361389, Latitude: 38.115556}
	catania := &redis.GeoLocation{Name: "Catania", Longitude: 15.087269, Latitude: 37.502669}
	want(t, c.GeoAdd(ctx, "g", palermo, catania), 2)
	holds(t, c.GeoDist(ctx, "g", "Palermo", "Catania", "km"), func(km float64) bool { return math.Abs(km-166.2742) < 0.001 })
	want(t, c.GeoHash(ctx, "g", "Palermo", "Catania"), []string{"sqc8b49rny0", "sqdtr74hyu0"})
	holds(t, c.GeoPos(ctx, "g", "Palermo", "nosuch"), func(p []*redis.GeoPos) bool {
		return len(p) == 2 && p[1] == nil && math.Abs(p[0].Longitude-palermo.Longitude) < 1e-5 && math.Abs(p[0].Latitude-palermo.Latitude) < 1e-5
	})
	near := &redis.GeoRadiusQuery{Radius: 200, Unit: "km", WithDist: true, Sort: "ASC"}
	both := func(l []redis.GeoLocation) bool {
		return len(l) == 2 && l[0].Name == "Catania" && l[1].Name == "Palermo"
	}
	holds(t, c.GeoRadius(ctx, "g", 15, 37, near), both)
	holds(t, c.GeoRadiusByMember(ctx, "g", "Catania", &redis.GeoRadiusQuery{Radius: 200, Unit: "km", Sort: "ASC"}), both)
	want(t, c.GeoRadiusStore(ctx, "g", 15, 37, &redis.GeoRadiusQuery{Radius: 200, Unit: "km", Store: "d"}), 2)
	want(t, c.GeoRadiusByMemberStore(ctx, "g", "Catania", &redis.GeoRadiusQuery{Radius: 1, Unit: "km", Store: "d"}), 1)
	box := redis.GeoSearchQuery{Member: "Catania", BoxWidth: 400, BoxHeight: 400, BoxUnit: "km", Sort: "ASC"}
	want(t, c.GeoSearch(ctx, "g", &box), []string{"Catania", "Palermo"})
	want(t, c.GeoSearchStore(ctx, "g", "d", &redis.GeoSearchStoreQuery{GeoSearchQuery: box}), 2)
	want(t, c.ZCard(ctx, "d"), 2)
}

func useHyperLogLog(t *testing.T, ctx context.Context, c *redis.Client) {
	want(t, c.PFAdd(ctx, "a", "x", "y", "z"), 1)
	want(t, c.PFAdd(ctx, "a", "x"), 0)
	want(t, c.PFAdd(ctx, "b", "z", "w"), 1)
	want(t, c.PFCount(ctx, "a"), 3)
	want(t, c.PFCount(ctx, "a", "b"), 4)
	want(t, c.PFMerge(ctx, "d", "a", "b"), "OK")
	want(t, c.PFCount(ctx, "d"), 4)
	want(t, c.Do(ctx, "PFDEBUG", "ENCODING", "d"), any("sparse"))
	want(t, c.Do(ctx, "PFSELFTEST"), any("OK"))
}

func useSort(t *testing.T, ctx context.Context, c *redis.Client) {
	want(t, c.RPush(ctx, "l", "3", "1", "2"), 3)
	want(t, c.MSet(ctx, "w1", "30", "w2", "20", "w3", "10", "o1", "one", "o2", "two", "o3", "three"), "OK")
	want(t, c.Sort(ctx, "l", &redis.Sort{Order: "DESC"}), []string{"3", "2", "1"})
	want(t, c.SortRO(ctx, "l", &redis.Sort{By: "w*", Get: []string{"o*"}, Count: 2}), []string{"three", "two"})
	want(t, c.SortStore(ctx, "l", "d", &redis.Sort{Alpha: true}), 3)
	want(t, c.LRange(ctx, "d", 0, -1), []string{"1", "2", "3"})
}

func useDump(t *testing.T, ctx context.Context, c *redis.Client) {
	want(t, c.RPush(ctx, "l", "a", "b"), 2)
	payload, err := c.Dump(ctx, "l").Result()
	if err != nil {
		t.Fatal(err)
	}
	want(t, c.Restore(ctx, "m", time.Hour, payload), "OK")
	fails(t, c.Restore(ctx, "m", 0, payload), "BUSYKEY Target key name already exists.")
	want(t, c.RestoreReplace(ctx, "m", 0, payload), "OK")
	want(t, c.Do(ctx, "RESTORE-ASKING", "n", 0, payload), any("OK"))
	want(t, c.LRange(ctx, "m", 0, -1), []string{"a", "b"})
	fails(t, c.Restore(ctx, "o", 0, payload[1:]), "ERR DUMP payload version or checksum are wrong")
	isNil(t, c.Dump(ctx, "nosuch"))
}
