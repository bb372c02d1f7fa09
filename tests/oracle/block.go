package oracle

import (
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"kevy/tests/wire"
)

// blockPoll is how often is looked whether a client waits or has its reply.
const blockPoll = 500 * time.Microsecond

// blockOn runs a command that may wait. Then its connection takes no part until the reply is there, which
// settle looks for after every step of another one.
func blockOn(p *Pair, s Step, at int) (*Difference, error) {
	waiting := 0
	for i := range p.state {
		if p.state[i].blocked != nil {
			waiting++
		}
	}
	// One connection at least must go on, and two to have something to do with each other.
	if waiting >= p.conns-2 {
		return nil, nil
	}
	buf := wire.AppendCommand(nil, s.Args...)
	for _, sd := range []*side{&p.oracle, &p.server} {
		c := sd.conns[s.Conn]
		c.SetDeadline(time.Now().Add(replyTimeout))
		_, _ = c.Write(buf) // one that has ended is told by its reply
	}
	blocks, err := p.oracle.waits(s.Conn)
	if err != nil {
		return nil, err
	}
	if s.PauseMs > 0 {
		time.Sleep(time.Duration(s.PauseMs) * time.Millisecond)
		blocks = false
	}
	if !blocks {
		return p.answered(s, at)
	}
	other, err := p.server.waits(s.Conn)
	if err != nil {
		return nil, err
	}
	if !other {
		r, err := p.server.conns[s.Conn].ReadReply()
		return &Difference{Index: at, Step: s, What: name(s.Args), Want: "<waits>", Got: fmt.Sprint(r, err)}, nil
	}
	p.state[s.Conn].blocked, p.state[s.Conn].blockedAt = &s, at
	p.Waited++
	return nil, nil
}

// waits waits until a connection has its reply or waits for it; true for the latter.
func (s *side) waits(conn int) (bool, error) {
	c := s.conns[conn]
	for deadline := time.Now().Add(replyTimeout); time.Now().Before(deadline); {
		c.SetReadDeadline(time.Now().Add(blockPoll))
		_, err := c.Reader().Peek(1)
		c.SetReadDeadline(time.Now().Add(replyTimeout))
		var ne net.Error
		switch {
		case err == nil:
			return false, nil
		case !errors.As(err, &ne) || !ne.Timeout():
			return false, nil // it has ended, and who reads its reply is told
		}
		blocked, err := s.isBlocked(conn)
		if err != nil || blocked {
			return blocked, err
		}
	}
	return false, fmt.Errorf("connection %d neither waits nor has a reply: %w", conn, os.ErrDeadlineExceeded)
}

// isBlocked asks the server whether a client waits.
func (s *side) isBlocked(conn int) (bool, error) {
	r, err := s.admin.Do("CLIENT", "LIST", "ID", s.ids[conn])
	if err != nil || r.IsError("") {
		return false, fmt.Errorf("CLIENT LIST: %s, %v", r, err)
	}
	_, flags, _ := strings.Cut(string(r.Text), " flags=")
	flags, _, _ = strings.Cut(flags, " ")
	return strings.Contains(flags, "b"), nil
}

// answered reads and compares the replies to a step that has been sent.
func (p *Pair) answered(s Step, at int) (*Difference, error) {
	read := func(sd *side) (wire.Reply, error) {
		sd.conns[s.Conn].SetReadDeadline(time.Now().Add(replyTimeout))
		r, err := sd.conns[s.Conn].ReadReply()
		if err != nil {
			r = wire.Reply{Kind: wire.Error, Text: []byte("<no reply: " + kindOf(err) + ">")}
		}
		return r, err
	}
	want, err := read(&p.oracle)
	if err != nil && kindOf(err) != closedKind {
		return nil, fmt.Errorf("%s: %w", s, err)
	}
	got, other := read(&p.server)
	if err != nil && other != nil {
		p.closed = append(p.closed, s.Conn)
	}
	return p.compare(s, at, want, got), nil
}

// settle reads the replies of those who waited and do not any more, oldest first.
func (p *Pair) settle(at int) (*Difference, error) {
	for {
		conn := -1
		for i := range p.state {
			if b := p.state[i].blocked; b != nil && (conn < 0 || p.state[i].blockedAt < p.state[conn].blockedAt) && !p.state[i].seen {
				conn = i
			}
		}
		if conn < 0 {
			break
		}
		st := &p.state[conn]
		st.seen = true
		blocked, err := p.oracle.isBlocked(conn)
		if err != nil {
			return nil, err
		}
		if blocked {
			continue
		}
		s := *st.blocked
		st.blocked = nil
		if diff, err := p.answered(s, at); diff != nil || err != nil {
			return diff, err
		}
		p.Ended++
	}
	for i := range p.state {
		p.state[i].seen = false
	}
	return nil, nil
}

// storesInto is the key that a command makes anew of what it found, "" if it does no such thing.
func storesInto(args [][]byte) string {
	switch n := name(args); n {
	case "ZUNIONSTORE", "ZINTERSTORE", "ZDIFFSTORE", "ZRANGESTORE", "GEOSEARCHSTORE":
		if len(args) > 1 {
			return string(args[1])
		}
	case "SORT", "GEORADIUS", "GEORADIUSBYMEMBER":
		for i := 2; i+1 < len(args); i++ {
			if o := strings.ToUpper(string(args[i])); o == "STORE" || o == "STOREDIST" {
				return string(args[i+1])
			}
		}
	}
	return ""
}

// overlooked reports whether Redis might overlook who waits: where one of these commands overwrites a key of
// another type, it does not wake who waits for the type that the key has now.
func (p *Pair) overlooked(s Step) (bool, error) {
	st := &p.state[s.Conn]
	stores := storesInto(s.Args) != ""
	if st.multi && name(s.Args) == "EXEC" {
		for _, args := range st.queued {
			stores = stores || storesInto(args) != ""
		}
	}
	if !stores {
		return false, nil
	}
	for i := range p.state {
		if p.state[i].blocked == nil {
			continue
		}
		if st.multi {
			return true, nil
		}
		// On both sides: to look ends a key that is overdue, which a command that is refused does not.
		there := false
		for i, side := range []*side{&p.oracle, &p.server} {
			if err := side.selectDB(st.db); err != nil {
				return false, err
			}
			r, err := side.admin.Do("EXISTS", storesInto(s.Args))
			if err != nil {
				return false, err
			}
			there = there || i == 0 && string(r.Text) == "1"
		}
		return there, nil
	}
	return false, nil
}

// bothWait looks whether who waits at the oracle waits at the server too.
func (p *Pair) bothWait(at int) (*Difference, error) {
	for conn := range p.state {
		b := p.state[conn].blocked
		if b == nil {
			continue
		}
		waits, err := p.server.waits(conn)
		if err != nil {
			return nil, err
		}
		if !waits {
			r, err := p.server.conns[conn].ReadReply()
			return &Difference{Index: at, Step: *b, What: name(b.Args), Want: "<still waits>", Got: fmt.Sprint(r, err)}, nil
		}
	}
	return nil, nil
}

// unblock runs CLIENT UNBLOCK, whose first argument is a number of a connection: the ids are each server's own.
func unblock(p *Pair, s Step, at int) (*Difference, error) {
	// The reply is compared with the number that both were given.
	steps := [2]Step{s, s}
	for i, sd := range []*side{&p.oracle, &p.server} {
		if len(s.Args) > 2 {
			if n, err := strconv.Atoi(string(s.Args[2])); err == nil && n >= 0 && n < len(sd.ids) {
				steps[i].Args = slices.Clone(s.Args)
				steps[i].Args[2] = []byte(sd.ids[n])
			}
		}
	}
	want, got, err := p.exchangeEach(steps[:1], steps[1:])
	if err != nil {
		return nil, err
	}
	return p.compare(s, at, want[0], got[0]), nil
}

// soonest tells of a timeout that would end a wait within the run; at is its argument's place, negative from
// the end.
func soonest(at int, unit float64) func(*Generator, [][]byte) bool {
	return func(_ *Generator, args [][]byte) bool {
		i := at
		if i < 0 {
			i += len(args)
		}
		if i < 1 || i >= len(args) {
			return false
		}
		return endsSoon(args[i], unit)
	}
}

func endsSoon(arg []byte, unit float64) bool {
	f, err := strconv.ParseFloat(string(arg), 64)
	return err == nil && !math.IsInf(f, 0) && f > 0 && f*unit < soonMs/1000
}
