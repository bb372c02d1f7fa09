package exec

import (
	"kevy/internal/command"
	"kevy/internal/op"
	"kevy/resp"
	"kevy/shard"
)

// Session is the state of one connection that commands see and change. One
// goroutine uses it.
type Session struct {
	// W takes the replies.
	W *resp.Writer

	x     *Executor
	self  command.Session // what handlers get as Ctx.Session
	tx    *shard.Tx
	ctx   command.Ctx
	db    int
	multi transaction
	watch *shard.Watch

	shards []int
	last   lastCommand

	hits, misses int64

	lastLSN     uint64 // of the last commit
	lastStreams []int  // its shard streams

	seen    uint64
	writes  []written
	nowMs   int64
	nowLeft int
	counted int64
}

// lastCommand is the command that was resolved last: pipelines repeat
// themselves.
type lastCommand struct {
	spec *command.Spec
	name [16]byte
	n    int
}

func (l *lastCommand) is(name []byte) bool {
	return l.spec != nil && string(l.name[:l.n]) == string(name)
}

func (l *lastCommand) set(name []byte, spec *command.Spec) {
	if len(name) <= len(l.name) {
		l.spec, l.n = spec, copy(l.name[:], name)
	}
}

// written is a reply that must not be sent before its commit is in the log.
type written struct {
	start, end int // in W
	lsn        uint64
}

// NewSession returns a session whose handlers see self as their session.
func (x *Executor) NewSession(self command.Session, w *resp.Writer) *Session {
	return &Session{W: w, x: x, self: self, tx: x.store.NewTx(), watch: x.store.Set().NewWatch()}
}

// DB returns the selected database.
func (s *Session) DB() int { return s.db }

// Select changes the database for this command's successors and, inside EXEC,
// for the commands that follow it there.
func (s *Session) Select(db int) {
	s.db = db
	if s.multi.running {
		s.tx.Select(db)
	}
}

// InMulti reports whether a transaction is open or running: nothing may block.
func (s *Session) InMulti() bool { return s.multi.open || s.multi.running }

// LastWrite returns the LSN of the session's last commit, 0 if there is none,
// and the shard streams that it is in, which are valid until the next one.
func (s *Session) LastWrite() (lsn uint64, streams []int) { return s.lastLSN, s.lastStreams }

// noteWrite remembers a commit for LastWrite.
func (s *Session) noteWrite(lsn uint64, c *op.Commit) {
	s.lastLSN = lsn
	s.lastStreams = s.lastStreams[:0]
	for i := range c.Ops() {
		stream := c.Stream(i)
		if stream == op.EveryStream {
			s.lastStreams = append(s.lastStreams[:0], s.x.all...)
			return
		}
		s.lastStreams = insertSorted(s.lastStreams, stream)
	}
}

// LastCommand returns the full name of the command that ran last, empty if none
// did.
func (s *Session) LastCommand() string {
	if s.ctx.Spec == nil {
		return ""
	}
	return s.ctx.Spec.FullName()
}

// Executor returns the executor that the session belongs to.
func (s *Session) Executor() *Executor { return s.x }

// Seen returns the highest LSN behind anything that the session was shown.
func (s *Session) Seen() uint64 { return s.seen }

// Saw notes that a reply shows something as of lsn.
func (s *Session) Saw(lsn uint64) { s.seen = max(s.seen, lsn) }

// Close gives back what the session holds in the store.
func (s *Session) Close() {
	s.multi = transaction{}
	s.watch.Clear()
	s.flushStats()
}

// Reset puts the session into the state of a new connection, as RESET does.
func (s *Session) Reset() {
	s.multi = transaction{}
	s.watch.Clear()
	s.db = 0
	s.W.SetProto(2)
}

// commandsPerClock is after how many commands the time is read anew within one
// batch.
const commandsPerClock = 16

// now returns the time for the next command. Within a batch of pipelined
// commands it is read once in a while: reading it costs as much as a lock.
func (s *Session) now() int64 {
	if s.nowLeft == 0 {
		s.nowLeft = commandsPerClock
		s.nowMs = s.x.store.NowMs()
	}
	s.nowLeft--
	return s.nowMs
}

// staleClock makes the next command read the time: something took long.
func (s *Session) staleClock() { s.nowLeft = 0 }

// wrote notes that the reply from start on stands for a commit that ends at
// lsn.
func (s *Session) wrote(start int, lsn uint64) {
	s.writes = append(s.writes, written{start: start, end: s.W.Len(), lsn: lsn})
}

// Settle waits until everything that the gathered replies show is in the log,
// as the fsync policy has it, and must be called before they are sent. Where the
// log cannot advance, the replies of commits that are not in it become errors:
// nothing is acknowledged that is not there. Reads stand.
func (s *Session) Settle() {
	err := s.x.store.Wait(s.seen)
	if err != nil {
		s.withdraw(misconf(err))
	}
	s.writes = s.writes[:0]
	s.staleClock()
	s.flushStats()
}

func (s *Session) flushStats() {
	if s.counted > 0 {
		s.x.stats.Commands.Add(s.counted)
		s.counted = 0
	}
	if s.hits > 0 {
		s.x.stats.KeyspaceHits.Add(s.hits)
		s.hits = 0
	}
	if s.misses > 0 {
		s.x.stats.KeyspaceMisses.Add(s.misses)
		s.misses = 0
	}
}

// withdraw replaces the replies of commits that are not in the log.
func (s *Session) withdraw(err *resp.Error) {
	reached := s.x.store.Reached()
	old := append([]byte(nil), s.W.Bytes()...)
	s.W.Reset()
	from := 0
	for _, w := range s.writes {
		if w.lsn <= reached {
			continue
		}
		s.W.Raw(old[from:w.start])
		s.W.Error(err)
		from = w.end
	}
	s.W.Raw(old[from:])
}
