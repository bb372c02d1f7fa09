package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"kevy/tests/process"
	"kevy/tests/wire"
)

type followed struct {
	commandsPerSecond, framesPerSecond float64
	behind                             int64
	caughtUp                           time.Duration
}

// followLoad reads the stream ALL while the load runs.
func followLoad(s *process.Server, l load) (followed, error) {
	nc, err := s.Dial()
	if err != nil {
		return followed{}, err
	}
	c := newConsumer(nc)
	defer nc.Close()
	if err := c.start(); err != nil {
		return followed{}, err
	}
	var enough atomic.Int64 // frames at which the consumer is done; 0 while that is not known
	done := make(chan error, 1)
	go func() {
		var err error
		for err == nil && (enough.Load() == 0 || c.frames.Load() < enough.Load()) {
			err = c.read()
		}
		done <- err
	}()
	start := time.Now()
	m, err := l.run(s)
	if err != nil {
		return followed{}, err
	}
	ended := time.Now()
	read := c.frames.Load()
	enough.Store(int64(l.commands))
	if err := <-done; err != nil {
		return followed{}, err
	}
	return followed{
		commandsPerSecond: m.commandsPerSecond, framesPerSecond: float64(read) / ended.Sub(start).Seconds(),
		behind: int64(l.commands) - read, caughtUp: time.Since(ended),
	}, nil
}

// consumer reads frames without keeping them.
type consumer struct {
	nc                 net.Conn
	in                 *bufio.Reader
	generation, offset string
	frames             atomic.Int64
}

func newConsumer(nc net.Conn) *consumer {
	return &consumer{nc: nc, in: bufio.NewReaderSize(nc, 1<<20)}
}

func (c *consumer) send(args ...string) error {
	_, err := c.nc.Write(wire.AppendStrings(nil, args...))
	return err
}

// start takes the cursor at the tail.
func (c *consumer) start() error {
	if err := c.send("CHANGES", "TAIL", "ALL"); err != nil {
		return err
	}
	r, err := wire.Read(c.in)
	if err != nil || len(r.Elems) != 2 {
		return fmt.Errorf("CHANGES TAIL answers %v, %v", r, err)
	}
	c.generation, c.offset = string(r.Elems[0].Text), string(r.Elems[1].Text)
	return nil
}

// read asks for the next frames, waits for them and moves the cursor.
func (c *consumer) read() error {
	if err := c.send("CHANGES", "SINCE", "ALL", c.generation, c.offset, "COUNT", "65536", "BYTES", "4194304", "BLOCK", "100"); err != nil {
		return err
	}
	parts, err := c.header('*')
	if err != nil {
		return err
	}
	if parts != 3 {
		return fmt.Errorf("a reply of %d parts", parts)
	}
	generation, err := c.scalar()
	if err != nil {
		return err
	}
	c.generation = generation
	if c.offset, err = c.scalar(); err != nil {
		return err
	}
	frames, err := c.header('*')
	if err != nil {
		return err
	}
	for range frames {
		if err := c.skip(); err != nil {
			return err
		}
	}
	c.frames.Add(int64(frames))
	return nil
}

func (c *consumer) line() ([]byte, error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	line = bytes.TrimSuffix(line, []byte("\r\n"))
	if len(line) == 0 {
		return nil, errors.New("an empty line")
	}
	if line[0] == '-' {
		return nil, errors.New(string(line[1:]))
	}
	return line, nil
}

// header reads the length of an array.
func (c *consumer) header(kind byte) (int, error) {
	line, err := c.line()
	if err != nil {
		return 0, err
	}
	if line[0] != kind {
		return 0, fmt.Errorf("%q instead of %q", line, kind)
	}
	return strconv.Atoi(string(line[1:]))
}

// scalar reads an integer or a bulk string as text.
func (c *consumer) scalar() (string, error) {
	r, err := wire.Read(c.in)
	if err == nil && !r.Scalar() {
		err = fmt.Errorf("%v instead of a number", r)
	}
	return string(r.Text), err
}

// skip passes over one value.
func (c *consumer) skip() error {
	line, err := c.line()
	if err != nil {
		return err
	}
	switch line[0] {
	case '*':
		n, err := strconv.Atoi(string(line[1:]))
		for i := 0; i < n && err == nil; i++ {
			err = c.skip()
		}
		return err
	case '$':
		n, err := strconv.Atoi(string(line[1:]))
		if err == nil && n >= 0 {
			_, err = c.in.Discard(n + 2)
		}
		return err
	}
	return nil
}
