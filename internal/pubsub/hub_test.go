package pubsub

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"kevy/internal/glob"
)

// inbox is a Subscriber without a connection.
func inbox(l Limit) (*Subscriber, *int) {
	ended := new(int)
	return NewSubscriber(func() Limit { return l }, func(int64) { *ended++ }), ended
}

func publish(h *Hub, p *Publisher, kind Kind, channel, payload string) int {
	n := h.Publish(p, kind, []byte(channel), []byte(payload), 0, true, nil)
	h.Deliver(p)
	return n
}

func texts(s *Subscriber) (out []string) {
	for _, m := range s.Take(nil) {
		out = append(out, string(m.AppendTo(nil, 2)))
		s.Sent(m.Len())
	}
	return out
}

// TestPatternsComeInOrder: a message comes from the channel first, then from the
// patterns in the order in which they were first subscribed to.
func TestPatternsComeInOrder(t *testing.T) {
	h, p := NewHub(), &Publisher{}
	s, _ := inbox(Limit{})
	for _, name := range []string{"n*", "*", "?ews"} {
		h.Subscribe(s, Patterns, []byte(name))
	}
	h.Subscribe(s, Channels, []byte("news"))
	if n := publish(h, p, Channels, "news", "x"); n != 4 {
		t.Errorf("%d receivers", n)
	}
	tail := "$4\r\nnews\r\n$1\r\nx\r\n"
	want := []string{
		"*3\r\n$7\r\nmessage\r\n" + tail, "*4\r\n$8\r\npmessage\r\n$2\r\nn*\r\n" + tail,
		"*4\r\n$8\r\npmessage\r\n$1\r\n*\r\n" + tail, "*4\r\n$8\r\npmessage\r\n$4\r\n?ews\r\n" + tail,
	}
	if got := texts(s); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if got := h.Names(s, Patterns); !slices.Equal(got, []string{"n*", "*", "?ews"}) {
		t.Errorf("patterns %q", got)
	}
}

// TestHubAgainstModel holds random subscriptions and messages to lists.
func TestHubAgainstModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("KEVY_SEED"); text != "" {
		seed, _ = strconv.ParseUint(text, 10, 64)
	}
	t.Logf("KEVY_SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	type key struct {
		who  int
		kind Kind
		name string
	}
	h, p, model := NewHub(), &Publisher{}, map[key]bool{}
	var all []*Subscriber
	for range 5 {
		s, _ := inbox(Limit{})
		all = append(all, s)
	}
	names := []string{"a", "ab", "b", "a*", "*", "?b"}
	for step := range 20000 {
		k := key{rng.IntN(len(all)), Kind(rng.IntN(int(kinds))), names[rng.IntN(len(names))]}
		switch n := rng.IntN(100); {
		case n < 40:
			if h.Subscribe(all[k.who], k.kind, []byte(k.name)) == model[k] {
				t.Fatalf("step %d: subscribe %v", step, k)
			}
			model[k] = true
		case n < 70:
			if h.Unsubscribe(all[k.who], k.kind, []byte(k.name)) != model[k] {
				t.Fatalf("step %d: unsubscribe %v", step, k)
			}
			delete(model, k)
		case n < 72:
			h.Leave(all[k.who])
			for m := range model {
				if m.who == k.who {
					delete(model, m)
				}
			}
		default:
			kind := Channels
			if k.kind == Shard {
				kind = Shard
			}
			want, total := make([]int, len(all)), 0
			for m := range model {
				if m.kind == kind && m.name == k.name || kind == Channels && m.kind == Patterns && glob.Match(m.name, k.name) {
					want[m.who]++
					total++
				}
			}
			if got := publish(h, p, kind, k.name, "x"); got != total {
				t.Fatalf("step %d: %d receivers, want %d", step, got, total)
			}
			for i, s := range all {
				if got := len(texts(s)); got != want[i] {
					t.Fatalf("step %d: subscriber %d got %d, want %d", step, i, got, want[i])
				}
			}
		}
		for kind := range kinds {
			topics := map[string]bool{}
			for m := range model {
				if m.kind == kind {
					topics[m.name] = true
				}
			}
			if got := h.Count(kind); got != len(topics) || len(h.Topics(kind, nil, true)) != got {
				t.Fatalf("step %d: %d topics of kind %d, want %d", step, got, kind, len(topics))
			}
		}
	}
	for _, s := range all {
		h.Leave(s)
	}
	if n := h.Count(Channels) + h.Count(Patterns) + h.Count(Shard) + len(h.patterns); n != 0 {
		t.Errorf("%d topics are left", n)
	}
}

// TestLimits: beyond the hard limit at once, beyond the soft one when its time is
// over, and not if the queue was shorter in between.
func TestLimits(t *testing.T) {
	h, p := NewHub(), &Publisher{}
	s, ended := inbox(Limit{HardBytes: 1000})
	h.Subscribe(s, Channels, []byte("a"))
	for i := range 100 {
		publish(h, p, Channels, "a", fmt.Sprint(i))
	}
	if *ended != 1 || len(texts(s)) != 0 {
		t.Errorf("ended %d times", *ended)
	}
	soft, ended := inbox(Limit{SoftBytes: 50, SoftFor: time.Nanosecond})
	h.Subscribe(soft, Channels, []byte("b"))
	publish(h, p, Channels, "b", "x") // below it
	publish(h, p, Channels, "b", "x") // above it from now on
	if *ended != 0 {
		t.Fatal("ended when it was not over the limit for any time")
	}
	texts(soft)
	publish(h, p, Channels, "b", "x")
	publish(h, p, Channels, "b", "x")
	if *ended != 0 {
		t.Fatal("ended although the queue was short in between")
	}
	time.Sleep(time.Microsecond)
	publish(h, p, Channels, "b", "x")
	if *ended != 1 {
		t.Errorf("ended %d times", *ended)
	}
}

// TestHold: what is queued behind Hold is not taken before Release, and what ends
// meanwhile is handed over or dropped.
func TestHold(t *testing.T) {
	h, p := NewHub(), &Publisher{}
	s, _ := inbox(Limit{})
	h.Subscribe(s, Channels, []byte("a"))
	h.Subscribe(s, Channels, []byte("b"))
	publish(h, p, Channels, "a", "1")
	s.Hold()
	publish(h, p, Channels, "a", "2")
	publish(h, p, Channels, "b", "3")
	s.Hold()
	if got := texts(s); len(got) != 1 {
		t.Errorf("took %q", got)
	}
	s.DropHeld(Channels, []byte("a"))
	if got := s.TakeHeld(); len(got) != 1 || s.Waiting() != 0 {
		t.Errorf("%d were held, %d bytes wait", len(got), s.Waiting())
	}
	publish(h, p, Channels, "b", "4")
	select {
	case <-s.Woken():
		t.Error("woken for what is held back")
	default:
	}
	s.Release()
	select {
	case <-s.Woken():
	default:
		t.Error("not woken by Release")
	}
	if got := texts(s); len(got) != 1 || s.Waiting() != 0 {
		t.Errorf("took %q, %d bytes wait", got, s.Waiting())
	}
}

// TestRuns: what one publisher sends to one topic comes as one, in both protocols,
// in the order of publishing with what goes elsewhere.
func TestRuns(t *testing.T) {
	h, p := NewHub(), &Publisher{}
	s, _ := inbox(Limit{})
	for _, name := range []string{"a", "b"} {
		h.Subscribe(s, Shard, []byte(name))
	}
	for i, channel := range []string{"a", "a", "b", "a"} {
		h.Publish(p, Shard, []byte(channel), []byte(strconv.Itoa(i)), uint64(i), true, nil)
	}
	if s.Waiting() != 0 {
		t.Error("delivered before Deliver")
	}
	h.Deliver(p)
	got := s.Take(nil)
	if len(got) != 3 || got[0].LSN() != 1 {
		t.Fatalf("%d messages", len(got))
	}
	one := func(first, channel, payload string) string {
		return first + "3\r\n$8\r\nsmessage\r\n$1\r\n" + channel + "\r\n$1\r\n" + payload + "\r\n"
	}
	for proto, first := range map[int]string{2: "*", 3: ">"} {
		b := []byte("x")
		for _, m := range got {
			b = m.AppendTo(b, proto)
		}
		if want := "x" + one(first, "a", "0") + one(first, "a", "1") + one(first, "b", "2") + one(first, "a", "3"); string(b) != want {
			t.Errorf("RESP%d: got %q, want %q", proto, b, want)
		}
	}
	for range 10000 {
		h.Publish(p, Shard, []byte("a"), []byte("x"), 0, true, nil)
		if p.bytes > gatheredBytes {
			t.Fatalf("%d bytes are gathered", p.bytes)
		}
	}
	h.Deliver(p)
	for _, m := range s.Take(nil) {
		if m.Len() > 2*runBytes {
			t.Fatalf("a run of %d bytes", m.Len())
		}
	}
}
