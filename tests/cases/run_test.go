package cases

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"kevy/tests/wire"
)

const (
	// replyTimeout is how long the reply to a command may take.
	replyTimeout = 2 * time.Second
	// awaitedTimeout is how long a reply may take that a step waits for by itself.
	awaitedTimeout = 600 * time.Millisecond
	// silence ends what raw bytes are answered with.
	silence = 150 * time.Millisecond
)

// run is one execution of a case.
type run struct {
	addr  string
	conns map[string]*wire.Conn
	saved map[string]string
}

// play runs steps on an emptied server and returns what each was answered.
// done says whether an answer to a step of raw bytes is all that is expected.
func play(addr string, steps []step, done func(i int, got string) bool) ([]string, error) {
	if err := empty(addr); err != nil {
		return nil, err
	}
	r := &run{addr: addr, conns: map[string]*wire.Conn{}, saved: map[string]string{}}
	defer func() {
		for _, c := range r.conns {
			c.Close()
		}
	}()
	var out []string
	for i, st := range steps {
		text, err := r.step(st, func(got string) bool { return done(i, got) })
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			text = "<none>"
		case err != nil && st.op != "sleep":
			text = "<closed>"
		}
		if st.save != "" {
			r.saved[st.save] = strings.Trim(text, `"`)
		}
		out = append(out, text)
	}
	return out, nil
}

// empty brings a server to where each case starts. What it does not know it refuses, and does not need.
func empty(addr string) error {
	c, err := wire.Dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	replies, err := c.Pipeline([]string{"FLUSHALL"}, []string{"CONFIG", "SET", "maxmemory", "0"}, []string{"CONFIG", "SET", "maxmemory-policy", "noeviction"},
		[]string{"CONFIG", "SET", "notify-keyspace-events", ""}, []string{"CONFIG", "SET", "requirepass", ""}, []string{"SCRIPT", "FLUSH"}, []string{"FUNCTION", "FLUSH"})
	if err != nil {
		return err
	}
	if string(replies[0].Text) != "OK" {
		return fmt.Errorf("FLUSHALL: %s", replies[0])
	}
	return nil
}

func (r *run) conn(name string) (*wire.Conn, error) {
	if c := r.conns[name]; c != nil {
		return c, nil
	}
	c, err := wire.Dial(r.addr)
	if err == nil {
		r.conns[name] = c
	}
	return c, err
}

func (r *run) step(st step, done func(string) bool) (string, error) {
	if st.op == "sleep" {
		time.Sleep(time.Duration(st.n) * time.Millisecond)
		return "", nil
	}
	c, err := r.conn(st.conn)
	if err != nil {
		return "", err
	}
	switch st.op {
	case "<":
		var out []string
		for range st.n {
			text, err := read(c, awaitedTimeout)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				text = "<none>"
			} else if err != nil {
				return "", err
			}
			out = append(out, text)
		}
		return strings.Join(out, " "), nil
	case "!":
		return r.raw(c, st.raw, done)
	}
	args := make([][]byte, len(st.args))
	for i, a := range st.args {
		for name, text := range r.saved {
			a = bytes.ReplaceAll(a, []byte("${"+name+"}"), []byte(text))
		}
		args[i] = a
	}
	c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := c.Write(wire.AppendCommand(nil, args...)); err != nil || st.op == ">>" {
		return "", err
	}
	return read(c, replyTimeout)
}

// raw sends bytes and reads replies until the server closes, or falls silent and has said what is expected.
func (r *run) raw(c *wire.Conn, data []byte, done func(string) bool) (string, error) {
	c.SetDeadline(time.Now().Add(10 * time.Second))
	// The server may close before it has read all: what it answered counts.
	sent := make(chan error, 1)
	go func() { _, err := c.Write(data); sent <- err }()
	var out []string
	text := func() string {
		if len(out) == 0 {
			return "<none>"
		}
		return strings.Join(out, " ")
	}
	deadline := time.Now().Add(replyTimeout)
	for {
		reply, err := read(c, silence)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if done(text()) || time.Now().After(deadline) {
				break
			}
			continue
		}
		if err != nil {
			out = append(out, "<closed>")
			break
		}
		out = append(out, reply)
	}
	<-sent
	return text(), nil
}

// read reads one reply that must begin within a time.
func read(c *wire.Conn, begin time.Duration) (string, error) {
	c.SetReadDeadline(time.Now().Add(begin))
	if _, err := c.Reader().Peek(1); err != nil {
		return "", err
	}
	c.SetReadDeadline(time.Now().Add(10 * time.Second))
	r, err := c.ReadReply()
	if err != nil {
		return "", err
	}
	return r.String(), nil
}

// matches compares the answer to a step with what is expected of it.
func (e expectation) matches(i int, got string, unordered bool) bool {
	for _, s := range e.Skip {
		if s == i {
			return true
		}
	}
	want := []string{e.Expect[i]}
	if alt, ok := e.Alt[strconv.Itoa(i)]; ok {
		want = append(want, alt)
	}
	for _, w := range want {
		if w == got || unordered && order(w) == order(got) {
			return true
		}
	}
	return false
}

// order is the text of a reply with its elements sorted.
func order(text string) string {
	r, rest, err := wire.Parse(text)
	if err != nil || rest != "" || r.Scalar() {
		return text
	}
	elems := make([]string, len(r.Elems))
	for i, e := range r.Elems {
		elems[i] = e.String()
	}
	sort.Strings(elems)
	return string(rune(r.Kind)) + strings.Join(elems, " ")
}
