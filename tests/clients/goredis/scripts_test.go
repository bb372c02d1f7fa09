package goredis

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
)

func useScripts(t *testing.T, ctx context.Context, c *redis.Client) {
	want(t, c.ScriptFlush(ctx), "OK")
	want(t, c.Eval(ctx, "return redis.call('incrby', KEYS[1], ARGV[1])", []string{"n"}, 40), any(int64(40)))
	want(t, c.EvalRO(ctx, "return redis.call('get', KEYS[1])", []string{"n"}), any("40"))
	fails(t, c.EvalRO(ctx, "return redis.call('del', KEYS[1])", []string{"n"}),
		"ERR Write commands are not allowed from read-only scripts. script: 98b2b88b1aa43ae891c8e2859ad7d9cd48c1c784, on @user_script:1.")

	// Run falls back to EVAL where the server does not know the script yet.
	add := redis.NewScript("return redis.call('incrby', KEYS[1], 2)")
	want(t, add.Exists(ctx, c), []bool{false})
	want(t, add.Run(ctx, c, []string{"n"}), any(int64(42)))
	want(t, add.Exists(ctx, c), []bool{true})
	want(t, c.EvalSha(ctx, add.Hash(), []string{"n"}), any(int64(44)))
	get := redis.NewScript("return redis.call('get', KEYS[1])")
	want(t, get.Load(ctx, c), get.Hash())
	want(t, c.EvalShaRO(ctx, get.Hash(), []string{"n"}), any("44"))
	fails(t, c.ScriptKill(ctx), "NOTBUSY No scripts in execution right now.")

	pipe := c.TxPipeline()
	before := pipe.Incr(ctx, "n")
	script := pipe.Eval(ctx, "redis.call('incr', KEYS[1]) return redis.call('incr', 'undeclared')", []string{"n"})
	after := pipe.Incr(ctx, "n")
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	want(t, before, int64(45))
	want(t, script, any(int64(1)))
	want(t, after, int64(47))
}

func useFunctions(t *testing.T, ctx context.Context, c *redis.Client) {
	want(t, c.FunctionFlush(ctx), "OK")
	const code = "#!lua name=lib\nredis.register_function('add', function(keys, args) return redis.call('incrby', keys[1], args[1]) end)\n" +
		"redis.register_function{function_name='get', callback=function(keys) return redis.call('get', keys[1]) end, flags={'no-writes'}}"
	want(t, c.FunctionLoad(ctx, code), "lib")
	want(t, c.FunctionLoadReplace(ctx, code), "lib")
	want(t, c.FCall(ctx, "add", []string{"n"}, 40), any(int64(40)))
	want(t, c.FCallRo(ctx, "get", []string{"n"}), any("40"))
	list, err := c.FunctionList(ctx, redis.FunctionListQuery{LibraryNamePattern: "l*", WithCode: true}).Result()
	if err != nil || len(list) != 1 || list[0].Name != "lib" || list[0].Code != code || len(list[0].Functions) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
	payload, err := c.FunctionDump(ctx).Result()
	if err != nil {
		t.Fatal(err)
	}
	want(t, c.FunctionDelete(ctx, "lib"), "OK")
	fails(t, c.FCall(ctx, "add", []string{"n"}, 1), "ERR Function not found")
	want(t, c.FunctionRestore(ctx, payload), "OK")
	want(t, c.FCall(ctx, "add", []string{"n"}, 2), any(int64(42)))
	stats, err := c.FunctionStats(ctx).Result()
	if err != nil || stats.Running() || len(stats.Engines) != 1 || stats.Engines[0].FunctionsCount != 2 {
		t.Errorf("%+v, %v", stats, err)
	}
	fails(t, c.FunctionKill(ctx), "NOTBUSY No scripts in execution right now.")
}
