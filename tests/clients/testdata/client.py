"""Uses a server through redis-py: client.py PORT. Prints "ok N" after N checks, or fails."""

import datetime
import sys
import threading
import time

import redis

PORT = int(sys.argv[1])
checks = 0


def check(got, want):
    global checks
    checks += 1
    if got != want:
        raise AssertionError(f"check {checks}: {got!r}, want {want!r}")


def refused(text, call, *args, **kwargs):
    global checks
    checks += 1
    try:
        got = call(*args, **kwargs)
    except redis.ResponseError as e:
        if str(e) != text:
            raise AssertionError(f"check {checks}: {e}, want {text}") from e
        return
    raise AssertionError(f"check {checks}: {got!r}, want the error {text}")


WRONGTYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"


def basic(r):
    r.flushall()
    check(r.ping(), True)
    check(r.set("k", "v"), True)
    check(r.get("k"), "v")
    check(r.get("missing"), None)
    check(r.set("k", "w", nx=True), None)
    check(r.set("k", "w", xx=True, get=True), "v")
    check(r.set("k", "x", ex=datetime.timedelta(minutes=1)), True)
    check(50 < r.ttl("k") <= 60, True)
    check(r.getex("k", persist=True), "x")
    check(r.ttl("k"), -1)
    check(r.ttl("missing"), -2)
    check(r.mset({"a": 1, "b": 2.5, "c": "three"}), True)
    check(r.mget("a", "b", "c", "missing"), ["1", "2.5", "three", None])
    check(r.incr("n", 5), 5)
    check(r.incrbyfloat("n", 0.5), 5.5)
    check(r.append("k", "yz"), 3)
    check(r.getrange("k", 0, 1), "xy")
    check(r.setbit("bits", 7, 1), 0)
    check(r.bitcount("bits"), 1)
    check(r.exists("a", "b", "missing"), 2)
    check(r.type("a"), "string")
    check(r.rename("a", "renamed"), True)
    refused("no such key", r.rename, "a", "renamed")
    check(r.copy("renamed", "copied"), True)
    check(r.delete("renamed", "copied", "missing"), 2)
    check(r.expire("b", 100), True)
    check(r.persist("b"), True)
    check(r.dbsize(), 5)

    check(r.hset("h", mapping={"f": "v", "g": 1}), 2)
    check(r.hgetall("h"), {"f": "v", "g": "1"})
    check(r.hmget("h", "f", "missing"), ["v", None])
    check(r.hincrby("h", "g", 2), 3)
    check(r.hexists("h", "missing"), False)
    check(r.hdel("h", "f"), 1)

    check(r.rpush("l", 1, 2, 3), 3)
    check(r.lrange("l", 0, -1), ["1", "2", "3"])
    check(r.lpop("l"), "1")
    check(r.rpop("l", 5), ["3", "2"])
    check(r.lpop("l"), None)
    check(r.rpush("l", "a", "b"), 2)
    check(r.lmove("l", "m", "LEFT", "RIGHT"), "a")
    check(r.lpos("l", "b"), 0)

    check(r.sadd("s", "a", "b", "c"), 3)
    check(r.smembers("s"), {"a", "b", "c"})
    check(r.sismember("s", "a"), True)
    check(r.sinter("s", "missing"), set())
    check(r.smismember("s", ["a", "x"]), [1, 0])

    check(r.zadd("z", {"one": 1, "two": 2.5}), 2)
    check(r.zrange("z", 0, -1, withscores=True), [("one", 1.0), ("two", 2.5)])
    check(r.zscore("z", "two"), 2.5)
    check(r.zscore("z", "missing"), None)
    check(r.zincrby("z", 1.5, "one"), 2.5)
    check(r.zadd("z", {"one": 10}, gt=True, ch=True), 1)
    check(r.zrangebyscore("z", "-inf", "(10", withscores=True), [("two", 2.5)])
    check(r.zpopmax("z"), [("one", 10.0)])
    check(r.zrank("z", "two"), 0)

    refused(WRONGTYPE, r.lpush, "k", "x")
    refused(WRONGTYPE, r.hgetall, "s")
    refused("unknown command 'NOSUCH', with args beginning with: 'x' ", r.execute_command, "NOSUCH", "x")
    refused("value is not an integer or out of range", r.incr, "c")


def raw(r):
    """Bytes stay bytes."""
    value = bytes(range(256))
    check(r.set(value, value), True)
    check(r.get(value), value)
    check(r.keys("*"), [value])
    check(r.flushdb(), True)
    big = b"x" * (8 << 20)
    check(r.set("big", big), True)
    check(r.get("big") == big, True)


def server(r):
    info = r.info()
    check(info["redis_version"], "7.2.4")
    check(info["role"], "master")
    check("kevy_version" in info, True)
    check(r.info("keyspace").get("db0", {}).get("keys", 0), r.dbsize())
    check(r.config_get("maxmemory-policy"), {"maxmemory-policy": "noeviction"})
    check(r.config_set("timeout", 0), True)
    check(r.client_setname("python"), True)
    check(r.client_getname(), "python")
    check(r.client_id() > 0, True)
    check([c["name"] for c in r.client_list() if c["id"] == str(r.client_id())], ["python"])
    check(abs(r.time()[0] - time.time()) < 5, True)
    check(r.command_count() > 150, True)
    check(r.command_getkeys("MSET", "a", 1, "b", 2), ["a", "b"])
    check(r.memory_usage("nothing"), None)
    check(r.set("number", 1), True)
    check(r.object("encoding", "number"), "int")
    check(r.select(3), True)
    check(r.set("in3", "v"), True)
    check(r.select(0), True)
    check(r.exists("in3"), 0)


def pipelines(r):
    r.flushall()
    with r.pipeline(transaction=True) as p:
        p.set("a", 1).incr("a").lpush("l", "x").hset("h", "f", "v").zadd("z", {"m": 1.5}).get("a").zrange("z", 0, -1, withscores=True)
        check(p.execute(), [True, 2, 1, 1, 1, "2", [("m", 1.5)]])
    with r.pipeline(transaction=False) as p:
        for i in range(10_000):
            p.set(f"k{i}", i)
        check(p.execute(), [True] * 10_000)
    # Errors come in their place, and the rest is done.
    with r.pipeline(transaction=True) as p:
        got = p.set("s", "x").lpush("s", "y").set("t", "z").execute(raise_on_error=False)
        check([got[0], str(got[1]), got[2]], [True, WRONGTYPE, True])
    # A command that is refused when it is queued discards everything.
    with r.pipeline(transaction=True) as p:
        p.set("leaked", 1)
        p.execute_command("NOSUCH")
        try:
            p.execute()
            raise AssertionError("a transaction with an unknown command went through")
        except redis.ResponseError as e:
            check("unknown command 'NOSUCH'" in str(e), True)
    check(r.exists("leaked"), 0)


def optimistic(r, connect):
    """Many clients count with WATCH; whoever is overtaken tries again."""
    r.set("counter", 0)
    errors, retries = [], []

    def work():
        try:
            c = connect()
            for _ in range(50):
                while True:
                    with c.pipeline() as p:
                        try:
                            p.watch("counter")
                            n = int(p.get("counter"))
                            p.multi()
                            p.set("counter", n + 1)
                            p.rpush("history", n + 1)
                            p.execute()
                            break
                        except redis.WatchError:
                            retries.append(1)
            c.close()
        except Exception as e:  # reported by the main thread
            errors.append(e)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    check(errors, [])
    check(r.get("counter"), "300")
    check(r.lrange("history", 0, -1), [str(i + 1) for i in range(300)])
    check(r.transaction(lambda p: p.multi() or p.incr("counter"), "counter"), [301])


def lock(r):
    """The lock of the redis documentation: SET NX PX, and a delete only of what is one's own."""

    def release(name, token):
        with r.pipeline() as p:
            while True:
                try:
                    p.watch(name)
                    if p.get(name) != token:
                        return False
                    p.multi()
                    p.delete(name)
                    p.execute()
                    return True
                except redis.WatchError:
                    continue

    check(r.set("lock", "mine", nx=True, px=10_000), True)
    check(r.set("lock", "theirs", nx=True, px=10_000), None)
    check(release("lock", "theirs"), False)
    check(release("lock", "mine"), True)
    check(r.set("lock", "theirs", nx=True, px=10), True)
    time.sleep(0.03)
    check(release("lock", "theirs"), False)
    check(r.set("lock", "mine", nx=True, px=10_000), True)
    # A lock that is replaced between WATCH and EXEC is not deleted.
    with r.pipeline() as p:
        p.watch("lock")
        r.set("lock", "theirs", xx=True)
        p.multi()
        p.delete("lock")
        try:
            p.execute()
            raise AssertionError("EXEC after the key was written")
        except redis.WatchError:
            pass
    check(r.get("lock"), "theirs")


def iterate(r):
    r.flushall()
    with r.pipeline(transaction=False) as p:
        for i in range(2000):
            p.set(f"key:{i}", i)
            p.sadd("set", i)
            p.hset("hash", f"f{i}", i)
            p.zadd("zset", {f"m{i}": i})
        p.execute()
    check(set(r.scan_iter("key:*")), {f"key:{i}" for i in range(2000)})
    check(set(r.scan_iter("key:1?", count=7)), {f"key:1{i}" for i in range(10)})
    check(set(r.scan_iter(_type="zset")), {"zset"})
    check(set(r.sscan_iter("set")), {str(i) for i in range(2000)})
    check(dict(r.hscan_iter("hash")), {f"f{i}": str(i) for i in range(2000)})
    check(dict(r.zscan_iter("zset", match="m1*")), {f"m{i}": float(i) for i in range(2000) if str(i)[0] == "1"})


def feed(r):
    generation, offset = r.execute_command("CHANGES", "TAIL", "ALL")
    r.mset({"p:1": "x", "q:1": "y"})
    r.incr("p:n")
    r.delete("p:1")
    generation, offset, frames = r.execute_command("CHANGES", "SINCE", "ALL", generation, offset, "PREFIX", "p:", "BLOCK", 1000)
    check([f[1] for f in frames], [["SET", "p:1", "x"], ["SET", "p:n", "1", "KEEPTTL"], ["DEL", "p:1"]])
    check(r.execute_command("CHANGES", "SINCE", "ALL", generation, offset, "BLOCK", 20), [generation, offset, []])


def connect(**options):
    return redis.Redis(host="127.0.0.1", port=PORT, decode_responses=True, socket_timeout=20, **options)


r = connect()
basic(r)
raw(redis.Redis(host="127.0.0.1", port=PORT, db=5, socket_timeout=20))
server(connect(single_connection_client=True, health_check_interval=1))
pipelines(r)
optimistic(r, connect)
lock(r)
iterate(r)
feed(r)
print("ok", checks)
