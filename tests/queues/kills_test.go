package queues

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"kevy/tests/process"
)

// killCycles is the variable that says how often a server is killed; `make queues`
// sets it.
const killCycles = "KEVY_QUEUE_KILLS"

const (
	// reportPatience is how long a program may take for the jobs that are left; a
	// lease of asynq's lasts 30 s, and it looks for those that are over once a minute.
	reportPatience = 4 * time.Minute
	// maxJobsBetweenKills is how many jobs are handled at most before the next kill.
	maxJobsBetweenKills = 60
	// down is how long a server is left dead. It is longer than a handler runs, and
	// than the times that it takes to start, so that as many handlers end meanwhile
	// with either server.
	down = 300 * time.Millisecond
	// chance is the part of the jobs at stake by which the number of those that are
	// handled again may differ between two runs.
	chance = 0.15
	// maxKillDelay is how much later the kill comes than the job that it waits for.
	maxKillDelay = 30 * time.Millisecond
)

// report is what a program says at its end.
type report struct {
	// Jobs were added, Lost of them are nowhere.
	Jobs, Lost, Completed int
	// Left are those that a worker was given whose server ended before it was told:
	// they wait until the time of a lock or lease is over.
	Left int
	// Recorded is how often the queue itself has counted a completion.
	Recorded int
	// Again is how often a handler ran that had run already, retries that the job
	// asked for apart.
	Again int
}

// TestKills ends the server with SIGKILL again and again while jobs are added and
// handled, with appendfsync always. No job may be lost, none completed twice, and
// handlers may not run again more often than with redis-server, which is killed
// after as many jobs. The programs wait for every job at the end; where nothing
// asks for a number of kills, not for those that are left.
func TestKills(t *testing.T) {
	cycles, stop := 1, "stop early"
	if text := os.Getenv(killCycles); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("%s: %q is no number of kills", killCycles, text)
		}
		cycles, stop = n, "stop"
	}
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("KEVY_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("KEVY_SEED: %v", err)
		}
		seed = n
	}
	t.Logf("KEVY_SEED=%d", seed)
	for _, q := range queues {
		if q.flowOnly {
			continue
		}
		t.Run(q.name, func(t *testing.T) {
			t.Parallel()
			command := q.command(t)
			var ours, theirs report
			both := t.Run("kevy-server", func(t *testing.T) { ours = survives(t, command, process.Subject(t), cycles, seed, stop) }) &&
				t.Run("redis-server", func(t *testing.T) { theirs = survives(t, command, process.Oracle(t), cycles, seed, stop) })
			if !both || theirs.Jobs == 0 {
				return
			}
			t.Logf("%d kills: kevy-server %+v, redis-server %+v", cycles, ours, theirs)
			if margin := int(chance * float64(cycles*q.atStake)); ours.Again > theirs.Again+margin {
				t.Errorf("handlers ran again %d times, with redis-server %d times", ours.Again, theirs.Again)
			}
		})
	}
}

// survives runs a program through so many kills.
func survives(t *testing.T, command []string, binary process.Binary, cycles int, seed uint64, stop string) report {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 0))
	config := process.Config{Dir: t.TempDir(), Args: []string{"--appendfsync", "always"}}
	port, err := process.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	launch := func() *process.Server {
		t.Helper()
		s, err := process.LaunchOn(binary, config, port)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.WaitReady(60 * time.Second); err != nil {
			s.Kill()
			t.Fatalf("%v\n%s", err, s.Log())
		}
		return s
	}
	s := launch()
	defer func() { s.Kill() }()
	p := start(t, command, "kills", port)
	done := 0
	handled := func(n int) {
		t.Helper()
		for done < n {
			line, ok := p.next(t, stepPatience)
			if !ok {
				t.Fatal("the program ended")
			}
			text, is := strings.CutPrefix(line, "done ")
			if done, err = strconv.Atoi(text); err != nil || !is {
				t.Fatalf("it prints %q", line)
			}
		}
	}
	for range cycles {
		handled(done + 1 + rnd.IntN(maxJobsBetweenKills))
		time.Sleep(time.Duration(rnd.Int64N(int64(maxKillDelay))))
		s.Kill()
		time.Sleep(down)
		s = launch()
	}
	handled(done + 1)
	if _, err := p.in.Write([]byte(stop + "\n")); err != nil {
		t.Fatal(err)
	}
	for {
		line, ok := p.next(t, reportPatience)
		if !ok {
			t.Fatal("it ends without a report")
		}
		text, is := strings.CutPrefix(line, "report ")
		if !is {
			if !strings.HasPrefix(line, "done ") {
				t.Error(line)
			}
			continue
		}
		var r report
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if r.Jobs < cycles || r.Lost != 0 || r.Completed+r.Left != r.Jobs || r.Recorded != r.Completed || r.Left > 0 && stop == "stop" {
			fail := t.Errorf
			if binary.Redis {
				fail = t.Logf // it is not what is tried here
			}
			fail("%+v", r)
		}
		return r
	}
}
