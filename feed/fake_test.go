package feed

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"sort"
	"strings"
	"sync"
	"testing"

	"kevy/internal/op"
	"kevy/internal/vfs"
	"kevy/persist"
)

// fakeLog is an Archive in memory, with blocks, segments and a durable border
// that the test moves.
type fakeLog struct {
	mu      sync.Mutex
	source  *Source
	pos     op.LogPosition
	entries []fakeEntry // guarded by mu
	open    bool        // the last entry takes more commits; guarded by mu
	last    uint64      // guarded by mu
	durable uint64      // guarded by mu
	oldest  uint64      // guarded by mu
	floor   uint64      // guarded by mu
	kept    uint64      // as Keep said; guarded by mu
	nowMs   int64
	noFile  bool
	lasting bool // what was read is not spoilt: benchmarks

	onOpen     func() // called by OpenAt before it looks at anything
	blockBytes int
	opened     int // readers opened, ever; guarded by mu
	alive      int // readers not closed; guarded by mu
}

// fakeEntry is a block, or a line between blocks if gen or segment is set.
type fakeEntry struct {
	first   uint64
	ops     int
	unixMs  int64
	payload []byte

	gen       uint64
	segment   bool
	positions []Position
}

func newFakeLog(source *Source) *fakeLog {
	return &fakeLog{source: source, oldest: 1, blockBytes: 4 << 10, nowMs: 1_000_000}
}

func (l *fakeLog) append(c *op.Commit) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.Bind(&l.pos)
	if l.open && len(l.entries[len(l.entries)-1].payload) >= l.blockBytes {
		l.open = false
	}
	if !l.open {
		l.nowMs += 3
		l.entries = append(l.entries, fakeEntry{first: l.last + 1, unixMs: l.nowMs})
		l.open = true
	}
	e := &l.entries[len(l.entries)-1]
	e.payload = c.AppendTo(e.payload, e.ops == 0)
	e.ops += c.Ops()
	first := l.last + 1
	l.last += uint64(c.Ops())
	l.source.Publish(first, c)
	return l.last
}

func (l *fakeLog) annotate(draw uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = false
	l.entries = append(l.entries, fakeEntry{first: l.last + 1, gen: draw})
}

func (l *fakeLog) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = false
	e := fakeEntry{first: l.last + 1, segment: true, unixMs: l.nowMs}
	for _, line := range strings.Split(strings.TrimSuffix(string(l.source.AppendPositions(nil)), "\r\n"), "\r\n") {
		var p Position
		if _, err := fmt.Sscanf(line, "#kevy-pos %d %d %d", &p.Stream, &p.Generation, &p.Next); err != nil {
			panic(err)
		}
		e.positions = append(e.positions, p)
	}
	l.entries = append(l.entries, e)
}

func (l *fakeLog) seal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = false
}

func (l *fakeLog) sync() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = false
	l.durable = l.last
}

// drop forgets what lies before the block that holds lsn.
func (l *fakeLog) drop(lsn uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		if e.ops > 0 && e.first <= lsn && e.first > l.oldest {
			l.oldest = e.first
		}
	}
	if lsn > l.last {
		l.oldest = l.last + 1
		l.open = false
	}
}

// held returns how many readers are open.
func (l *fakeLog) held() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.alive
}

func (l *fakeLog) Last() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

func (l *fakeLog) Durable() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.durable
}

func (l *fakeLog) OldestLSN() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.oldest
}

func (l *fakeLog) BytesFrom(lsn uint64) (bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		if e.first+uint64(e.ops) > lsn {
			bytes += int64(len(e.payload))
		}
	}
	return bytes
}

func (l *fakeLog) Keep(lsn uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = lsn
}

// SetFloor lets go of what lies below the floor, by segments.
func (l *fakeLog) SetFloor(lsn uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.floor = lsn
	if l.noFile {
		return
	}
	for _, e := range l.entries {
		if e.segment && e.first <= lsn {
			l.oldest = max(l.oldest, e.first)
		}
	}
}

func (l *fakeLog) RemoveDropped() {}

func (l *fakeLog) FirstAt(unixMs int64) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		if e.ops > 0 && e.first >= l.oldest && e.unixMs >= unixMs {
			return e.first, nil
		}
	}
	return l.last + 1, nil
}

func (l *fakeLog) BlockCRC(lsn uint64) (uint32, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		if e.first <= lsn && lsn < e.first+uint64(e.ops) {
			if e.first < l.oldest {
				return 0, ErrTruncated
			}
			return crc32.ChecksumIEEE(e.payload), nil
		}
	}
	return 0, fmt.Errorf("no block holds LSN %d", lsn)
}

func (l *fakeLog) MemoryBytes() int64 { return 12345 }

func (l *fakeLog) Segments() []Segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	var segs []Segment
	if l.noFile {
		return nil
	}
	for _, e := range l.entries {
		if e.segment && e.first >= l.oldest {
			segs = append(segs, Segment{FirstLSN: e.first, LastMs: e.unixMs, Spare: true, Positions: func() ([]Position, error) { return e.positions, nil }})
		} else if len(segs) > 0 {
			seg := &segs[len(segs)-1]
			seg.Bytes += int64(len(e.payload))
			seg.LastMs = max(seg.LastMs, e.unixMs)
		}
	}
	return segs
}

type fakeReader struct {
	log   *fakeLog
	entry int
	read  int // bytes of it
	ops   int // of it
	buf   []byte
}

func (l *fakeLog) OpenAt(lsn uint64) (ArchiveReader, error) {
	if fn := l.onOpen; fn != nil {
		l.onOpen = nil
		fn()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if lsn < l.oldest {
		return nil, fmt.Errorf("LSN %d: %w", lsn, ErrTruncated)
	}
	if lsn > l.last+1 {
		return nil, fmt.Errorf("LSN %d is beyond the tail", lsn)
	}
	l.opened++
	l.alive++
	i := sort.Search(len(l.entries), func(i int) bool { return l.entries[i].first > lsn })
	for i > 0 && (i == len(l.entries) || l.entries[i].first > lsn) {
		i--
	}
	for i < len(l.entries) && l.entries[i].first+uint64(l.entries[i].ops) <= lsn && (i < len(l.entries)-1 || !l.open) {
		i++
	}
	return &fakeReader{log: l, entry: i}, nil
}

func (r *fakeReader) Next() (Span, bool, error) {
	l := r.log
	l.mu.Lock()
	defer l.mu.Unlock()
	for ; r.entry < len(l.entries); r.entry, r.read, r.ops = r.entry+1, 0, 0 {
		e := &l.entries[r.entry]
		if len(e.payload) > r.read {
			if e.first < l.oldest {
				return Span{}, false, ErrTruncated
			}
			// A copy that the next call spoils, as the contract allows.
			for i := range r.buf {
				if l.lasting {
					break
				}
				r.buf[i] = 'x'
			}
			r.buf = append(r.buf[:0], e.payload[r.read:]...)
			s := Span{FirstLSN: e.first + uint64(r.ops), Ops: e.ops - r.ops, UnixMs: e.unixMs, BlockStart: r.read == 0, Payload: r.buf}
			r.read, r.ops = len(e.payload), e.ops
			return s, true, nil
		}
		if r.entry == len(l.entries)-1 {
			break
		}
	}
	return Span{}, false, nil
}

func (r *fakeReader) Close() {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	if r.log == nil || r.entry < 0 {
		panic("closed twice")
	}
	r.entry = -1
	r.log.alive--
}

// recover reads the log again from the segment that begins at or before from,
// as a start does.
func (l *fakeLog) recover(t *testing.T, r *Recovery, shards int, from uint64) {
	t.Helper()
	begin := 0
	for i, e := range l.entries {
		if e.segment && e.first <= from {
			begin = i
		}
	}
	var sc op.Scanner
	for _, e := range l.entries[begin:] {
		for _, p := range e.positions {
			must(t, r.Position(p.Stream, p.Generation, p.Next))
		}
		if e.gen != 0 {
			must(t, r.Generation(e.gen, e.first-1))
		}
		if e.ops == 0 {
			continue
		}
		r.Block(e.first, len(e.payload))
		sc.Reset(e.payload, 0)
		for {
			f, err := sc.Next()
			must(t, err)
			if f == nil {
				break
			}
			stream := op.EveryStream
			if f.Verb.Keyed() {
				stream = op.ShardOf(f.Key(), shards)
			}
			r.Op(stream)
		}
	}
}

// lose takes back what was appended after the block that ends with lsn or
// before it, and returns the log that a restart finds.
func (l *fakeLog) lose(lsn uint64, source *Source) *fakeLog {
	n := newFakeLog(source)
	n.blockBytes, n.nowMs, n.oldest, n.noFile = l.blockBytes, l.nowMs, l.oldest, l.noFile
	for _, e := range l.entries {
		if e.ops > 0 && e.first+uint64(e.ops)-1 > lsn || e.first-1 > lsn {
			break
		}
		e.payload = append([]byte(nil), e.payload...)
		n.entries = append(n.entries, e)
		n.last = e.first + uint64(e.ops) - 1
	}
	n.durable = n.last
	return n
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// openFake returns a source over an empty log.
func openFake(t testing.TB, shards int) (*Source, *fakeLog) {
	t.Helper()
	s := New(Options{Shards: shards, RetainBytes: -1})
	l := newFakeLog(s)
	h, err := persist.FreshHistory(1_790_000_000, shards)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Open(l, h, nil); err != nil {
		t.Fatal(err)
	}
	l.cut()
	return s, l
}

// loggedOp is an op as the tests write it.
type loggedOp struct {
	db    int
	cause op.Cause
	args  []string
}

// commitOf builds a commit out of the texts that loggedOps takes.
func commitOf(shards int, texts ...string) *op.Commit {
	return commitOfArgs(shards, loggedOps(texts...)...)
}

// loggedOps reads texts such as "SET k v" or "0/DEL k", the number being the
// database; a leading "x:" or "e:" is the cause.
func loggedOps(texts ...string) []loggedOp {
	ops := make([]loggedOp, len(texts))
	for i, text := range texts {
		o := &ops[i]
		if rest, ok := strings.CutPrefix(text, "x:"); ok {
			o.cause, text = op.Expired, rest
		} else if rest, ok := strings.CutPrefix(text, "e:"); ok {
			o.cause, text = op.Evicted, rest
		}
		if n, rest, ok := strings.Cut(text, "/"); ok {
			fmt.Sscan(n, &o.db)
			text = rest
		}
		o.args = strings.Split(text, " ")
	}
	return ops
}

func commitOfArgs(shards int, ops ...loggedOp) *op.Commit {
	var c op.Commit
	for _, o := range ops {
		verb := verbs[o.args[0]]
		stream := op.EveryStream
		if verb.Keyed() {
			stream = op.ShardOf([]byte(o.args[verb.KeyAt()]), shards)
		}
		c.Begin(verb, o.db, stream, o.cause, len(o.args))
		for _, a := range o.args[1:] {
			c.ArgString(a)
		}
		c.End()
	}
	return &c
}

var verbs = func() map[string]op.Verb {
	m := map[string]op.Verb{}
	for i, name := range trafficVerbs {
		m[name] = op.Verb(i + 1)
	}
	return m
}()

// flushAll commits a FLUSHALL and begins the generation of draw.
func (l *fakeLog) flushAll(shards int, draw uint64) (uint64, []uint64) {
	l.source.ExpectFlushAll(draw)
	l.append(commitOf(shards, "FLUSHALL"))
	l.annotate(draw)
	return l.source.LastEnd()
}

// texts returns the frames of a batch as "offset VERB key …".
func texts(t testing.TB, b *Batch) []string {
	t.Helper()
	var out []string
	if err := b.Each(func(f *Frame) error {
		out = append(out, fmt.Sprintf("%d %s", f.Offset, rawText(f.Raw)))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(out) != b.Len() {
		t.Fatalf("Len is %d, Each has %d", b.Len(), len(out))
	}
	return out
}

// rawText returns the arguments of a RESP command, joined by spaces.
func rawText(raw []byte) string {
	lines := strings.Split(string(raw), "\r\n")
	var args []string
	for i := 2; i < len(lines); i += 2 {
		args = append(args, lines[i])
	}
	return strings.Join(args, " ")
}

// seedOf returns a random seed, or the one that KEVY_SEED names, and says which.
func seedOf(t testing.TB) uint64 {
	t.Helper()
	seed := rand.Uint64() >> 1
	if text := os.Getenv("KEVY_SEED"); text != "" {
		if _, err := fmt.Sscan(text, &seed); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("KEVY_SEED=%d", seed)
	return seed
}

// fakeDir is a place for sidecars.
func fakeDir(t *testing.T) vfs.FS {
	t.Helper()
	mem := vfs.NewMem()
	must(t, mem.MkdirAll("data"))
	return mem
}
