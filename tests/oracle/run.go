package oracle

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"kevy/tests/keyspace"
	"kevy/tests/wire"
)

const (
	// databases is how many databases are compared.
	databases = 16
	// maxBatch bounds how many commands of one turn go out in one pipeline.
	maxBatch = 12
	// replyTimeout is how long a reply may take.
	replyTimeout = 20 * time.Second
	// expiryToleranceMs is how far expiries that were given as a span may lie apart.
	expiryToleranceMs = 5_000
	// maxScanCalls bounds one full iteration.
	maxScanCalls = 100_000
)

// Difference is where the two servers part.
type Difference struct {
	// Index of the step after which they differ.
	Index int
	Step  Step
	// What is a short text that names the kind of difference, for telling two of them apart.
	What      string
	Want, Got string
	// after says that Pair.After found it.
	after bool
}

func (d *Difference) String() string {
	return fmt.Sprintf("%s\n  oracle: %s\n  server: %s", d.Step, clip(d.Want), clip(d.Got))
}

func clip(s string) string {
	if len(s) > 1500 {
		return s[:1500] + "…"
	}
	return s
}

// side is one of the two servers.
type side struct {
	dial  func() (net.Conn, error)
	conns []*wire.Conn
	ids   []string // of the connections
	admin *wire.Conn
}

// Pair runs steps on both servers.
type Pair struct {
	oracle, server side
	cat            *catalog
	conns, rounds  int
	state          []state
	allow          allowList
	// Begin, if set, is told of the start of each Run, on empty servers.
	Begin func() error
	// After, if set, looks for a difference that no reply shows, at the end of each Run. It may restart the
	// servers.
	After func() (*Difference, error)
	// Events, if set, compares the keyspace events of each step.
	Events *Events
	// Waited counts the commands that waited, Ended those among them whose wait was over in the run.
	Waited, Ended int
	// Closed counts the connections that both servers ended.
	Closed int
	// closed are the connections that both servers have ended, as those of a user that is deleted.
	closed []int
	// Calls and Errors count replies by command, on the oracle.
	Calls, Errors map[string]int
}

// state is what is known of a connection from its replies.
type state struct {
	multi  bool
	queued [][][]byte
	db     int
	// blocked is the step whose reply is still to come, if any, and blockedAt its place; seen says that settle
	// has looked at it.
	blocked   *Step
	blockedAt int
	seen      bool
}

// NewPair connects to both servers; each has conns connections and one of its own for looking.
func NewPair(oracle, server func() (net.Conn, error), conns int) (*Pair, error) {
	allow, err := parseAllow(allowText)
	if err != nil {
		return nil, err
	}
	p := &Pair{oracle: side{dial: oracle}, server: side{dial: server}, cat: newCatalog(true), conns: conns, allow: allow,
		Calls: map[string]int{}, Errors: map[string]int{}}
	return p, nil
}

// Close closes all connections.
func (p *Pair) Close() {
	for _, s := range []*side{&p.oracle, &p.server} {
		for _, c := range append(s.conns, s.admin) {
			if c != nil {
				c.Close()
			}
		}
		s.conns, s.ids, s.admin = nil, nil, nil
	}
	if p.Events != nil {
		p.Events.close()
	}
}

// reset empties both servers and opens new connections.
func (p *Pair) reset() error {
	p.Close()
	p.state, p.closed = make([]state, p.conns), nil
	for _, s := range []*side{&p.oracle, &p.server} {
		for i := -1; i < p.conns; i++ {
			c, id, err := s.open(i)
			if err != nil {
				return err
			}
			if i < 0 {
				s.admin = c
				continue
			}
			s.conns, s.ids = append(s.conns, c), append(s.ids, id)
		}
		// What a restart keeps, and what is gone by it: After may have restarted one server and not the other.
		for _, args := range [][]string{{"FLUSHALL"}, {"FUNCTION", "FLUSH"}, {"SCRIPT", "FLUSH"}, {"ACL", "LOG", "RESET"}} {
			if r, err := s.admin.Do(args...); err != nil || r.IsError("") {
				return fmt.Errorf("%s: %s, %v", args, r, err)
			}
		}
		if err := deleteUsers(s.admin); err != nil {
			return err
		}
	}
	if p.Events != nil {
		return p.Events.open(p)
	}
	return nil
}

// open makes connection i, or one for looking where that is negative.
func (s *side) open(i int) (*wire.Conn, string, error) {
	raw, err := s.dial()
	if err != nil {
		return nil, "", err
	}
	raw.SetDeadline(time.Now().Add(10 * time.Minute))
	c := wire.NewConn(raw)
	if i < 0 {
		return c, "", nil
	}
	id, err := c.Do("CLIENT", "ID")
	if err == nil && i%2 == 1 {
		// Half of the connections begin with RESP3; HELLO changes that as they go.
		var r wire.Reply
		if r, err = c.Do("HELLO", "3"); err == nil && r.IsError("") {
			err = fmt.Errorf("HELLO 3: %s", r)
		}
	}
	return c, string(id.Text), err
}

// reopen opens those connections again that both servers have ended.
func (p *Pair) reopen() error {
	for _, i := range p.closed {
		for _, s := range []*side{&p.oracle, &p.server} {
			s.conns[i].Close()
			var err error
			if s.conns[i], s.ids[i], err = s.open(i); err != nil {
				return err
			}
		}
		p.state[i] = state{}
		p.Closed++
	}
	p.closed = nil
	return nil
}

// deleteUsers leaves the default user alone. None is in the file of users any more, if there is one.
func deleteUsers(c *wire.Conn) error {
	users, err := c.Do("ACL", "USERS")
	if err != nil {
		return err
	}
	for _, u := range users.Elems {
		if name := string(u.Text); name != "default" {
			if r, err := c.Do("ACL", "DELUSER", name); err != nil || r.IsError("") {
				return fmt.Errorf("ACL DELUSER %s: %s, %v", name, r, err)
			}
		}
	}
	_, err = c.Do("ACL", "SAVE") // which fails where there is no file
	return err
}

// Run runs the steps from an empty keyspace, without users, and compares the keyspaces after every checkEvery steps and at
// the end. It stops at the first difference. An error means that the run itself could not go on.
func (p *Pair) Run(steps []Step, checkEvery int) (*Difference, error) {
	if err := p.reset(); err != nil {
		return nil, err
	}
	if p.Begin != nil {
		if err := p.Begin(); err != nil {
			return nil, err
		}
	}
	checked := 0
	for i := 0; i < len(steps); {
		n := p.batch(steps[i:])
		if p.Events != nil {
			n = 1
		}
		diff, err := p.runBatch(steps[i:i+n], i)
		if diff == nil && err == nil {
			diff, err = p.settle(i + n - 1)
		}
		if diff == nil && err == nil {
			err = p.reopen()
		}
		if p.Events != nil && diff == nil && err == nil {
			if err = p.endWatched(steps[i]); err == nil {
				diff, err = p.Events.compare(p, steps[i], i)
			}
		}
		if diff != nil || err != nil {
			return diff, err
		}
		i += n
		if i-checked >= checkEvery && p.Events == nil || i == len(steps) {
			checked = i
			diff, err := p.bothWait(i - 1)
			if diff == nil && err == nil {
				diff, err = p.compareKeyspaces(steps[i-1], i-1)
			}
			if diff != nil || err != nil {
				return diff, err
			}
		}
	}
	if p.After == nil {
		return nil, nil
	}
	diff, err := p.After()
	if diff != nil {
		diff.Index, diff.Step, diff.after = len(steps)-1, steps[len(steps)-1], true
	}
	return diff, err
}

// batch is how many of the next steps may go out in one pipeline: steps of one connection, none of which
// needs work of its own or, as overlooked does, a look at what those before it have done.
func (p *Pair) batch(steps []Step) int {
	for n, s := range steps {
		alone := s.PauseMs > 0 || p.cat.specialOf(s.Args).run != nil || storesInto(s.Args) != "" || name(s.Args) == "EXEC"
		if n > 0 && (alone || s.Conn != steps[0].Conn || n == maxBatch) {
			return n
		}
		if alone {
			return 1
		}
		if name(s.Args) == "HELLO" || name(s.Args) == "QUIT" {
			return n + 1
		}
	}
	return len(steps)
}

func (p *Pair) runBatch(steps []Step, at int) (*Difference, error) {
	st := &p.state[steps[0].Conn]
	if st.blocked != nil {
		return nil, nil
	}
	kept := steps[:0:0]
	for _, s := range steps {
		over, err := p.overlooked(s)
		if err != nil {
			return nil, err
		}
		switch {
		case over && name(s.Args) == "EXEC":
			s.Args = cmd("DISCARD")
		case over:
			continue
		}
		kept = append(kept, s)
	}
	if steps = kept; len(steps) == 0 {
		return nil, nil
	}
	if len(steps) == 1 && !st.multi {
		if sp := p.cat.specialOf(steps[0].Args); sp.run != nil {
			return sp.run(p, steps[0], at)
		}
	}
	if st.multi {
		kept := steps[:0:0]
		for _, s := range steps {
			if sp := p.cat.specialOf(s.Args); sp.run == nil || sp.queued {
				kept = append(kept, s)
			}
		}
		if len(kept) < len(steps) {
			if len(kept) == 0 {
				return nil, nil
			}
			steps = kept
		}
	}
	want, got, err := p.exchange(steps)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", steps[0], err)
	}
	for i, s := range steps {
		if diff := p.compare(s, at+i, want[i], got[i]); diff != nil {
			return diff, nil
		}
		if s.PauseMs > 0 {
			time.Sleep(time.Duration(s.PauseMs) * time.Millisecond)
		}
	}
	return nil, nil
}

// runOne runs a step by itself and compares its replies.
func (p *Pair) runOne(s Step, at int) (want, got wire.Reply, _ *Difference, _ error) {
	w, g, err := p.exchange([]Step{s})
	if err != nil {
		return want, got, nil, fmt.Errorf("%s: %w", s, err)
	}
	return w[0], g[0], p.compare(s, at, w[0], g[0]), nil
}

// exchange sends the steps to both servers and reads the replies.
func (p *Pair) exchange(steps []Step) (want, got []wire.Reply, err error) {
	return p.exchangeEach(steps, steps)
}

// exchangeEach is exchange with steps for each that may name the connections of that server.
func (p *Pair) exchangeEach(oracle, server []Step) (want, got []wire.Reply, err error) {
	conn := oracle[0].Conn
	written := make(chan error, 2)
	for i, s := range []*side{&p.oracle, &p.server} {
		var buf []byte
		for _, step := range [][]Step{oracle, server}[i] {
			buf = wire.AppendCommand(buf, step.Args...)
		}
		c := s.conns[conn]
		c.SetDeadline(time.Now().Add(replyTimeout))
		if len(buf) < 32<<10 {
			_, err := c.Write(buf)
			written <- err
			continue
		}
		go func() { _, err := c.Write(buf); written <- err }()
	}
	read := func(s *side) ([]wire.Reply, error) {
		out := make([]wire.Reply, len(oracle))
		var failed error
		for i := range oracle {
			r, err := s.conns[conn].ReadReply()
			if err != nil {
				// A reply that does not come is a reply that can be compared.
				r = wire.Reply{Kind: wire.Error, Text: []byte("<no reply: " + kindOf(err) + ">")}
				failed = err
			}
			out[i] = r
		}
		return out, failed
	}
	want, errW := read(&p.oracle)
	got, errG := read(&p.server)
	if errW != nil && errG != nil {
		if kindOf(errW) != closedKind || kindOf(errG) != closedKind {
			return nil, nil, fmt.Errorf("neither server answers: %w", errW)
		}
		p.closed = append(p.closed, conn)
		<-written
		<-written
		return want, got, nil
	}
	for range 2 {
		if werr := <-written; werr != nil {
			err = werr
		}
	}
	return want, got, err
}

func kindOf(err error) string {
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		return "time-out"
	}
	return closedKind
}

// closedKind is what is read of a connection that the server has ended.
const closedKind = "closed"

// compare compares the replies to one step and follows the connection's state.
func (p *Pair) compare(s Step, at int, want, got wire.Reply) *Difference {
	st := &p.state[s.Conn]
	n := name(s.Args)
	p.count(n, want)
	diff := func(what string, w, g wire.Reply) *Difference {
		return &Difference{Index: at, Step: s, What: what, Want: w.String(), Got: g.String()}
	}
	if n == "EXEC" && want.Kind == wire.Array && !want.Nil && got.Kind == wire.Array && len(want.Elems) == len(got.Elems) {
		queued := st.queued
		st.multi, st.queued = false, nil
		if len(queued) != len(want.Elems) {
			return diff("EXEC length", want, got)
		}
		for i, args := range queued {
			p.count(name(args), want.Elems[i])
			if !same(p.cat.modeOf(args), want.Elems[i], got.Elems[i]) && !p.allow.allows(args, want.Elems[i], got.Elems[i]) {
				return diff("EXEC "+name(args), want, got)
			}
			st.follow(name(args), args, want.Elems[i])
		}
		return nil
	}
	if !same(p.cat.modeOf(s.Args), want, got) && !p.allow.allows(s.Args, want, got) {
		return diff(n, want, got)
	}
	if st.multi && string(want.Text) == "QUEUED" && want.Kind == wire.Simple {
		st.queued = append(st.queued, s.Args)
		return nil
	}
	st.follow(n, s.Args, want)
	return nil
}

func (p *Pair) count(n string, r wire.Reply) {
	if r.Kind == wire.Simple && string(r.Text) == "QUEUED" {
		return // it counts when it runs
	}
	p.Calls[n]++
	if r.IsError("") {
		p.Errors[n]++
	}
}

// follow keeps the state of a connection in step with a command that ran.
func (st *state) follow(n string, args [][]byte, r wire.Reply) {
	switch {
	case n == "MULTI" && !r.IsError(""):
		st.multi, st.queued = true, nil
	case n == "EXEC" && !(r.IsError("ERR") && strings.Contains(string(r.Text), "wrong number")), n == "DISCARD" && !r.IsError(""):
		st.multi, st.queued = false, nil
	case n == "RESET" && !r.IsError(""):
		*st = state{}
	case n == "SELECT" && !r.IsError(""):
		st.db, _ = strconv.Atoi(string(args[1]))
	}
}

func (s *side) selectDB(db int) error {
	r, err := s.admin.Do("SELECT", strconv.Itoa(db))
	if err == nil && r.IsError("") {
		err = fmt.Errorf("SELECT %d: %s", db, r)
	}
	return err
}

// compareKeyspaces compares all databases in full.
func (p *Pair) compareKeyspaces(last Step, at int) (*Difference, error) {
	for _, s := range []*side{&p.oracle, &p.server} {
		s.admin.SetDeadline(time.Now().Add(time.Minute))
	}
	want, err := keyspace.Read(p.oracle.admin, databases)
	if err != nil {
		return nil, fmt.Errorf("oracle: %w", err)
	}
	got, err := keyspace.Read(p.server.admin, databases)
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	diff := keyspace.Diff(want, got, keyspace.Options{Encoding: true, ExpiryToleranceMs: expiryToleranceMs}, 5)
	if len(diff) == 0 {
		return nil, nil
	}
	return &Difference{Index: at, Step: last, What: "keyspace", Want: fmt.Sprintf("%d keys", len(want)), Got: strings.Join(diff, "\n          ")}, nil
}
