package acl

import (
	"slices"
	"strings"
	"sync"
)

// Limits of the log of refusals, whose texts come from those who are refused.
const (
	// MaxLoggedBytes is how much of a key, a channel, a user's name or the description of
	// a client is kept.
	MaxLoggedBytes = 4096
	// groupedMs is how far apart refusals that are alike may be to count as one.
	groupedMs = 60_000
	// groupedEntries is how many of the latest entries are compared.
	groupedEntries = 10
)

// Entry is a refusal, or several that are alike: the same user was refused the
// same for the same reason.
type Entry struct {
	Count    int64
	Reason   Reason
	Context  string // toplevel, multi or lua
	Object   string // the command, key or channel; for a login the command
	Username string
	UnixMs   int64  // of the last one
	Client   string // that of the last one, as CLIENT LIST shows it
}

// Log is what was refused, the latest first. It is safe for use by many
// goroutines.
type Log struct {
	mu      sync.Mutex
	entries []Entry // guarded by mu, the latest last
}

// Add notes a refusal, of which at most so many entries are kept.
func (l *Log) Add(e Entry, most int64) {
	e.Count, e.Object, e.Username, e.Client = 1, shortened(e.Object), shortened(e.Username), shortened(e.Client)
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.entries)
	for i := n - 1; i >= max(0, n-groupedEntries); i-- {
		if have := l.entries[i]; have.like(&e) {
			e.Count = have.Count + 1
			l.entries = slices.Delete(l.entries, i, i+1)
			break
		}
	}
	l.entries = append(l.entries, e)
	if over := int64(len(l.entries)) - most; over > 0 {
		l.entries = slices.Delete(l.entries, 0, int(over))
	}
}

// shortened returns what is kept of a text: a copy, as a part would keep all of it in
// memory.
func shortened(text string) string {
	if len(text) <= MaxLoggedBytes {
		return text
	}
	return strings.Clone(text[:MaxLoggedBytes])
}

func (e *Entry) like(o *Entry) bool {
	return e.Reason == o.Reason && e.Context == o.Context && e.Object == o.Object && e.Username == o.Username &&
		e.UnixMs-o.UnixMs <= groupedMs && o.UnixMs-e.UnixMs <= groupedMs
}

// Latest returns at most so many entries, the latest first.
func (l *Log) Latest(most int64) []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(int64(len(l.entries)), max(most, 0))
	out := slices.Clone(l.entries[int64(len(l.entries))-n:])
	slices.Reverse(out)
	return out
}

// Reset forgets all entries.
func (l *Log) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = nil
}
