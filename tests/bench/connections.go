package main

import (
	"fmt"
	"net"
	"sync"
	"time"

	"kevy/tests/process"
	"kevy/tests/wire"
)

const (
	// settleSeconds is how long connections have been idle when their memory is
	// measured.
	settleSeconds = 12
	// dialers is how many connect at the same time.
	dialers = 16
)

// idle are connections on which nothing comes any more.
type idle []net.Conn

func (c idle) close() {
	for _, nc := range c {
		_ = nc.Close()
	}
}

// connectIdle opens n connections, each of which has sent one command.
func connectIdle(s *process.Server, n int) (idle, error) {
	var mu sync.Mutex
	var all idle
	var failed error
	var wg sync.WaitGroup
	for d := range dialers {
		wg.Go(func() {
			for i := d; i < n; i += dialers {
				nc, err := s.Dial()
				if err == nil {
					_ = nc.SetDeadline(time.Now().Add(startLimit))
					_, err = wire.NewConn(nc).Do("PING")
				}
				mu.Lock()
				if err != nil {
					failed = err
				} else {
					all = append(all, nc)
				}
				stop := failed != nil
				mu.Unlock()
				if stop {
					return
				}
			}
		})
	}
	wg.Wait()
	if failed != nil {
		all.close()
		return nil, fmt.Errorf("%d of %d connections: %w", len(all), n, failed)
	}
	return all, nil
}

// connections measures what idle connections weigh and how they weigh on others.
func (p *plan) connections() error {
	var memory [2][]float64
	var alone, beside [2]series
	for i, b := range []process.Binary{p.kevy, p.redis} {
		args := []string{"--auto-aof-rewrite-percentage", "0", "--maxclients", fmt.Sprint(p.idleConnections + 1000)}
		err := withServer(b, args, func(s *process.Server) error {
			time.Sleep(time.Second)
			before, err := residentBytes(s.PID())
			if err != nil {
				return err
			}
			crowd, err := connectIdle(s, p.idleConnections)
			if err != nil {
				return err
			}
			defer func() { crowd.close() }()
			time.Sleep(time.Duration(p.settleSeconds) * time.Second)
			after, err := residentBytes(s.PID())
			if err != nil {
				return err
			}
			memory[i] = append(memory[i], float64(after-before)/float64(p.idleConnections))
			for range p.runs {
				m, err := p.besideCrowd(s)
				if err != nil {
					return err
				}
				beside[i].add(m)
				crowd.close()
				time.Sleep(time.Second)
				if m, err = p.besideCrowd(s); err != nil {
					return err
				}
				alone[i].add(m)
				if crowd, err = connectIdle(s, p.idleConnections); err != nil {
					return err
				}
				time.Sleep(time.Duration(p.settleSeconds) * time.Second)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	fmt.Fprintf(p.out, "%-34s %21s %21s %7s\n", "", "kevy-server", "redis-server", "ratio")
	name := fmt.Sprintf("an idle connection of %d, bytes", p.idleConnections)
	row(p.out, name, "%.0f", memory[0], memory[1])
	p.keep(name, "bytes", memory[0], memory[1])
	row(p.out, "SET, pipeline 1, beside them", "%.0f", beside[0].rates, beside[1].rates)
	row(p.out, "  without them", "%.0f", alone[0].rates, alone[1].rates)
	row(p.out, "  server CPU, µs, beside them", "%.2f", beside[0].cpuMicros, beside[1].cpuMicros)
	row(p.out, "  without them", "%.2f", alone[0].cpuMicros, alone[1].cpuMicros)
	p.keep("SET beside idle connections", "commands/s", beside[0].rates, beside[1].rates)
	ratio := median(beside[0].rates) / median(alone[0].rates)
	fmt.Fprintf(p.out, "  kevy-server: with them %.2f of without\n", ratio)
	p.results = append(p.results, result{Name: "SET with idle connections / without", Unit: "rate", Kevy: median(beside[0].rates), Ratio: ratio})
	return nil
}

func (p *plan) besideCrowd(s *process.Server) (measurement, error) {
	return load{command: "SET", pipeline: 1, commands: p.commands / 10}.run(s)
}
