package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"kevy/tests/process"
	"kevy/tests/wire"
)

const (
	// fanOutBytes is how large what is published is.
	fanOutBytes = 64
	// fanOutChannel is where it is published.
	fanOutChannel = "bench:news"
	// fanOutLimit is how long one run may take.
	fanOutLimit = 5 * time.Minute
)

// fanOut measures what a message costs that many subscribers get: one publishes, once without pipelining and
// once with. Every byte that a subscriber gets is counted, so that none is missing.
func (p *plan) fanOut() error {
	fmt.Fprintf(p.out, "%-34s %21s %21s %7s   medians of %d, lowest to highest\n", "", "kevy-server", "redis-server", "ratio", p.runs)
	for _, pipeline := range []int{1, 16} {
		var figures [2]series
		for run := range p.runs {
			order := []int{0, 1}
			if run%2 == 1 {
				order = []int{1, 0}
			}
			for _, i := range order {
				b := []process.Binary{p.kevy, p.redis}[i]
				err := withServer(b, nil, func(s *process.Server) error {
					m, err := publishTo(s, p.subscribers, p.messages, pipeline)
					figures[i].add(m)
					return err
				})
				if err != nil {
					return err
				}
			}
		}
		name := fmt.Sprintf("PUBLISH to %d, pipeline %d", p.subscribers, pipeline)
		row(p.out, name+": messages/s", "%.0f", figures[0].rates, figures[1].rates)
		row(p.out, "  server CPU, µs a message", "%.3f", figures[0].cpuMicros, figures[1].cpuMicros)
		p.keep(name, "delivered messages/s", figures[0].rates, figures[1].rates)
		p.keep(name, "server CPU µs/delivered message", figures[0].cpuMicros, figures[1].cpuMicros)
	}
	return nil
}

// publishTo publishes messages to a channel with subscribers, and takes time and CPU until all have all of them,
// by delivered message.
func publishTo(s *process.Server, subscribers, messages, pipeline int) (measurement, error) {
	payload := strings.Repeat("x", fanOutBytes)
	one := len(wire.AppendStrings(nil, "message", fanOutChannel, payload))
	var wg sync.WaitGroup
	defer wg.Wait()
	var all []net.Conn
	defer func() {
		for _, c := range all {
			c.Close()
		}
	}()
	ended := make(chan error, subscribers)
	for range subscribers {
		raw, err := s.Dial()
		if err != nil {
			return measurement{}, err
		}
		all = append(all, raw)
		raw.SetDeadline(time.Now().Add(fanOutLimit))
		c := wire.NewConn(raw)
		if r, err := c.Do("SUBSCRIBE", fanOutChannel); err != nil || r.Kind == wire.Error {
			return measurement{}, fmt.Errorf("SUBSCRIBE answers %v, %v", r, err)
		}
		if c.Buffered() > 0 {
			return measurement{}, fmt.Errorf("a subscriber got something before anything was published")
		}
		wg.Go(func() {
			_, err := io.CopyN(io.Discard, raw, int64(messages)*int64(one))
			ended <- err
		})
	}
	raw, err := s.Dial()
	if err != nil {
		return measurement{}, err
	}
	all = append(all, raw)
	raw.SetDeadline(time.Now().Add(fanOutLimit))
	cpu, err := cpuSeconds(s.PID())
	if err != nil {
		return measurement{}, err
	}
	start := time.Now()
	if err := publish(raw, payload, messages, pipeline, fmt.Sprintf(":%d\r\n", subscribers)); err != nil {
		return measurement{}, err
	}
	for range subscribers {
		if err := <-ended; err != nil {
			return measurement{}, fmt.Errorf("a subscriber: %w", err)
		}
	}
	took := time.Since(start)
	after, err := cpuSeconds(s.PID())
	delivered := float64(messages) * float64(subscribers)
	return measurement{delivered / took.Seconds(), (after - cpu) * 1e6 / delivered}, err
}

// publish publishes a payload again and again, pipeline at a time; each must be answered with answer.
func publish(c net.Conn, payload string, messages, pipeline int, answer string) error {
	in := bufio.NewReader(c)
	one := wire.AppendStrings(nil, "PUBLISH", fanOutChannel, payload)
	answers := make([]byte, len(answer)*pipeline)
	for sent := 0; sent < messages; {
		n := min(pipeline, messages-sent)
		if _, err := c.Write(bytes.Repeat(one, n)); err != nil {
			return err
		}
		got := answers[:len(answer)*n]
		if _, err := io.ReadFull(in, got); err != nil {
			return err
		}
		if string(got) != strings.Repeat(answer, n) {
			return fmt.Errorf("PUBLISH answers %q", got)
		}
		sent += n
	}
	return nil
}
