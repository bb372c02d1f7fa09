package integration

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"

	"kevy/tests/keyspace"
	"kevy/tests/wire"
)

// databases is how many databases the tests use and compare.
const databases = 16

// worker is one connection of a load, with keys of its own, so that what they may hold after a crash is
// known: the state after one of the units between the last acknowledged and the last sent.
type worker struct {
	prefix string
	db     int
	rng    *rand.Rand
	n      int
	// acked is the state after the last acknowledged unit; pending what was sent after it.
	acked   model
	pending []unit
	units   int
}

// load is several workers at once.
type load struct {
	workers []*worker
	wg      sync.WaitGroup
	stop    chan struct{}
	mu      sync.Mutex
	failed  error // guarded by mu
}

func newLoad(seed uint64, workers int) *load {
	l := &load{}
	for i := range workers {
		l.workers = append(l.workers, &worker{prefix: fmt.Sprintf("w%d:", i), db: i % 3,
			rng: rand.New(rand.NewPCG(seed, uint64(i))), acked: model{}})
	}
	return l
}

// run starts the workers; they go on until end is called or their connections break.
func (l *load) run(addr string) {
	l.stop = make(chan struct{})
	for _, w := range l.workers {
		l.wg.Add(1)
		go func() {
			defer l.wg.Done()
			if err := w.run(addr, l.stop); err != nil {
				l.mu.Lock()
				l.failed = errors.Join(l.failed, err)
				l.mu.Unlock()
			}
		}()
	}
}

// end stops the workers and reports replies that should not have come. A worker that is stopped this way,
// rather than by a broken connection, has no unit pending.
func (l *load) end() error {
	close(l.stop)
	return l.wait()
}

// wait waits for the workers to find their connections broken.
func (l *load) wait() error {
	l.wg.Wait()
	return l.failed
}

// maxPipeline is how many units a worker sends before it reads replies.
const maxPipeline = 32

func (w *worker) run(addr string, stop <-chan struct{}) error {
	c, err := wire.Dial(addr)
	if err != nil {
		return nil // killed before it began
	}
	defer c.Close()
	if _, err := c.Do("SELECT", strconv.Itoa(w.db)); err != nil {
		return nil
	}
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		var buf []byte
		for range 1 + w.rng.IntN(maxPipeline) {
			w.n++
			u := nextUnit(w.rng, w.prefix, w.n)
			w.pending = append(w.pending, u)
			buf = u.append(buf)
		}
		if _, err := c.Write(buf); err != nil {
			return nil
		}
		for len(w.pending) > 0 {
			u := w.pending[0]
			bad, err := u.readReply(c)
			if err != nil {
				return nil
			}
			if bad != "" {
				return fmt.Errorf("%v: %s", u, bad)
			}
			for _, cmd := range u {
				w.acked.apply(cmd)
			}
			w.pending = w.pending[1:]
			w.units++
		}
	}
}

func (u unit) append(buf []byte) []byte {
	if len(u) == 1 {
		return wire.AppendStrings(buf, u[0]...)
	}
	buf = wire.AppendStrings(buf, "MULTI")
	for _, cmd := range u {
		buf = wire.AppendStrings(buf, cmd...)
	}
	return wire.AppendStrings(buf, "EXEC")
}

// readReply reads what answers a unit: bad is a reply that refuses it, err a broken connection.
func (u unit) readReply(c *wire.Conn) (bad string, err error) {
	n := 1
	if len(u) > 1 {
		n = len(u) + 2
	}
	for range n {
		r, err := c.ReadReply()
		if err != nil {
			return "", err
		}
		if r.IsError("") {
			bad = r.String()
		}
		for _, e := range r.Elems {
			if e.IsError("") {
				bad = r.String()
			}
		}
	}
	return bad, nil
}

// verify checks what a restarted server holds and makes it the workers' new state.
func (l *load) verify(d keyspace.Dump) error {
	byWorker := make([]keyspace.Dump, len(l.workers))
	for i := range byWorker {
		byWorker[i] = keyspace.Dump{}
	}
	for k, v := range d {
		i := -1
		if _, err := fmt.Sscanf(k.Name, "w%d:", &i); err != nil || i < 0 || i >= len(l.workers) {
			return fmt.Errorf("a key that no worker wrote: %s", k)
		}
		byWorker[i][k] = v
	}
	for i, w := range l.workers {
		if err := w.verify(byWorker[i]); err != nil {
			return err
		}
	}
	return nil
}

// verify finds the pending unit after which the recovered state stands. All before it are in, none after.
func (w *worker) verify(got keyspace.Dump) error {
	var first []string
	for i := 0; ; i++ {
		diff := keyspace.Diff(w.acked.dump(w.db), got, keyspace.Options{}, 5)
		if len(diff) == 0 {
			w.pending = nil
			return nil
		}
		if i == 0 {
			first = diff
		}
		if len(w.pending) == 0 {
			return fmt.Errorf("worker %s: after %d acknowledged units its keys are in no state that was sent; against the acknowledged one: %q, against the last sent: %q",
				w.prefix, w.units, first, diff)
		}
		for _, cmd := range w.pending[0] {
			w.acked.apply(cmd)
		}
		w.pending = w.pending[1:]
	}
}
