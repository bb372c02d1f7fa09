package pubsub

import (
	"slices"
	"strings"
	"testing"
)

func TestInvalidations(t *testing.T) {
	keys := [][]byte{[]byte("a"), []byte("bc")}
	const list = "*2\r\n$1\r\na\r\n$2\r\nbc\r\n"
	const pushed, channel = ">2\r\n$10\r\ninvalidate\r\n", "*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n"
	for _, one := range []struct {
		m            *Message
		resp2, resp3 string
	}{
		{NewInvalidation(keys, 7, false), "", pushed + list},
		{NewInvalidation(keys, 7, true), channel + list, pushed + list},
		{NewInvalidation(nil, 7, false), "", pushed + "_\r\n"},
		{NewInvalidation(nil, 7, true), channel + "$-1\r\n", pushed + "_\r\n"},
		{NewBrokenRedirection(12), "", ">2\r\n$21\r\ntracking-redir-broken\r\n:12\r\n"},
		{NewInvalidation([][]byte{{}}, 7, false), "", pushed + "*1\r\n$0\r\n\r\n"},
	} {
		for proto, want := range map[int]string{2: one.resp2, 3: one.resp3} {
			if got := string(one.m.AppendTo([]byte("before "), proto)); got != "before "+want {
				t.Errorf("RESP%d: %q, want %q", proto, got, want)
			}
		}
		if _, _, ok := one.m.Parts(3); ok {
			t.Error("it has a part that is shared")
		}
	}
	keys[0][0] = 'x'
	m := NewInvalidation(keys, 7, false)
	keys[0][0] = 'y'
	if got := string(m.AppendTo(nil, 3)); !strings.Contains(got, "\nx\r") || m.LSN() != 7 {
		t.Errorf("%q as of %d", got, m.LSN())
	}
}

// TestQueue: who is queued something is woken once, and cut off beyond its limit.
func TestQueue(t *testing.T) {
	p := &Publisher{}
	s, ended := inbox(Limit{HardBytes: 100})
	m := NewInvalidation([][]byte{[]byte("key")}, 1, false)
	p.Queue(s, m)
	select {
	case <-s.Woken():
		t.Error("it is woken before Wake")
	default:
	}
	p.Wake()
	<-s.Woken()
	if got := s.Take(nil); !slices.Equal(got, []*Message{m}) {
		t.Errorf("%v", got)
	}
	s.Sent(m.Len())
	if s.Waiting() != 0 {
		t.Errorf("%d bytes wait", s.Waiting())
	}
	s.Hold()
	p.Queue(s, m)
	p.Wake()
	select {
	case <-s.Woken():
		t.Error("it is woken while it is held back")
	default:
	}
	s.Release()
	<-s.Woken()
	for range 10 {
		p.Queue(s, m)
	}
	p.Wake()
	slow := p.TakeSlow(nil)
	if !slices.Equal(slow, []*Subscriber{s}) || *ended != 0 {
		t.Fatalf("%v are slow, %d were ended", slow, *ended)
	}
	slow[0].End()
	if len(s.Take(nil)) != 0 || *ended != 1 {
		t.Errorf("it goes on, or was ended %d times", *ended)
	}
}
