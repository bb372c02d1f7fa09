package goredis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"kevy/tests/process"
)

// TestConnect looks at what the server knows of a client after the commands that go-redis sends by itself.
func TestConnect(t *testing.T) {
	s := process.Start(t, process.Subject(t), process.Config{})
	ctx := context.Background()
	for _, tc := range []struct {
		name string
		opt  redis.Options
		db   int
		resp uint8
	}{
		{"defaults", redis.Options{}, 0, 3},
		{"RESP2", redis.Options{Protocol: 2}, 0, 2},
		{"RESP3", redis.Options{Protocol: 3}, 0, 3},
		{"name and database", redis.Options{ClientName: "a-client", DB: 7}, 7, 3},
		{"without identity", redis.Options{Protocol: 2, DisableIdentity: true, DB: 3}, 3, 2},
		{"identity suffix", redis.Options{IdentitySuffix: "suffix"}, 0, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := connect(t, s, tc.opt)
			want(t, c.Ping(ctx), "PONG")
			list, err := c.Do(ctx, "CLIENT", "INFO").Text()
			if err != nil {
				t.Fatal(err)
			}
			for _, field := range []string{fmt.Sprintf(" db=%d ", tc.db), fmt.Sprintf(" resp=%d ", tc.resp), " name=" + tc.opt.ClientName + " "} {
				if !strings.Contains(strings.TrimSpace(list)+" ", field) {
					t.Errorf("CLIENT INFO has no%s: %s", field, list)
				}
			}
			if known := strings.Contains(list, " lib-name=go-redis"); known == tc.opt.DisableIdentity {
				t.Errorf("the library's name: %s", list)
			}
			if tc.opt.IdentitySuffix != "" && !strings.Contains(list, tc.opt.IdentitySuffix) {
				t.Errorf("the library's suffix: %s", list)
			}
			conn := c.Conn()
			defer conn.Close()
			hello, err := conn.Hello(ctx, int(tc.resp), "", "", "renamed").Result()
			if err != nil || hello["server"] != "redis" || hello["proto"] != int64(tc.resp) || hello["version"] != "7.2.4" || hello["mode"] != "standalone" {
				t.Errorf("HELLO: %v, %v", hello, err)
			}
			want(t, conn.ClientGetName(ctx), "renamed")
		})
	}
	c := connect(t, s, redis.Options{Protocol: 2, DB: 99})
	if err := c.Ping(ctx).Err(); err == nil || err.Error() != "ERR DB index is out of range" {
		t.Errorf("a database that does not exist: %v", err)
	}
}

// TestContext ends commands by their context, and the pool goes on.
func TestContext(t *testing.T) {
	s := process.Start(t, process.Subject(t), process.Config{})
	for _, protocol := range both {
		t.Run(fmt.Sprintf("RESP%d", protocol), func(t *testing.T) {
			ctx := context.Background()
			c := connect(t, s, redis.Options{Protocol: protocol, PoolSize: 1, ContextTimeoutEnabled: true})
			done, cancel := context.WithCancel(ctx)
			cancel()
			if err := c.Set(done, "k", "v", 0).Err(); !errors.Is(err, context.Canceled) {
				t.Errorf("a cancelled context: %v", err)
			}
			past, cancel := context.WithDeadline(ctx, time.Now().Add(-time.Second))
			defer cancel()
			if err := c.Get(past, "k").Err(); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a deadline that has passed: %v", err)
			}
			want(t, c.Set(ctx, "k", "v", 0), "OK")
			want(t, c.Get(ctx, "k"), "v")
			if _, err := c.Pipelined(done, func(p redis.Pipeliner) error { return p.Incr(ctx, "n").Err() }); !errors.Is(err, context.Canceled) {
				t.Errorf("a pipeline with a cancelled context: %v", err)
			}
			want(t, c.Exists(ctx, "n"), 0)
		})
	}
}

// TestConcurrent shares a client among goroutines that write and check keys of their own.
func TestConcurrent(t *testing.T) {
	s := process.Start(t, process.Subject(t), process.Config{})
	ctx := context.Background()
	for _, protocol := range both {
		c := connect(t, s, redis.Options{Protocol: protocol, PoolSize: 10})
		var wg sync.WaitGroup
		errs := make(chan error, 20)
		for g := range 20 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for i := range 200 {
					key, value := fmt.Sprintf("key:%d:%d", g, i%17), fmt.Sprintf("value %d %d", g, i)
					if err := c.Set(ctx, key, value, 0).Err(); err != nil {
						errs <- err
						return
					}
					if got, err := c.Get(ctx, key).Result(); err != nil || got != value {
						errs <- fmt.Errorf("%s is %q, %v; want %q", key, got, err, value)
						return
					}
				}
			}()
		}
		wg.Wait()
		close(errs)
		for err := range errs {
			t.Error(err)
		}
	}
}

// TestLargeValues carries values that no buffer holds at once.
func TestLargeValues(t *testing.T) {
	s := process.Start(t, process.Subject(t), process.Config{})
	ctx := context.Background()
	for _, protocol := range both {
		c := connect(t, s, redis.Options{Protocol: protocol, ReadTimeout: 20 * time.Second, WriteTimeout: 20 * time.Second})
		large := strings.Repeat("0123456789abcdef", 1<<20) // 16 MiB
		want(t, c.Set(ctx, "large", large, 0), "OK")
		if got, err := c.Get(ctx, "large").Result(); err != nil || got != large {
			t.Errorf("RESP%d: 16 MiB came back as %d bytes, %v", protocol, len(got), err)
		}
		want(t, c.GetRange(ctx, "large", 16, 31), "0123456789abcdef")
		args := make([]interface{}, 0, 200_000)
		for i := range 100_000 {
			args = append(args, fmt.Sprintf("f%d", i), i)
		}
		want(t, c.HSet(ctx, "wide", args...), 100_000)
		holds(t, c.HGetAll(ctx, "wide"), func(m map[string]string) bool { return len(m) == 100_000 && m["f99999"] == "99999" })
		want(t, c.FlushAll(ctx), "OK")
	}
}

// TestShutdown ends the server by command: the client sees that it has gone, and what was written is there
// when it is started again, also to a client that was connected before.
func TestShutdown(t *testing.T) {
	b := process.Subject(t)
	s := process.Start(t, b, process.Config{})
	ctx := context.Background()
	c := connect(t, s, redis.Options{})
	want(t, c.Set(ctx, "k", "v", 0), "OK")
	if err := c.Shutdown(ctx).Err(); err != nil && !strings.Contains(err.Error(), "EOF") && !strings.Contains(err.Error(), "reset") && !strings.Contains(err.Error(), "refused") {
		t.Errorf("SHUTDOWN: %v", err)
	}
	if err := s.WaitExit(20 * time.Second); err != nil {
		t.Fatalf("the server after SHUTDOWN: %v\n%s", err, s.Log())
	}
	again, err := process.LaunchOn(b, process.Config{Dir: s.Dir}, s.Port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(again.Kill)
	if err := again.WaitReady(20 * time.Second); err != nil {
		t.Fatalf("%v\n%s", err, again.Log())
	}
	want(t, c.Get(ctx, "k"), "v")
}
