package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"kevy/tests/process"
)

// paced is a load at a fixed rate. Each connection sends a batch when its time
// has come, whether or not it is late; a batch's latency counts from that time, so
// that what a stalled server keeps waiting is counted too.
type paced struct {
	perSecond, connections, pipeline int
	duration                         time.Duration
	// command appends command i of a connection; now is in Unix nanoseconds.
	command func(dst []byte, connection, i int, now int64) []byte
}

// run returns the latency of every batch and the number of commands.
func (p paced) run(s *process.Server) (latencies []time.Duration, commands int, err error) {
	var (
		mu      sync.Mutex
		running sync.WaitGroup
	)
	every := time.Duration(float64(time.Second) * float64(p.connections*p.pipeline) / float64(p.perSecond))
	begin := time.Now().Add(50 * time.Millisecond)
	for i := range p.connections {
		nc, derr := s.Dial()
		if derr != nil {
			return nil, 0, derr
		}
		running.Add(1)
		go func() {
			defer running.Done()
			defer nc.Close()
			took, cerr := p.connection(nc, i, begin.Add(every*time.Duration(i)/time.Duration(p.connections)), every)
			mu.Lock()
			defer mu.Unlock()
			err = errors.Join(err, cerr)
			latencies = append(latencies, took...)
		}()
	}
	running.Wait()
	return latencies, len(latencies) * p.pipeline, err
}

func (p paced) connection(nc net.Conn, connection int, due time.Time, every time.Duration) (took []time.Duration, err error) {
	in := newRawReader(nc)
	var out []byte
	end := due.Add(p.duration)
	for n := 0; due.Before(end); due = due.Add(every) {
		time.Sleep(time.Until(due))
		out = out[:0]
		now := time.Now().UnixNano()
		for range p.pipeline {
			out = p.command(out, connection, n, now)
			n++
		}
		if _, err := nc.Write(out); err != nil {
			return nil, err
		}
		for range p.pipeline {
			if err := in.skip(); err != nil {
				return nil, err
			}
		}
		took = append(took, time.Since(due))
	}
	return took, nil
}

// percentile returns that of durations, in milliseconds.
func percentile(of []time.Duration, p float64) float64 {
	if len(of) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(of))
	return float64(sorted[min(int(p*float64(len(sorted))), len(sorted)-1)]) / float64(time.Millisecond)
}

// rawReader takes replies apart as fast as may be: a prebuilt parser, which keeps
// nothing.
type rawReader struct {
	nc   net.Conn
	buf  []byte
	r, w int
}

func newRawReader(nc net.Conn) *rawReader { return &rawReader{nc: nc, buf: make([]byte, 256<<10)} }

var errOdd = errors.New("the server sends what should not come")

// more reads on; what was not taken yet moves to the front.
func (p *rawReader) more() error {
	if p.r > 0 {
		copy(p.buf, p.buf[p.r:p.w])
		p.r, p.w = 0, p.w-p.r
	}
	if p.w == len(p.buf) {
		p.buf = append(p.buf, make([]byte, len(p.buf))...)
	}
	n, err := p.nc.Read(p.buf[p.w:])
	p.w += n
	return err
}

// header reads a line of a type and a number.
func (p *rawReader) header() (kind byte, n int, err error) {
	for {
		// The line is short: a loop is faster than looking for its end first.
		n, negative := 0, false
		for i := p.r + 1; i < p.w; i++ {
			switch c := p.buf[i]; {
			case '0' <= c && c <= '9':
				n = n*10 + int(c-'0')
			case c == '-':
				negative = true
			case c == '\r':
				if i+1 == p.w {
					break
				}
				kind = p.buf[p.r]
				p.r = i + 2
				if negative {
					n = -n
				}
				return kind, n, nil
			default:
				return p.text()
			}
		}
		if err := p.more(); err != nil {
			return 0, 0, err
		}
	}
}

// text reads a line that is no number: a status or an error.
func (p *rawReader) text() (kind byte, n int, err error) {
	for {
		if i := bytes.IndexByte(p.buf[p.r:p.w], '\n'); i >= 0 {
			line := p.buf[p.r : p.r+i]
			p.r += i + 1
			if line[0] == '-' {
				return 0, 0, fmt.Errorf("the server answers %s", line)
			}
			return line[0], 0, nil
		}
		if err := p.more(); err != nil {
			return 0, 0, err
		}
	}
}

// bulk reads n bytes and the end of their line. They are valid until the next
// call.
func (p *rawReader) bulk(n int) ([]byte, error) {
	for p.w-p.r < n+2 {
		if err := p.more(); err != nil {
			return nil, err
		}
	}
	b := p.buf[p.r : p.r+n]
	p.r += n + 2
	return b, nil
}

// skip passes over one value and returns the last bulk in it.
func (p *rawReader) skip() error {
	_, err := p.last()
	return err
}

// last passes over one value and returns the last bulk in it, valid until the
// next call.
func (p *rawReader) last() (bulk []byte, err error) {
	for left := 1; left > 0; left-- {
		kind, n, err := p.header()
		if err != nil {
			return nil, err
		}
		switch kind {
		case '*', '>', '~':
			left += max(n, 0)
		case '%':
			left += 2 * n
		case '$', '=':
			if n >= 0 {
				if bulk, err = p.bulk(n); err != nil {
					return nil, err
				}
			}
		}
	}
	return bulk, nil
}

// follower is a subscriber to ALL that counts frames.
type follower struct {
	nc     net.Conn
	in     *rawReader
	frames int
	writes int // messages
}

// follow subscribes; where is TAIL, OLDEST or a cursor, with options.
func follow(s *process.Server, where ...string) (*follower, error) {
	nc, err := s.Dial()
	if err != nil {
		return nil, err
	}
	f := &follower{nc: nc, in: newRawReader(nc)}
	err = f.ask("HELLO", "3")
	if err == nil {
		err = f.ask(append([]string{"CHANGES", "SUBSCRIBE", "ALL"}, where...)...)
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	return f, nil
}

func (f *follower) ask(args ...string) error {
	if _, err := f.nc.Write(appendCommand(nil, args...)); err != nil {
		return err
	}
	return f.in.skip()
}

// message reads one message; each, if not nil, gets the last argument of every
// frame.
func (f *follower) message(each func(last []byte)) error {
	if kind, n, err := f.in.header(); err != nil || kind != '>' || n != 5 {
		return errors.Join(errOdd, err)
	}
	f.writes++
	for range 4 { // kind, stream, generation, offset
		if err := f.in.skip(); err != nil {
			return err
		}
	}
	kind, n, err := f.in.header()
	if err != nil || kind != '*' {
		return errors.Join(errOdd, err)
	}
	for range n {
		last, err := f.in.last()
		if err != nil {
			return err
		}
		if each != nil {
			each(last)
		}
	}
	f.frames += n
	return nil
}

// until reads until so many frames have come.
func (f *follower) until(frames int, each func(last []byte)) error {
	for f.frames < frames {
		if err := f.message(each); err != nil {
			return err
		}
	}
	return nil
}

func appendCommand(dst []byte, args ...string) []byte {
	dst = append(dst, '*')
	dst = strconv.AppendInt(dst, int64(len(args)), 10)
	for _, a := range args {
		dst = append(dst, "\r\n$"...)
		dst = strconv.AppendInt(dst, int64(len(a)), 10)
		dst = append(dst, "\r\n"...)
		dst = append(dst, a...)
	}
	return append(dst, "\r\n"...)
}
