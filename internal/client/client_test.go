package client

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kevy/resp"
	"kevy/tests/process"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("kevy/tests/process.init.func1.1"))
}

func TestConn(t *testing.T) {
	s := process.Start(t, process.Subject(t), process.Config{})
	c, err := Dial(t.Context(), Options{Addr: s.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("x", 3*maxKeptBytes)
	c.Append("SET", "a", large)
	c.AppendBytes([]byte("GET"), []byte("a"))
	c.Append("LPUSH", "a", "x")
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	if c.out != nil {
		t.Errorf("a buffer of %d bytes is kept", cap(c.out))
	}
	for i, want := range []string{"+OK", `"` + large + `"`, "-WRONGTYPE Operation against a key holding the wrong kind of value"} {
		r, err := c.Receive()
		if err != nil || r.String() != want {
			t.Errorf("reply %d is %.100s, %v", i, r.String(), err)
		}
	}
	if r, err := c.Do("LPUSH", "a", "x"); err != nil || r.Err() == nil {
		t.Errorf("Do: %v %v", r, err)
	}
	var answer *resp.Error
	if _, err := c.Call("LPUSH", "a", "x"); !errors.As(err, &answer) || answer.Code != "WRONGTYPE" {
		t.Errorf("Call: %v", err)
	}
	if err := errors.Join(c.Close(), c.Close()); err != nil {
		t.Errorf("closed twice: %v", err)
	}
}

func TestConnEndsWithItsContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	c, err := Dial(ctx, Options{Addr: l.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := c.Do("PING"); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a server that does not answer: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	slow, err := Dial(t.Context(), Options{Addr: l.Addr().String(), Timeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	var timeout net.Error
	if _, err := slow.Do("PING"); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("after the timeout: %v", err)
	}
}

func TestUint(t *testing.T) {
	for _, r := range []resp.Reply{{Type: ':', Int: 5}, {Type: '$', Str: []byte("5")}} {
		if n, err := Uint(r); n != 5 || err != nil {
			t.Errorf("%v: %d %v", r, n, err)
		}
	}
	for _, r := range []resp.Reply{{Type: ':', Int: -5}, {Type: '$', Str: []byte("-5")}, {Type: '_', Null: true}, {Type: '*'}} {
		if n, err := Uint(r); !errors.Is(err, ErrReply) {
			t.Errorf("%v: %d %v", r, n, err)
		}
	}
}
