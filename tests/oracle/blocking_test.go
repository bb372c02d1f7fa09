package oracle

import (
	"strings"
	"testing"
	"time"

	"kevy/tests/process"
)

// commandsPerBlocking is how many commands of TestRandomCommands there are for a step of TestRandomBlocking,
// which takes as much longer.
const commandsPerBlocking = 50

// TestRandomBlocking runs steps of many connections from KEVY_SEED on both servers: who blocks, who is served,
// with what.
func TestRandomBlocking(t *testing.T) {
	def := uint64(4_000)
	if testing.Short() {
		def = 1_000
	}
	total := number(t, "KEVY_ORACLE_COMMANDS", def*commandsPerBlocking) / commandsPerBlocking
	seed := number(t, "KEVY_SEED", uint64(time.Now().UnixNano()>>10))
	t.Logf("KEVY_SEED=%d KEVY_ORACLE_COMMANDS=%d", seed, total*commandsPerBlocking)
	oracle := process.Start(t, process.Oracle(t), process.Config{Args: oracleArgs})
	server := process.Start(t, process.Subject(t), process.Config{Args: serverArgs})
	const crowd, pushers, roundSteps = 14, 3, 250
	c := NewCrowd(oracle.Dial, server.Dial, crowd)
	defer c.Close()
	for done := uint64(0); done < total; seed++ {
		g := crowdGenerator{Generator: NewGenerator(seed, time.Now().UnixMilli(), Options{Conns: crowd})}
		steps := make([]Step, min(roundSteps, total-done))
		for i := copy(steps, eachWaits(crowd)); i < len(steps); i++ {
			steps[i] = g.next(crowd, pushers)
		}
		done += uint64(len(steps))
		diff, err := c.Run(steps, 50)
		if err != nil {
			t.Fatalf("KEVY_SEED=%d: %v", seed, err)
		}
		if diff == nil {
			continue
		}
		short, last := shrink(steps, diff, 60*time.Second, c.Run)
		var b strings.Builder
		for _, s := range short {
			b.WriteString(s.String() + "\n")
		}
		t.Fatalf("KEVY_SEED=%d KEVY_ORACLE_COMMANDS=%d: the servers differ (%s) after\n%s  oracle: %s\n  server: %s",
			seed, roundSteps*commandsPerBlocking, last.What, b.String(), clip(last.Want), clip(last.Got))
	}
	t.Logf("blocked: %v, of them served or released: %v", c.Blocks, c.Served)
	for _, name := range []string{"BLPOP", "BRPOP", "BLMOVE", "BRPOPLPUSH", "BLMPOP", "BZPOPMIN", "BZPOPMAX", "BZMPOP", "XREAD", "XREADGROUP"} {
		if rounds := int(total / roundSteps); c.Blocks[name] < rounds || c.Served[name] < rounds {
			t.Errorf("%s blocked %d times and was served %d times", name, c.Blocks[name], c.Served[name])
		}
	}
}
