package metrics

import (
	"strconv"
	"strings"
	"sync"
)

const (
	// maxSlowArgs and maxSlowArgBytes bound what an entry keeps of a command.
	maxSlowArgs     = 32
	maxSlowArgBytes = 128
	// maxSlowNameBytes bounds the name of a client, which that gives itself.
	maxSlowNameBytes = 4096
)

// SlowCommand is an entry of a SlowLog.
type SlowCommand struct {
	ID           int64 // from 0, never given twice
	UnixSeconds  int64
	Microseconds int64
	Args         []string // bounded: what was left out is said in the place of it
	Addr, Name   string   // of the client
}

// SlowLog keeps the commands that took long, the newest ones.
type SlowLog struct {
	mu      sync.Mutex
	entries []SlowCommand // the oldest first; guarded by mu
	next    int64         // guarded by mu
}

// Add keeps a command, of which it copies what it keeps, and lets the oldest go that
// are more than most.
func (l *SlowLog) Add(c SlowCommand, args [][]byte, most int) {
	c.Args = shortArgs(args)
	if len(c.Name) > maxSlowNameBytes {
		c.Name = strings.Clone(c.Name[:maxSlowNameBytes])
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c.ID = l.next
	l.next++
	l.entries = append(l.entries, c)
	l.trim(most)
}

// trim is Trim, under mu.
func (l *SlowLog) trim(most int) {
	over := len(l.entries) - most
	if over <= 0 {
		return
	}
	clear(l.entries[:over])
	l.entries = l.entries[over:]
}

// Trim lets the oldest entries go that are more than most.
func (l *SlowLog) Trim(most int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trim(most)
}

func shortArgs(args [][]byte) []string {
	kept := args
	if len(args) > maxSlowArgs {
		kept = args[:maxSlowArgs-1]
	}
	out := make([]string, 0, len(kept)+1)
	for _, a := range kept {
		if over := len(a) - maxSlowArgBytes; over > 0 {
			out = append(out, string(a[:maxSlowArgBytes])+"... ("+strconv.Itoa(over)+" more bytes)")
		} else {
			out = append(out, string(a))
		}
	}
	if over := len(args) - len(kept); over > 0 {
		out = append(out, "... ("+strconv.Itoa(over)+" more arguments)")
	}
	return out
}

// Newest returns up to n entries, the newest first.
func (l *SlowLog) Newest(n int) []SlowCommand {
	l.mu.Lock()
	defer l.mu.Unlock()
	n = min(n, len(l.entries))
	out := make([]SlowCommand, 0, n)
	for i := range n {
		out = append(out, l.entries[len(l.entries)-1-i])
	}
	return out
}

// Len returns the number of entries.
func (l *SlowLog) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.entries)
}

// Reset drops all entries; their numbers are not given again.
func (l *SlowLog) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = nil
}
