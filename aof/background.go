package aof

import (
	"time"
)

const (
	tickEvery = time.Second
	// syncTicksNo is how many ticks PolicyNo lets pass between two fsyncs.
	syncTicksNo = 30
)

// memoryTickEvery is how long a log without files leaves a block open: nothing
// writes it and thereby closes it, and its time is that of all its ops.
const memoryTickEvery = 100 * time.Millisecond

// runMemory closes the open block of a log without files.
func (l *Log) runMemory() {
	ticker := time.NewTicker(memoryTickEvery)
	defer ticker.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-ticker.C:
			l.mu.Lock()
			l.mem.open = false
			l.mu.Unlock()
		}
	}
}

// run does once a second what nobody waits for.
func (l *Log) run() {
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	var t ticks
	for {
		select {
		case <-l.stop:
			return
		case <-ticker.C:
			l.tick(&t)
		}
	}
}

type ticks struct {
	last      uint64 // LSN at the tick before
	sinceSync int
}

// tick writes what has gathered, fsyncs by policy, and states the durable LSN
// in a block of its own when the log has fallen idle. Errors are kept in the
// log's state, for those who wait.
func (l *Log) tick(t *ticks) {
	last := l.last.Load()
	idle := last == t.last
	t.last = last
	t.sinceSync++
	if l.unwrittenBytes.Load() > 0 || l.stalled.Load() != nil {
		if l.writeAll() != nil {
			return
		}
	}
	due := l.Policy() != PolicyNo || t.sinceSync >= syncTicksNo
	if due && l.durable.Load() < l.written.Load() {
		t.sinceSync = 0
		if l.syncInTurn() != nil {
			return
		}
	}
	if !idle || !l.stateDurable() || l.writeAll() != nil {
		return
	}
	if l.Policy() != PolicyNo {
		_ = l.syncInTurn() // a failure ends the log by itself
	}
}

func (l *Log) syncInTurn() error {
	l.syncer.take()
	defer l.syncer.giveBack()
	return l.syncFile()
}

// stateDurable adds an empty block if the whole log is durable and no block says
// so yet.
func (l *Log) stateDurable() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.last.Load()
	if l.durable.Load() != last || l.stated.Load() >= last || l.needFile || l.files > 0 {
		return false
	}
	l.mem.open = false
	l.addEmptyBlock(last+1, nil)
	return true
}
