package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"kevy/tests/inprocess"
)

// TestMirror writes random commands of every type, some of which fail, over a
// restart of the server, and has the mirror prove itself again and again; then it
// damages the copy, which the proof must find.
func TestMirror(t *testing.T) {
	seed := rand.Uint64()
	if text := os.Getenv("KEVY_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("KEVY_SEED=%d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for _, prefix := range []string{"", "k1"} {
		s := inprocess.Start(t)
		conn := s.Conn()
		write := func(n int) {
			for range n {
				if _, err := conn.Do(strings.Fields(command(rnd))...); err != nil {
					t.Fatal(err)
				}
			}
		}
		write(1000)
		m := newMirror(prefix)
		c, err := m.consumer(s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		client := redis.NewClient(&redis.Options{Addr: s.Addr()})
		prove := func() error {
			t.Helper()
			ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
			defer cancel()
			_, err := m.prove(ctx, client)
			return err
		}
		for round := range 6 {
			write(500)
			if err := prove(); err != nil {
				t.Fatalf("prefix %q, round %d: %v", prefix, round, err)
			}
			switch round {
			case 1:
				inprocess.Do(t, conn, "FLUSHALL")
			case 3:
				conn.Close()
				s.Restart()
				conn = s.Conn()
			}
		}
		inprocess.Do(t, conn, "SET k1:more v")
		if err := prove(); err != nil {
			t.Fatal(err)
		}
		m.mu.Lock()
		m.keys["k1:more"].str = []byte("w")
		m.mu.Unlock()
		if err := prove(); err == nil || !strings.Contains(err.Error(), "the mirror has") {
			t.Errorf("a copy that is wrong: %v", err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		client.Close()
	}
}

// command returns a random one. Its key is rarely of the type that it wants: then
// it fails and changes nothing.
func command(rnd *rand.Rand) string {
	type template struct{ kind, text string }
	templates := []template{
		{"s", "SET K V"}, {"s", "SET K V PX 20"}, {"s", "SET K V EX 1000"}, {"s", "APPEND K V"}, {"s", "SETRANGE K N V"}, {"s", "INCR K"}, {"s", "GETDEL K"},
		{"h", "HSET K M V"}, {"h", "HSET K M V M V"}, {"h", "HDEL K M M"}, {"h", "HINCRBY K n 2"}, {"h", "HEXPIRE K 1000 FIELDS 1 M"},
		{"h", "HPEXPIRE K 20 FIELDS 1 M"}, {"h", "HPERSIST K FIELDS 1 M"},
		{"l", "LPUSH K M M"}, {"l", "RPUSH K M M M"}, {"l", "LPOP K"}, {"l", "RPOP K 2"}, {"l", "LSET K N V"}, {"l", "LSET K -1 V"}, {"l", "LINSERT K BEFORE M V"},
		{"l", "LINSERT K AFTER M V"}, {"l", "LREM K 1 M"}, {"l", "LREM K -2 M"}, {"l", "LREM K 0 M"}, {"l", "LTRIM K 1 -2"}, {"l", "LTRIM K N 20"},
		{"l", "LMOVE K K LEFT RIGHT"},
		{"t", "SADD K M M"}, {"t", "SREM K M"}, {"t", "SPOP K"}, {"t", "SUNIONSTORE K K K"},
		{"z", "ZADD K N M 1.5 M"}, {"z", "ZINCRBY K -0.1 M"}, {"z", "ZADD K -inf M"}, {"z", "ZREM K M"}, {"z", "ZPOPMIN K"},
		{"s", "DEL K K"}, {"l", "DEL K"}, {"h", "PEXPIRE K 30"}, {"z", "EXPIRE K 1000"}, {"h", "PERSIST K"}, {"t", "RENAME K K"}, {"h", "COPY K K REPLACE"},
	}
	pick := templates[rnd.IntN(len(templates))]
	words := strings.Fields(pick.text)
	for i, w := range words {
		switch w {
		case "K":
			words[i] = fmt.Sprintf("k%d:%s", rnd.IntN(3), pick.kind)
		case "M":
			words[i] = fmt.Sprint("m", rnd.IntN(8))
		case "N":
			words[i] = fmt.Sprint(rnd.IntN(12))
		case "V":
			words[i] = strings.Repeat("v", 1+rnd.IntN(20)) + fmt.Sprint(rnd.IntN(100))
		}
	}
	return strings.Join(words, " ")
}
