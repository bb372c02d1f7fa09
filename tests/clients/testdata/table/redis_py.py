"""A row of the table for redis-py: redis_py.py HOST PORT PROTOCOL USER PASSWORD [CA CERT KEY]."""

import sys
import threading
import time

import redis

host, port, protocol, user, password = sys.argv[1:6]
assert protocol == "2", "Debian's redis-py speaks RESP2"
secure = {}
if len(sys.argv) > 6:
    secure = dict(zip(("ssl_ca_certs", "ssl_certfile", "ssl_keyfile"), sys.argv[6:]), ssl=True)


def connect(**other):
    options = dict(host=host, port=int(port), username=user, password=password, client_name="a-client", socket_timeout=60, **secure)
    return redis.Redis(**{**options, **other})


def step(name):
    print(name, flush=True)


def equal(got, want):
    if got != want:
        raise AssertionError(f"{got!r}, want {want!r}")


def refused(kind, text, call, *args):
    try:
        got = call(*args)
    except kind as error:
        if text not in str(error):
            raise AssertionError(f"{error}, want {text}") from error
        return
    raise AssertionError(f"{got!r}, want {text}")


def eventually(what, ready):
    end = time.monotonic() + 60
    while True:
        try:
            if ready():
                return
        except redis.ConnectionError:
            pass
        if time.monotonic() > end:
            raise AssertionError(what)
        time.sleep(0.01)


client, other = connect(), connect()

equal(client.client_getname(), "a-client")
equal(client.acl_whoami(), user)
refused(redis.ResponseError, "WRONGPASS", connect(password="wrong").ping)
refused(redis.exceptions.NoPermissionError, "", client.get, "other")
refused(redis.exceptions.NoPermissionError, "", client.flushall)
step("connect")

with client.pipeline(transaction=False) as pipe:
    for _ in range(5000):
        pipe.incr("app:n")
    pipe.lpush("app:n", "x")
    pipe.incr("app:n")
    replies = pipe.execute(raise_on_error=False)
equal(str(replies[5000])[:9], "WRONGTYPE")
equal(replies[5001], 5001)
step("pipeline")

with client.pipeline() as pipe:
    equal(pipe.set("app:a", 1).incr("app:a").execute(), [True, 2])
    pipe.watch("app:a")
    other.set("app:a", "theirs")
    pipe.multi()
    refused(redis.WatchError, "", pipe.set("app:a", "mine").execute)
with client.pipeline() as pipe:
    refused(redis.ResponseError, "", pipe.set("app:a", "mine").set("other", "mine").execute)
equal(client.get("app:a"), b"theirs")
step("transaction")

for verb, name, kind in (("subscribe", "app:channel", "message"), ("psubscribe", "app:*", "pmessage")):
    with client.pubsub() as subscriber:
        getattr(subscriber, verb)(name)
        equal(subscriber.get_message(timeout=60)["type"], verb)
        equal(other.publish("app:channel", "hello"), 1)
        message = subscriber.get_message(timeout=60)
        equal((message["type"], message["channel"], message["data"]), (kind, b"app:channel", b"hello"))
step("pub/sub")

with client.pubsub() as subscriber, connect(single_connection_client=True) as tracker:
    subscriber.subscribe("__redis__:invalidate")
    equal(subscriber.get_message(timeout=60)["type"], "subscribe")
    listener = other.client_list(_type="pubsub")[0]["id"]
    equal(tracker.execute_command("CLIENT", "TRACKING", "ON", "REDIRECT", listener), b"OK")
    equal(tracker.get("app:a"), b"theirs")
    other.set("app:a", "newer")
    message = subscriber.get_message(timeout=60)
    equal((message["channel"], message["data"]), (b"__redis__:invalidate", [b"app:a"]))
    equal(tracker.execute_command("CLIENT", "GETREDIR"), int(listener))
other.set("app:a", "theirs")
step("caching")

refused(redis.exceptions.NoScriptError, "", client.evalsha, "0" * 40, 0)
count = client.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
equal(count(keys=["app:count"], args=[5]), 5)
equal(count(keys=["app:count"], args=[5]), 10)
refused(redis.ResponseError, "value is not an integer or out of range script: ", lambda: count(keys=["app:a"], args=[1]))
step("script")

got = []
waiter = threading.Thread(target=lambda: got.append(client.blpop("app:queue", 60)))
waiter.start()
eventually("BLPOP", lambda: other.info("clients")["blocked_clients"] == 1)
other.rpush("app:queue", "job")
waiter.join()
equal(got, [(b"app:queue", b"job")])
equal(client.blpop("app:queue", 0.02), None)
step("blocking pop")

value = bytes(range(256)) * ((8 << 20) // 256)
equal(client.set("app:big", value), True)
equal(client.get("app:big") == value, True)
step("big values")

single = connect(single_connection_client=True)
equal(other.execute_command("CLIENT", "KILL", "ID", single.client_id()), 1)
eventually("after CLIENT KILL", lambda: single.set("app:kept", "v"))
print("restart", flush=True)
sys.stdin.readline()
eventually("after a restart", single.ping)
equal(single.get("app:kept"), b"v")
step("reconnect")
