package oracle

import (
	"strings"
	"testing"
	"time"

	"kevy/tests/process"
)

func TestZZSets(t *testing.T) {
	names := []string{"DEL", "PEXPIRE", "OBJECT ENCODING", "RENAME", "COPY", "TYPE", "SET"}
	for _, ms := range [][]maker{setMakers, zsetMakers} {
		for _, m := range ms {
			names = append(names, m.name)
		}
	}
	total := number(t, "KEVY_ORACLE_COMMANDS", 100000)
	seed := number(t, "KEVY_SEED", uint64(time.Now().UnixNano()>>10))
	oracle := process.Start(t, process.Oracle(t), process.Config{Args: []string{"--appendonly", "no"}})
	server := process.Start(t, process.Subject(t), process.Config{})
	pair, err := NewPair(oracle.Dial, server.Dial, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer pair.Close()
	reported := map[string]bool{}
	for done, round := uint64(0), uint64(0); done < total && len(reported) < 12; round++ {
		g := NewGenerator(seed+round, time.Now().UnixMilli(), Options{Conns: 4, Names: names})
		steps := make([]Step, roundSteps)
		for i := range steps {
			steps[i] = g.Next()
			up := strings.ToUpper(string(steps[i].Args[0]))
			if strings.IndexByte(up, 0) >= 0 || strings.HasPrefix(up, "OBJECT") && (len(steps[i].Args) < 2 || strings.IndexByte(string(steps[i].Args[1]), 0) >= 0) || (up == "ZRANK" || up == "ZREVRANK") && len(steps[i].Args) > 3 {
				steps[i].Args = cmd("PING")
			}
		}
		done += uint64(len(steps))
		diff, err := pair.Run(steps, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if diff == nil || reported[diff.What] {
			continue
		}
		reported[diff.What] = true
		short, last := pair.Shrink(steps, diff, 40*time.Second)
		var b strings.Builder
		for _, s := range short {
			b.WriteString(s.String() + "\n")
		}
		t.Errorf("KEVY_SEED=%d the servers differ (%s) after\n%s  oracle: %s\n  server: %s", seed+round, last.What, b.String(), clip(last.Want), clip(last.Got))
	}
	t.Log(pair.Calls)
	t.Log(pair.Errors)
}
