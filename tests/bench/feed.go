package main

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"kevy/tests/process"
)

// feed measures the feed alone: what followers cost the writers, how fast one
// reads, how soon a change is there, and what a follower costs the server.
func (p *plan) feed() error {
	fmt.Fprintf(p.out, "The feed: SET at %d a second in batches of %d on %d connections.\n", pacedRate, pacedPipeline, pacedConnections)
	for _, part := range []func() error{p.writersWithFollowers, p.replaySpeed, p.changeLatency, p.followerCost} {
		fmt.Fprintln(p.out)
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

const (
	pacedRate        = 50_000
	pacedConnections = 10
	pacedPipeline    = 16
	followers        = 10
	// stampBytes is the length of a time in nanoseconds.
	stampBytes = 19
)

func (p *plan) paced(command func(dst []byte, connection, i int, now int64) []byte) paced {
	return paced{
		perSecond: pacedRate, connections: pacedConnections, pipeline: pacedPipeline,
		duration: time.Duration(p.seconds) * time.Second, command: command,
	}
}

// setStamped sets one of a number of keys to the time.
func setStamped(dst []byte, connection, i int, now int64) []byte {
	return appendCommand(dst, "SET", fmt.Sprintf("key:%d:%06d", connection, i%10_000), strconv.FormatInt(now, 10))
}

// writersWithFollowers compares the writers' latency with and without followers.
func (p *plan) writersWithFollowers() error {
	var with, without, cpuWith, cpuWithout []float64
	for run := range 2 * p.runs {
		err := withServer(p.kevy, []string{"--auto-aof-rewrite-percentage", "0"}, func(s *process.Server) error {
			n := 0
			if run%2 == 1 {
				n = followers
			}
			p99, cpu, err := p.pacedWithFollowers(s, n)
			if err != nil {
				return err
			}
			if n > 0 {
				with, cpuWith = append(with, p99), append(cpuWith, cpu)
			} else {
				without, cpuWithout = append(without, p99), append(cpuWithout, cpu)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	fmt.Fprintf(p.out, "%-34s %21s %21s %7s   medians of %d, lowest to highest\n", "", fmt.Sprint(followers, " followers"), "none", "ratio", p.runs)
	row(p.out, "writers' p99, ms", "%.2f", with, without)
	row(p.out, "server CPU, µs a SET", "%.2f", cpuWith, cpuWithout)
	p.keep(fmt.Sprint("writers' p99 with ", followers, " followers / without"), "ms", with, without)
	p.keep(fmt.Sprint("server CPU with ", followers, " followers / without"), "µs/SET", cpuWith, cpuWithout)
	return nil
}

// pacedWithFollowers runs the paced load while so many follow, each of whom must
// get every frame.
func (p *plan) pacedWithFollowers(s *process.Server, n int) (p99, cpuMicros float64, err error) {
	var (
		following sync.WaitGroup
		mu        sync.Mutex
		enough    = make(chan struct{})
		want      int
		lost      error
	)
	for range n {
		f, err := follow(s, "TAIL")
		if err != nil {
			return 0, 0, err
		}
		defer f.nc.Close()
		following.Add(1)
		go func() {
			defer following.Done()
			for {
				if err := f.message(nil); err != nil {
					mu.Lock()
					lost = err
					mu.Unlock()
					return
				}
				select {
				case <-enough:
					if f.frames >= want {
						return
					}
				default:
				}
			}
		}()
	}
	before, err := cpuSeconds(s.PID())
	if err != nil {
		return 0, 0, err
	}
	latencies, commands, err := p.paced(setStamped).run(s)
	if err != nil {
		return 0, 0, err
	}
	want = commands + 1
	close(enough)
	if err := send(s, [][]string{{"SET", "end", "end"}}); err != nil {
		return 0, 0, err
	}
	following.Wait()
	after, err := cpuSeconds(s.PID())
	if err != nil {
		return 0, 0, err
	}
	return percentile(latencies, 0.99), (after - before) * 1e6 / float64(commands), lost
}

// replaySpeed measures how fast one reader takes what was written before, from
// memory and from disk.
func (p *plan) replaySpeed() error {
	for _, from := range []struct{ name, backlog string }{{"memory", "1gb"}, {"disk", "1mb"}} {
		err := withServer(p.kevy, []string{"--auto-aof-rewrite-percentage", "0", "--feed-backlog-bytes", from.backlog}, func(s *process.Server) error {
			l := load{command: "SET small", pipeline: 64, commands: p.commands, args: []string{"SET", "key:__rand_int__", "value"}}
			if _, err := l.run(s); err != nil {
				return err
			}
			var rates, cpu []float64
			for range p.runs {
				before, err := cpuSeconds(s.PID())
				if err != nil {
					return err
				}
				f, err := follow(s, "OLDEST", "COUNT", "65536")
				if err != nil {
					return err
				}
				start := time.Now()
				err = f.until(l.commands, nil)
				took := time.Since(start)
				f.nc.Close()
				if err != nil {
					return err
				}
				after, err := cpuSeconds(s.PID())
				if err != nil {
					return err
				}
				rates = append(rates, float64(l.commands)/took.Seconds())
				cpu = append(cpu, (after-before)*1e6/float64(l.commands))
			}
			fmt.Fprintf(p.out, "one raw reader, from %s: %s frames/s; server CPU %s µs a frame\n", from.name, spread("%.0f", rates), spread("%.3f", cpu))
			p.results = append(p.results, result{Name: "one raw reader, from " + from.name, Unit: "frames/s", Kevy: median(rates)},
				result{Name: "one raw reader, from " + from.name, Unit: "server CPU µs/frame", Kevy: median(cpu)})
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// changeLatency measures the time from sending a write to its arrival at one
// consumer, beside what redis-server has for that.
func (p *plan) changeLatency() error {
	notify := func(dst []byte, connection, i int, now int64) []byte {
		// The notification has the key and nothing else.
		return appendCommand(dst, "SET", strconv.FormatInt(now, 10), "value")
	}
	add := func(dst []byte, _, _ int, now int64) []byte {
		return appendCommand(dst, "XADD", "stream", "MAXLEN", "~", "100000", "*", "stamp", strconv.FormatInt(now, 10))
	}
	for _, way := range []struct {
		name    string
		binary  process.Binary
		command func(dst []byte, connection, i int, now int64) []byte
		consume func(s *process.Server, each func([]byte)) (stop func(), err error)
	}{
		{"kevy-server, SUBSCRIBE", p.kevy, setStamped, consumeChanges},
		{"redis-server, keyspace events", p.redis, notify, consumeEvents},
		{"redis-server, XADD + XREAD", p.redis, add, consumeStream},
	} {
		var p50, p99 []float64
		for range p.runs {
			err := withServer(way.binary, []string{"--auto-aof-rewrite-percentage", "0"}, func(s *process.Server) error {
				var (
					took    []time.Duration
					arrived atomic.Int64
				)
				stop, err := way.consume(s, func(stamp []byte) {
					if len(stamp) != stampBytes {
						return
					}
					sent, _ := strconv.ParseInt(string(stamp), 10, 64)
					took = append(took, time.Duration(time.Now().UnixNano()-sent))
					arrived.Add(1)
				})
				if err != nil {
					return err
				}
				_, commands, err := p.paced(way.command).run(s)
				for end := time.Now().Add(startLimit); err == nil && arrived.Load() < int64(commands) && time.Now().Before(end); {
					time.Sleep(10 * time.Millisecond)
				}
				stop()
				if err == nil && len(took) < commands {
					err = fmt.Errorf("%s: %d of %d changes arrived", way.name, len(took), commands)
				}
				p50, p99 = append(p50, percentile(took, 0.5)), append(p99, percentile(took, 0.99))
				return err
			})
			if err != nil {
				return err
			}
		}
		fmt.Fprintf(p.out, "%-34s sent to consumed: p50 %s ms, p99 %s ms\n", way.name, spread("%.2f", p50), spread("%.2f", p99))
		p.results = append(p.results, result{Name: "sent to consumed, " + way.name, Unit: "p50 ms", Kevy: median(p50)},
			result{Name: "sent to consumed, " + way.name, Unit: "p99 ms", Kevy: median(p99)})
	}
	return nil
}

// consuming reads on a connection in the background until stop.
func consuming(f *follower, read func() error) (stop func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for read() == nil {
		}
	}()
	return func() {
		f.nc.Close()
		<-done
	}
}

func consumeChanges(s *process.Server, each func([]byte)) (stop func(), err error) {
	f, err := follow(s, "TAIL")
	if err != nil {
		return nil, err
	}
	return consuming(f, func() error { return f.message(each) }), nil
}

func consumeEvents(s *process.Server, each func([]byte)) (stop func(), err error) {
	nc, err := s.Dial()
	if err != nil {
		return nil, err
	}
	f := &follower{nc: nc, in: newRawReader(nc)}
	for _, c := range [][]string{{"CONFIG", "SET", "notify-keyspace-events", "E$"}, {"SUBSCRIBE", "__keyevent@0__:set"}} {
		if err := f.ask(c...); err != nil {
			nc.Close()
			return nil, err
		}
	}
	return consuming(f, func() error {
		last, err := f.in.last()
		if err == nil {
			each(last)
		}
		return err
	}), nil
}

func consumeStream(s *process.Server, each func([]byte)) (stop func(), err error) {
	nc, err := s.Dial()
	if err != nil {
		return nil, err
	}
	f := &follower{nc: nc, in: newRawReader(nc)}
	at := "0-0"
	return consuming(f, func() error {
		if _, err := nc.Write(appendCommand(nil, "XREAD", "COUNT", "10000", "BLOCK", "1000", "STREAMS", "stream", at)); err != nil {
			return err
		}
		kind, n, err := f.in.header()
		if err != nil || n < 0 || kind != '*' {
			return err
		}
		// One stream: its name, and its entries.
		if _, _, err := f.in.header(); err != nil {
			return err
		}
		if err := f.in.skip(); err != nil {
			return err
		}
		_, entries, err := f.in.header()
		for i := 0; i < entries && err == nil; i++ {
			if _, _, err = f.in.header(); err != nil {
				break
			}
			var id, last []byte
			if id, err = f.in.last(); err != nil {
				break
			}
			at = string(id)
			if last, err = f.in.last(); err == nil {
				each(last)
			}
		}
		return err
	}), nil
}

// followerCost compares the server's CPU a SET with one follower of ALL to that of
// redis-server with one replica.
func (p *plan) followerCost() error {
	l := load{command: "SET", pipeline: 16, commands: p.commands}
	args := []string{"--auto-aof-rewrite-percentage", "0"}
	var kevy, redis series
	for range p.runs {
		err := withServer(p.kevy, args, func(s *process.Server) error {
			f, err := follow(s, "TAIL", "COUNT", "65536")
			if err != nil {
				return err
			}
			done := make(chan error, 1)
			go func() { done <- f.until(l.commands, nil) }()
			m, err := l.run(s)
			if err == nil {
				err = <-done
			}
			f.nc.Close()
			kevy.add(m)
			return err
		})
		if err != nil {
			return err
		}
		err = withServer(p.redis, append([]string{"--repl-diskless-sync-delay", "0"}, args...), func(s *process.Server) error {
			replica := append([]string{"--replicaof", "127.0.0.1 " + strconv.Itoa(s.Port)}, args...)
			return withServer(p.redis, replica, func(r *process.Server) error {
				if err := waitReplica(s); err != nil {
					return err
				}
				m, err := l.run(s)
				redis.add(m)
				return err
			})
		})
		if err != nil {
			return err
		}
	}
	fmt.Fprintf(p.out, "%-34s %21s %21s %7s   medians of %d, lowest to highest\n", "", "kevy, one follower", "redis, one replica", "ratio", p.runs)
	row(p.out, l.name()+": CPU, µs", "%.2f", kevy.cpuMicros, redis.cpuMicros)
	row(p.out, l.name()+": commands/s", "%.0f", kevy.rates, redis.rates)
	p.keep("one follower / one replica", "server CPU µs/command", kevy.cpuMicros, redis.cpuMicros)
	return nil
}

// waitReplica waits until the replica has what the master has.
func waitReplica(s *process.Server) error {
	nc, err := s.Dial()
	if err != nil {
		return err
	}
	defer nc.Close()
	f := &follower{nc: nc, in: newRawReader(nc)}
	for end := time.Now().Add(startLimit); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if _, err := nc.Write(appendCommand(nil, "WAIT", "1", "100")); err != nil {
			return err
		}
		if _, n, err := f.in.header(); err != nil || n == 1 {
			return err
		}
	}
	return fmt.Errorf("no replica after %v", startLimit)
}
