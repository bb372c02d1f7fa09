package oracle

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"kevy/tests/wire"
)

// Sessions runs steps of several connections on both servers in lock step, and compares after each all that every
// connection has received, pushed messages too and in order, and what CLIENT LIST says of each. A step on a connection
// that is blocked is left out.
type Sessions struct {
	oracle, server sessionSide
	state          []state // of the connections; blocked is the step that one waits in
	listens        []bool  // by connection, whether it has ever subscribed
	// Messages counts those that the oracle pushed, Blocks the commands that blocked, Served those of them that ended,
	// Refused the transactions that a WATCH refused, Ended the connections that were killed.
	Messages, Blocks, Served, Refused, Ended int
}

// sessionSide is one of the two servers.
type sessionSide struct {
	side
	got [][]string // of a step, by connection
	// reply is that to a step, by itself: where it stands among the messages that its own command brings depends on the
	// command in redis-server, which sends them behind it since 7.2.
	reply string
}

// sessionTimeout is how long a reply may take.
const sessionTimeout = 10 * time.Second

// sessionEvents are the keyspace events that those who listen hear.
const sessionEvents = "KEA"

// NewSessions returns sessions of conns connections to each server.
func NewSessions(oracle, server func() (net.Conn, error), conns int) *Sessions {
	return &Sessions{oracle: sessionSide{side: side{dial: oracle}}, server: sessionSide{side: side{dial: server}}, state: make([]state, conns)}
}

// Close closes all connections.
func (p *Sessions) Close() {
	for _, s := range p.both() {
		for _, c := range append(s.conns, s.admin) {
			if c != nil {
				c.Close()
			}
		}
		s.conns, s.ids, s.admin = nil, nil, nil
	}
}

func (p *Sessions) both() [2]*sessionSide { return [2]*sessionSide{&p.oracle, &p.server} }

// reset empties both servers and opens new connections.
func (p *Sessions) reset() error {
	p.Close()
	conns := len(p.state)
	p.state, p.listens = make([]state, conns), make([]bool, conns)
	for _, s := range p.both() {
		var err error
		if s.admin, _, err = s.open(-1); err != nil {
			return err
		}
		if err := s.alone(); err != nil {
			return err
		}
		for _, args := range [][]string{{"FLUSHALL"}, {"CONFIG", "SET", "notify-keyspace-events", sessionEvents}} {
			if r, err := s.admin.Do(args...); err != nil || r.IsError("") {
				return fmt.Errorf("%s: %s, %v", args, r, err)
			}
		}
		s.conns, s.ids, s.got = make([]*wire.Conn, conns), make([]string, conns), make([][]string, conns)
		for i := range s.conns {
			if s.conns[i], s.ids[i], err = s.open(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// alone waits until the server knows of no connection but the one for looking.
func (s *sessionSide) alone() error {
	for deadline := time.Now().Add(replyTimeout); ; time.Sleep(time.Millisecond) {
		r, err := s.admin.Do("CLIENT", "LIST")
		if err != nil || r.IsError("") {
			return fmt.Errorf("CLIENT LIST: %s, %v", r, err)
		}
		if strings.Count(string(r.Text), "id=") == 1 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("connections of the run before do not end: %s", r)
		}
	}
}

// Run runs the steps from an empty keyspace, and compares the keyspaces after every checkEvery steps and at the end. It
// stops at the first difference.
func (p *Sessions) Run(steps []Step, checkEvery int) (*Difference, error) {
	if err := p.reset(); err != nil {
		return nil, err
	}
	for i, s := range steps {
		if p.state[s.Conn].blocked != nil {
			continue
		}
		diff, err := p.step(s, i)
		if diff == nil && err == nil && ((i+1)%checkEvery == 0 || i+1 == len(steps)) {
			diff, err = p.compareAll(s, i)
		}
		if diff != nil || err != nil {
			return diff, err
		}
	}
	return nil, nil
}

// step runs a step on both servers and compares what it brought.
func (p *Sessions) step(s Step, at int) (*Difference, error) {
	multi := p.state[s.Conn].multi
	p.listens[s.Conn] = p.listens[s.Conn] || subscribes(s.Args)
	var own [2]wire.Reply
	var blocks [2]bool
	for i, sd := range p.both() {
		var err error
		if own[i], blocks[i], err = sd.act(s, multi); err != nil {
			return nil, fmt.Errorf("%s: %w", s, err)
		}
	}
	diff := func(what, want, got string) (*Difference, error) {
		return &Difference{Index: at, Step: s, What: name(s.Args) + what, Want: want, Got: got}, nil
	}
	if blocks[0] != blocks[1] {
		return diff(" blocks", fmt.Sprint(blocks[0], p.oracle.got), fmt.Sprint(blocks[1], p.server.got))
	}
	want, got := p.oracle.reply, p.server.reply
	p.oracle.reply, p.server.reply = "", ""
	if want != got {
		return diff("", want, got)
	}
	st := &p.state[s.Conn]
	if blocks[0] {
		st.blocked = &s
		p.Blocks++
	} else if own[0].Kind != 0 {
		st.follow(name(s.Args), s.Args, own[0])
		if name(s.Args) == "EXEC" && own[0].IsNil() {
			p.Refused++
		}
	}
	released, text, err := p.released()
	if err != nil {
		return nil, err
	}
	if text != "" {
		return diff(" serves", "as redis-server does", text)
	}
	closed := map[int]bool{}
	for _, sd := range p.both() {
		if err := sd.barrier(p.state, s.Conn, at, closed); err != nil {
			return nil, fmt.Errorf("%s: %w", s, err)
		}
	}
	if err := p.drainBlocked(); err != nil {
		return diff(" pushes", fmt.Sprint(p.oracle.got), err.Error())
	}
	p.Served += released
	anyOrder := unsubscribesAll(s.Args)
	for i := range p.state {
		want, got := p.oracle.got[i], p.server.got[i]
		p.oracle.got[i], p.server.got[i] = nil, nil
		for _, m := range want {
			if strings.HasPrefix(m, "push[") || strings.Contains(m, `message", "`) {
				p.Messages++
			}
		}
		sortPatterns(want)
		sortPatterns(got)
		want, got = arranged(want), arranged(got)
		if anyOrder && i == s.Conn {
			want, got = namesAndCounts(want), namesAndCounts(got)
		}
		if !slices.Equal(want, got) {
			return diff(fmt.Sprintf(" on C%d", i+1), strings.Join(want, "\n          "), strings.Join(got, "\n          "))
		}
	}
	for i := range closed {
		p.Ended++
		p.state[i], p.listens[i] = state{}, false
		for _, sd := range p.both() {
			sd.conns[i].Close()
			var err error
			if sd.conns[i], sd.ids[i], err = sd.open(i); err != nil {
				return nil, err
			}
		}
	}
	// Ours shows another connection as of when it last waited for input, which may be a moment behind its reply.
	for deadline := time.Now().Add(sessionTimeout); ; time.Sleep(50 * time.Microsecond) {
		if want, err = p.oracle.list(); err != nil {
			return nil, err
		}
		if got, err = p.server.list(); err != nil || want == got {
			return nil, err
		}
		if time.Now().After(deadline) {
			break
		}
	}
	return diff(" in CLIENT LIST", want, got)
}

// act sends a step, and waits until the connection is blocked or the reply is there, which it returns where there is
// one and the connection's state may depend on it.
func (s *sessionSide) act(step Step, multi bool) (own wire.Reply, blocks bool, err error) {
	args := step.Args
	if at := idArgument(args); at > 0 {
		if n, err := strconv.Atoi(string(args[at])); err == nil && n >= 0 && n < len(s.ids) {
			args = slices.Clone(args)
			args[at] = []byte(s.ids[n])
		}
	}
	c := s.conns[step.Conn]
	c.SetDeadline(time.Now().Add(replyTimeout))
	if _, err := c.Write(wire.AppendCommand(nil, args...)); err != nil {
		return own, false, err
	}
	if !multi && step.MayWait() {
		if blocks, err = s.waits(step.Conn); blocks || err != nil {
			return own, blocks, err
		}
	}
	if !multi && subscribes(args) {
		return own, false, nil // one reply for each name, and no change of state
	}
	for {
		c.SetReadDeadline(time.Now().Add(sessionTimeout))
		r, err := c.ReadReply()
		if err != nil {
			// A reply that does not come is a reply that can be compared.
			r = wire.Reply{Kind: wire.Error, Text: []byte("<no reply: " + kindOf(err) + ">")}
		}
		if !isMessage(r) {
			s.reply = replyText(args, r)
			if n := name(args); r.Kind == wire.Array && !r.Nil && (n == "EXEC" || strings.Contains(n, "ZPOP")) {
				texts := elements(r)
				s.reply, s.got[step.Conn] = texts[0], append(s.got[step.Conn], texts[1:]...)
			}
			return r, false, nil
		}
		s.got[step.Conn] = append(s.got[step.Conn], r.String())
	}
}

// idArgument is the place of a number of a connection among the arguments, 0 where there is none: the ids are each
// server's own.
func idArgument(args [][]byte) int {
	switch n := name(args); {
	case n == "CLIENT UNBLOCK" && len(args) > 2:
		return 2
	case n == "CLIENT KILL" && len(args) > 3:
		return 3
	}
	return 0
}

// subscribes reports whether a command answers with a message for each name.
func subscribes(args [][]byte) bool {
	return strings.HasSuffix(name(args), "SUBSCRIBE")
}

// unsubscribesAll reports whether a command ends subscriptions that it does not name, which Redis has in the order of a
// hash table.
func unsubscribesAll(args [][]byte) bool {
	return strings.HasSuffix(name(args), "UNSUBSCRIBE") && len(args) == 1
}

// isMessage reports whether a reply is a message that may come at any time.
func isMessage(r wire.Reply) bool {
	if r.Kind == wire.Push {
		return true
	}
	if r.Kind != wire.Array || len(r.Elems) < 3 {
		return false
	}
	switch string(r.Elems[0].Text) {
	case "message", "pmessage", "smessage":
		return true
	}
	return false
}

// replyText is a reply as it is compared.
func replyText(args [][]byte, r wire.Reply) string {
	switch n := name(args); {
	case n == "HELLO" && (r.Kind == wire.Map || r.Kind == wire.Array && len(r.Elems) > 6) && !isMessage(r):
		return fmt.Sprintf("%c, as for proto %s", r.Kind, r.Elems[5]) // the rest is each server's own
	case n == "PUBSUB CHANNELS" || n == "PUBSUB SHARDCHANNELS":
		if !isMessage(r) && r.Kind == wire.Array {
			return strings.Join(sortedElems(r, 1), "")
		}
	}
	return r.String()
}

// elements is an array as it is compared, one by one: the messages that a command brings to its own connection stand
// among the elements of its reply and are none, so that as many of those stand behind. So it is in a transaction, and
// in redis-server before 7.2 in the reply of ZPOPMAX, too.
func elements(r wire.Reply) []string {
	out := []string{fmt.Sprint(len(r.Elems), " elements")}
	for _, e := range r.Elems {
		out = appendLeaves(out, e)
	}
	return out
}

// appendLeaves adds what an element holds, with the same in it displaced. A list of texts is one, in order, as it may be
// one of channels.
func appendLeaves(out []string, e wire.Reply) []string {
	notText := func(one wire.Reply) bool { return one.Kind != wire.Bulk }
	switch {
	case isMessage(e) || e.Kind != wire.Array || e.Nil || len(e.Elems) == 0:
		return append(out, e.String())
	case !slices.ContainsFunc(e.Elems, notText):
		return append(out, strings.Join(sortedElems(e, 1), ""))
	}
	for _, one := range e.Elems {
		out = appendLeaves(out, one)
	}
	return out
}

// arranged puts keyspace events first, then messages, then replies: what a connection publishes stands among its replies,
// the events of what it changes stand before those, and in redis-server it depends on the command where its reply
// stands.
func arranged(received []string) []string {
	var parts [3][]string
	for _, r := range received {
		at := 2
		switch {
		case !strings.Contains(r, `message", "`):
		case strings.Contains(r, `"__keyspace@`) || strings.Contains(r, `"__keyevent@`):
			at = 0
		default:
			at = 1
		}
		parts[at] = append(parts[at], r)
	}
	return slices.Concat(parts[0], parts[1], parts[2])
}

// sortPatterns puts the messages of one publication to several patterns in order: Redis has the patterns in that of a
// hash table.
func sortPatterns(replies []string) {
	told := func(r string) (string, bool) {
		parts := strings.SplitN(r, `", "`, 3)
		return parts[len(parts)-1], len(parts) == 3 && strings.HasSuffix(parts[0], `["pmessage`)
	}
	for from := 0; from < len(replies); {
		what, is := told(replies[from])
		to := from + 1
		for ; is && to < len(replies); to++ {
			if other, also := told(replies[to]); !also || other != what {
				break
			}
		}
		sort.Strings(replies[from:to])
		from = to
	}
}

// namesAndCounts are the replies to a command that ends all subscriptions, their names and counts each in order.
func namesAndCounts(replies []string) []string {
	var out []string
	for _, r := range replies {
		at := strings.LastIndex(r, ", ")
		if at < 0 || !strings.Contains(r, "unsubscribe") {
			out = append(out, r)
			continue
		}
		out = append(out, r[:at], r[at:])
	}
	sort.Strings(out)
	return out
}

// released looks who is not blocked any more. text says where the servers differ in that.
func (p *Sessions) released() (n int, text string, err error) {
	for i := range p.state {
		st := &p.state[i]
		if st.blocked == nil {
			continue
		}
		waits, err := p.oracle.isBlocked(i)
		if err != nil {
			return n, "", err
		}
		ours, err := p.server.isBlocked(i)
		if err != nil {
			return n, "", err
		}
		if waits != ours {
			return n, fmt.Sprintf("C%d waits there: %v, here: %v", i+1, waits, ours), nil
		}
		if !waits {
			st.blocked = nil
			n++
		}
	}
	return n, "", nil
}

// barrier reads all that the connections have been sent that are not blocked: up to the reply to a PING, or to a MULTI in
// a transaction, which refuses it and goes on.
func (s *sessionSide) barrier(states []state, acting, at int, closed map[int]bool) error {
	token := "end of step " + strconv.Itoa(at)
	for i := range states {
		if states[i].blocked != nil {
			continue
		}
		line := cmd("PING", token)
		if states[i].multi {
			line = cmd("MULTI")
		}
		s.conns[i].SetDeadline(time.Now().Add(replyTimeout))
		_, _ = s.conns[i].Write(wire.AppendCommand(nil, line...)) // where that fails, so does reading
	}
	for i := range states {
		for states[i].blocked == nil {
			r, err := s.conns[i].ReadReply()
			if err != nil {
				if kindOf(err) != closedKind {
					return fmt.Errorf("session C%d: %w, after %q", i+1, err, s.got[i])
				}
				closed[i] = true
				s.got[i] = append(s.got[i], "<closed>")
				break
			}
			if states[i].multi && r.IsError("ERR") && strings.Contains(string(r.Text), "MULTI calls can not be nested") ||
				string(r.Text) == token || r.Kind == wire.Array && len(r.Elems) == 2 && string(r.Elems[1].Text) == token {
				break
			}
			switch {
			case isMessage(r) || r.Kind != wire.Array || r.Nil:
				s.got[i] = append(s.got[i], r.String())
			case i == acting:
				s.got[i] = appendLeaves(s.got[i], r) // one that messages have displaced
			default:
				s.got[i] = append(s.got[i], elements(r)...) // of who was served
			}
		}
	}
	return nil
}

// drainBlocked reads what those were sent who are blocked: redis-server has written it before it answered who looked at
// them, and of ours as much is awaited.
func (p *Sessions) drainBlocked() error {
	for i := range p.state {
		if p.state[i].blocked == nil || !p.listens[i] {
			continue
		}
		for {
			c := p.oracle.conns[i]
			c.SetReadDeadline(time.Now().Add(blockPoll))
			_, err := c.Reader().Peek(1)
			c.SetReadDeadline(time.Now().Add(replyTimeout))
			var ne net.Error
			if errors.As(err, &ne) && ne.Timeout() {
				break
			}
			want, err := c.ReadReply()
			if err != nil {
				return err
			}
			p.oracle.got[i] = append(p.oracle.got[i], want.String())
			p.server.conns[i].SetReadDeadline(time.Now().Add(replyTimeout))
			got, err := p.server.conns[i].ReadReply()
			if err != nil {
				return fmt.Errorf("session C%d has no %s: %w", i+1, want, err)
			}
			p.server.got[i] = append(p.server.got[i], got.String())
		}
	}
	return nil
}

// list is what CLIENT LIST says of the connections, as far as servers can agree.
func (s *sessionSide) list() (string, error) {
	r, err := s.admin.Do(append([]string{"CLIENT", "LIST", "ID"}, s.ids...)...)
	if err != nil || r.IsError("") {
		return "", fmt.Errorf("CLIENT LIST: %s, %v", r, err)
	}
	lines := make([]string, len(s.ids))
	for line := range strings.Lines(string(r.Text)) {
		var shown []string
		id := ""
		for field := range strings.FieldsSeq(line) {
			switch name, value, _ := strings.Cut(field, "="); name {
			case "id":
				id = value
			case "name", "flags", "db", "sub", "psub", "ssub", "multi", "user", "redir", "resp", "cmd":
				shown = append(shown, field)
			}
		}
		if i := slices.Index(s.ids, id); i >= 0 {
			lines[i] = fmt.Sprintf("C%d %s", i+1, strings.Join(shown, " "))
		}
	}
	return strings.Join(lines, "\n          "), nil
}

// compareAll compares the keyspaces, and that nobody has been sent what the steps do not explain.
func (p *Sessions) compareAll(last Step, at int) (*Difference, error) {
	want, err := p.oracle.admin.Do("DEBUG", "DIGEST")
	if err != nil {
		return nil, err
	}
	got, err := p.server.admin.Do("DEBUG", "DIGEST")
	if err != nil || want.Equal(got) {
		return nil, err
	}
	return &Difference{Index: at, Step: last, What: "keyspace", Want: want.String(), Got: got.String()}, nil
}
