package oracle

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"kevy/tests/wire"
)

// countKeys runs DBSIZE after a look at every key: what has expired and is still there counts in one server
// and not in the other.
func countKeys(p *Pair, s Step, at int) (*Difference, error) {
	if err := p.touchAll(p.state[s.Conn].db); err != nil {
		return nil, err
	}
	_, _, diff, err := p.runOne(s, at)
	return diff, err
}

// measureKey runs MEMORY USAGE after a look at the key: one that is overdue and still there has a size in one server
// and none in the other.
func measureKey(p *Pair, s Step, at int) (*Difference, error) {
	if len(s.Args) > 2 {
		for _, sd := range []*side{&p.oracle, &p.server} {
			if err := sd.selectDB(p.state[s.Conn].db); err != nil {
				return nil, err
			}
			if _, err := sd.admin.Do("EXISTS", string(s.Args[2])); err != nil {
				return nil, err
			}
		}
	}
	want, got, diff, err := p.runOne(s, at)
	if diff == nil && err == nil && want.IsNil() != got.IsNil() {
		diff = &Difference{Index: at, Step: s, What: name(s.Args), Want: want.String(), Got: got.String()}
	}
	return diff, err
}

func (p *Pair) touchAll(db int) error {
	for _, sd := range []*side{&p.oracle, &p.server} {
		if _, err := sd.scanAll(sd.admin, cmd("SCAN", "0", "COUNT", "1000"), db); err != nil {
			return err
		}
	}
	return nil
}

// scanToTheEnd runs an iteration to its end on both servers and compares what came.
func scanToTheEnd(p *Pair, s Step, at int) (*Difference, error) {
	want, got, diff, err := p.runOne(s, at)
	if diff != nil || err != nil || want.IsError("") || got.IsError("") {
		return diff, err
	}
	w, err := p.oracle.scanAll(p.oracle.conns[s.Conn], s.Args, -1)
	if err != nil {
		return nil, err
	}
	g, err := p.server.scanAll(p.server.conns[s.Conn], s.Args, -1)
	if err != nil {
		return nil, err
	}
	n := name(s.Args)
	if n == "SCAN" && p.Events != nil {
		// Ours leaves those overdue keys alone that a TYPE leaves out.
		if err := p.touchAll(p.state[s.Conn].db); err != nil {
			return nil, err
		}
	}
	if strings.Join(w, "\n") != strings.Join(g, "\n") && !(n == "ZSCAN" && sameScoreLists(w, g)) {
		return &Difference{Index: at, Step: s, What: n + " elements", Want: texts(w).String(), Got: texts(g).String()}, nil
	}
	return nil, nil
}

// pickRandomly runs a random pick, checks it against what may be picked, and undoes it where it removed
// something.
func pickRandomly(p *Pair, s Step, at int) (*Difference, error) {
	n := name(s.Args)
	db := p.state[s.Conn].db
	if n == "RANDOMKEY" {
		if err := p.touchAll(db); err != nil {
			return nil, err
		}
	}
	pool, err := p.oracle.candidates(n, s.Args, db)
	if err != nil {
		return nil, err
	}
	want, got, diff, err := p.runOne(s, at)
	if diff != nil || err != nil || want.IsError("") || got.IsError("") {
		return diff, err
	}
	distinct := n == "SPOP" || len(s.Args) > 2 && !strings.HasPrefix(string(s.Args[2]), "-")
	for _, r := range []wire.Reply{want, got} {
		if bad := badPick(r, pool, len(s.Args) > 3, distinct); bad != "" {
			return &Difference{Index: at, Step: s, What: n + " " + bad, Want: texts(pool).String(), Got: r.String()}, nil
		}
	}
	if n == "SPOP" {
		return nil, p.undoPick(string(s.Args[1]), db, picks(want), picks(got))
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
	pairs := n == "HSCAN" || n == "ZSCAN"
	for _, a := range args {
		pairs = pairs && !strings.EqualFold(string(a), "NOVALUES")
	}
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
			if !pairs {
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

// untold runs a command on one of the servers, whose keyspace events are not those of a step.
func (p *Pair) untold(s *side, args ...string) error {
	commands := [][]string{args}
	if p.Events != nil {
		const classes = "notify-keyspace-events"
		commands = [][]string{{"CONFIG", "SET", classes, ""}, args, {"CONFIG", "SET", classes, p.Events.Classes}}
	}
	for _, args := range commands {
		if r, err := s.admin.Do(args...); err != nil || r.IsError("") {
			return fmt.Errorf("%s: %s, %v", args, r, err)
		}
	}
	return nil
}
