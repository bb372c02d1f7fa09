package oracle

import (
	"fmt"
	"net"
	"sort"
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
	admin *wire.Conn
}

// Pair runs steps on both servers.
type Pair struct {
	oracle, server side
	conns          int
	state          []state
	allow          allowList
	// Calls and Errors count replies by command, on the oracle.
	Calls, Errors map[string]int
}

// state is what is known of a connection from its replies.
type state struct {
	multi  bool
	queued [][][]byte
	db     int
}

// NewPair connects to both servers; each has conns connections and one of its own for looking.
func NewPair(oracle, server func() (net.Conn, error), conns int) (*Pair, error) {
	allow, err := parseAllow(allowText)
	if err != nil {
		return nil, err
	}
	p := &Pair{oracle: side{dial: oracle}, server: side{dial: server}, conns: conns, allow: allow,
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
		s.conns, s.admin = nil, nil
	}
}

// reset empties both servers and opens new connections.
func (p *Pair) reset() error {
	p.Close()
	p.state = make([]state, p.conns)
	for _, s := range []*side{&p.oracle, &p.server} {
		for i := -1; i < p.conns; i++ {
			raw, err := s.dial()
			if err != nil {
				return err
			}
			raw.SetDeadline(time.Now().Add(10 * time.Minute))
			c := wire.NewConn(raw)
			if i < 0 {
				s.admin = c
			} else {
				s.conns = append(s.conns, c)
			}
		}
		if r, err := s.admin.Do("FLUSHALL"); err != nil || r.IsError("") {
			return fmt.Errorf("FLUSHALL: %s, %v", r, err)
		}
	}
	return nil
}

// Run runs the steps from an empty keyspace and compares the keyspaces after every checkEvery steps and at
// the end. It stops at the first difference. An error means that the run itself could not go on.
func (p *Pair) Run(steps []Step, checkEvery int) (*Difference, error) {
	if err := p.reset(); err != nil {
		return nil, err
	}
	checked := 0
	for i := 0; i < len(steps); {
		n := p.batch(steps[i:])
		diff, err := p.runBatch(steps[i:i+n], i)
		if diff != nil || err != nil {
			return diff, err
		}
		i += n
		if i-checked >= checkEvery || i == len(steps) {
			checked = i
			diff, err := p.compareKeyspaces(steps[i-1], i-1)
			if diff != nil || err != nil {
				return diff, err
			}
		}
	}
	return nil, nil
}

// batch is how many of the next steps may go out in one pipeline: steps of one connection, none of which
// needs work of its own.
func (p *Pair) batch(steps []Step) int {
	for n, s := range steps {
		alone := s.PauseMs > 0 || p.special(s)
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

// special reports whether a step needs more than its reply.
func (p *Pair) special(s Step) bool {
	switch name(s.Args) {
	case "SPOP", "SRANDMEMBER", "HRANDFIELD", "ZRANDMEMBER", "RANDOMKEY", "SCAN", "HSCAN", "SSCAN", "ZSCAN", "DBSIZE", "LTRIM":
		return true
	}
	return lexKey(s.Args) != ""
}

// lexKey is the sorted set that a command reads in the order of its members; "" for other commands. Where
// scores differ, what Redis answers depends on the random heights of its skip list.
func lexKey(args [][]byte) string {
	at := 1
	switch name(args) {
	case "ZRANGEBYLEX", "ZREVRANGEBYLEX", "ZLEXCOUNT", "ZREMRANGEBYLEX":
	case "ZRANGESTORE":
		at = 2
		fallthrough
	case "ZRANGE":
		byLex := false
		for _, a := range args {
			byLex = byLex || strings.EqualFold(string(a), "BYLEX")
		}
		if !byLex {
			return ""
		}
	default:
		return ""
	}
	if at >= len(args) {
		return ""
	}
	return string(args[at])
}

func (p *Pair) runBatch(steps []Step, at int) (*Difference, error) {
	st := &p.state[steps[0].Conn]
	if len(steps) == 1 && p.special(steps[0]) && !st.multi {
		return p.runSpecial(steps[0], at)
	}
	if st.multi {
		kept := steps[:0:0]
		for _, s := range steps {
			// Queued, its pick could not be undone before the next command sees it, nor the scores be known.
			if n := name(s.Args); n != "SPOP" && n != "LTRIM" && lexKey(s.Args) == "" {
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

// exchange sends the steps to both servers and reads the replies.
func (p *Pair) exchange(steps []Step) (want, got []wire.Reply, err error) {
	var buf []byte
	for _, s := range steps {
		buf = wire.AppendCommand(buf, s.Args...)
	}
	conn := steps[0].Conn
	written := make(chan error, 2)
	for _, s := range []*side{&p.oracle, &p.server} {
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
		out := make([]wire.Reply, len(steps))
		var failed error
		for i := range steps {
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
		return nil, nil, fmt.Errorf("neither server answers: %w", errW)
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
	return "closed"
}

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
			if !same(modeOf(args), want.Elems[i], got.Elems[i]) && !p.allow.allows(args, want.Elems[i], got.Elems[i]) {
				return diff("EXEC "+name(args), want, got)
			}
			st.follow(name(args), args, want.Elems[i])
		}
		return nil
	}
	if !same(modeOf(s.Args), want, got) && !p.allow.allows(s.Args, want, got) {
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

// runSpecial runs a step whose replies may rightly differ: a random pick is checked against what may be
// picked and undone where it removed something; an iteration is run to its end.
func (p *Pair) runSpecial(s Step, at int) (*Difference, error) {
	n := name(s.Args)
	db := p.state[s.Conn].db
	if n == "DBSIZE" || n == "RANDOMKEY" {
		// What has expired and is still there counts in one server and not in the other.
		for _, sd := range []*side{&p.oracle, &p.server} {
			if _, err := sd.scanAll(sd.admin, cmd("SCAN", "0", "COUNT", "1000"), db); err != nil {
				return nil, err
			}
		}
	}
	if key := lexKey(s.Args); key != "" {
		one, err := p.oracle.oneScore(key, db)
		if err != nil || !one {
			return nil, err
		}
	}
	if n == "LTRIM" {
		idle, err := p.oracle.trimsNothing(s.Args, db)
		if err != nil || idle {
			return nil, err
		}
	}
	var pool []string
	if modeOf(s.Args) == random {
		var err error
		if pool, err = p.oracle.candidates(n, s.Args, db); err != nil {
			return nil, err
		}
	}
	want, got, err := p.exchange([]Step{s})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s, err)
	}
	if diff := p.compare(s, at, want[0], got[0]); diff != nil {
		return diff, nil
	}
	if want[0].IsError("") || got[0].IsError("") {
		return nil, nil
	}
	differs := func(what string, w, g fmt.Stringer) *Difference {
		return &Difference{Index: at, Step: s, What: n + " " + what, Want: w.String(), Got: g.String()}
	}
	switch n {
	case "SCAN", "HSCAN", "SSCAN", "ZSCAN":
		w, err := p.oracle.scanAll(p.oracle.conns[s.Conn], s.Args, -1)
		if err != nil {
			return nil, err
		}
		g, err := p.server.scanAll(p.server.conns[s.Conn], s.Args, -1)
		if err != nil {
			return nil, err
		}
		if strings.Join(w, "\n") != strings.Join(g, "\n") && !(n == "ZSCAN" && sameScoreLists(w, g)) {
			return differs("elements", texts(w), texts(g)), nil
		}
	case "SPOP", "SRANDMEMBER", "HRANDFIELD", "ZRANDMEMBER", "RANDOMKEY":
		distinct := n == "SPOP" || len(s.Args) > 2 && !strings.HasPrefix(string(s.Args[2]), "-")
		for _, r := range []wire.Reply{want[0], got[0]} {
			if bad := badPick(r, pool, len(s.Args) > 3, distinct); bad != "" {
				return differs(bad, texts(pool), r), nil
			}
		}
		if n == "SPOP" {
			return nil, p.undoPick(string(s.Args[1]), db, picks(want[0]), picks(got[0]))
		}
	}
	return nil, nil
}

type texts []string

func (t texts) String() string { return fmt.Sprintf("%q", []string(t)) }

// candidates is what a random pick may answer: members, pairs as the reply shows them, or keys.
func (s *side) candidates(n string, args [][]byte, db int) ([]string, error) {
	if err := s.selectDB(db); err != nil {
		return nil, err
	}
	key := ""
	if len(args) > 1 {
		key = string(args[1])
	}
	var r wire.Reply
	var err error
	pairs := len(args) > 3
	switch n {
	case "RANDOMKEY":
		r, err = s.admin.Do("KEYS", "*")
	case "HRANDFIELD":
		r, err = s.admin.Do("HGETALL", key)
	case "ZRANDMEMBER":
		r, err = s.admin.Do("ZRANGE", key, "0", "-1", "WITHSCORES")
	default:
		r, err = s.admin.Do("SMEMBERS", key)
	}
	if err != nil || r.IsError("") {
		return nil, err
	}
	all := r.Strings()
	if n != "HRANDFIELD" && n != "ZRANDMEMBER" {
		return all, nil
	}
	var out []string
	for i := 0; i+1 < len(all); i += 2 {
		text := all[i]
		if pairs {
			text += "\x00" + normalNumber(n, all[i+1])
		}
		out = append(out, text)
	}
	return out, nil
}

// trimsNothing reports whether LTRIM would leave a list as it is. Redis then still fails the transactions
// that watch the list; a server for which a change is what can be logged does not.
func (s *side) trimsNothing(args [][]byte, db int) (bool, error) {
	if len(args) != 4 {
		return false, nil
	}
	if err := s.selectDB(db); err != nil {
		return false, err
	}
	r, err := s.admin.Do("LLEN", string(args[1]))
	if err != nil {
		return false, err
	}
	length, errLen := r.Int()
	start, errStart := strconv.ParseInt(string(args[2]), 10, 64)
	stop, errStop := strconv.ParseInt(string(args[3]), 10, 64)
	if r.IsError("") || errLen != nil || errStart != nil || errStop != nil {
		return false, nil
	}
	first := start == 0 || start < 0 && start <= -length
	last := stop == -1 || stop >= length-1
	return length > 0 && first && last, nil
}

// oneScore reports whether all members of a sorted set have one score; true for what is none.
func (s *side) oneScore(key string, db int) (bool, error) {
	if err := s.selectDB(db); err != nil {
		return false, err
	}
	r, err := s.admin.Do("ZRANGE", key, "0", "-1", "WITHSCORES")
	if err != nil || r.IsError("") {
		return true, err
	}
	for i := 3; i < len(r.Elems); i += 2 {
		if string(r.Elems[i].Text) != string(r.Elems[1].Text) {
			return false, nil
		}
	}
	return true, nil
}

// normalNumber writes a score so that its two texts are one.
func normalNumber(n, text string) string {
	if n == "ZRANDMEMBER" || n == "ZSCAN" {
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			if f == 0 {
				f = 0 // -0 and 0 are one score
			}
			return strconv.FormatFloat(f, 'g', -1, 64)
		}
	}
	return text
}

// badPick says what is wrong with a pick; pairs says that values or scores come with it.
func badPick(r wire.Reply, pool []string, pairs, distinct bool) string {
	if r.IsNil() {
		if len(pool) > 0 {
			return "picks nothing"
		}
		return ""
	}
	allowed := map[string]bool{}
	for _, c := range pool {
		allowed[c] = true
	}
	list := picks(r)
	if pairs {
		list = pickedPairs(r, allowed)
	}
	seen := map[string]bool{}
	for _, e := range list {
		if !allowed[e] {
			return fmt.Sprintf("picks %q, which is not there", e)
		}
		if distinct && seen[e] {
			return fmt.Sprintf("picks %q twice", e)
		}
		seen[e] = true
	}
	return ""
}

// picks is the elements of a pick: the reply itself or its elements.
func picks(r wire.Reply) []string {
	if r.IsNil() {
		return nil
	}
	if r.Scalar() {
		return []string{string(r.Text)}
	}
	return r.Strings()
}

// pickedPairs is the pairs of a pick, nested as RESP3 shows them or flat.
func pickedPairs(r wire.Reply, allowed map[string]bool) []string {
	flat := r.Elems
	if len(r.Elems) > 0 && !r.Elems[0].Scalar() {
		flat = nil
		for _, e := range r.Elems {
			flat = append(flat, e.Elems...)
		}
	}
	var out []string
	for i := 0; i+1 < len(flat); i += 2 {
		text := string(flat[i].Text) + "\x00" + string(flat[i+1].Text)
		if !allowed[text] {
			text = string(flat[i].Text) + "\x00" + normalNumber("ZRANDMEMBER", string(flat[i+1].Text))
		}
		out = append(out, text)
	}
	return out
}

func (s *side) selectDB(db int) error {
	r, err := s.admin.Do("SELECT", strconv.Itoa(db))
	if err == nil && r.IsError("") {
		err = fmt.Errorf("SELECT %d: %s", db, r)
	}
	return err
}

// undoPick removes on each side what only the other one picked, so that both hold the same again.
func (p *Pair) undoPick(key string, db int, want, got []string) error {
	fix := func(s *side, mine, others []string) error {
		have := map[string]bool{}
		for _, m := range mine {
			have[m] = true
		}
		args := []string{"SREM", key}
		for _, m := range others {
			if !have[m] {
				args = append(args, m)
			}
		}
		if len(args) == 2 {
			return nil
		}
		if err := s.selectDB(db); err != nil {
			return err
		}
		r, err := s.admin.Do(args...)
		if err == nil && r.IsError("") {
			err = fmt.Errorf("SREM: %s", r)
		}
		return err
	}
	if err := fix(&p.oracle, want, got); err != nil {
		return err
	}
	return fix(&p.server, got, want)
}

// scanAll runs an iteration to its end with the options of args and returns what came, sorted, each once;
// pairs for HSCAN and ZSCAN. db < 0 leaves the connection's database.
func (s *side) scanAll(c *wire.Conn, args [][]byte, db int) ([]string, error) {
	if db >= 0 {
		if err := s.selectDB(db); err != nil {
			return nil, err
		}
	}
	at := 2
	n := name(args)
	if n == "SCAN" {
		at = 1
	}
	next := make([]string, len(args))
	for i, a := range args {
		next[i] = string(a)
	}
	next[at] = "0"
	found := map[string]bool{}
	for range maxScanCalls {
		r, err := c.Do(next...)
		if err != nil {
			return nil, err
		}
		if r.Kind != wire.Array || len(r.Elems) != 2 || r.Elems[0].Kind != wire.Bulk || r.Elems[1].Kind != wire.Array {
			return nil, fmt.Errorf("%s: %s", n, r)
		}
		elems := r.Elems[1].Strings()
		for i := 0; i < len(elems); i++ {
			if n != "HSCAN" && n != "ZSCAN" {
				found[elems[i]] = true
				continue
			}
			if i+1 == len(elems) {
				return nil, fmt.Errorf("%s: an odd number of elements", n)
			}
			found[elems[i]+"\x00"+elems[i+1]] = true
			i++
		}
		next[at] = string(r.Elems[0].Text)
		if next[at] == "0" {
			out := make([]string, 0, len(found))
			for e := range found {
				out = append(out, e)
			}
			sort.Strings(out)
			return out, nil
		}
	}
	return nil, fmt.Errorf("%s does not end after %d calls", n, maxScanCalls)
}

// sameScoreLists compares the pairs of two iterations with scores as numbers.
func sameScoreLists(a, b []string) bool {
	normal := func(list []string) string {
		out := make([]string, len(list))
		for i, e := range list {
			at := strings.LastIndexByte(e, 0)
			out[i] = e[:at+1] + normalNumber("ZSCAN", e[at+1:])
		}
		sort.Strings(out)
		return strings.Join(out, "\n")
	}
	return normal(a) == normal(b)
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

// Allowed lists the entries of the allow-list with how often each was used.
func (p *Pair) Allowed() []string {
	var out []string
	for _, a := range p.allow {
		out = append(out, fmt.Sprintf("allow.txt:%d used %d times: %s", a.line, a.hits, a.reason))
	}
	return out
}
