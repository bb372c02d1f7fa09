package metrics

import (
	"slices"
	"sync"
)

const (
	// maxSamples is how many samples of an event are kept.
	maxSamples = 160
	// maxEvents bounds the events of different names.
	maxEvents = 64
)

// Sample is how long an event took within a second, at most.
type Sample struct{ UnixSeconds, Milliseconds int64 }

// Event is what is known of an event.
type Event struct {
	Name    string
	Samples []Sample // the oldest first, at least one
	MaxMs   int64    // since the event was last forgotten
}

// Latest returns the newest sample.
func (e *Event) Latest() Sample { return e.Samples[len(e.Samples)-1] }

// Events keeps samples of what took long, by name.
type Events struct {
	mu     sync.Mutex
	events map[string]*Event // guarded by mu
}

// Add notes that something took so long. Of one second the longest counts.
func (l *Events) Add(name string, unixSeconds, ms int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.events[name]
	if e == nil {
		if len(l.events) == maxEvents {
			return
		}
		if l.events == nil {
			l.events = make(map[string]*Event)
		}
		e = &Event{Name: name}
		l.events[name] = e
	}
	e.MaxMs = max(e.MaxMs, ms)
	if n := len(e.Samples); n > 0 && e.Samples[n-1].UnixSeconds == unixSeconds {
		e.Samples[n-1].Milliseconds = max(e.Samples[n-1].Milliseconds, ms)
		return
	}
	if len(e.Samples) == maxSamples {
		e.Samples = slices.Delete(e.Samples, 0, 1)
	}
	e.Samples = append(e.Samples, Sample{unixSeconds, ms})
}

// All returns every event, in the order of their names.
func (l *Events) All() []Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Event, 0, len(l.events))
	for _, e := range l.events {
		out = append(out, e.copy())
	}
	slices.SortFunc(out, func(a, b Event) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return out
}

// Named returns the event of that name, which may be unknown.
func (l *Events) Named(name string) (Event, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.events[name]; e != nil {
		return e.copy(), true
	}
	return Event{}, false
}

func (e *Event) copy() Event {
	c := *e
	c.Samples = slices.Clone(e.Samples)
	return c
}

// Forget drops what is known of one event, or of all without a name, and returns how
// many there were.
func (l *Events) Forget(names ...string) (forgotten int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(names) == 0 {
		forgotten = len(l.events)
		clear(l.events)
		return forgotten
	}
	for _, name := range names {
		if l.events[name] != nil {
			delete(l.events, name)
			forgotten++
		}
	}
	return forgotten
}
