package feed

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"kevy/internal/op"
	"kevy/internal/vfs"
	"kevy/persist"
)

// The model keeps each stream as a plain list of frames per generation and
// answers every request by going through it.

type modelFrame struct {
	lsn         uint64
	first, last uint64 // offsets
	unixMs      int64
	db          int
	cause       op.Cause
	raw         string
}

// args takes the frame's command apart.
func (f *modelFrame) args() (args []string) {
	line := func(rest string) (n int, _ string) {
		head, rest, _ := strings.Cut(rest[1:], "\r\n")
		fmt.Sscan(head, &n)
		return n, rest
	}
	n, rest := line(f.raw)
	for range n {
		var size int
		size, rest = line(rest)
		args = append(args, rest[:size])
		rest = rest[size+2:]
	}
	return args
}

func (f *modelFrame) verb() string { return f.args()[0] }

type modelGeneration struct {
	draw     uint64
	firstLSN uint64
	endLSN   uint64 // once ended
	ended    bool
	frames   [][]modelFrame // by stream
}

type feedModel struct {
	t      *testing.T
	rng    *rand.Rand
	shards int
	fs     vfs.FS

	log      *fakeLog
	source   *Source
	contract *persist.Contract
	tail     persist.Tail
	gens     []*modelGeneration

	answers map[string]int
}

func newFeedModel(t *testing.T, seed uint64, shards int) *feedModel {
	m := &feedModel{t: t, rng: rand.New(rand.NewPCG(seed, 1)), shards: shards, fs: fakeDir(t), answers: map[string]int{}}
	m.log = newFakeLog(nil)
	m.log.blockBytes = 300
	m.open(false, "")
	m.log.cut()
	return m
}

// smallMarks makes marks close and few, so that every way to find an offset is
// taken.
func smallMarks(mk *marks, shards int) {
	mk.size(shards, 7, 1<<20, 5)
}

// open begins a run on m.log, as the engine does.
func (m *feedModel) open(clean bool, newHistory string) {
	t := m.t
	side, err := persist.ReadSidecars(m.fs, "data", m.shards)
	must(t, err)
	r := NewRecovery(m.shards, side.Starts())
	smallMarks(r.marks, m.shards)
	// What the sidecars do not know has to be in the log that is read.
	known := uint64(1)
	if starts := side.Starts(); len(starts) > 0 {
		known = starts[len(starts)-1].FirstLSN
	}
	var segments []uint64
	for _, e := range m.log.entries {
		if e.segment && (e.first <= known || e.first == 1) {
			segments = append(segments, e.first)
		}
	}
	if len(segments) > 0 {
		// The base reaches up to some segment's beginning.
		m.log.recover(t, r, m.shards, segments[m.rng.IntN(len(segments))])
	}
	facts := r.Finish(m.log.last)
	m.tail.LSN = m.log.last
	facts.Tail = m.tail
	if newHistory != "" {
		facts.NewHistory = newHistory
	}
	m.contract, err = persist.OpenContract(side, facts, 1_790_000_000)
	must(t, err)
	h := m.contract.History()
	if h.Resumed != clean {
		t.Fatalf("resumed %v after a clean close %v: %s", h.Resumed, clean, h.Reason)
	}
	m.source = New(Options{Shards: m.shards, RetainBytes: -1})
	m.log.source = m.source
	must(t, m.source.Open(m.log, h, r))
	m.follow(&h, newHistory)
}

// follow does to the model's lists what the crash did.
func (m *feedModel) follow(h *persist.History, newHistory string) {
	if h.Resumed {
		return
	}
	if newHistory != "" {
		m.gens = nil
	}
	for len(m.gens) > 0 && m.gens[len(m.gens)-1].firstLSN > m.log.last {
		// All its frames are lost. If its name is too, nobody can be moved on from it.
		g := m.gens[len(m.gens)-1]
		if g.firstLSN == m.log.last+1 && slices.ContainsFunc(h.Streams[0].Lineage, func(p persist.Past) bool { return p.Generation == g.draw }) {
			break
		}
		m.gens = m.gens[:len(m.gens)-1]
	}
	if len(m.gens) > 0 {
		m.end()
		for i, frames := range m.gens[len(m.gens)-1].frames {
			n, _ := slices.BinarySearchFunc(frames, m.log.last+1, func(f modelFrame, lsn uint64) int { return cmp.Compare(f.lsn, lsn) })
			m.gens[len(m.gens)-1].frames[i] = frames[:n]
		}
	}
	m.begin(h.Draw)
}

func (m *feedModel) end() {
	g := m.gens[len(m.gens)-1]
	g.ended, g.endLSN = true, m.log.last
}

func (m *feedModel) begin(draw uint64) {
	m.gens = append(m.gens, &modelGeneration{draw: draw, firstLSN: m.log.last + 1, frames: make([][]modelFrame, m.shards+1)})
}

// commit commits 1 to 5 random ops.
func (m *feedModel) commit() {
	var ops []loggedOp
	for range 1 + m.rng.IntN(5)*m.rng.IntN(2) {
		o := loggedOp{db: m.rng.IntN(3)}
		switch m.rng.IntN(40) {
		case 0:
			o.args = []string{"FLUSHDB"}
		case 1:
			o.args = []string{"SWAPDB", "2", fmt.Sprint(m.rng.IntN(2) * 3)}
		case 2, 3:
			o.cause, o.args = op.Expired, []string{"DEL", m.traffic().key()}
		case 4, 5, 6, 7:
			o.args = []string{"SET", m.traffic().key(), strings.Repeat("v", m.rng.IntN(60))}
		default:
			for o.args = m.traffic().op(); o.args[0] == "FLUSHDB"; {
				o.args = m.traffic().op()
			}
		}
		ops = append(ops, o)
	}
	m.publish(ops...)
}

func (m *feedModel) traffic() traffic { return traffic{m.rng} }

// publish appends a commit to the log and to the lists.
func (m *feedModel) publish(ops ...loggedOp) {
	c := commitOfArgs(m.shards, ops...)
	last := m.log.append(c)
	first := last - uint64(c.Ops()) + 1
	g := m.gens[len(m.gens)-1]
	raw := c.Bytes()
	begin := make([]int, m.shards+1)
	for s := range g.frames {
		begin[s] = len(g.frames[s])
	}
	var sc op.Scanner
	sc.Reset(raw, 0)
	for i := range c.Ops() {
		f, err := sc.Next()
		must(m.t, err)
		frame := modelFrame{
			lsn: first + uint64(i), unixMs: m.log.entries[len(m.log.entries)-1].unixMs, db: c.DB(i), cause: ops[i].cause, raw: string(f.Raw),
		}
		for s := range g.frames {
			if s == m.shards || c.Stream(i) == op.EveryStream || c.Stream(i) == s {
				g.frames[s] = append(g.frames[s], frame)
			}
		}
	}
	for s := range g.frames {
		for i := begin[s]; i < len(g.frames[s]); i++ {
			g.frames[s][i].first, g.frames[s][i].last = uint64(begin[s]), uint64(len(g.frames[s])-1)
		}
	}
}

func (m *feedModel) flushAll() {
	draw, err := m.contract.Draw(1_790_000_000)
	must(m.t, err)
	m.source.ExpectFlushAll(draw)
	m.publish(loggedOps("1/SET last v", "FLUSHALL", "SET after v")...)
	m.log.annotate(draw)
	if m.rng.IntN(4) == 0 {
		m.log.cut() // a segment was full just then
	}
	end, ends := m.source.LastEnd()
	m.contract.Bump(draw, end, ends, persist.FlushAll)
	m.end()
	m.begin(draw)
}

// crash loses what follows a random block after the durable one and starts
// again.
func (m *feedModel) crash() {
	keep := m.log.durable + uint64(m.rng.IntN(int(m.log.last-m.log.durable)+1))
	m.source.Close()
	m.log = m.log.lose(keep, nil)
	if n := len(m.log.entries); n > 0 && m.log.entries[n-1].gen != 0 && m.rng.IntN(2) == 0 {
		m.log.entries = m.log.entries[:n-1]
	}
	m.log.oldest = min(m.log.oldest, m.log.last+1)
	history := ""
	if m.rng.IntN(6) == 0 {
		history = "another server wrote to the log"
	}
	m.open(false, history)
	if m.rng.IntN(2) == 0 {
		m.log.cut()
	}
}

func (m *feedModel) cleanRestart() {
	m.log.sync()
	next := m.source.NextOffsets()
	m.source.Close()
	must(m.t, m.contract.Close(persist.Tail{LSN: m.log.last}, next))
	m.log = m.log.lose(m.log.last, nil)
	m.open(true, "")
}

func (m *feedModel) number(g *modelGeneration, stream int) uint64 { return g.draw + uint64(stream) }

// cursor returns a cursor of the stream, mostly a good one.
func (m *feedModel) cursor(stream int) Cursor {
	g := m.gens[m.rng.IntN(len(m.gens))]
	n := len(g.frames[stream])
	at := Cursor{m.number(g, stream), uint64(m.rng.IntN(n + 2))}
	switch m.rng.IntN(12) {
	case 0:
		at.Offset = uint64(n)
	case 1:
		at.Generation += 3
	case 2:
		at.Offset = 0
	}
	return at
}

type wantedAnswer struct {
	err string // reason of a resync, or "ahead"
	// evicted: the log does not reach back to it, but a reader of the log that was
	// kept may have it still.
	evicted bool
	at      Cursor
	frames  []modelFrame
	next    modelFrame
	more    bool // next is there
}

// answer goes through the lists.
func (m *feedModel) answer(req *Request, ref *refFilter) (w wantedAnswer, offsets []uint64) {
	k := len(m.gens) - 1
	for k >= 0 && m.number(m.gens[k], req.Stream) != req.Cursor.Generation {
		k--
	}
	if k < 0 || req.Strict && m.gens[k].ended {
		return wantedAnswer{err: ReasonGeneration}, nil
	}
	g := m.gens[k]
	frames := g.frames[req.Stream]
	end := uint64(len(frames))
	limit := m.log.last
	if g.ended {
		limit = g.endLSN
	}
	visible := limit
	if req.Durable {
		limit = min(limit, m.log.durable)
	}
	at := req.Cursor.Offset
	switch {
	case at > end && g.ended:
		return wantedAnswer{err: ReasonLost}, nil
	case at > end:
		return wantedAnswer{err: "ahead"}, nil
	case at == end && g.ended && limit == visible:
		return wantedAnswer{at: Cursor{m.number(m.gens[k+1], req.Stream), 0}}, nil
	}
	w.at = req.Cursor
	w.evicted = at < end && frames[at].lsn < m.log.oldest
	bytes := 0
	for at < end && len(w.frames) < req.count() && bytes < req.bytes() && frames[at].lsn <= limit {
		commit := frames[at : frames[at].last+1]
		for i := range commit {
			if ref != nil && !ref.allDBs && commit[i].verb() == "SWAPDB" {
				db := fmt.Sprint(ref.db)
				lost := slices.Contains(commit[i].args()[1:], db)
				if lost && len(w.frames) > 0 {
					w.next, w.more = frames[at], true
					return w, offsets
				} else if lost {
					return wantedAnswer{err: ReasonSwapDB, evicted: w.evicted}, nil
				}
			}
		}
		for i := range commit {
			if ref == nil || ref.passes(commit[i].db, commit[i].args()) {
				w.frames = append(w.frames, commit[i])
				offsets = append(offsets, at+uint64(i))
				bytes += len(commit[i].raw)
			}
		}
		at = frames[at].last + 1
		w.at.Offset = at
	}
	if at < end {
		w.next, w.more = frames[at], true
	}
	return w, offsets
}

func (m *feedModel) request() (req Request, ref *refFilter) {
	req = Request{Stream: m.rng.IntN(m.shards + 1), Durable: m.rng.IntN(4) == 0, Strict: m.rng.IntN(6) == 0}
	req.Cursor = m.cursor(req.Stream)
	if m.rng.IntN(2) == 0 {
		req.Count = 1 + m.rng.IntN(20)
	}
	if m.rng.IntN(4) == 0 {
		req.Bytes = 1 + m.rng.IntN(500)
	}
	if m.rng.IntN(2) == 0 {
		ref = m.traffic().filter()
		req.Filter = ref.filter(m.t)
	}
	return req, ref
}

// ask sends a request and compares, then goes on from the answer for a while.
func (m *feedModel) ask(b *Batch) {
	req, ref := m.request()
	for range 1 + m.rng.IntN(4) {
		w, offsets := m.answer(&req, ref)
		err := m.source.Since(ctx, &req, b)
		m.compare(&req, w, offsets, err, b)
		if err != nil {
			return
		}
		req.Cursor = Cursor{b.Generation, b.Next}
		if m.rng.IntN(3) == 0 {
			m.commit()
		}
	}
}

func (m *feedModel) compare(req *Request, w wantedAnswer, offsets []uint64, err error, b *Batch) {
	t := m.t
	var resync *ResyncError
	if w.evicted {
		if isResync(err, ReasonEvicted) {
			w.err = ReasonEvicted
		} else if err == nil && b.Len() <= len(w.frames) && b.Next < w.at.Offset {
			// It had a part of it.
			w.frames = w.frames[:b.Len()]
			w.at.Offset, w.more = b.Next, false
		}
	}
	switch {
	case w.err == "ahead":
		m.answers["ahead"]++
		if !errors.Is(err, ErrAhead) {
			t.Fatalf("%+v: %v, want %v", req, err, ErrAhead)
		}
		return
	case w.err != "":
		m.answers[w.err]++
		if !errors.As(err, &resync) || resync.Reason != w.err || resync.Strict != req.Strict {
			t.Fatalf("%+v: %v, want resync for %s; oldest LSN %d", req, err, w.err, m.log.oldest)
		}
		if resync.Tail != m.source.Tail(req.Stream) || !req.Strict && resync.Oldest != m.oldest(req.Stream, m.log.oldest) {
			t.Fatalf("%+v: %+v; oldest is %v", req, resync, m.oldest(req.Stream, m.log.oldest))
		}
		return
	case err != nil:
		t.Fatalf("%+v: %v", req, err)
	}
	if at := (Cursor{b.Generation, b.Next}); at != w.at {
		t.Fatalf("%+v: went on to %+v, want %+v", req, at, w.at)
	}
	i := 0
	must(t, b.Each(func(f *Frame) error {
		if i < len(w.frames) {
			x := &w.frames[i]
			got := modelFrame{
				lsn: f.LSN, first: f.First, last: f.Last, unixMs: f.UnixMs, db: f.DB, cause: f.Cause, raw: string(f.Raw),
			}
			// FLUSHALL and SWAPDB have no database of their own.
			if v := x.verb(); v == "FLUSHALL" || v == "SWAPDB" {
				got.db = x.db
			}
			if got != *x || f.Offset != offsets[i] {
				t.Fatalf("%+v: frame %d\n%+v\nwant %d\n%+v", req, f.Offset, got, offsets[i], *x)
			}
		}
		i++
		return nil
	}))
	if i != len(w.frames) {
		t.Fatalf("%+v: %d frames, want %d", req, i, len(w.frames))
	}
	if i > 0 && b.CompleteLSN < w.frames[i-1].lsn || w.more && b.CompleteLSN >= w.next.lsn {
		t.Fatalf("%+v: complete up to LSN %d", req, b.CompleteLSN)
	}
	switch {
	case w.at.Generation != req.Cursor.Generation:
		m.answers["moved"]++
	case i > 0:
		m.answers["frames"]++
	case w.at != req.Cursor:
		m.answers["skipped"]++
	default:
		m.answers["caught up"]++
	}
}

// oldest is the cursor of the first frame at or after an LSN.
func (m *feedModel) oldest(stream int, lsn uint64) Cursor {
	k := len(m.gens) - 1
	for k > 0 && m.gens[k].firstLSN > lsn {
		k--
	}
	n := 0
	for _, f := range m.gens[k].frames[stream] {
		if f.lsn < lsn {
			n++
		}
	}
	return Cursor{m.number(m.gens[k], stream), uint64(n)}
}

func (m *feedModel) askGet(b *Batch) {
	stream := m.rng.IntN(m.shards + 1)
	at := m.cursor(stream)
	first, last, err := m.source.Get(stream, at, b)
	w, _ := m.answer(&Request{Stream: stream, Cursor: at, Count: 1}, nil)
	var notFound *NotFoundError
	switch {
	case w.err == "ahead" || w.err == "" && len(w.frames) == 0 && w.at == at:
		if !errors.As(err, &notFound) {
			m.t.Fatalf("get %d %v: %v", stream, at, err)
		}
	case w.evicted && isResync(err, ReasonEvicted):
	case w.err == "" && len(w.frames) == 0:
		if !isResync(err, ReasonLost) {
			m.t.Fatalf("get %d %v beyond a generation's end: %v", stream, at, err)
		}
	case w.err != "":
		if !isResync(err, w.err) {
			m.t.Fatalf("get %d %v: %v, want %s", stream, at, err, w.err)
		}
	default:
		x := w.frames[0]
		if err != nil || first != x.first || last != x.last || b.Len() != int(last-first)+1 {
			m.t.Fatalf("get %d %v: %d-%d, %d frames, %v; want %d-%d", stream, at, first, last, b.Len(), err, x.first, x.last)
		}
		m.answers["get"]++
	}
}

func (m *feedModel) askPlaces() {
	stream := m.rng.IntN(m.shards + 1)
	at, err := m.source.Oldest(stream)
	must(m.t, err)
	if want := m.oldest(stream, m.log.oldest); at != want {
		m.t.Fatalf("the oldest of stream %d is %v, want %v; oldest LSN %d", stream, at, want, m.log.oldest)
	}
	// After the last op of a random commit.
	g := m.gens[m.rng.IntN(len(m.gens))]
	frames := g.frames[m.shards]
	if len(frames) == 0 {
		return
	}
	lsn := g.firstLSN + frames[m.rng.IntN(len(frames))].last
	cursors, err := m.source.CursorsAfter(lsn, []int{stream})
	must(m.t, err)
	want := m.oldest(stream, lsn+1)
	if lsn+1 < m.log.oldest {
		if cursors[0] != want && cursors[0] != m.source.Tail(stream) {
			m.t.Fatalf("after LSN %d stream %d stands at %v, want %v or the tail", lsn, stream, cursors[0], want)
		}
		return
	}
	if cursors[0] != want {
		m.t.Fatalf("after LSN %d stream %d stands at %v, want %v", lsn, stream, cursors[0], want)
	}
	m.answers["place"]++
}

func TestAgainstPlainLists(t *testing.T) {
	seed := seedOf(t)
	total := map[string]int{}
	for run := range uint64(25) {
		m := newFeedModel(t, seed+run, 1+int(run%4))
		var b Batch
		for range 400 {
			switch m.rng.IntN(30) {
			case 0:
				m.flushAll()
			case 1:
				m.log.sync()
				must(t, m.contract.Sync(m.log.durable))
			case 2:
				m.log.cut()
			case 3:
				if m.rng.IntN(3) == 0 {
					m.log.drop(min(m.log.oldest+uint64(m.rng.IntN(40)), m.log.durable+1))
				}
			case 4:
				if m.rng.IntN(3) == 0 {
					m.crash()
				}
			case 5:
				if m.rng.IntN(3) == 0 {
					m.cleanRestart()
				}
			case 6, 7, 8, 9:
				for range 1 + m.rng.IntN(12) {
					m.commit()
				}
			case 10, 11:
				m.askGet(&b)
			case 12, 13:
				m.askPlaces()
			default:
				m.ask(&b)
			}
			if len(m.gens) > 60 {
				break
			}
		}
		b.Release()
		m.source.Close()
		if n := m.log.held(); n != 0 {
			t.Fatalf("%d readers of the log are still open", n)
		}
		for k, n := range m.answers {
			total[k] += n
		}
	}
	t.Log(total)
	for _, k := range []string{"frames", "skipped", "caught up", "moved", "ahead", ReasonEvicted, ReasonGeneration, ReasonLost, ReasonSwapDB, "get", "place"} {
		if total[k] < 20 {
			t.Errorf("only %d answers of the kind %q", total[k], k)
		}
	}
}
