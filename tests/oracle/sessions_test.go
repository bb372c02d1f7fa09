package oracle

import (
	"strings"
	"testing"
	"time"

	"kevy/tests/process"
)

// commandsPerSession is how many commands of TestRandomCommands there are for a step of TestRandomSessions, which takes as
// much longer.
const commandsPerSession = 10

// TestRandomSessions runs steps of several connections from KEVY_SEED on both servers: what each is told, of replies and
// of messages, and in which order.
func TestRandomSessions(t *testing.T) {
	def := uint64(8_000)
	if testing.Short() {
		def = 2_000
	}
	total := number(t, "KEVY_ORACLE_COMMANDS", def*commandsPerSession) / commandsPerSession
	seed := number(t, "KEVY_SEED", uint64(time.Now().UnixNano()>>10))
	t.Logf("KEVY_SEED=%d KEVY_ORACLE_COMMANDS=%d", seed, total*commandsPerSession)
	oracle := process.Start(t, process.Oracle(t), process.Config{Args: oracleArgs})
	server := process.Start(t, process.Subject(t), process.Config{Args: serverArgs})
	const crowd, roundSteps = 8, 500
	p := NewSessions(oracle.Dial, server.Dial, crowd)
	defer p.Close()
	for done := uint64(0); done < total; seed++ {
		g := sessionGenerator{Generator: NewGenerator(seed, time.Now().UnixMilli(), Options{Conns: crowd}), multi: make([]bool, crowd)}
		steps := make([]Step, min(roundSteps, total-done))
		for i := range steps {
			steps[i] = g.next()
		}
		done += uint64(len(steps))
		diff, err := p.Run(steps, 50)
		if err != nil {
			t.Fatalf("KEVY_SEED=%d: %v", seed, err)
		}
		if diff == nil {
			continue
		}
		short, last := shrink(steps, diff, 60*time.Second, p.Run)
		var b strings.Builder
		for _, s := range short {
			b.WriteString(s.String() + "\n")
		}
		t.Fatalf("KEVY_SEED=%d KEVY_ORACLE_COMMANDS=%d: the servers differ (%s) after\n%s  oracle: %s\n  server: %s",
			seed, roundSteps*commandsPerSession, last.What, b.String(), clip(last.Want), clip(last.Got))
	}
	// 8,000 steps have about 3,000 messages, 110 waits, 85 of which end, 33 refused transactions and 17 ended connections.
	if least := int(total / 2_000); total >= 8_000 && (p.Messages < 100*least || p.Blocks < 5*least || p.Served < 3*least || p.Refused < least || p.Ended == 0) {
		t.Error("too little happened in", total, "steps")
	}
	t.Logf("%d messages, %d blocked and %d of them served or released, %d transactions refused, %d connections ended",
		p.Messages, p.Blocks, p.Served, p.Refused, p.Ended)
}
