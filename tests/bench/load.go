package main

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"kevy/tests/process"
	"kevy/tests/wire"
)

const (
	startLimit = 30 * time.Second
	stopLimit  = 60 * time.Second
	// keySpace is how many different keys a load of speed uses.
	keySpace = 1_000_000
	// ticksPerSecond is the unit of CPU times in /proc, the same on every Linux.
	ticksPerSecond = 100
)

// withServer runs f on a fresh server that is closed afterwards.
func withServer(b process.Binary, args []string, f func(*process.Server) error) (err error) {
	dir, err := os.MkdirTemp("", "kevy-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s, err := process.Launch(b, process.Config{Dir: dir, Args: args})
	if err != nil {
		return err
	}
	defer s.Kill()
	if err := s.WaitReady(startLimit); err != nil {
		return fmt.Errorf("%s: %w\n%s", b.Path, err, s.Log())
	}
	if err := f(s); err != nil {
		return err
	}
	return s.Close(stopLimit)
}

// load is a number of commands that redis-benchmark sends.
type load struct {
	command  string // one of redis-benchmark's own, unless args says what is sent
	pipeline int
	commands int
	args     []string   // with __rand_int__ where a number below keySpace belongs
	prepare  [][]string // sent before the measurement
}

// name is the load in the table.
func (l load) name() string { return fmt.Sprintf("%s, pipeline %d", l.command, l.pipeline) }

type measurement struct{ commandsPerSecond, cpuMicros float64 }

// run sends the load and takes the server's CPU time for it.
func (l load) run(s *process.Server) (measurement, error) {
	if err := send(s, l.prepare); err != nil {
		return measurement{}, err
	}
	before, err := cpuSeconds(s.PID())
	if err != nil {
		return measurement{}, err
	}
	args := []string{"-h", "127.0.0.1", "-p", strconv.Itoa(s.Port), "--csv", "-n", strconv.Itoa(l.commands),
		"-P", strconv.Itoa(l.pipeline), "-r", strconv.Itoa(keySpace), "-d", "64", "-c", "50"}
	title := l.command
	if l.args == nil {
		args = append(args, "-t", strings.ToLower(l.command))
	} else {
		args = append(args, l.args...)
		title = strings.Join(l.args, " ")
	}
	cmd := exec.Command("redis-benchmark", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return measurement{}, fmt.Errorf("redis-benchmark: %w\n%s", err, stderr.Bytes())
	}
	after, err := cpuSeconds(s.PID())
	if err != nil {
		return measurement{}, err
	}
	rate, err := parseRate(out, title)
	return measurement{rate, (after - before) * 1e6 / float64(l.commands)}, err
}

// send sends commands, none of which may fail.
func send(s *process.Server, commands [][]string) error {
	if len(commands) == 0 {
		return nil
	}
	nc, err := s.Dial()
	if err != nil {
		return err
	}
	conn := wire.NewConn(nc)
	defer conn.Close()
	replies, err := conn.Pipeline(commands...)
	if err != nil {
		return err
	}
	for i, r := range replies {
		if r.Kind == wire.Error {
			return fmt.Errorf("%s answers %v", commands[i][0], r)
		}
	}
	return nil
}

// parseRate finds the rate of a command in what redis-benchmark --csv prints.
func parseRate(out []byte, command string) (float64, error) {
	records := csv.NewReader(bytes.NewReader(out))
	records.FieldsPerRecord = -1
	rows, err := records.ReadAll()
	if err != nil {
		return 0, fmt.Errorf("redis-benchmark printed %q: %w", out, err)
	}
	for _, r := range rows {
		if len(r) > 1 && r[0] == command {
			return strconv.ParseFloat(r[1], 64)
		}
	}
	return 0, fmt.Errorf("redis-benchmark printed no rate of %s: %q", command, out)
}

// cpuSeconds is the CPU time of a process, system time included.
func cpuSeconds(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name may hold anything; what follows its closing parenthesis does not.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	const user, system = 11, 12
	if len(fields) <= system {
		return 0, fmt.Errorf("/proc/%d/stat holds %q", pid, text)
	}
	var ticks int64
	for _, f := range fields[user : system+1] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return float64(ticks) / ticksPerSecond, nil
}

// residentBytes is VmRSS.
func residentBytes(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, found := strings.Cut(string(text), "VmRSS:")
	fields := strings.Fields(rest)
	if !found || len(fields) < 2 || fields[1] != "kB" {
		return 0, errors.New("/proc has no VmRSS")
	}
	kilobytes, err := strconv.ParseInt(fields[0], 10, 64)
	return kilobytes << 10, err
}

// memoryPerKey is VmRSS after load and rest, less VmRSS of the empty server.
func memoryPerKey(s *process.Server, keys, idleSeconds int) (float64, error) {
	time.Sleep(time.Second)
	empty, err := residentBytes(s.PID())
	if err != nil {
		return 0, err
	}
	if err := fill(s, keys); err != nil {
		return 0, err
	}
	time.Sleep(time.Duration(idleSeconds) * time.Second)
	full, err := residentBytes(s.PID())
	return float64(full-empty) / float64(keys), err
}

// fill sets keys of 16 bytes to values of 64.
func fill(s *process.Server, keys int) error {
	nc, err := s.Dial()
	if err != nil {
		return err
	}
	conn := wire.NewConn(nc)
	defer conn.Close()
	const batch = 100
	value := strings.Repeat("x", 64)
	commands := make([][]string, 0, batch)
	for k := 0; k < keys; {
		commands = commands[:0]
		for ; len(commands) < batch && k < keys; k++ {
			commands = append(commands, []string{"SET", fmt.Sprintf("key:%012d", k), value})
		}
		replies, err := conn.Pipeline(commands...)
		if err != nil {
			return err
		}
		for _, r := range replies {
			if r.Kind != wire.Simple {
				return fmt.Errorf("SET answers %v", r)
			}
		}
	}
	r, err := conn.Do("DBSIZE")
	if n, _ := r.Int(); err != nil || n != int64(keys) {
		return fmt.Errorf("%d keys were set, DBSIZE answers %v, %v", keys, r, err)
	}
	return nil
}
