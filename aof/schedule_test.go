package aof

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"kevy/internal/vfs"
)

var (
	scheduleSeed  = flag.Uint64("schedule-seed", 0, "run only the random schedule of this seed")
	scheduleTrace = flag.Int("schedule-trace", 60, "number of steps shown of a schedule that fails")
	scheduleCount = flag.Int("schedules", 400, "number of random schedules")
)

// TestRandomSchedules runs the log through appends, rewrites, faults, kills and
// power cuts, in an order and at points that a seed decides, and compares with
// what was appended.
func TestRandomSchedules(t *testing.T) {
	first, count := uint64(time.Now().UnixNano()), *scheduleCount/thin
	if *scheduleSeed != 0 {
		first, count = *scheduleSeed, 1
	} else if testing.Short() {
		count /= 10
	}
	for seed := first; seed < first+uint64(count) && !t.Failed(); seed++ {
		synctest.Test(t, func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("repeat with -run %s -schedule-seed %d", t.Name(), seed)
				}
			}()
			s := &schedule{t: t, rng: rand.New(rand.NewPCG(seed, 0)), fs: vfs.NewMem()}
			defer s.drop()
			s.run()
		})
	}
}

// schedule is a history of one log over several lives.
type schedule struct {
	t   *testing.T
	rng *rand.Rand
	fs  *vfs.Mem
	opt Options

	log   *testLog
	ops   []string // index i has LSN i+1
	lines [][2]uint64
	draw  uint64

	// What must be there after a kill and after a power cut.
	written, durable uint64
	readers          []*follower
	trace            []string
	closed           bool
}

// follower checks that a reader gets every op once.
type follower struct {
	*Reader
	next uint64
}

func (s *schedule) notef(format string, a ...any) {
	s.trace = append(s.trace, fmt.Sprintf(format, a...))
}

func (s *schedule) fatalf(format string, a ...any) {
	s.t.Helper()
	if n := len(s.trace); n > *scheduleTrace {
		s.trace = s.trace[n-*scheduleTrace:]
	}
	s.t.Fatalf("%s\nafter\n  %s", fmt.Sprintf(format, a...), strings.Join(s.trace, "\n  "))
}

func (s *schedule) run() {
	s.opt = Options{
		Dir:          "data",
		Policy:       Policy(s.rng.IntN(3)),
		BlockBytes:   64 << s.rng.IntN(5),
		SegmentBytes: 512 << s.rng.IntN(6),
		MemoryBytes:  512 << s.rng.IntN(8),
		NowMs:        func() int64 { return time.Now().UnixMilli() },
	}
	s.opt.FileHeader = func(dst []byte) []byte {
		return fmt.Appendf(dst, "#kevy-pos 0 %d %d\r\n#kevy-pos 1 1 1\r\n", s.draw, s.log.Last())
	}
	s.notef("policy %v, blocks of %d, segments of %d, memory of %d bytes", s.opt.Policy, s.opt.BlockBytes, s.opt.SegmentBytes, s.opt.MemoryBytes)
	for range 2 + s.rng.IntN(4) {
		s.open()
		s.live()
		s.end()
	}
	s.open()
	s.closeLog()
}

// open recovers, through crashes during recovery, and checks what is there.
func (s *schedule) open() {
	s.t.Helper()
	for {
		if s.rng.IntN(4) == 0 {
			s.fs.DieAfter(s.rng.IntN(20), s.rng.IntN(40))
		}
		s.opt.FS = s.fs
		if err := s.fs.MkdirAll("data"); err != nil {
			s.crash()
			continue
		}
		l, rec, err := tryOpenLog(s.t, s.opt, RecoverRefuse)
		if err == nil {
			s.fs.DieAfter(1<<30, 0)
			s.log = l
			s.check(rec)
			return
		}
		if errors.Is(err, syscall.ENOSPC) {
			s.notef("no room to recover: %v", err)
			s.fs.SetQuota(-1)
			continue
		}
		if !errors.Is(err, vfs.ErrDead) {
			s.fatalf("recovery: %v", err)
		}
		s.notef("died in recovery")
		s.crash()
	}
}

func (s *schedule) check(rec *record) {
	s.t.Helper()
	r := s.log.report
	s.notef("recovered: base %d, last %d of %d, written %d, durable %d, torn %v", r.BaseLSN, r.LastLSN, len(s.ops), s.written, s.durable, r.Torn)
	s.notef("%q", r.Notes)
	if r.LastLSN < s.written || r.LastLSN > uint64(len(s.ops)) {
		s.fatalf("the log ends with LSN %d; %d were written, %d appended", r.LastLSN, s.written, len(s.ops))
	}
	s.ops = s.ops[:r.LastLSN]
	checkOps(s.t, "base", rec.base, s.ops[:r.BaseLSN])
	checkOps(s.t, "log", rec.ops, s.ops[r.BaseLSN:])
	if rec.first != 0 && rec.first != r.BaseLSN+1 {
		s.fatalf("the log begins with LSN %d behind base %d", rec.first, r.BaseLSN)
	}
	s.checkLines(rec, r)
	for i, p := range rec.positions {
		if i%2 == 0 && (p.Stream != 0 || p.Next > r.LastLSN) || i%2 == 1 && p != (Position{1, 1, 1}) {
			s.fatalf("position %+v", p)
		}
	}
	s.written, s.durable = r.LastLSN, r.LastLSN
	if s.log.Durable() != r.LastLSN || s.log.Written() != r.LastLSN || s.log.Last() != r.LastLSN {
		s.fatalf("after recovery %d are durable, %d written, of %d", s.log.Durable(), s.log.Written(), s.log.Last())
	}
	s.readers = nil
	s.follow(s.log.OldestLSN())
	s.catchUp()
}

// checkLines compares the changes of generation. One that stands before an op
// that must be there must be there too.
func (s *schedule) checkLines(rec *record, r *Report) {
	s.t.Helper()
	i := 0
	var kept [][2]uint64
	for _, line := range s.lines {
		if i < len(rec.generations) && rec.generations[i] == line {
			kept = append(kept, line)
			i++
			continue
		}
		if line[1] > r.BaseLSN && line[1] < s.written {
			s.fatalf("the change of generation %v is missing", line)
		}
		if line[1] < r.LastLSN {
			kept = append(kept, line)
		}
	}
	if i < len(rec.generations) {
		s.fatalf("changes of generation %v, of %v", rec.generations, s.lines)
	}
	s.lines = kept
}

func (s *schedule) follow(lsn uint64) {
	s.t.Helper()
	r, err := s.log.NewReader(lsn)
	if err != nil {
		s.fatalf("reader at LSN %d, the oldest is %d: %v", lsn, s.log.OldestLSN(), err)
	}
	s.readers = append(s.readers, &follower{r, lsn})
}

// catchUp reads what there is with every reader, or with some of them a little.
func (s *schedule) catchUp() {
	s.t.Helper()
	kept := s.readers[:0]
	for _, f := range s.readers {
		if s.read(f) {
			kept = append(kept, f)
		} else {
			f.Close()
		}
	}
	s.readers = kept
}

// read returns false if the reader was overtaken by the floor.
func (s *schedule) read(f *follower) bool {
	s.t.Helper()
	for range 1 + s.rng.IntN(50) {
		span, ok, err := f.Next()
		if errors.Is(err, ErrTruncated) && f.next < s.log.OldestLSN() {
			return false
		}
		if err != nil {
			if errors.Is(err, vfs.ErrDead) {
				return false
			}
			s.fatalf("reader at LSN %d of %d, oldest %d: %v", f.next, len(s.ops), s.log.OldestLSN(), err)
		}
		if !ok {
			if f.next != uint64(len(s.ops))+1 {
				s.fatalf("a reader finds no LSN %d, of %d", f.next, len(s.ops))
			}
			return true
		}
		db := -1
		if !span.BlockStart {
			db = 9 // whatever it was
		}
		ops, _, err := opsOf(span.Payload, db)
		if err != nil || len(ops) != span.Ops || span.FirstLSN > f.next || span.FirstLSN+uint64(span.Ops) <= f.next || !span.BlockStart && span.FirstLSN != f.next {
			s.fatalf("reader at LSN %d: a span of %d ops from LSN %d, in truth %d, error %v", f.next, span.Ops, span.FirstLSN, len(ops), err)
		}
		for i, op := range ops {
			want := s.ops[span.FirstLSN-1+uint64(i)]
			if _, w, _ := strings.Cut(want, " "); !strings.HasSuffix(op, " "+w) || span.BlockStart && op != want {
				s.fatalf("reader: LSN %d is %q instead of %q", span.FirstLSN+uint64(i), op, want)
			}
		}
		if len(span.Position) > 0 && span.Position[0].Next != span.FirstLSN-1 {
			s.fatalf("reader: position %+v before LSN %d", span.Position, span.FirstLSN)
		}
		f.next = span.FirstLSN + uint64(span.Ops)
	}
	return true
}

// live does something until it has done enough or the file system is dead.
func (s *schedule) live() {
	s.closed = false
	if s.rng.IntN(3) > 0 {
		s.fs.DieAfter(s.rng.IntN(120), s.rng.IntN(200))
	}
	for range s.rng.IntN(120) {
		s.step()
		s.written = max(s.written, s.log.Written())
		s.durable = max(s.durable, s.log.Durable())
		if s.closed {
			return
		}
	}
}

func (s *schedule) step() {
	l := s.log
	switch n := s.rng.IntN(100); {
	case n < 45:
		s.append()
	case n < 60:
		if err := l.WaitWritten(uint64(s.rng.IntN(len(s.ops) + 1))); err == nil {
			s.notef("written to %d", l.Written())
		}
	case n < 66:
		lsn := uint64(s.rng.IntN(len(s.ops) + 1))
		if err := l.WaitDurable(lsn); err == nil && l.Durable() < lsn {
			s.fatalf("durable to %d, not %d", l.Durable(), lsn)
		}
		s.notef("durable to %d", l.Durable())
	case n < 70:
		s.draw++
		s.lines = append(s.lines, [2]uint64{s.draw, l.Last()})
		l.Annotate(fmt.Sprintf("#kevy-gen %d", s.draw))
		s.notef("generation %d behind %d", s.draw, l.Last())
	case n < 76:
		s.rewrite()
	case n < 79:
		floor := uint64(s.rng.IntN(len(s.ops) + 1))
		s.notef("floor %d", floor)
		l.SetFloor(floor)
		l.RemoveDropped()
	case n < 84:
		s.notef("sleep")
		time.Sleep(time.Duration(s.rng.IntN(2500)) * time.Millisecond)
		synctest.Wait()
	case n < 88:
		s.fault()
	case n < 90:
		l.SetPolicy(Policy(s.rng.IntN(3)))
	case n < 92:
		if oldest := l.OldestLSN(); oldest <= uint64(len(s.ops)) {
			s.follow(oldest + uint64(s.rng.IntN(len(s.ops)-int(oldest)+2)))
		}
	case n < 93:
		if _, err := l.Cut(); err == nil {
			s.notef("cut")
		}
	case n < 94:
		s.closed = true
	default:
		s.catchUp()
	}
}

func (s *schedule) append() {
	if s.log.Admit() != nil && s.rng.IntN(4) > 0 {
		time.Sleep(50 * time.Millisecond)
		return
	}
	n := 1
	if s.rng.IntN(4) == 0 {
		n += s.rng.IntN(5)
	}
	var pairs []string
	db := s.rng.IntN(3)
	for range n {
		size := s.rng.IntN(40)
		if s.rng.IntN(20) == 0 {
			size = s.rng.IntN(3000)
		}
		pairs = append(pairs, fmt.Sprintf("k%d", len(s.ops)), strings.Repeat(string(rune('a'+s.rng.IntN(26))), size))
		s.ops = append(s.ops, fmt.Sprintf("%d %s %s", db, pairs[len(pairs)-2], pairs[len(pairs)-1]))
	}
	last := s.log.set(db, pairs...)
	s.notef("appended to %d", last)
	if last != uint64(len(s.ops)) {
		s.fatalf("LSN %d instead of %d", last, len(s.ops))
	}
}

// rewrite writes a base that repeats all ops up to a cut, which makes it easy to
// compare, and appends meanwhile.
func (s *schedule) rewrite() {
	cut, err := s.log.Cut()
	if err != nil {
		return
	}
	s.notef("rewrite as of %d", cut)
	w, err := s.log.BeginBase(cut)
	if err != nil {
		s.notef("no base: %v", err)
		return
	}
	for i := 0; i < int(cut); {
		var payload []byte
		n := 0
		for ; i < int(cut) && n < 1+s.rng.IntN(6); i, n = i+1, n+1 {
			db, kv, _ := strings.Cut(s.ops[i], " ")
			key, value, _ := strings.Cut(kv, " ")
			payload = appendCommand(appendCommand(payload, "select", db), "SET", key, value)
		}
		if err := w.Write(payload, n); err != nil {
			w.Abort()
			s.notef("no base: %v", err)
			return
		}
		if s.rng.IntN(30) == 0 {
			s.append()
		}
	}
	if s.rng.IntN(10) == 0 {
		w.Abort()
		return
	}
	err = w.Commit()
	s.notef("base as of %d: %v", cut, err)
}

func (s *schedule) fault() {
	f := vfs.Fault{Times: 1 + s.rng.IntN(3), After: s.rng.IntN(2)}
	switch s.rng.IntN(8) {
	case 0:
		f.Op, f.Err, f.Bytes = vfs.OpWrite, syscall.ENOSPC, s.rng.IntN(100)
	case 1:
		f.Op = vfs.OpTruncate
	case 2:
		f.Op = vfs.OpCreate
	case 3:
		f.Op = vfs.OpRename
	case 4:
		f.Op = vfs.OpSyncDir
	case 5:
		f.Op = vfs.OpRemove
	case 6:
		if s.rng.IntN(4) > 0 {
			return
		}
		f.Op, f.Glob = vfs.OpSync, "*.incr.aof"
	case 7:
		fs := s.fs
		fs.SetQuota(fs.Used() + int64(s.rng.IntN(500)))
		s.notef("the disk is nearly full")
		time.AfterFunc(time.Duration(s.rng.IntN(3000))*time.Millisecond, func() { fs.SetQuota(-1) })
		return
	}
	s.notef("%v will fail %d times after %d", f.Op, f.Times, f.After)
	s.fs.Inject(f)
}

// end closes the log or crashes.
func (s *schedule) end() {
	if s.closed {
		s.closeLog()
		return
	}
	if s.rng.IntN(2) == 0 {
		// With pending faults, in whatever state the log is.
		s.catchUp()
	}
	s.crash()
}

// crash ends the process or the machine.
func (s *schedule) crash() {
	old := s.fs
	if s.log != nil {
		s.written = max(s.written, s.log.Written())
		s.durable = max(s.durable, s.log.Durable())
	}
	if s.rng.IntN(2) == 0 && !s.mustCutPower() {
		s.notef("kill: written %d, durable %d", s.written, s.durable)
		s.fs = old.Kill()
	} else {
		s.notef("power cut: written %d, durable %d", s.written, s.durable)
		s.fs = old.PowerCut(s.rng)
		s.written = s.durable
	}
	s.drop()
}

// drop ends the goroutines of a log whose file system is dead.
func (s *schedule) drop() {
	for _, f := range s.readers {
		f.Close()
	}
	s.readers = nil
	if s.log != nil {
		_, _ = s.log.Close()
		s.log = nil
	}
}

// closeLog is a clean close. If it fails the process ends all the same.
func (s *schedule) closeLog() {
	s.catchUp()
	tail, err := s.log.Close()
	s.notef("closed: %v", err)
	s.written = max(s.written, s.log.Written())
	s.durable = max(s.durable, s.log.Durable())
	if err == nil {
		if n := uint64(len(s.ops)); s.written != n || s.durable != n || tail.LSN != n && tail != (Tail{}) {
			s.fatalf("a clean close of %d ops: written %d, durable %d, tail %+v", n, s.written, s.durable, tail)
		}
	}
	for _, f := range s.readers {
		f.Close()
	}
	s.readers = nil
	if s.mustCutPower() {
		s.notef("power cut")
		s.fs = s.fs.PowerCut(s.rng)
		s.written = s.durable
	} else {
		s.fs = s.fs.Kill()
	}
	s.log = nil
}

// mustCutPower says that an fsync failed and the process could not even note
// that. The next one would take for durable what is not, so that the machine
// must end with this one.
func (s *schedule) mustCutPower() bool {
	if s.log == nil || !isFailure(s.log.failure()) {
		return false
	}
	_, err := s.fs.Kill().Stat("data/appendonlydir/" + failedSyncName)
	return err != nil
}
