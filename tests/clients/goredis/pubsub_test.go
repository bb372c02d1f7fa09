package goredis

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// unhooked says of what a redis.PubSub sends that no hook sees it.
const unhooked = "usePubSub sends it, past every hook"

func usePubSub(t *testing.T, ctx context.Context, c *redis.Client) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	sub := c.Subscribe(ctx, "news", "sport")
	defer sub.Close()
	got := func(s *redis.PubSub, want string) {
		t.Helper()
		for {
			v, err := s.Receive(ctx)
			if err != nil {
				t.Fatalf("waiting for %q: %v", want, err)
			}
			switch m := v.(type) {
			case *redis.Subscription:
				if m.String() == want {
					return
				}
			case *redis.Message:
				if m.Pattern+"|"+m.Channel+"|"+m.Payload == want {
					return
				}
				t.Fatalf("a message %v, want %q", m, want)
			}
		}
	}
	got(sub, "subscribe: sport")
	if err := sub.PSubscribe(ctx, "n*"); err != nil {
		t.Fatal(err)
	}
	got(sub, "psubscribe: n*")
	want(t, c.Publish(ctx, "news", "hello"), 2)
	got(sub, "|news|hello")
	got(sub, "n*|news|hello")
	want(t, c.PubSubChannels(ctx, "s*"), []string{"sport"})
	want(t, c.PubSubNumSub(ctx, "news", "nobody"), map[string]int64{"news": 1, "nobody": 0})
	want(t, c.PubSubNumPat(ctx), 1)
	if err := sub.Unsubscribe(ctx, "news"); err != nil {
		t.Fatal(err)
	}
	got(sub, "unsubscribe: news")
	if err := sub.PUnsubscribe(ctx); err != nil {
		t.Fatal(err)
	}
	got(sub, "punsubscribe: n*")
	want(t, c.Publish(ctx, "news", "nobody hears it"), 0)

	shard := c.SSubscribe(ctx, "orders")
	defer shard.Close()
	got(shard, "ssubscribe: orders")
	want(t, c.SPublish(ctx, "orders", "one"), 1)
	got(shard, "|orders|one")
	want(t, c.PubSubShardChannels(ctx, "*"), []string{"orders"})
	want(t, c.PubSubShardNumSub(ctx, "orders"), map[string]int64{"orders": 1})
	if err := shard.SUnsubscribe(ctx); err != nil {
		t.Fatal(err)
	}
	got(shard, "sunsubscribe: orders")
	holds(t, c.Do(ctx, "PUBSUB", "HELP"), isHelp)
}

// useCaching tells a subscriber which keys to forget.
func useCaching(t *testing.T, ctx context.Context, c *redis.Client) {
	opt := *c.Options()
	opt.Protocol = 2 // where what is told is a message
	told := redis.NewClient(&opt)
	defer told.Close()
	sub := told.Subscribe(ctx, "__redis__:invalidate")
	defer sub.Close()
	if _, err := sub.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	list, err := c.Do(ctx, "CLIENT", "LIST", "TYPE", "pubsub").Text()
	if err != nil {
		t.Fatal(err)
	}
	var id int
	if _, err := fmt.Sscanf(strings.TrimPrefix(list, "txt:"), "id=%d ", &id); err != nil {
		t.Fatalf("%q: %v", list, err)
	}
	tracker := c.Conn()
	defer tracker.Close()
	want(t, tracker.Do(ctx, "CLIENT", "GETREDIR"), any(int64(-1)))
	want(t, tracker.Do(ctx, "CLIENT", "TRACKING", "ON", "REDIRECT", id, "OPTIN"), any("OK"))
	want(t, tracker.Do(ctx, "CLIENT", "GETREDIR"), any(int64(id)))
	fails(t, tracker.Get(ctx, "a"), "redis: nil")
	want(t, tracker.Do(ctx, "CLIENT", "CACHING", "YES"), any("OK"))
	fails(t, tracker.Get(ctx, "b"), "redis: nil")
	holds(t, tracker.Do(ctx, "CLIENT", "TRACKINGINFO"), func(v any) bool {
		return strings.Contains(fmt.Sprint(v), "optin") && strings.Contains(fmt.Sprint(v), fmt.Sprint(id))
	})
	want(t, c.MSet(ctx, "a", 1, "b", 1), "OK")
	message, err := sub.ReceiveMessage(ctx)
	if err != nil || fmt.Sprint(message.PayloadSlice) != "[b]" {
		t.Errorf("%v, %v", message, err)
	}
	want(t, tracker.Do(ctx, "CLIENT", "TRACKING", "OFF"), any("OK"))
}
