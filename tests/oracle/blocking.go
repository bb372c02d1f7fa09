package oracle

import (
	"fmt"
	"net"
	"sort"
	"strconv"
	"strings"
	"time"

	"kevy/tests/wire"
)

// Crowd runs steps of many connections, of which some block, on both servers at once. A step is one command,
// or several in a transaction (Args of MULTI with the commands behind it, see transaction). One that goes to a
// connection which is blocked is left out.
type Crowd struct {
	oracle, server crowdSide
	conns          int
	blocked        []bool   // by connection, on both sides
	asked          [][]byte // by connection, the command it is blocked in
	// Blocks counts the commands that blocked, Served those of them that were served.
	Blocks, Served map[string]int
}

// crowdSide is one of the two servers.
type crowdSide struct {
	dial    func() (net.Conn, error)
	conns   []*wire.Conn
	ids     []string
	admin   *wire.Conn
	replies chan crowdReply
}

// crowdReply is what one connection received.
type crowdReply struct {
	conn int
	text string
}

// NewCrowd returns a crowd of conns connections to each server.
func NewCrowd(oracle, server func() (net.Conn, error), conns int) *Crowd {
	return &Crowd{oracle: crowdSide{dial: oracle}, server: crowdSide{dial: server}, conns: conns, Blocks: map[string]int{}, Served: map[string]int{}}
}

// Close closes all connections.
func (c *Crowd) Close() {
	c.oracle.close()
	c.server.close()
}

func (s *crowdSide) close() {
	for _, c := range append(s.conns, s.admin) {
		if c != nil {
			c.Close()
		}
	}
	s.conns, s.ids, s.admin = nil, nil, nil
}

// reset empties the server and opens new connections, each with a reader.
func (s *crowdSide) reset(conns int) error {
	s.close()
	raw, err := s.dial()
	if err != nil {
		return err
	}
	s.admin = wire.NewConn(raw)
	if err := s.awaitBlocked(0); err != nil {
		return err
	}
	if r, err := s.do("FLUSHALL"); err != nil || r.IsError("") {
		return fmt.Errorf("FLUSHALL: %s, %v", r, err)
	}
	s.replies = make(chan crowdReply, conns)
	for i := range conns {
		raw, err := s.dial()
		if err != nil {
			return err
		}
		c := wire.NewConn(raw)
		s.conns = append(s.conns, c)
		r, err := c.Do("CLIENT", "ID")
		if err != nil {
			return err
		}
		s.ids = append(s.ids, string(r.Text))
		go func(replies chan<- crowdReply) {
			for {
				r, err := c.ReadReply()
				if err != nil {
					return
				}
				replies <- crowdReply{i, r.String()}
			}
		}(s.replies)
	}
	return nil
}

func (s *crowdSide) do(args ...string) (wire.Reply, error) {
	s.admin.SetDeadline(time.Now().Add(replyTimeout))
	return s.admin.Do(args...)
}

// blocked returns how many connections the server says are blocked.
func (s *crowdSide) blocked() (int, error) {
	r, err := s.do("INFO", "clients")
	if err != nil {
		return 0, err
	}
	_, after, ok := strings.Cut(string(r.Text), "blocked_clients:")
	if !ok {
		return 0, fmt.Errorf("INFO: %s", r)
	}
	n, _, _ := strings.Cut(after, "\r\n")
	return strconv.Atoi(n)
}

func (s *crowdSide) awaitBlocked(n int) error {
	for deadline := time.Now().Add(replyTimeout); ; {
		got, err := s.blocked()
		if err != nil || got == n {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d connections are blocked, and not %d", got, n)
		}
		time.Sleep(time.Millisecond)
	}
}

// separator stands between the commands of a transaction.
const separator = "\x00;"

// transaction is the step of a transaction.
func transaction(commands ...[][]byte) [][]byte {
	out := cmd("MULTI")
	for _, args := range commands {
		out = append(append(out, []byte(separator)), args...)
	}
	return out
}

// commandsOf takes a step apart.
func commandsOf(args [][]byte) (out [][][]byte) {
	from := 0
	for i := range len(args) + 1 {
		if i == len(args) || string(args[i]) == separator {
			if i > from {
				out = append(out, args[from:i])
			}
			from = i + 1
		}
	}
	if len(out) > 0 && name(out[0]) == "MULTI" {
		out = append(out, cmd("EXEC"))
	}
	return out
}

// act sends a step on a connection, waits until its reply has come or the connection is blocked, and until
// those have their replies that were served by it. It returns all of them, by connection.
func (s *crowdSide) act(conn int, commands [][][]byte, before int) (got []crowdReply, blocks bool, err error) {
	var buf []byte
	for _, args := range commands {
		if len(args) > 2 && name(args) == "CLIENT UNBLOCK" {
			if i, err := strconv.Atoi(string(args[2])); err == nil && i < len(s.ids) {
				args = append([][]byte{args[0], args[1], []byte(s.ids[i])}, args[3:]...)
			}
		}
		buf = wire.AppendCommand(buf, args...)
	}
	s.conns[conn].SetWriteDeadline(time.Now().Add(replyTimeout))
	if _, err := s.conns[conn].Write(buf); err != nil {
		return nil, false, err
	}
	own := 0
	for deadline := time.Now().Add(replyTimeout); own < len(commands); {
		select {
		case r := <-s.replies:
			got = append(got, r)
			if r.conn == conn {
				own++
			}
			continue
		case <-time.After(time.Millisecond):
		}
		now, err := s.blocked()
		switch {
		case err != nil:
			return nil, false, err
		case now == before+1:
			return got, true, nil
		case time.Now().After(deadline):
			return nil, false, fmt.Errorf("neither a reply came nor is it blocked: %q", commands)
		}
	}
	// What was served is no longer blocked once who served it has the reply.
	now, err := s.blocked()
	if err != nil {
		return nil, false, err
	}
	for others := len(got) - own; others < before-now; others++ {
		select {
		case r := <-s.replies:
			got = append(got, r)
		case <-time.After(replyTimeout):
			return nil, false, fmt.Errorf("%d were released and only %d have replies", before-now, others)
		}
	}
	return got, false, nil
}

// Run runs the steps from an empty keyspace, and compares who received what after each, and the keyspaces
// after every checkEvery steps and at the end. It stops at the first difference.
func (c *Crowd) Run(steps []Step, checkEvery int) (*Difference, error) {
	for _, s := range []*crowdSide{&c.oracle, &c.server} {
		if err := s.reset(c.conns); err != nil {
			return nil, err
		}
	}
	c.blocked, c.asked = make([]bool, c.conns), make([][]byte, c.conns)
	for i, s := range steps {
		if c.blocked[s.Conn] {
			continue
		}
		diff, err := c.step(s, i)
		if diff != nil || err != nil {
			return diff, err
		}
		if (i+1)%checkEvery == 0 || i+1 == len(steps) {
			if diff, err := c.compareDigests(s, i); diff != nil || err != nil {
				return diff, err
			}
		}
	}
	return nil, nil
}

func (c *Crowd) step(s Step, at int) (*Difference, error) {
	before := 0
	for _, b := range c.blocked {
		if b {
			before++
		}
	}
	commands := commandsOf(s.Args)
	if len(commands) == 0 {
		return nil, nil
	}
	want, wantBlocks, err := c.oracle.act(s.Conn, commands, before)
	if err != nil {
		return nil, fmt.Errorf("oracle: %w", err)
	}
	got, gotBlocks, err := c.server.act(s.Conn, commands, before)
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	wantText, gotText := crowdText(want, wantBlocks), crowdText(got, gotBlocks)
	if wantText != gotText {
		return &Difference{Index: at, Step: s, What: name(s.Args), Want: wantText, Got: gotText}, nil
	}
	if wantBlocks {
		c.blocked[s.Conn], c.asked[s.Conn] = true, commands[0][0]
		c.Blocks[name(commands[0])]++
	}
	for _, r := range want {
		if r.conn != s.Conn {
			c.blocked[r.conn] = false
			c.Served[strings.ToUpper(string(c.asked[r.conn]))]++
		}
	}
	return nil, nil
}

// crowdText is what came, in the order of the connections: between two there is none.
func crowdText(replies []crowdReply, blocks bool) string {
	sort.SliceStable(replies, func(i, j int) bool { return replies[i].conn < replies[j].conn })
	var b strings.Builder
	for _, r := range replies {
		fmt.Fprintf(&b, "C%d< %s\n", r.conn+1, r.text)
	}
	if blocks {
		b.WriteString("it is blocked\n")
	}
	return b.String()
}

func (c *Crowd) compareDigests(last Step, at int) (*Difference, error) {
	want, err := c.oracle.do("DEBUG", "DIGEST")
	if err != nil {
		return nil, err
	}
	got, err := c.server.do("DEBUG", "DIGEST")
	if err != nil || want.Equal(got) {
		return nil, err
	}
	return &Difference{Index: at, Step: last, What: "keyspace", Want: want.String(), Got: got.String()}, nil
}

// crowdGenerator makes the steps of a crowd. Every element has a name of its own.
type crowdGenerator struct {
	*Generator
	elems int
}

// eachWaits are steps in which each command that blocks does so and is served, what chance would only make likely.
func eachWaits(conns int) (steps []Step) {
	for _, one := range []struct{ waits, fills string }{
		{"BLPOP k0 0", "RPUSH k0 a"}, {"BRPOP k0 0", "RPUSH k0 a"}, {"BLMOVE k0 k1 LEFT LEFT 0", "RPUSH k0 a"}, {"BRPOPLPUSH k0 k1 0", "RPUSH k0 a"},
		{"BLMPOP 0 1 k0 LEFT", "RPUSH k0 a"}, {"BZPOPMIN k2 0", "ZADD k2 1 a"}, {"BZPOPMAX k2 0", "ZADD k2 1 a"}, {"BZMPOP 0 1 k2 MIN", "ZADD k2 1 a"},
		{"XREAD BLOCK 0 STREAMS k7 $", "XADD k7 1-1 f a"}, {"XREADGROUP GROUP g alice BLOCK 0 STREAMS k7 >", "XADD k7 1-2 f a"},
	} {
		if strings.HasPrefix(one.waits, "XREADGROUP") {
			steps = append(steps, Step{Conn: conns - 1, Args: cmd("XGROUP", "CREATE", "k7", "g", "$")})
		}
		steps = append(steps, Step{Args: cmd(strings.Fields(one.waits)...)}, Step{Conn: conns - 1, Args: cmd(strings.Fields(one.fills)...)})
	}
	return steps
}

// next gives the next step: on the first connections commands that block, on the last ones, the pushers,
// what may serve them.
func (g *crowdGenerator) next(conns, pushers int) Step {
	if g.p(65) {
		return Step{Conn: g.rng.IntN(conns - pushers), Args: g.waiting()}
	}
	s := Step{Conn: conns - 1 - g.rng.IntN(pushers)}
	if g.p(30) {
		var commands [][][]byte
		for range 1 + g.rng.IntN(5) {
			commands = append(commands, g.filling(true))
		}
		s.Args = transaction(commands...)
		return s
	}
	if g.p(8) {
		s.Args = cmd("CLIENT", "UNBLOCK", strconv.Itoa(g.rng.IntN(conns)), g.oneOf("TIMEOUT", "ERROR"))
		return s
	}
	s.Args = g.filling(false)
	return s
}

// crowdKey is one of few keys, in many shards.
func (g *crowdGenerator) crowdKey() string { return "k" + strconv.Itoa(g.rng.IntN(9)) }

// streamKey is one of those few where streams live longer.
func (g *crowdGenerator) streamKey() string { return g.oneOf("k7", "k8") }

func (g *crowdGenerator) crowdKeys() []string {
	keys := []string{g.crowdKey()}
	for g.p(40) {
		keys = append(keys, g.crowdKey())
	}
	return keys
}

func (g *crowdGenerator) anEnd() string { return g.oneOf("LEFT", "RIGHT") }

// waiting gives a command that blocks where there is nothing for it.
func (g *crowdGenerator) waiting() [][]byte {
	keys := g.crowdKeys()
	count := strconv.Itoa(len(keys))
	switch g.rng.IntN(16) {
	case 0, 1:
		return cmd(append(append([]string{"BLPOP"}, keys...), "0")...)
	case 2:
		return cmd(append(append([]string{"BRPOP"}, keys...), "0")...)
	case 3, 4:
		return cmd("BLMOVE", g.crowdKey(), g.crowdKey(), g.anEnd(), g.anEnd(), "0")
	case 5:
		return cmd("BRPOPLPUSH", g.crowdKey(), g.crowdKey(), "0")
	case 6:
		return cmd(append(append([]string{"BLMPOP", "0", count}, keys...), g.anEnd(), "COUNT", g.oneOf("1", "2", "3"))...)
	case 7, 8:
		return cmd(append(append([]string{g.oneOf("BZPOPMIN", "BZPOPMAX")}, keys...), "0")...)
	case 9:
		return cmd(append(append([]string{"BZMPOP", "0", count}, keys...), g.oneOf("MIN", "MAX"), "COUNT", g.oneOf("1", "2", "3"))...)
	case 10:
		return cmd("SELECT", g.oneOf("0", "0", "1"))
	case 11, 12:
		args := append(append([]string{"XREAD", "BLOCK", "0", "STREAMS"}, keys...), g.oneOf("$", "0", strconv.Itoa(g.elems)))
		for range len(keys) - 1 {
			args = append(args, "$")
		}
		return cmd(args...)
	case 13, 14:
		if keys = keys[:1]; g.p(80) {
			keys = []string{g.streamKey()}
		}
		args := append([]string{"XREADGROUP", "GROUP", "g", g.oneOf("alice", "bob"), "BLOCK", "0", "STREAMS"}, keys...)
		for range keys {
			args = append(args, ">")
		}
		return cmd(args...)
	}
	// Its time is over before it is looked at.
	return cmd(append(append([]string{g.oneOf("BLPOP", "BZPOPMIN")}, keys...), "x")...)
}

// filling gives a command that may serve those who wait, or stand in their way.
func (g *crowdGenerator) filling(inMulti bool) [][]byte {
	key := g.crowdKey()
	elem := func() string { g.elems++; return "e" + strconv.Itoa(g.elems) }
	switch g.rng.IntN(30) {
	case 0, 1, 2, 3, 4:
		args := []string{g.oneOf("LPUSH", "RPUSH"), key, elem()}
		for g.p(25) {
			args = append(args, elem())
		}
		return cmd(args...)
	case 5, 6, 7, 8:
		args := []string{"ZADD", key, strconv.Itoa(g.rng.IntN(9)), elem()}
		for g.p(25) {
			args = append(args, strconv.Itoa(g.rng.IntN(9)), elem())
		}
		return cmd(args...)
	case 9:
		return cmd("LMOVE", key, g.crowdKey(), g.anEnd(), g.anEnd())
	case 10:
		return cmd(g.oneOf("LPOP", "RPOP", "ZPOPMIN", "DEL", "UNLINK"), key)
	case 11:
		return cmd("RENAME", key, g.crowdKey())
	case 12:
		return cmd("COPY", key, g.crowdKey(), g.oneOf("DB", "DB"), g.oneOf("0", "1"), "REPLACE")
	case 13:
		return cmd("MOVE", key, g.oneOf("0", "1"))
	case 14:
		return cmd("SET", key, "text")
	case 15:
		return cmd("SADD", key, elem())
	case 16:
		return cmd("ZINCRBY", key, "1", elem())
	case 17:
		return cmd("SELECT", g.oneOf("0", "0", "1"))
	case 18:
		return cmd("LINSERT", key, "BEFORE", "e1", elem())
	case 19:
		return cmd(g.oneOf("FLUSHALL", "FLUSHDB", "PING"))
	case 22, 23, 24:
		return cmd("XADD", g.oneOf(key, g.streamKey()), strconv.Itoa(g.elems)+"-*", "f", elem())
	case 25, 28, 29:
		return cmd("XGROUP", "CREATE", g.oneOf(key, g.streamKey(), g.streamKey()), "g", g.oneOf("0", "$"), "MKSTREAM")
	case 26:
		return cmd("XGROUP", "DESTROY", g.streamKey(), "g")
	case 27:
		return cmd("XGROUP", "SETID", g.streamKey(), "g", "0")
	case 20:
		return cmd("DEL", key, g.crowdKey(), g.crowdKey())
	case 21:
		// In a transaction it does not block.
		if inMulti {
			return g.waiting()
		}
	}
	return cmd("RPUSHX", key, elem())
}
