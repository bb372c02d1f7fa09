package queues

import (
	"os"
	"strings"
	"testing"
	"time"

	"kevy/tests/process"
)

// stepPatience is more than a program waits before it fails by itself.
const stepPatience = 120 * time.Second

// TestFlow goes through what each queue offers: what is quick in the short flow, and
// with redis-server, too, where all is run, which shows that the programs ask for what is so.
func TestFlow(t *testing.T) {
	for _, q := range queues {
		t.Run(q.name, func(t *testing.T) {
			t.Parallel()
			command := q.command(t)
			if os.Getenv(killCycles) == "" {
				goesThrough(t, q, command, "short", process.Subject(t))
				return
			}
			t.Run("kevy-server", func(t *testing.T) { goesThrough(t, q, command, "flow", process.Subject(t)) })
			t.Run("redis-server", func(t *testing.T) { goesThrough(t, q, command, "flow", process.Oracle(t)) })
		})
	}
}

func goesThrough(t *testing.T, q queue, command []string, mode string, server process.Binary) {
	s := process.Start(t, server, process.Config{})
	p := start(t, command, mode, s.Port)
	n := 0
	for {
		line, ok := p.next(t, stepPatience)
		if !ok {
			break
		}
		if !strings.HasPrefix(line, "ok ") {
			t.Errorf("%s", line)
			continue
		}
		n++
	}
	if n < q.steps {
		t.Errorf("%d steps went well, of at least %d", n, q.steps)
	}
}
