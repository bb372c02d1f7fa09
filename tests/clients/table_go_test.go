package clients

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/push"
	"github.com/redis/rueidis"
)

func sha256Hex(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func (u *usage) addr() string { return u.host + ":" + strconv.Itoa(u.port) }

// invalidated takes the keys of pushes.
type invalidated chan []any

func (c invalidated) HandlePushNotification(_ context.Context, _ push.NotificationHandlerContext, words []any) error {
	keys, _ := words[1].([]any)
	c <- keys
	return nil
}

// useGoRedis is the row of github.com/redis/go-redis.
func useGoRedis(u *usage) {
	ctx := context.Background()
	options := func() *goredis.Options {
		return &goredis.Options{
			Addr: u.addr(), TLSConfig: u.tls, Protocol: u.protocol, Username: tableUser, Password: tablePassword, ClientName: "a-client",
			ReadTimeout: time.Minute, WriteTimeout: time.Minute, DialTimeout: time.Minute, PoolTimeout: time.Minute,
		}
	}
	open := func(opt *goredis.Options) *goredis.Client {
		c := goredis.NewClient(opt)
		u.Cleanup(func() { c.Close() })
		return c
	}
	c, other := open(options()), open(options())

	name, err := c.ClientGetName(ctx).Result()
	u.must(err)
	u.check("its name", name, "a-client")
	who, err := c.Do(ctx, "ACL", "WHOAMI").Text()
	u.must(err)
	u.check("its user", who, tableUser)
	wrong := options()
	wrong.Password = "wrong"
	u.refused(open(wrong).Ping(ctx).Err(), "WRONGPASS")
	u.refused(c.Get(ctx, "other").Err(), "NOPERM")
	u.refused(c.FlushAll(ctx).Err(), "NOPERM")
	u.step(stepConnect)

	pipe := c.Pipeline()
	for range 5000 {
		pipe.Incr(ctx, "app:n")
	}
	bad := pipe.LPush(ctx, "app:n", "x")
	last := pipe.Incr(ctx, "app:n")
	_, _ = pipe.Exec(ctx)
	u.refused(bad.Err(), "WRONGTYPE")
	u.check("the last INCR", last.Val(), 5001)
	u.step(stepPipeline)

	cmds, err := c.TxPipelined(ctx, func(p goredis.Pipeliner) error {
		p.Set(ctx, "app:a", "1", 0)
		p.Incr(ctx, "app:a")
		return nil
	})
	u.must(err)
	u.check("what EXEC answers", cmds[1].(*goredis.IntCmd).Val(), 2)
	err = c.Watch(ctx, func(tx *goredis.Tx) error {
		u.must(other.Set(ctx, "app:a", "theirs", 0).Err())
		_, err := tx.TxPipelined(ctx, func(p goredis.Pipeliner) error { return p.Set(ctx, "app:a", "mine", 0).Err() })
		return err
	}, "app:a")
	u.check("EXEC after a write", errors.Is(err, goredis.TxFailedErr), true)
	_, err = c.TxPipelined(ctx, func(p goredis.Pipeliner) error {
		p.Set(ctx, "app:a", "mine", 0)
		p.Set(ctx, "other", "mine", 0)
		return nil
	})
	if err == nil {
		u.Fatal("EXEC with a command that was refused")
	}
	u.check("the key", c.Get(ctx, "app:a").Val(), "theirs")
	u.step(stepTransaction)

	for _, tc := range []struct {
		sub     *goredis.PubSub
		publish func() error
	}{
		{c.Subscribe(ctx, "app:channel"), func() error { return other.Publish(ctx, "app:channel", "hello").Err() }},
		{c.PSubscribe(ctx, "app:*"), func() error { return other.Publish(ctx, "app:channel", "hello").Err() }},
		{c.SSubscribe(ctx, "app:channel"), func() error { return other.SPublish(ctx, "app:channel", "hello").Err() }},
	} {
		_, err := tc.sub.Receive(ctx) // the confirmation
		u.must(err)
		u.must(tc.publish())
		message, err := tc.sub.ReceiveMessage(ctx)
		u.must(err)
		u.check("the message", message.Channel+" "+message.Payload, "app:channel hello")
		u.must(tc.sub.Close())
	}
	u.step(stepPubSub)

	if u.protocol == 3 {
		tracker := c.Conn()
		told := make(invalidated, 1)
		u.must(c.RegisterPushNotificationHandler("invalidate", told, false))
		u.must(tracker.Do(ctx, "CLIENT", "TRACKING", "ON").Err())
		u.check("what it reads", tracker.Get(ctx, "app:a").Val(), "theirs")
		u.must(other.Set(ctx, "app:a", "newer", 0).Err())
		u.eventually("the push", func() error {
			u.must(tracker.Ping(ctx).Err()) // it reads pushes before replies
			select {
			case keys := <-told:
				u.check("the key", keys, "[app:a]")
				return nil
			default:
				return errors.New("nothing was pushed")
			}
		})
		u.must(tracker.Do(ctx, "CLIENT", "TRACKING", "OFF").Err())
		u.must(tracker.Close())
	} else {
		listener := c.Subscribe(ctx, "__redis__:invalidate")
		_, err := listener.Receive(ctx)
		u.must(err)
		id, _, _ := strings.Cut(strings.TrimPrefix(other.Do(ctx, "CLIENT", "LIST", "TYPE", "pubsub").String(), "CLIENT LIST TYPE pubsub: id="), " ")
		tracker := c.Conn()
		u.must(tracker.Do(ctx, "CLIENT", "TRACKING", "ON", "REDIRECT", id).Err())
		u.check("what it reads", tracker.Get(ctx, "app:a").Val(), "theirs")
		u.must(other.Set(ctx, "app:a", "newer", 0).Err())
		message, err := listener.ReceiveMessage(ctx)
		u.must(err)
		u.check("the key", message.PayloadSlice, "[app:a]")
		u.must(tracker.Do(ctx, "CLIENT", "TRACKING", "OFF").Err())
		u.must(tracker.Close())
		u.must(listener.Close())
	}
	u.must(other.Set(ctx, "app:a", "theirs", 0).Err())
	u.step(stepCaching)

	script := goredis.NewScript(countScript)
	u.refused(script.EvalSha(ctx, c, []string{"app:count"}, 5).Err(), "NOSCRIPT")
	for _, want := range []int{5, 10} {
		n, err := script.Run(ctx, c, []string{"app:count"}, 5).Int()
		u.must(err)
		u.check("the script", n, want)
	}
	n, err := script.EvalSha(ctx, c, []string{"app:count"}, 5).Int()
	u.must(err)
	u.check("EVALSHA", n, 15)
	u.refused(c.Eval(ctx, countScript, []string{"app:a"}, 1).Err(), "ERR value is not an integer or out of range script: ")
	u.step(stepScript)

	served := make(chan error, 1)
	go func() {
		got, err := c.BLPop(ctx, time.Minute, "app:queue").Result()
		if err == nil && fmt.Sprint(got) != "[app:queue job]" {
			err = fmt.Errorf("BLPOP: %q", got)
		}
		served <- err
	}()
	u.eventually("BLPOP", func() error { return blockedClients(other.Info(ctx, "clients").Val()) })
	u.must(other.RPush(ctx, "app:queue", "job").Err())
	u.must(<-served)
	u.check("a timeout", errors.Is(c.Do(ctx, "BLPOP", "app:queue", "0.02").Err(), goredis.Nil), true)
	u.step(stepBlocking)

	value := bigValue()
	u.must(c.Set(ctx, "app:big", value, 0).Err())
	got, err := c.Get(ctx, "app:big").Bytes()
	u.must(err)
	u.check("8 MiB are the same", bytes.Equal(got, value), true)
	u.step(stepValues)

	single := options()
	single.PoolSize = 1
	one := open(single)
	id, err := one.ClientID(ctx).Result()
	u.must(err)
	u.must(other.ClientKillByFilter(ctx, "ID", strconv.FormatInt(id, 10)).Err())
	u.eventually("after CLIENT KILL", func() error { return one.Set(ctx, "app:kept", "v", 0).Err() })
	u.restart()
	u.eventually("after a restart", func() error { return one.Ping(ctx).Err() })
	u.check("what it wrote", one.Get(ctx, "app:kept").Val(), "v")
	u.step(stepReconnect)
}

// useRedigo is the row of github.com/gomodule/redigo.
func useRedigo(u *usage) {
	dial := func(password string) (redis.Conn, error) {
		options := []redis.DialOption{
			redis.DialUsername(tableUser), redis.DialPassword(password), redis.DialClientName("a-client"),
			redis.DialConnectTimeout(time.Minute), redis.DialReadTimeout(time.Minute), redis.DialWriteTimeout(time.Minute),
		}
		if u.tls != nil {
			options = append(options, redis.DialUseTLS(true), redis.DialTLSConfig(u.tls))
		}
		return redis.Dial("tcp", u.addr(), options...)
	}
	open := func() redis.Conn {
		c, err := dial(tablePassword)
		u.must(err)
		u.Cleanup(func() { c.Close() })
		return c
	}
	do := func(c redis.Conn, name string, args ...any) any {
		u.Helper()
		reply, err := c.Do(name, args...)
		u.must(err)
		return reply
	}
	text := func(reply any) string {
		u.Helper()
		s, err := redis.String(reply, nil)
		u.must(err)
		return s
	}
	c, other := open(), open()

	u.check("its name", text(do(c, "CLIENT", "GETNAME")), "a-client")
	u.check("its user", text(do(c, "ACL", "WHOAMI")), tableUser)
	_, err := dial("wrong")
	u.refused(err, "WRONGPASS")
	_, err = c.Do("GET", "other")
	u.refused(err, "NOPERM")
	_, err = c.Do("FLUSHALL")
	u.refused(err, "NOPERM")
	u.step(stepConnect)

	for range 5000 {
		u.must(c.Send("INCR", "app:n"))
	}
	u.must(c.Send("LPUSH", "app:n", "x"))
	u.must(c.Send("INCR", "app:n"))
	u.must(c.Flush())
	for i := range 5000 {
		n, err := redis.Int(c.Receive())
		u.must(err)
		u.check("INCR", n, i+1)
	}
	_, err = c.Receive()
	u.refused(err, "WRONGTYPE")
	last, err := redis.Int(c.Receive())
	u.must(err)
	u.check("the last INCR", last, 5001)
	u.step(stepPipeline)

	u.must(c.Send("MULTI"))
	u.must(c.Send("SET", "app:a", 1))
	u.must(c.Send("INCR", "app:a"))
	u.check("what EXEC answers", do(c, "EXEC"), "[OK 2]")
	do(c, "WATCH", "app:a")
	do(other, "SET", "app:a", "theirs")
	do(c, "MULTI")
	do(c, "SET", "app:a", "mine")
	u.check("EXEC after a write", do(c, "EXEC"), nil)
	do(c, "MULTI")
	_, err = c.Do("SET", "other", "mine")
	u.refused(err, "NOPERM")
	_, err = c.Do("EXEC")
	u.refused(err, "EXECABORT")
	u.check("the key", text(do(c, "GET", "app:a")), "theirs")
	u.step(stepTransaction)

	sub := redis.PubSubConn{Conn: open()}
	u.must(sub.Subscribe("app:channel"))
	u.check("a subscription", sub.Receive(), redis.Subscription{Kind: "subscribe", Channel: "app:channel", Count: 1})
	do(other, "PUBLISH", "app:channel", "hello")
	u.check("the message", sub.Receive(), redis.Message{Channel: "app:channel", Data: []byte("hello")})
	u.must(sub.Ping("alive"))
	u.check("PING of a subscriber", sub.Receive(), redis.Pong{Data: "alive"})
	u.must(sub.Unsubscribe())
	u.check("the end of it", sub.Receive(), redis.Subscription{Kind: "unsubscribe", Channel: "app:channel"})
	u.step(stepPubSub)

	listener := open() // PubSubConn takes messages that are texts
	id := do(listener, "CLIENT", "ID")
	u.must(listener.Send("SUBSCRIBE", "__redis__:invalidate"))
	u.must(listener.Flush())
	_, err = listener.Receive()
	u.must(err)
	u.check("CLIENT TRACKING", do(c, "CLIENT", "TRACKING", "ON", "REDIRECT", id), "OK")
	u.check("what it reads", text(do(c, "GET", "app:a")), "theirs")
	do(other, "SET", "app:a", "newer")
	message, err := redis.Values(listener.Receive())
	u.must(err)
	u.check("the keys", fmt.Sprintf("%q", message), `["message" "__redis__:invalidate" ["app:a"]]`)
	do(c, "CLIENT", "TRACKING", "OFF")
	do(other, "SET", "app:a", "theirs")
	u.step(stepCaching)

	script := redis.NewScript(1, countScript)
	u.must(script.SendHash(c, "app:count", 5))
	u.must(c.Flush())
	_, err = c.Receive()
	u.refused(err, "NOSCRIPT")
	for _, want := range []int{5, 10} {
		n, err := redis.Int(script.Do(c, "app:count", 5))
		u.must(err)
		u.check("the script", n, want)
	}
	_, err = script.Do(c, "app:a", 1)
	u.refused(err, "ERR value is not an integer or out of range script: ")
	u.step(stepScript)

	served := make(chan error, 1)
	go func() {
		got, err := redis.Strings(redis.DoWithTimeout(c, time.Minute, "BLPOP", "app:queue", 60))
		if err == nil && fmt.Sprint(got) != "[app:queue job]" {
			err = fmt.Errorf("BLPOP: %q", got)
		}
		served <- err
	}()
	u.eventually("BLPOP", func() error { return blockedClients(text(do(other, "INFO", "clients"))) })
	do(other, "RPUSH", "app:queue", "job")
	u.must(<-served)
	u.check("a timeout", do(c, "BLPOP", "app:queue", "0.02"), nil)
	u.step(stepBlocking)

	value := bigValue()
	do(c, "SET", "app:big", value)
	got, err := redis.Bytes(c.Do("GET", "app:big"))
	u.must(err)
	u.check("8 MiB are the same", bytes.Equal(got, value), true)
	u.step(stepValues)

	pool := &redis.Pool{MaxIdle: 1, Dial: func() (redis.Conn, error) { return dial(tablePassword) }, TestOnBorrow: func(c redis.Conn, _ time.Time) error {
		_, err := c.Do("PING")
		return err
	}}
	defer pool.Close()
	pooled := func(name string, args ...any) (any, error) {
		c := pool.Get()
		defer c.Close()
		return c.Do(name, args...)
	}
	mine, err := redis.Int(pooled("CLIENT", "ID"))
	u.must(err)
	u.check("who is killed", do(other, "CLIENT", "KILL", "ID", mine), 1)
	_, err = pooled("SET", "app:kept", "v")
	u.must(err)
	u.restart()
	kept, err := redis.String(pooled("GET", "app:kept"))
	u.must(err)
	u.check("what it wrote", kept, "v")
	u.step(stepReconnect)
}

// useRueidis is the row of github.com/redis/rueidis, which sends pipelines by itself.
func useRueidis(u *usage) {
	ctx := context.Background()
	options := func() rueidis.ClientOption {
		return rueidis.ClientOption{
			InitAddress: []string{u.addr()}, TLSConfig: u.tls, AlwaysRESP2: u.protocol == 2, DisableCache: true,
			Username: tableUser, Password: tablePassword, ClientName: "a-client", ForceSingleClient: true, ConnWriteTimeout: time.Minute,
		}
	}
	open := func() rueidis.Client {
		c, err := rueidis.NewClient(options())
		u.must(err)
		u.Cleanup(c.Close)
		return c
	}
	c, other := open(), open()
	do := func(c rueidis.Client, words ...string) rueidis.RedisResult {
		return c.Do(ctx, c.B().Arbitrary(words...).Build())
	}
	text := func(r rueidis.RedisResult) string {
		u.Helper()
		s, err := r.ToString()
		u.must(err)
		return s
	}

	u.check("its name", text(c.Do(ctx, c.B().ClientGetname().Build())), "a-client")
	u.check("its user", text(c.Do(ctx, c.B().AclWhoami().Build())), tableUser)
	wrong := options()
	wrong.Password = "wrong"
	_, err := rueidis.NewClient(wrong)
	u.refused(err, "WRONGPASS")
	u.refused(c.Do(ctx, c.B().Get().Key("other").Build()).Error(), "NOPERM")
	u.refused(c.Do(ctx, c.B().Flushall().Build()).Error(), "NOPERM")
	u.step(stepConnect)

	var many rueidis.Commands
	for range 5000 {
		many = append(many, c.B().Incr().Key("app:n").Build())
	}
	many = append(many, c.B().Lpush().Key("app:n").Element("x").Build(), c.B().Incr().Key("app:n").Build())
	replies := c.DoMulti(ctx, many...)
	u.refused(replies[5000].Error(), "WRONGTYPE")
	last, err := replies[5001].AsInt64()
	u.must(err)
	u.check("the last INCR", last, 5001)
	u.step(stepPipeline)

	u.must(c.Dedicated(func(d rueidis.DedicatedClient) error {
		replies := d.DoMulti(ctx, d.B().Multi().Build(), d.B().Set().Key("app:a").Value("1").Build(), d.B().Incr().Key("app:a").Build(), d.B().Exec().Build())
		exec, err := replies[3].ToArray()
		u.must(err)
		n, err := exec[1].AsInt64()
		u.must(err)
		u.check("what EXEC answers", n, 2)
		u.must(d.Do(ctx, d.B().Watch().Key("app:a").Build()).Error())
		u.must(other.Do(ctx, other.B().Set().Key("app:a").Value("theirs").Build()).Error())
		replies = d.DoMulti(ctx, d.B().Multi().Build(), d.B().Set().Key("app:a").Value("mine").Build(), d.B().Exec().Build())
		u.check("EXEC after a write", rueidis.IsRedisNil(replies[2].Error()), true)
		replies = d.DoMulti(ctx, d.B().Multi().Build(), d.B().Set().Key("other").Value("mine").Build(), d.B().Exec().Build())
		u.refused(replies[1].Error(), "NOPERM")
		u.refused(replies[2].Error(), "EXECABORT")
		return nil
	}))
	u.check("the key", text(c.Do(ctx, c.B().Get().Key("app:a").Build())), "theirs")
	u.step(stepTransaction)

	for _, tc := range []struct {
		subscribe, publish rueidis.Completed
		counted            string
	}{
		{c.B().Subscribe().Channel("app:channel").Build(), other.B().Publish().Channel("app:channel").Message("hello").Build(), "CHANNELS"},
		{c.B().Psubscribe().Pattern("app:*").Build(), other.B().Publish().Channel("app:channel").Message("hello").Build(), "NUMPAT"},
		{c.B().Ssubscribe().Channel("app:channel").Build(), other.B().Spublish().Channel("app:channel").Message("hello").Build(), "SHARDCHANNELS"},
	} {
		receiving, stop := context.WithCancel(ctx)
		messages, ended := make(chan rueidis.PubSubMessage, 1), make(chan error, 1)
		go func() {
			ended <- c.Receive(receiving, tc.subscribe, func(m rueidis.PubSubMessage) { messages <- m })
		}()
		u.eventually("a subscription", func() error {
			reply, err := do(other, "PUBSUB", tc.counted).ToMessage()
			u.must(err)
			list, _ := reply.ToArray()
			if n, _ := reply.AsInt64(); n == 0 && len(list) == 0 {
				return errors.New("nobody listens")
			}
			return nil
		})
		u.must(other.Do(ctx, tc.publish).Error())
		m := <-messages
		u.check("the message", m.Channel+" "+m.Message, "app:channel hello")
		stop()
		u.check("the end of it", errors.Is(<-ended, context.Canceled), true)
	}
	u.step(stepPubSub)

	if u.protocol == 3 {
		caching := options()
		caching.DisableCache = false
		cached, err := rueidis.NewClient(caching)
		u.must(err)
		defer cached.Close()
		read := func() rueidis.RedisResult {
			return cached.DoCache(ctx, cached.B().Get().Key("app:a").Cache(), time.Minute)
		}
		for i := range 3 {
			r := read()
			u.check("it is from the cache", r.IsCacheHit(), i > 0)
			u.check("what it reads", text(r), "theirs")
		}
		u.must(other.Do(ctx, other.B().Set().Key("app:a").Value("newer").Build()).Error())
		u.eventually("the cache forgets", func() error {
			if got := text(read()); got != "newer" {
				return fmt.Errorf("it reads %s", got)
			}
			return nil
		})
		u.check("it is from the cache again", read().IsCacheHit(), true)
		u.must(other.Do(ctx, other.B().Set().Key("app:a").Value("theirs").Build()).Error())
		u.step(stepCaching)
	}

	script := rueidis.NewLuaScript(countScript)
	u.refused(c.Do(ctx, c.B().Evalsha().Sha1(strings.Repeat("0", 40)).Numkeys(0).Build()).Error(), "NOSCRIPT")
	for _, want := range []int64{5, 10} {
		n, err := script.Exec(ctx, c, []string{"app:count"}, []string{"5"}).AsInt64()
		u.must(err)
		u.check("the script", n, want)
	}
	// rueidis leaves ERR out.
	u.refused(script.Exec(ctx, c, []string{"app:a"}, []string{"1"}).Error(), "value is not an integer or out of range script: ")
	u.step(stepScript)

	served := make(chan error, 1)
	go func() {
		got, err := c.Do(ctx, c.B().Blpop().Key("app:queue").Timeout(60).Build()).AsStrSlice()
		if err == nil && fmt.Sprint(got) != "[app:queue job]" {
			err = fmt.Errorf("BLPOP: %q", got)
		}
		served <- err
	}()
	u.eventually("BLPOP", func() error { return blockedClients(text(other.Do(ctx, other.B().Info().Section("clients").Build()))) })
	u.must(other.Do(ctx, other.B().Rpush().Key("app:queue").Element("job").Build()).Error())
	u.must(<-served)
	u.check("a timeout", rueidis.IsRedisNil(c.Do(ctx, c.B().Blpop().Key("app:queue").Timeout(0.02).Build()).Error()), true)
	u.step(stepBlocking)

	value := bigValue()
	u.must(c.Do(ctx, c.B().Set().Key("app:big").Value(rueidis.BinaryString(value)).Build()).Error())
	got, err := c.Do(ctx, c.B().Get().Key("app:big").Build()).AsBytes()
	u.must(err)
	u.check("8 MiB are the same", bytes.Equal(got, value), true)
	u.step(stepValues)

	id := c.Do(ctx, c.B().ClientId().Build())
	mine, err := id.AsInt64()
	u.must(err)
	killed, err := do(other, "CLIENT", "KILL", "ID", strconv.FormatInt(mine, 10)).AsInt64()
	u.must(err)
	u.check("who is killed", killed, 1)
	u.eventually("after CLIENT KILL", func() error { return c.Do(ctx, c.B().Set().Key("app:kept").Value("v").Build()).Error() })
	u.restart()
	u.eventually("after a restart", func() error { return c.Do(ctx, c.B().Ping().Build()).Error() })
	u.check("what it wrote", text(c.Do(ctx, c.B().Get().Key("app:kept").Build())), "v")
	u.step(stepReconnect)
}
