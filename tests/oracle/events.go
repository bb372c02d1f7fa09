package oracle

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"kevy/tests/wire"
)

// Events makes a Pair compare the keyspace events of each step, of the classes that it names as
// notify-keyspace-events does. Keys then expire only when somebody asks for them: when the server removes them by
// itself is its own affair.
type Events struct {
	Classes string
	// Invalidations compares which keys CLIENT TRACKING tells of instead, those of a step in any order.
	Invalidations bool
	// Compared counts the events of the oracle.
	Compared int

	oracle, server *wire.Conn
	marks          int
	swaps          map[int]bool // by connection, whether its transaction has a SWAPDB
}

// mark is the channel of the messages that tell that all events of a step have come.
const mark = "mark"

// open subscribes to the events of both servers.
func (e *Events) open(p *Pair) error {
	e.swaps = map[int]bool{}
	for i, s := range []*side{&p.oracle, &p.server} {
		for _, args := range [][]string{{"DEBUG", "SET-ACTIVE-EXPIRE", "0"}, {"CONFIG", "SET", "notify-keyspace-events", e.Classes}} {
			if r, err := s.admin.Do(args...); err != nil || r.IsError("") {
				return fmt.Errorf("%v: %s, %v", args, r, err)
			}
		}
		raw, err := s.dial()
		if err != nil {
			return err
		}
		c := wire.NewConn(raw)
		begin := [][]string{{"PSUBSCRIBE", "__key*__:*"}, {"SUBSCRIBE", mark}}
		if e.Invalidations {
			begin = [][]string{{"HELLO", "3"}, {"CLIENT", "TRACKING", "ON", "BCAST"}, {"SUBSCRIBE", mark}}
		}
		for _, args := range begin {
			if r, err := c.Do(args...); err != nil || r.IsError("") {
				return fmt.Errorf("%v: %s, %v", args, r, err)
			}
		}
		if i == 0 {
			e.oracle = c
		} else {
			e.server = c
		}
	}
	return nil
}

func (e *Events) close() {
	for _, c := range []*wire.Conn{e.oracle, e.server} {
		if c != nil {
			c.Close()
		}
	}
	e.oracle, e.server = nil, nil
}

// compare reads what both servers have published since it was called last.
func (e *Events) compare(p *Pair, last Step, at int) (*Difference, error) {
	e.marks++
	want, err := e.since(&p.oracle, e.oracle)
	if err != nil {
		return nil, err
	}
	got, err := e.since(&p.server, e.server)
	if err != nil {
		return nil, err
	}
	e.Compared += len(want)
	if e.Invalidations {
		for _, keys := range []*[]string{&want, &got} {
			slices.Sort(*keys)
			*keys = slices.Compact(*keys)
		}
		want, got = e.withoutExcused(p, last, want, got)
	}
	switch name(last.Args) {
	case "SCAN", "DBSIZE", "RANDOMKEY", "KEYS":
		// Keys that have expired, in the order in which each server finds them.
		slices.Sort(want)
		slices.Sort(got)
	}
	if w, g := fmt.Sprintf("%q", want), fmt.Sprintf("%q", got); w != g {
		return &Difference{Index: at, Step: last, What: "events of " + name(last.Args), Want: w, Got: g}, nil
	}
	return nil, nil
}

// endWatched ends those keys of a WATCH that are overdue: ours are gone by it, those of redis-server at the next look.
// HDEL looks, and neither tells of a miss nor changes anything.
func (p *Pair) endWatched(s Step) error {
	if st := &p.state[s.Conn]; name(s.Args) != "WATCH" || st.multi || st.blocked != nil {
		return nil
	}
	if err := p.oracle.selectDB(p.state[s.Conn].db); err != nil {
		return err
	}
	for _, key := range s.Args[1:] {
		if _, err := p.oracle.admin.Do("HDEL", string(key), "no field of a run"); err != nil {
			return err
		}
	}
	return nil
}

// withoutExcused leaves out keys of which only ours tells, rightly: those that a blocked client takes whom SWAPDB has
// served.
func (e *Events) withoutExcused(p *Pair, last Step, want, got []string) ([]string, []string) {
	swaps := name(last.Args) == "SWAPDB"
	switch {
	case p.state[last.Conn].multi && swaps:
		e.swaps[last.Conn] = true
		return want, got
	case !p.state[last.Conn].multi:
		swaps = swaps || e.swaps[last.Conn]
		delete(e.swaps, last.Conn)
	}
	if swaps {
		got = slices.DeleteFunc(got, func(key string) bool { return !slices.Contains(want, key) })
	}
	return want, got
}

func (e *Events) since(s *side, c *wire.Conn) (out []string, err error) {
	s.admin.SetDeadline(time.Now().Add(replyTimeout))
	if r, err := s.admin.Do("PUBLISH", mark, strconv.Itoa(e.marks)); err != nil || r.IsError("") {
		return nil, fmt.Errorf("PUBLISH: %s, %v", r, err)
	}
	c.SetDeadline(time.Now().Add(replyTimeout))
	for {
		r, err := c.ReadReply()
		if err != nil {
			return nil, fmt.Errorf("events: %w", err)
		}
		if e.Invalidations && string(r.Elems[0].Text) == "invalidate" {
			if keys := r.Elems[1]; keys.Nil {
				out = append(out, "all keys")
			} else {
				out = append(out, keys.Strings()...)
			}
			continue
		}
		words := r.Strings()
		if words[0] == "message" {
			if words[2] == strconv.Itoa(e.marks) {
				return out, nil
			}
			continue
		}
		out = append(out, words[2]+" "+words[3])
	}
}
