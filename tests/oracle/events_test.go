package oracle

import (
	"os"
	"strings"
	"testing"
	"time"

	"kevy/tests/process"
)

// TestKeyspaceEvents runs KEVY_ORACLE_COMMANDS commands from KEVY_SEED on redis-server and on the server, and holds
// what both publish of each to one another, in order.
func TestKeyspaceEvents(t *testing.T) { runEvents(t, &Events{Classes: "KEAn"}, nil) }

// TestTracking is TestKeyspaceEvents with the keys that clients must forget the values of.
func TestTracking(t *testing.T) { runEvents(t, &Events{Invalidations: true}, nil) }

// TestKeyMisses is TestKeyspaceEvents with keys that are asked for and missing, without the commands around which a
// Pair asks one of the servers for keys.
func TestKeyMisses(t *testing.T) {
	cat := newCatalog(false)
	var names []string
	for _, n := range Names(false) {
		if cat.specials[n].run == nil {
			names = append(names, n)
		}
	}
	runEvents(t, &Events{Classes: "EAnm"}, names)
}

func runEvents(t *testing.T, events *Events, names []string) {
	def := uint64(24_000)
	if testing.Short() {
		def = 8_000
	}
	total := number(t, "KEVY_ORACLE_COMMANDS", def)
	seed := number(t, "KEVY_SEED", uint64(time.Now().UnixNano()>>10))
	t.Logf("KEVY_SEED=%d KEVY_ORACLE_COMMANDS=%d", seed, total)
	oracle := process.Start(t, process.Oracle(t), process.Config{Args: oracleArgs})
	server := process.Start(t, process.Subject(t), process.Config{Args: serverArgs})
	pair := newPair(t, oracle.Dial, server.Dial)
	pair.Events = events
	opt := Options{Conns: conns, Names: names}
	if list := os.Getenv("KEVY_ORACLE_NAMES"); list != "" {
		opt.Names = strings.Split(list, ",")
	}
	runRounds(t, pair, seed, total, opt)
	t.Logf("%d events compared", pair.Events.Compared)
	least := total / 5
	if events.Invalidations {
		least = total / 10 // one a change, where there are two events
	}
	if len(opt.Names) == len(names) && uint64(pair.Events.Compared) < least {
		t.Errorf("%d commands made only %d events", total, pair.Events.Compared)
	}
}
