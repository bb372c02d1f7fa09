package exec

import (
	"sync/atomic"

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

	x    *Executor
	self command.Session // what handlers get as Ctx.Session
	// parker is self if its connection can wait, else nil.
	parker parker
	parked atomic.Pointer[parked] // what the session waits as, nil: it does not
	gone   atomic.Bool            // Abandon was called
	// identity is who it acts for, nil where there are no users. The session's
	// goroutine exchanges it.
	identity atomic.Pointer[identity]
	db       int
	multi    transaction
	watch    *shard.Watch
	reader   Reader // nil: nobody is told what is read

	latest  *command.Spec // what came last, nil if it was no command
	holding bool          // shards are locked

	*working
	// scripting: a script of this session runs, and what comes next is its call.
	scripting bool
	nested    *nested // of the session's scripts, nil before the first
	oom       bool    // see RefuseOOM
	noTouch   bool    // see NoTouch

	lastLSN     uint64 // of the last commit
	lockedLSN   uint64 // of the last commit of Locked, 0: none since the command began
	lastStreams []int  // its shard streams

	seen    uint64
	settled int  // calls of Settle
	noticed bool // who has hung up, since staleClock
	nowMs   int64
	nowLeft int
}

// working is what a session needs while its client is in use, and not while that
// rests.
type working struct {
	tx      *shard.Tx
	ctx     command.Ctx
	cached  cachedCommand
	shards  []int // scratch: those that a command locks
	writes  []written
	tallies tallies
}

// cachedCommand is a name, as it was spelled, and its command: pipelines repeat
// themselves.
type cachedCommand struct {
	spec *command.Spec
	name [16]byte
	n    int
}

func (l *cachedCommand) is(name []byte) bool {
	return l.spec != nil && string(l.name[:l.n]) == string(name)
}

func (l *cachedCommand) set(name []byte, spec *command.Spec) {
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
	s := &Session{W: w, x: x, self: self, watch: x.store.Set().NewWatch()}
	s.Wake()
	s.parker, _ = self.(parker)
	return s
}

// DB returns the selected database.
func (s *Session) DB() int { return s.db }

// Select changes the database for this command's successors and, inside EXEC,
// for the commands that follow it there.
func (s *Session) Select(db int) {
	s.db = db
	if s.multi.running || s.scripting {
		s.tx.Select(db)
	}
}

// Replies is where the session's replies go, also while a script runs: its calls are answered elsewhere.
func (s *Session) Replies() *resp.Writer {
	if s.scripting {
		return s.nested.outer
	}
	return s.W
}

// EventsNoted returns how many keyspace events the session's transaction, or command,
// has noted that nobody was told of.
func (s *Session) EventsNoted() int { return len(s.tx.Events()) }

// InMulti reports whether a transaction is open or running, or a script: nothing
// may block.
func (s *Session) InMulti() bool { return s.multi.open || s.multi.running || s.scripting }

// LastWrite returns the LSN of the session's last commit, 0 if there is none,
// and the shard streams that it is in, which are valid until the next one.
func (s *Session) LastWrite() (lsn uint64, streams []int) { return s.lastLSN, s.lastStreams }

// streamsOf adds the shard streams that a commit is in to dst.
func (x *Executor) streamsOf(dst []int, c *op.Commit) []int {
	for i := range c.Ops() {
		stream := c.Stream(i)
		if stream == op.EveryStream {
			return append(dst[:0], x.all...)
		}
		dst = insertSorted(dst, stream)
	}
	return dst
}

// CommandName returns the name of the command that runs, as it was spelled.
func (s *Session) CommandName() []byte { return s.ctx.Args[0] }

// LastCommand returns the command that came last, refused or queued ones
// included; nil if none came, or what came is no command.
func (s *Session) LastCommand() *command.Spec { return s.latest }

// Holding reports whether shards are locked for this session: a panic that gets
// past its commands then leaves them so.
func (s *Session) Holding() bool { return s.holding }

// hangUp ends the session's connection after the replies so far. It reports
// whether there is one.
func (s *Session) hangUp() bool {
	c, ok := s.self.(interface{ HangUp() })
	if ok {
		c.HangUp()
	}
	return ok
}

// Executor returns the executor that the session belongs to.
func (s *Session) Executor() *Executor { return s.x }

// Self returns what the session's handlers see as their session.
func (s *Session) Self() command.Session { return s.self }

// ArgBytes returns the length of the arguments of the command that the client
// sent and that runs, its name included.
func (s *Session) ArgBytes() (n int) {
	if s.multi.running {
		return len("EXEC")
	}
	for _, a := range s.ctx.Args {
		n += len(a)
	}
	return n
}

// Seen returns the highest LSN behind anything that the session was shown.
func (s *Session) Seen() uint64 { return s.seen }

// Saw notes that a reply shows something as of lsn.
func (s *Session) Saw(lsn uint64) { s.seen = max(s.seen, lsn) }

// Close gives back what the session holds in the store.
func (s *Session) Close() {
	s.discard()
	s.tallies.merge(s.x)
}

// Rest gives back what the session needs only while its client is in use. Wake
// must be called before anything else is.
func (s *Session) Rest() { s.working = nil }

// Wake ends Rest.
func (s *Session) Wake() {
	s.working = &working{tx: s.x.store.NewTx()}
	s.tx.By = s.self
	s.tx.Untouch(s.noTouch)
}

// NoTouch says whether the session's commands count as no use of keys, but for TOUCH, as
// CLIENT NO-TOUCH does.
func (s *Session) NoTouch(on bool) {
	s.noTouch = on
	s.tx.Untouch(on)
}

// Reset puts the session into the state of a new connection, as RESET does.
func (s *Session) Reset() {
	s.discard()
	s.NoTouch(false)
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

// staleClock makes the next command read the time, and notice who has hung up:
// something took long.
func (s *Session) staleClock() { s.nowLeft, s.noticed = 0, false }

// wrote notes that the reply from start on stands for a commit that ends at
// lsn.
func (s *Session) wrote(start int, lsn uint64) {
	s.writes = append(s.writes, written{start: start, end: s.W.Len(), lsn: lsn})
}

// Drop takes back the replies from start of what is gathered. Nobody is told of what
// they stand for.
func (s *Session) Drop(start int) {
	s.W.Truncate(start)
	for n := len(s.writes); n > 0 && s.writes[n-1].end > start; n-- {
		s.writes = s.writes[:n-1]
	}
}

// Settle waits until everything that the gathered replies show is in the log,
// as the fsync policy has it, and must be called before they are sent. Where the
// log cannot advance, the replies of commits that are not in it become errors:
// nothing is acknowledged that is not there. Reads stand.
func (s *Session) Settle() {
	s.settled++
	s.tallies.merge(s.x)
	if err := s.x.store.Wait(s.seen); err != nil {
		s.withdraw(misconf(err))
	}
	s.writes = s.writes[:0]
	s.staleClock()
}

// Waits says that the command that runs is about to wait for something, until
// Resumes: that time is not counted.
func (s *Session) Waits() {
	s.tallies.merge(s.x)
	s.tallies.waits = sinceStart()
}

// Resumes says that the wait is over that Waits announced.
func (s *Session) Resumes() {
	s.tallies.waited += sinceStart() - s.tallies.waits
	s.tallies.waits = 0
}

// MergeStats makes the executor's counters include what this session ran since
// the last Settle.
func (s *Session) MergeStats() {
	s.tallies.merge(s.x)
	s.tallies.begin()
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
		s.replyError(err)
		from = w.end
	}
	s.W.Raw(old[from:])
}
