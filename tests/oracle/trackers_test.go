package oracle

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"kevy/tests/process"
	"kevy/tests/wire"
)

// trackers are connections that track keys, on one of the servers, and one that some of them redirect to.
type trackers struct {
	conns   []*wire.Conn
	inbox   *wire.Conn
	inboxID string
	keeper  *wire.Conn // always tracks something, so that nothing is forgotten
}

const trackingConns = 3

func newTrackers(t *testing.T, s *process.Server) *trackers {
	t.Helper()
	dial := func(first ...[]string) *wire.Conn {
		raw, err := s.Dial()
		if err != nil {
			t.Fatal(err)
		}
		c := wire.NewConn(raw)
		t.Cleanup(func() { _ = c.Close() })
		for _, args := range first {
			if r, err := c.Do(args...); err != nil || r.IsError("") {
				t.Fatalf("%s: %s, %v", args, r, err)
			}
		}
		return c
	}
	for range 30 { // so that its number is none that a command answers
		_ = dial().Close()
	}
	w := &trackers{inbox: dial(), keeper: dial([]string{"CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "nothing"})}
	id, err := w.inbox.Do("CLIENT", "ID")
	if err != nil {
		t.Fatal(err)
	}
	w.inboxID = string(id.Text)
	if _, err := w.inbox.Do("SUBSCRIBE", "__redis__:invalidate"); err != nil {
		t.Fatal(err)
	}
	for range trackingConns {
		w.conns = append(w.conns, dial([]string{"HELLO", "3"}))
	}
	return w
}

// show writes a reply with what the servers have each their own of replaced.
func (w *trackers) show(r wire.Reply) string {
	text := strings.NewReplacer("$nil", "_nil", " :"+w.inboxID, " :inbox").Replace(" " + r.String())
	if strings.Contains(text, `"proto"`) {
		return "HELLO"
	}
	return text
}

// run sends a command and returns what comes for it and, until all is said, to the others.
func (w *trackers) run(conn int, args []string) (out []string, err error) {
	args = slices.Clone(args)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "INBOX", w.inboxID)
	}
	told := func(c *wire.Conn) (r wire.Reply, pushes []string, err error) {
		_ = c.SetDeadline(time.Now().Add(replyTimeout))
		for {
			if r, err = c.ReadReply(); err != nil || r.Kind != wire.Push && (c != w.inbox || string(r.Elems[0].Text) != "message") {
				slices.Sort(pushes)
				return r, slices.Compact(pushes), err
			}
			pushes = append(pushes, w.show(r))
		}
	}
	if err := w.conns[conn].Send(args...); err != nil {
		return nil, err
	}
	r, pushes, err := told(w.conns[conn])
	if err != nil {
		return nil, err
	}
	out = append(out, fmt.Sprintf("%s %s", pushes, w.show(r)))
	for i, c := range append(slices.Clone(w.conns), w.inbox) {
		fence := []string{"CLIENT", "GETNAME"} // behind which CLIENT CACHING still holds
		if c == w.inbox {
			fence = []string{"PING"}
		}
		if err := c.Send(fence...); err != nil {
			return nil, err
		}
		r, pushes, err := told(c)
		if err != nil {
			return nil, err
		}
		out = append(out, fmt.Sprintf("%d: %s %s", i, pushes, w.show(r)))
	}
	return out, nil
}

// trackingStep makes a command about tracking, or one that reads or writes a few keys.
func trackingStep(rng *rand.Rand) []string {
	key := func() string { return string("ab"[rng.IntN(2)]) + ":" + string("12"[rng.IntN(2)]) }
	of := func(lines ...string) []string { return strings.Fields(lines[rng.IntN(len(lines))]) }
	switch n := rng.IntN(100); {
	case n < 12:
		return of("CLIENT TRACKING ON", "CLIENT TRACKING ON NOLOOP", "CLIENT TRACKING ON OPTIN", "CLIENT TRACKING ON OPTOUT NOLOOP", "CLIENT TRACKING ON BCAST",
			"CLIENT TRACKING ON BCAST NOLOOP PREFIX a:", "CLIENT TRACKING ON BCAST PREFIX b: PREFIX a:1", "CLIENT TRACKING ON REDIRECT INBOX",
			"CLIENT TRACKING ON REDIRECT INBOX OPTIN NOLOOP", "CLIENT TRACKING ON REDIRECT INBOX BCAST", "CLIENT TRACKING ON REDIRECT 0", "CLIENT TRACKING ON OPTIN OPTOUT",
			"CLIENT TRACKING ON PREFIX a", "CLIENT TRACKING ON BCAST OPTIN", "CLIENT TRACKING ON BCAST PREFIX a PREFIX a:1", "CLIENT TRACKING maybe")
	case n < 17:
		return []string{"CLIENT", "TRACKING", "OFF"}
	case n < 24:
		return of("CLIENT CACHING YES", "CLIENT CACHING NO", "CLIENT CACHING maybe")
	case n < 28:
		return of("CLIENT TRACKINGINFO", "CLIENT GETREDIR")
	case n < 30:
		return of("HELLO 2", "HELLO 3", "HELLO 3", "RESET", "NOSUCH", "GET")
	case n < 33:
		return []string{"MULTI"}
	case n < 44:
		return []string{"EXEC"}
	case n < 45:
		return []string{"DISCARD"}
	case n < 48:
		return of("FLUSHDB", "FLUSHALL", "SWAPDB 0 1", "SELECT 1", "SELECT 0")
	case n < 52:
		return []string{"EVAL", "redis.call('SET', KEYS[1], 1) return redis.call('GET', KEYS[2])", "2", key(), key()}
	case n < 54:
		return []string{"EVAL_RO", "return redis.call('GET', 'a:1')", "1", key()}
	case n < 70:
		return []string{"GET", key()}
	case n < 76:
		return []string{"MGET", key(), key(), key()}
	case n < 79:
		return []string{"TTL", key()}
	case n < 90:
		return []string{"SET", key(), "v"}
	case n < 93:
		return []string{"MSET", key(), "v", key(), "v"}
	case n < 96:
		return []string{"DEL", key(), key()}
	case n < 98:
		return []string{"EXPIRE", key(), "1000"}
	}
	return []string{"RENAME", key(), key()}
}

// TestTrackers runs random commands of connections that track keys in all ways on redis-server and on the server, and
// holds replies and what each connection is told to one another.
func TestTrackers(t *testing.T) {
	const stepsPerRound = 300
	steps := number(t, "KEVY_ORACLE_COMMANDS", 3000)
	seed := number(t, "KEVY_SEED", uint64(time.Now().UnixNano()>>10))
	t.Logf("KEVY_SEED=%d KEVY_ORACLE_COMMANDS=%d", seed, steps)
	rng := rand.New(rand.NewPCG(seed, 0))
	oracle := process.Start(t, process.Oracle(t), process.Config{Args: oracleArgs})
	server := process.Start(t, process.Subject(t), process.Config{Args: serverArgs})
	told := 0
	for done := uint64(0); done < steps; done += stepsPerRound {
		want, got := newTrackers(t, oracle), newTrackers(t, server)
		for _, w := range []*trackers{want, got} {
			if r, err := w.keeper.Do("FLUSHALL"); err != nil || r.IsError("") {
				t.Fatalf("%s, %v", r, err)
			}
		}
		var script []string
		inMulti, noLoop := make([]bool, trackingConns), make([]bool, trackingConns)
		for range stepsPerRound {
			conn, args := rng.IntN(trackingConns), trackingStep(rng)
			// What is told of a transaction is decided at its end. With BCAST and NOLOOP redis-server tells a connection
			// of what its script has changed.
			for inMulti[conn] && (args[0] == "HELLO" || len(args) > 1 && args[1] == "TRACKING") || noLoop[conn] && args[0] == "EVAL" {
				args = trackingStep(rng)
			}
			script = append(script, fmt.Sprintf("C%d> %s", conn+1, strings.Join(args, " ")))
			w, err := want.run(conn, args)
			if err != nil {
				t.Fatalf("the oracle: %v", err)
			}
			g, err := got.run(conn, args)
			if err != nil {
				t.Fatalf("the server: %v behind %s", err, script)
			}
			for i := range w {
				if w[i] != g[i] {
					t.Errorf("they differ after\n%s\noracle: %s\nserver: %s", strings.Join(script[max(0, len(script)-60):], "\n"), w[i], g[i])
				}
			}
			if t.Failed() {
				return
			}
			switch args[0] {
			case "MULTI":
				inMulti[conn] = true
			case "EXEC", "DISCARD", "RESET":
				inMulti[conn] = false
			}
			if text := strings.Join(args, " "); strings.Contains(text, "BCAST NOLOOP") {
				noLoop[conn] = true
			} else if text == "CLIENT TRACKING OFF" || text == "RESET" {
				noLoop[conn] = false
			}
			told += strings.Count(strings.Join(w, " "), "invalidate")
		}
		for _, w := range []*trackers{want, got} {
			for _, c := range append(w.conns, w.inbox, w.keeper) {
				_ = c.Close()
			}
		}
	}
	t.Logf("%d were told", told)
	if uint64(told) < steps/20 {
		t.Error("that is too little to show anything")
	}
}
