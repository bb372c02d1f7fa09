package main

import (
	"fmt"
	"time"

	"kevy/tests/process"
	"kevy/tests/wire"
)

const (
	rewriteRate  = 20_000
	rewriteEvery = 5 * time.Millisecond // between two attempts to begin one
)

// rewriters measures writers without and with rewrites of the log that follow one
// another, at a rate that both servers hold.
func (p *plan) rewriters() error {
	fmt.Fprintf(p.out, "Writers beside BGREWRITEAOF of %d keys: SET at %d a second on %d connections.\n", p.keys, rewriteRate, pacedConnections)
	var p99, most, cpu [2][2][]float64 // by server, without and with
	for run := range p.runs {
		for n := range 2 {
			i := (run + n) % 2
			err := withServer([]process.Binary{p.kevy, p.redis}[i], []string{"--auto-aof-rewrite-percentage", "0"}, func(s *process.Server) error {
				if err := fill(s, p.keys); err != nil {
					return err
				}
				for with := range 2 {
					end := func() error { return nil }
					if with == 1 {
						end = rewriting(s)
					}
					before, err := cpuSeconds(s.PID())
					if err != nil {
						return err
					}
					load := p.paced(setStamped)
					load.perSecond, load.pipeline = rewriteRate, 1
					took, commands, err := load.run(s)
					if failed := end(); err == nil {
						err = failed
					}
					if err != nil {
						return err
					}
					after, err := cpuSeconds(s.PID())
					if err != nil {
						return err
					}
					p99[i][with] = append(p99[i][with], percentile(took, 0.99))
					most[i][with] = append(most[i][with], percentile(took, 1))
					cpu[i][with] = append(cpu[i][with], (after-before)*1e6/float64(commands))
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	fmt.Fprintf(p.out, "%-34s %21s %21s %7s   medians of %d, lowest to highest\n", "", "kevy-server", "redis-server", "ratio", p.runs)
	for with, name := range []string{"no rewrite", "rewrites"} {
		row(p.out, name+": p99, ms", "%.2f", p99[0][with], p99[1][with])
		row(p.out, name+": longest, ms", "%.2f", most[0][with], most[1][with])
		row(p.out, name+": CPU, µs a SET, no fork's", "%.2f", cpu[0][with], cpu[1][with])
		p.keep("writers' p99, "+name, "ms", p99[0][with], p99[1][with])
	}
	return nil
}

// rewriting begins one rewrite after the other until end is called, which returns
// an error if none began.
func rewriting(s *process.Server) (end func() error) {
	quit, done := make(chan struct{}), make(chan error, 1)
	go func() {
		nc, err := s.Dial()
		if err != nil {
			done <- err
			return
		}
		conn := wire.NewConn(nc)
		defer conn.Close()
		for began := 0; ; {
			r, err := conn.Do("BGREWRITEAOF") // refused while one runs
			if err != nil {
				done <- err
				return
			}
			if r.Kind != wire.Error {
				began++
			}
			select {
			case <-quit:
				if began == 0 {
					done <- fmt.Errorf("no rewrite began: %v", r)
				} else {
					done <- nil
				}
				return
			case <-time.After(rewriteEvery):
			}
		}
	}()
	return func() error {
		close(quit)
		return <-done
	}
}
