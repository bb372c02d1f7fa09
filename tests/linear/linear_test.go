package linear

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"kevy/tests/inprocess"
)

// undecided is how long porcupine may look for the order of one group's history.
const undecided = 2 * time.Minute

// linearizable looks for an order of the history of one group.
func linearizable(history []timed) porcupine.CheckResult {
	model := porcupine.Model{
		Init: func() any { return state{} },
		Step: func(s, in, out any) (bool, any) {
			after := s.(state)
			ok := after.perform(in.(operation), out.(string))
			return ok, after
		},
	}
	ops := make([]porcupine.Operation, len(history))
	for i, t := range history {
		ops[i] = porcupine.Operation{ClientId: t.client, Input: t.operation, Output: t.reply, Call: int64(t.called), Return: int64(t.returned)}
	}
	return porcupine.CheckOperationsTimeout(model, ops, undecided)
}

func number(t *testing.T, name string, def uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return def
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// play lets clients act in random groups at the same time, each so often, and returns the histories of
// the groups. With whole there is one group, and whole databases are swapped and emptied.
func play(t *testing.T, addr string, seed uint64, firstGroup, groups, clients, acts int, whole bool) map[int][]timed {
	t.Helper()
	start := time.Now()
	all := make([]*client, clients)
	for i := range all {
		c, err := connect(addr, i, seed, start)
		if err != nil {
			t.Fatal(err)
		}
		defer c.conn.Close()
		all[i] = c
	}
	var wg sync.WaitGroup
	for _, c := range all {
		wg.Go(func() {
			for range acts {
				if err := c.act(firstGroup+c.rng.IntN(groups), whole); err != nil {
					t.Errorf("client %d: %v", c.id, err)
					return
				}
			}
		})
	}
	wg.Wait()
	histories := map[int][]timed{}
	for _, c := range all {
		for _, h := range c.history {
			histories[h.group] = append(histories[h.group], h)
		}
	}
	return histories
}

// TestLinearizable lets clients run commands of several keys, transactions with WATCH, scripts and blocking
// pops beside each other, KEVY_LINEAR_ROUNDS times from KEVY_SEED.
func TestLinearizable(t *testing.T) {
	seed := number(t, "KEVY_SEED", uint64(time.Now().UnixNano()>>10))
	rounds := number(t, "KEVY_LINEAR_ROUNDS", 8)
	t.Logf("KEVY_SEED=%d KEVY_LINEAR_ROUNDS=%d", seed, rounds)
	for _, shards := range []string{"1", "16"} {
		t.Run(shards+" shards", func(t *testing.T) {
			s := inprocess.Start(t, "--shards", shards)
			const groups, clients, acts = 4, 8, 80
			seen := map[string]int{}
			for round := range rounds {
				// Every fourth round there is one group, alone on the server, and databases change as a whole.
				whole := round%4 == 3
				n, a := groups, acts
				if whole {
					n, a = 1, acts/4
					inprocess.Do(t, s.Conn(), "FLUSHALL")
				}
				histories := play(t, s.Addr(), seed+round, int(round)*groups, n, clients, a, whole)
				for group, h := range histories {
					switch linearizable(h) {
					case porcupine.Illegal:
						t.Fatalf("KEVY_SEED=%d: round %d: no order explains what was answered in group %d:\n%s", seed, round, group, show(h))
					case porcupine.Unknown:
						t.Fatalf("KEVY_SEED=%d: round %d: no order of the %d operations of group %d was found within %v, nor that there is none", seed, round, len(h), group, undecided)
					}
					count(seen, h)
				}
				if t.Failed() {
					return
				}
			}
			t.Logf("answered: %v", seen)
			for _, must := range []string{"EXEC", "EXEC refused", "BLPOP", "BLPOP empty", "BLMOVE", "MSET", "RENAME", "SMOVE", "LMOVE", "swap", "drain", "survey", "SWAPDB", "FLUSHDB"} {
				if rounds >= 4 && seen[must] == 0 {
					t.Errorf("%s was never answered", must)
				}
			}
		})
	}
}

// count counts what was answered.
func count(seen map[string]int, history []timed) {
	for _, h := range history {
		name := h.commands[0].name
		if h.transaction {
			name = "EXEC"
			if h.reply == "_nil" {
				name = "EXEC refused"
			}
		} else if name == "BLPOP" && h.reply == "_nil" {
			name = "BLPOP empty"
		}
		seen[name]++
	}
}

func show(history []timed) string {
	var b strings.Builder
	for _, h := range history {
		b.WriteString(h.String() + "\n")
	}
	return b.String()
}

// TestFindsAlteredReply changes one reply of a real history: there must be no order then.
func TestFindsAlteredReply(t *testing.T) {
	seed := number(t, "KEVY_SEED", uint64(time.Now().UnixNano()>>10))
	t.Logf("KEVY_SEED=%d", seed)
	s := inprocess.Start(t, "--shards", "16")
	history := play(t, s.Addr(), seed, 0, 1, 4, 100, false)[0]
	if got := linearizable(history); got != porcupine.Ok {
		t.Fatalf("as it was: %v", got)
	}
	altered := 0
	for i, h := range history {
		if h.transaction || h.commands[0].name != "INCR" && h.commands[0].name != "MGET" && h.commands[0].name != "EXISTS" {
			continue
		}
		was := h.reply
		history[i].reply = ":77"
		if got := linearizable(history); got != porcupine.Illegal {
			t.Fatalf("%v with an altered reply:\n%s", got, show(history[i:i+1]))
		}
		history[i].reply = was
		if altered++; altered == 3 {
			break
		}
	}
	if altered == 0 {
		t.Error("there was no reply to alter")
	}
}

// TestFindsWhatIsNotAtomic plays a server that swaps two keys in four steps, while somebody writes one
// of them: a history that only one order of steps, and none of commands, explains.
func TestFindsWhatIsNotAtomic(t *testing.T) {
	s := inprocess.Start(t, "--shards", "16")
	start := time.Now()
	var c [2]*client
	for i := range c {
		var err error
		if c[i], err = connect(s.Addr(), i, 1, start); err != nil {
			t.Fatal(err)
		}
		defer c[i].conn.Close()
	}
	do := func(on *client, name string, keys []int, args ...string) {
		t.Helper()
		if _, err := on.one(0, name, keys, args...); err != nil {
			t.Fatal(err)
		}
	}
	swap := operation{client: 0, commands: []command{{"swap", []int{keyA, keyB}, nil}}}
	do(c[1], "MSET", []int{keyA, keyB}, "old", "other")
	called := time.Since(start)
	do(c[0], "GET", []int{keyA})
	do(c[0], "GET", []int{keyB})
	do(c[1], "SET", []int{keyA}, "new")
	do(c[1], "GET", []int{keyA})
	do(c[0], "SET", []int{keyA}, "other")
	do(c[0], "SET", []int{keyB}, "old")
	returned := time.Since(start)
	do(c[1], "MGET", []int{keyA, keyB})
	torn := append([]timed{{swap, `["old", "other"]`, called, returned}}, c[1].history...)
	if got := linearizable(torn); got != porcupine.Illegal {
		t.Errorf("%v: a write is lost, and an order was found:\n%s", got, show(torn))
	}

	// The script itself loses nothing.
	c[1].history = nil
	do(c[1], "FLUSHDB", nil)
	do(c[1], "MSET", []int{keyA, keyB}, "old", "other")
	done := make(chan error, 1)
	c[0].history = nil
	go func() { _, err := c[0].do(swap); done <- err }()
	do(c[1], "SET", []int{keyA}, "new")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	do(c[1], "MGET", []int{keyA, keyB})
	if whole := append(c[0].history, c[1].history...); linearizable(whole) != porcupine.Ok {
		t.Errorf("no order was found:\n%s", show(whole))
	}
}

// TestFindsMissedChange plays a server whose EXEC does not see that a watched key has changed.
func TestFindsMissedChange(t *testing.T) {
	at := time.Duration(0)
	next := func(client int, reply string, transaction bool, commands ...command) timed {
		at += 2
		return timed{operation{client: client, transaction: transaction, commands: commands}, reply, at, at + 1}
	}
	watch := next(0, "+OK", false, command{"WATCH", []int{keyA}, nil})
	set := next(1, "+OK", false, command{"SET", []int{keyA}, []string{"v"}})
	for reply, want := range map[string]porcupine.CheckResult{"_nil": porcupine.Ok, "[:1]": porcupine.Illegal} {
		exec := next(0, reply, true, command{"INCR", []int{keyN}, nil})
		if got := linearizable([]timed{watch, set, exec}); got != want {
			t.Errorf("EXEC that answers %s: %v", reply, got)
		}
	}
}
