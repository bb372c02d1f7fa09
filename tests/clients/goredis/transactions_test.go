package goredis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"kevy/tests/process"
)

// TestPipelines sends many commands at once, with and without a transaction around them.
func TestPipelines(t *testing.T) {
	s := process.Start(t, process.Subject(t), process.Config{})
	ctx := context.Background()
	for _, protocol := range both {
		t.Run(fmt.Sprintf("RESP%d", protocol), func(t *testing.T) {
			c := connect(t, s, redis.Options{Protocol: protocol})
			want(t, c.FlushAll(ctx), "OK")

			const n = 20_000
			pipe := c.Pipeline()
			var counts []*redis.IntCmd
			for i := range n {
				pipe.Set(ctx, "k"+strconv.Itoa(i), strings.Repeat("v", i%200), 0)
				counts = append(counts, pipe.Incr(ctx, "count"))
			}
			cmds, err := pipe.Exec(ctx)
			if err != nil || len(cmds) != 2*n {
				t.Fatalf("a pipeline of %d: %d replies, %v", 2*n, len(cmds), err)
			}
			for i, cmd := range counts {
				if cmd.Val() != int64(i+1) {
					t.Fatalf("INCR %d of the pipeline: %v", i, cmd)
				}
			}

			// Errors and nils stay with their command.
			var bad *redis.IntCmd
			var missing, good *redis.StringCmd
			_, err = c.Pipelined(ctx, func(p redis.Pipeliner) error {
				p.Set(ctx, "s", "x", 0)
				bad = p.LPush(ctx, "s", "y")
				missing = p.Get(ctx, "missing")
				good = p.Get(ctx, "s")
				return nil
			})
			if err == nil || err.Error() != wrongType {
				t.Errorf("the first error of a pipeline: %v", err)
			}
			fails(t, bad, wrongType)
			isNil(t, missing)
			want(t, good, "x")

			cmds, err = c.TxPipelined(ctx, func(p redis.Pipeliner) error {
				p.Set(ctx, "a", "1", 0)
				p.IncrBy(ctx, "a", 9)
				p.HSet(ctx, "h", "f", "v")
				p.HGetAll(ctx, "h")
				p.ZAdd(ctx, "z", redis.Z{Score: 1.5, Member: "m"})
				p.ZRangeWithScores(ctx, "z", 0, -1)
				p.Get(ctx, "a")
				return nil
			})
			if err != nil || len(cmds) != 7 {
				t.Fatalf("a transaction: %v, %v", cmds, err)
			}
			want(t, cmds[1].(*redis.IntCmd), 10)
			want(t, cmds[3].(*redis.MapStringStringCmd), map[string]string{"f": "v"})
			want(t, cmds[5].(*redis.ZSliceCmd), []redis.Z{{Score: 1.5, Member: "m"}})
			want(t, cmds[6].(*redis.StringCmd), "10")

			// A command that fails when it runs does not stop the others.
			tx := c.TxPipeline()
			tx.Set(ctx, "s", "x", 0)
			bad = tx.LPush(ctx, "s", "y")
			after := tx.Set(ctx, "t", "z", 0)
			if _, err := tx.Exec(ctx); err == nil || err.Error() != wrongType {
				t.Errorf("a transaction with a command that fails: %v", err)
			}
			fails(t, bad, wrongType)
			want(t, after, "OK")

			// One that is refused when it is queued discards all.
			tx = c.TxPipeline()
			tx.Set(ctx, "leaked", "x", 0)
			tx.Do(ctx, "NOSUCH")
			if _, err := tx.Exec(ctx); err == nil || !strings.HasPrefix(err.Error(), "EXECABORT ") && !strings.HasPrefix(err.Error(), "ERR unknown command 'NOSUCH'") {
				t.Errorf("a transaction with an unknown command: %v", err)
			}
			want(t, c.Exists(ctx, "leaked"), 0)
		})
	}
}

// TestWatch increments a counter by reading and writing it, from many clients at once: the ones whose
// transaction fails try again, and none is lost.
func TestWatch(t *testing.T) {
	s := process.Start(t, process.Subject(t), process.Config{})
	for _, protocol := range both {
		t.Run(fmt.Sprintf("RESP%d", protocol), func(t *testing.T) {
			ctx := context.Background()
			c := connect(t, s, redis.Options{Protocol: protocol, PoolSize: 8})
			want(t, c.FlushAll(ctx), "OK")
			increment := func(tx *redis.Tx) error {
				n, err := tx.Get(ctx, "counter").Int()
				if err != nil && !errors.Is(err, redis.Nil) {
					return err
				}
				_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
					p.Set(ctx, "counter", n+1, 0)
					p.RPush(ctx, "history", n+1)
					return nil
				})
				return err
			}
			const clients, each = 8, 50
			var wg sync.WaitGroup
			errs := make(chan error, clients)
			for range clients {
				wg.Add(1)
				go func() {
					defer wg.Done()
					for range each {
						for {
							err := c.Watch(ctx, increment, "counter")
							if err == nil {
								break
							}
							if !errors.Is(err, redis.TxFailedErr) {
								errs <- err
								return
							}
						}
					}
				}()
			}
			wg.Wait()
			close(errs)
			for err := range errs {
				t.Error(err)
			}
			want(t, c.Get(ctx, "counter"), strconv.Itoa(clients*each))
			history, err := c.LRange(ctx, "history", 0, -1).Result()
			if err != nil || len(history) != clients*each {
				t.Fatalf("%d transactions, %v", len(history), err)
			}
			for i, v := range history {
				if v != strconv.Itoa(i+1) {
					t.Fatalf("transaction %d wrote %s", i+1, v)
				}
			}

			// A write between WATCH and EXEC, seen from outside.
			err = c.Watch(ctx, func(tx *redis.Tx) error {
				if err := c.Set(ctx, "counter", "other", 0).Err(); err != nil {
					return err
				}
				_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Set(ctx, "counter", "mine", 0).Err() })
				return err
			}, "counter")
			if !errors.Is(err, redis.TxFailedErr) {
				t.Errorf("a transaction whose key was written: %v", err)
			}
			want(t, c.Get(ctx, "counter"), "other")
			// After Unwatch it does not matter.
			err = c.Watch(ctx, func(tx *redis.Tx) error {
				if err := errors.Join(tx.Unwatch(ctx).Err(), c.Set(ctx, "counter", "other", 0).Err()); err != nil {
					return err
				}
				_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Set(ctx, "counter", "mine", 0).Err() })
				return err
			}, "counter")
			if err != nil {
				t.Errorf("after Unwatch: %v", err)
			}
			want(t, c.Get(ctx, "counter"), "mine")
		})
	}
}
