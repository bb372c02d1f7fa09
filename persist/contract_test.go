package persist

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"kevy/internal/vfs"
)

// A small store around the contract: a log whose lines are ops, readers that see
// each op the moment it is appended, and crashes. Ops have identities that are
// never used twice, so that two frames under one name show.

const (
	modelShards = 2
	modelAll    = modelShards
	logName     = "data/log"
	nowSec      = 1_790_000_000
)

// modelOp is one line of the log; stream is -1 for an op of every stream.
type modelOp struct {
	id     int
	stream int
}

func (o modelOp) in(stream int) bool {
	return stream == modelAll || o.stream < 0 || o.stream == stream
}

type frameName struct {
	stream             int
	generation, offset uint64
}

// follower reads one stream from its first frame on.
type follower struct {
	stream             int
	generation, offset uint64
	seen               []int
	resyncs            int
}

type model struct {
	t        *testing.T
	rng      *rand.Rand
	mem      *vfs.Mem // below fs
	fs       vfs.FS
	log      vfs.File
	contract *Contract
	ops      []modelOp // of the running log
	durable  int       // ops known to be fsynced
	next     []uint64
	lastCRC  uint32

	nextID    int
	named     map[frameName]int
	followers []*follower

	bumps, resumes int
	liar           bool // the disk loses what it called durable
}

func newModel(t *testing.T, seed uint64) *model {
	m := &model{t: t, rng: rand.New(rand.NewPCG(seed, 7)), mem: vfs.NewMem(), named: map[frameName]int{}}
	must(t, m.mem.MkdirAll("data"))
	m.fs = m.mem
	for s := range modelShards + 1 {
		m.followers = append(m.followers, &follower{stream: s})
	}
	return m
}

// line encodes an entry of the log with its checksum.
func line(text string) []byte {
	return fmt.Appendf(nil, "%s %08x\n", text, crc32.Checksum([]byte(text), castagnoli))
}

func (m *model) open() error {
	m.next = make([]uint64, modelShards+1)
	side, err := ReadSidecars(m.fs, "data", modelShards)
	if err != nil {
		return err
	}
	facts, err := m.recover(side)
	if err != nil {
		return err
	}
	m.contract, err = OpenContract(side, facts, nowSec)
	if err != nil {
		return err
	}
	h := m.contract.History()
	for i, st := range h.Streams {
		m.next[i] = st.Next
	}
	if h.Resumed {
		m.resumes++
	} else {
		m.bumps++
	}
	m.durable = len(m.ops)
	if known := side.KnownDurableLSN(); known > uint64(len(m.ops)) && !m.liar {
		m.t.Fatalf("LSN %d was known to be durable, the log ends with %d", known, len(m.ops))
	}
	m.follow(&h)
	return nil
}

// recover reads the log up to the first bad line, cuts what follows and fsyncs.
func (m *model) recover(side *Sidecars) (facts Recovered, err error) {
	m.ops, m.lastCRC = nil, 0
	f, err := m.fs.OpenAppend(logName)
	if err != nil {
		return facts, err
	}
	if err := m.fs.SyncDir("data"); err != nil {
		return facts, errors.Join(err, f.Close())
	}
	m.log = f
	size, err := f.Size()
	if err != nil {
		return facts, err
	}
	data, err := io.ReadAll(io.NewSectionReader(f, 0, size))
	if err != nil {
		return facts, err
	}
	starts := side.Starts()
	facts.Next = make([]uint64, modelShards+1)
	begin := func(s Start) {
		if s.Draw <= facts.Draw {
			return
		}
		c := Change{Start: s, From: facts.Draw}
		if facts.Draw != 0 {
			c.Ends = append([]uint64(nil), facts.Next...)
		}
		facts.Changes = append(facts.Changes, c)
		facts.Draw = s.Draw
		clear(facts.Next)
	}
	catchUp := func() {
		for len(starts) > 0 && starts[0].FirstLSN <= uint64(len(m.ops))+1 {
			if starts[0].FirstLSN == uint64(len(m.ops))+1 || facts.Draw == 0 {
				begin(starts[0])
			}
			starts = starts[1:]
		}
	}
	good := 0
	for {
		catchUp()
		text, _, whole := bytes.Cut(data[good:], []byte("\n"))
		if !whole {
			break
		}
		i := bytes.LastIndexByte(text, ' ')
		if i < 0 || !bytes.Equal(line(string(text[:i])), data[good:good+len(text)+1]) {
			break
		}
		fields := strings.Fields(string(text[:i]))
		switch n, _ := strconv.Atoi(fields[1]); fields[0] {
		case "gen":
			begin(Start{uint64(n), uint64(len(m.ops)) + 1})
		case "op":
			stream, _ := strconv.Atoi(fields[2])
			op := modelOp{n, stream}
			m.ops = append(m.ops, op)
			count(facts.Next, op)
			m.lastCRC = crc32.Checksum(text[:i], castagnoli)
		}
		good += len(text) + 1
	}
	if err := f.Truncate(int64(good)); err != nil {
		return facts, err
	}
	if err := f.Sync(); err != nil {
		return facts, err
	}
	inode, err := f.Inode()
	facts.Tail = Tail{LSN: uint64(len(m.ops)), CRC: m.lastCRC, Inode: inode}
	return facts, err
}

func count(next []uint64, op modelOp) {
	for s := range next {
		if op.in(s) {
			next[s]++
		}
	}
}

// append commits an op and shows it to every reader.
func (m *model) append(stream int) error {
	m.nextID++
	text := fmt.Sprintf("op %d %d", m.nextID, stream)
	if _, err := m.log.Write(line(text)); err != nil {
		return err
	}
	op := modelOp{m.nextID, stream}
	m.ops = append(m.ops, op)
	m.lastCRC = crc32.Checksum([]byte(text), castagnoli)
	h := m.contract.History()
	for s := range m.next {
		if !op.in(s) {
			continue
		}
		m.name(frameName{s, h.Streams[s].Generation, m.next[s]}, op.id)
		m.next[s]++
	}
	for _, f := range m.followers {
		// A reader that stands at the end of a past generation moves first.
		m.read(f, &h)
	}
	return nil
}

func (m *model) name(n frameName, id int) {
	if old, ok := m.named[n]; ok && old != id {
		m.t.Fatalf("stream %d, generation %d, offset %d named frame %d and now %d", n.stream, n.generation, n.offset, old, id)
	}
	m.named[n] = id
}

func (m *model) flushAll() error {
	if err := m.append(-1); err != nil {
		return err
	}
	draw, err := m.contract.Draw(nowSec)
	if err != nil {
		return err
	}
	if _, err := m.log.Write(line(fmt.Sprintf("gen %d", draw))); err != nil {
		return err
	}
	m.contract.Bump(draw, uint64(len(m.ops)), m.next, FlushAll)
	clear(m.next)
	return nil
}

func (m *model) sync() error {
	if err := m.log.Sync(); err != nil {
		return err
	}
	m.durable = len(m.ops)
	return nil
}

func (m *model) close() error {
	if err := m.sync(); err != nil {
		return err
	}
	inode, err := m.log.Inode()
	if err != nil {
		return err
	}
	if err := m.log.Close(); err != nil {
		return err
	}
	return m.contract.Close(Tail{uint64(len(m.ops)), m.lastCRC, inode}, m.next)
}

// follow lets every reader go on after a start, or resync.
func (m *model) follow(h *History) {
	for _, f := range m.followers {
		m.read(f, h)
	}
}

// read serves f up to the tail by the rules of the wire contract and checks that
// it has seen the log as it is: no gap, no duplicate, no frame that is gone.
func (m *model) read(f *follower, h *History) {
	var all []int
	var lsns []uint64
	for i, op := range m.ops {
		if op.in(f.stream) {
			all = append(all, op.id)
			lsns = append(lsns, uint64(i)+1)
		}
	}
	st := &h.Streams[f.stream]
	for {
		if f.generation == st.Generation {
			if f.offset > m.next[f.stream] {
				m.t.Fatalf("stream %d: a reader is at %d, ahead of %d, in generation %d", f.stream, f.offset, m.next[f.stream], f.generation)
			}
			f.take(all, lsns, st.FirstLSN, m.next[f.stream])
			break
		}
		k := len(st.Lineage) - 1
		for k >= 0 && st.Lineage[k].Generation != f.generation {
			k--
		}
		if k < 0 || f.offset > st.Lineage[k].End {
			// Resync: a new reader that takes the state as of now.
			f.generation, f.offset = st.Generation, m.next[f.stream]
			f.seen = append([]int(nil), all...)
			f.resyncs++
			return
		}
		p := st.Lineage[k]
		f.take(all, lsns, p.FirstLSN, p.End)
		f.offset = 0
		f.generation = st.Generation
		if k+1 < len(st.Lineage) {
			f.generation = st.Lineage[k+1].Generation
		}
	}
	if len(f.seen) != len(all) {
		m.t.Fatalf("stream %d: a reader at the tail has %v, the log has %v", f.stream, f.seen, all)
	}
	for i := range all {
		if f.seen[i] != all[i] {
			m.t.Fatalf("stream %d: a reader has %v, the log has %v", f.stream, f.seen, all)
		}
	}
}

// take reads the frames from f.offset up to end in the generation that begins at
// firstLSN.
func (f *follower) take(ids []int, lsns []uint64, firstLSN, end uint64) {
	at := 0
	for at < len(lsns) && lsns[at] < firstLSN {
		at++
	}
	for ; f.offset < end; f.offset++ {
		f.seen = append(f.seen, ids[at+int(f.offset)])
	}
}

// cutFS fails every call that changes something once budget calls were made.
type cutFS struct {
	vfs.FS
	budget int
}

var errCut = errors.New("the power is gone")

func (c *cutFS) spend() error {
	if c.budget == 0 {
		return errCut
	}
	c.budget--
	return nil
}

func (c *cutFS) file(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &cutFile{f, c}, nil
}

func (c *cutFS) Create(name string) (vfs.File, error) {
	if err := c.spend(); err != nil {
		return nil, err
	}
	return c.file(c.FS.Create(name))
}

func (c *cutFS) OpenAppend(name string) (vfs.File, error) {
	if err := c.spend(); err != nil {
		return nil, err
	}
	return c.file(c.FS.OpenAppend(name))
}

func (c *cutFS) Rename(old, new string) error {
	if err := c.spend(); err != nil {
		return err
	}
	return c.FS.Rename(old, new)
}

func (c *cutFS) Remove(name string) error {
	if err := c.spend(); err != nil {
		return err
	}
	return c.FS.Remove(name)
}

func (c *cutFS) SyncDir(dir string) error {
	if err := c.spend(); err != nil {
		return err
	}
	return c.FS.SyncDir(dir)
}

type cutFile struct {
	vfs.File
	fs *cutFS
}

func (c *cutFile) Write(p []byte) (int, error) {
	if err := c.fs.spend(); err != nil {
		return 0, err
	}
	return c.File.Write(p)
}

func (c *cutFile) Sync() error {
	if err := c.fs.spend(); err != nil {
		return err
	}
	return c.File.Sync()
}

func (c *cutFile) Truncate(size int64) error {
	if err := c.fs.spend(); err != nil {
		return err
	}
	return c.File.Truncate(size)
}

// crash replaces the file system by what a crash leaves.
func (m *model) crash(power bool) {
	if power {
		m.mem = m.mem.PowerCut(m.rng)
	} else {
		m.mem = m.mem.Kill()
	}
	m.fs = m.mem
}

// noChance makes random parts count up, so that a test that forgets draws by the
// thousand fails for a fault and never for bad luck.
func noChance(t *testing.T) {
	t.Helper()
	old := random64
	var n uint64
	random64 = func() uint64 {
		n++
		return n * (modelShards + 1)
	}
	t.Cleanup(func() { random64 = old })
}

// some appends n ops and fsyncs some of them.
func (m *model) some(n int) error {
	for range n {
		if err := m.append(m.rng.IntN(modelShards+1) - 1); err != nil {
			return err
		}
		if m.rng.IntN(3) == 0 {
			if err := m.sync(); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestPowerCutAtEveryStep cuts the power after each call that changes a file, in
// each kind of step, and then starts again and goes on.
func TestPowerCutAtEveryStep(t *testing.T) {
	noChance(t)
	base := rand.Uint64()
	t.Logf("seed %d", base)
	kinds := map[string]struct{ before, cut func(m *model) error }{
		"first open":                 {func(*model) error { return nil }, (*model).open},
		"open after a clean close":   {steps((*model).open, five, (*model).close), (*model).open},
		"open after a kill":          {steps((*model).open, five, kill), (*model).open},
		"open after a power cut":     {steps((*model).open, five, power), (*model).open},
		"open and write":             {steps((*model).open, five, (*model).close), steps((*model).open, five)},
		"close":                      {steps((*model).open, five), (*model).close},
		"flushall and sidecars":      {steps((*model).open, five), steps((*model).flushAll, (*model).sync, sidecars, five)},
		"two flushalls and sidecars": {steps((*model).open, five), steps((*model).flushAll, (*model).sync, (*model).flushAll, sidecars, (*model).sync, sidecars)},
		"flushall and close":         {steps((*model).open, five, (*model).flushAll, five), (*model).close},
		"close and open":             {steps((*model).open, five), steps((*model).close, (*model).open)},
		"open after flushall, kill":  {steps((*model).open, five, (*model).flushAll, five, kill), (*model).open},
	}
	for name, step := range kinds {
		t.Run(name, func(t *testing.T) {
			points := 0
			for budget := 0; ; budget++ {
				done := false
				for try := range uint64(12) {
					m := newModel(t, base+try)
					must(t, step.before(m))
					c := &cutFS{FS: m.fs, budget: budget}
					m.fs = c
					if m.log != nil && m.contract != nil {
						m.log = &cutFile{m.log, c}
						m.contract.fs = c
					}
					err := step.cut(m)
					if err != nil && !errors.Is(err, errCut) {
						t.Fatal(err)
					}
					done = err == nil
					m.crash(try%3 != 0)
					must(t, m.open())
					must(t, m.some(3))
					m.crash(try%2 == 0)
					must(t, m.open())
					must(t, m.close())
					before := m.resumes
					must(t, m.open())
					if m.resumes != before+1 {
						t.Fatalf("budget %d: a clean close did not resume: %s", budget, m.contract.History().Reason)
					}
				}
				points++
				if done {
					break
				}
			}
			if points < 4 {
				t.Fatalf("only %d points were cut", points)
			}
		})
	}
}

func steps(fns ...func(*model) error) func(*model) error {
	return func(m *model) error {
		for _, fn := range fns {
			if err := fn(m); err != nil {
				return err
			}
		}
		return nil
	}
}

func five(m *model) error     { return m.some(5) }
func kill(m *model) error     { m.crash(false); return nil }
func power(m *model) error    { m.crash(true); return nil }
func sidecars(m *model) error { return m.contract.Sync(uint64(m.durable)) }

// TestRandomHistories runs long histories of writes, FLUSHALLs, clean closes,
// kills, power cuts and copies of the directory.
func TestRandomHistories(t *testing.T) {
	noChance(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var bumps, resumes, resyncs int
	for run := range uint64(60) {
		m := newModel(t, seed+run)
		must(t, m.open())
		for range 60 {
			var err error
			switch m.rng.IntN(12) {
			case 0:
				err = m.flushAll()
			case 1:
				err = m.contract.Sync(uint64(m.durable))
			case 2:
				if err = m.close(); err == nil {
					err = m.open()
				}
			case 3:
				m.crash(m.rng.IntN(2) == 0)
				err = m.open()
			case 4:
				// The directory is copied: the same bytes in other files.
				if err = m.close(); err == nil {
					must(t, copyDir(m.fs))
					before := m.bumps
					if err = m.open(); m.bumps != before+1 {
						t.Fatal("a copied directory went on in its generation")
					}
				}
			case 5:
				c := &cutFS{FS: m.fs, budget: m.rng.IntN(30)}
				m.fs, m.contract.fs, m.log = c, c, &cutFile{m.log, c}
				if err := m.close(); err == nil {
					if err := m.open(); err != nil && !errors.Is(err, errCut) {
						t.Fatal(err)
					}
				} else if !errors.Is(err, errCut) {
					t.Fatal(err)
				}
				m.crash(m.rng.IntN(4) != 0)
				err = m.open()
			default:
				err = m.some(1 + m.rng.IntN(4))
			}
			must(t, err)
		}
		bumps, resumes = bumps+m.bumps, resumes+m.resumes
		for _, f := range m.followers {
			resyncs += f.resyncs
		}
	}
	t.Logf("%d bumps, %d resumes, %d resyncs", bumps, resumes, resyncs)
	if bumps < 100 || resumes < 100 || resyncs < 50 {
		t.Fatal("the histories are too tame")
	}
}

// copyDir gives every file of the data directory another inode.
func copyDir(fsys vfs.FS) error {
	infos, err := fsys.List("data")
	if err != nil {
		return err
	}
	for _, info := range infos {
		name := filepath.Join("data", info.Name)
		f, err := fsys.Open(name)
		if err != nil {
			return err
		}
		data, err := io.ReadAll(f)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
		if err := fsys.Remove(name); err != nil {
			return err
		}
		if err := vfs.WriteFileAtomic(fsys, name, data); err != nil {
			return err
		}
	}
	return nil
}

// TestReadersOfTheDurableLogNeverResync: a crash takes nothing from a reader that
// sees only what is fsynced.
func TestReadersOfTheDurableLogNeverResync(t *testing.T) {
	noChance(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for run := range uint64(40) {
		m := newModel(t, seed+run)
		must(t, m.open())
		for range 30 {
			if m.rng.IntN(4) == 0 {
				must(t, m.flushAll())
			}
			must(t, m.append(m.rng.IntN(modelShards+1)-1))
			must(t, m.sync())
			if m.rng.IntN(2) == 0 {
				must(t, m.contract.Sync(uint64(m.durable)))
			}
			if m.rng.IntN(3) == 0 {
				m.crash(true)
				must(t, m.open())
			}
		}
		for _, f := range m.followers {
			// The first resync is that of a reader that begins without a cursor.
			if f.resyncs > 1 {
				t.Fatalf("stream %d: %d resyncs", f.stream, f.resyncs-1)
			}
		}
	}
}

func TestStaleMarkerThatComesBack(t *testing.T) {
	noChance(t)
	m := newModel(t, 1)
	must(t, m.open())
	must(t, m.some(4))
	must(t, m.close())
	// The markers of this close, kept aside.
	kept := map[string][]byte{}
	for i := range modelShards + 1 {
		name := closeFile("data", i, modelShards)
		data, err := readFactFile(m.fs, name)
		must(t, err)
		kept[name] = data
	}
	must(t, m.open())
	must(t, m.some(3))
	must(t, m.sync())
	m.crash(false)
	for name, data := range kept {
		must(t, vfs.WriteFileAtomic(m.fs, name, data))
	}
	bumps := m.bumps
	must(t, m.open())
	if m.bumps != bumps+1 {
		t.Fatal("a marker of an earlier close resumed")
	}
}

func TestWhatKeepsAGenerationFromGoingOn(t *testing.T) {
	gen, meta := generationFile("data", 1, modelShards), closeFile("data", 1, modelShards)
	rewrite := func(name string, data []byte) func(*testing.T, *model) {
		return func(t *testing.T, m *model) { must(t, vfs.WriteFileAtomic(m.fs, name, data)) }
	}
	for name, tc := range map[string]struct {
		harm func(*testing.T, *model)
		want string
	}{
		"one marker missing":   {func(t *testing.T, m *model) { must(t, m.fs.Remove(meta)) }, meta + " is missing"},
		"one .gen missing":     {func(t *testing.T, m *model) { must(t, m.fs.Remove(gen)) }, gen + " is missing"},
		"a marker is damaged":  {rewrite(meta, []byte("kevy-feed-close 1\n")), "cut short"},
		"siblings differ":      {rewrite(meta, encodeClose(closeMark{generation: 77}, 1, modelShards)), "another generation than its siblings"},
		"the log was extended": {func(t *testing.T, m *model) { appendOp(t, m) }, "another end of the log"},
		"an offset differs": {func(t *testing.T, m *model) {
			data, err := readFactFile(m.fs, meta)
			must(t, err)
			mark, err := parseClose(meta, data, 1, modelShards)
			must(t, err)
			mark.next++
			must(t, vfs.WriteFileAtomic(m.fs, meta, encodeClose(mark, 1, modelShards)))
		}, "the log says"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel(t, 1)
			must(t, m.open())
			must(t, m.some(4))
			must(t, m.close())
			tc.harm(t, m)
			must(t, m.open())
			h := m.contract.History()
			if h.Resumed || !strings.Contains(h.Reason, tc.want) {
				t.Fatalf("resumed %v: %q does not say %q", h.Resumed, h.Reason, tc.want)
			}
		})
	}
	t.Run("a damaged .gen stops the start", func(t *testing.T) {
		m := newModel(t, 1)
		must(t, m.open())
		must(t, m.close())
		rewrite(gen, []byte("kevy-feed-generation 1\n"))(t, m)
		var bad *FileError
		if err := m.open(); !errors.As(err, &bad) || bad.File != gen || !strings.Contains(err.Error(), "--recover") {
			t.Fatal(err)
		}
		// With that choice the start succeeds, on a history of its own.
		facts, err := m.recover(NoSidecars(m.fs, "data", modelShards))
		must(t, err)
		facts.NewHistory = "a damaged file"
		c, err := OpenContract(NoSidecars(m.fs, "data", modelShards), facts, nowSec)
		must(t, err)
		if h := c.History(); h.Resumed || len(h.Streams[0].Lineage) != 0 {
			t.Fatalf("%+v", h)
		}
		must(t, m.open())
	})
}

func appendOp(t *testing.T, m *model) {
	t.Helper()
	f, err := m.fs.OpenAppend(logName)
	must(t, err)
	_, err = f.Write(line("op 999 0"))
	must(t, err)
	must(t, f.Close())
}

func TestKnownDurableLSN(t *testing.T) {
	m := newModel(t, 1)
	must(t, m.open())
	known := func() uint64 {
		side, err := ReadSidecars(m.fs, "data", modelShards)
		must(t, err)
		return side.KnownDurableLSN()
	}
	must(t, m.some(3))
	if got := known(); got != 0 {
		t.Fatalf("nothing was said to be durable, but %d is", got)
	}
	must(t, m.flushAll())
	must(t, m.some(2))
	must(t, m.sync())
	must(t, sidecars(m))
	if got := known(); got != 4 {
		t.Fatalf("an end: %d", got)
	}
	must(t, m.close())
	if got := known(); got != 6 {
		t.Fatalf("a marker: %d", got)
	}
}

func TestNewHistoryDropsTheLineage(t *testing.T) {
	m := newModel(t, 3)
	must(t, m.open())
	must(t, m.some(4))
	must(t, m.flushAll())
	must(t, m.some(4))
	m.crash(false)
	side, err := ReadSidecars(m.fs, "data", modelShards)
	must(t, err)
	facts, err := m.recover(side)
	must(t, err)
	facts.NewHistory = "another server wrote to the log"
	old := side.LastDraw()
	c, err := OpenContract(side, facts, nowSec)
	must(t, err)
	h := c.History()
	if h.Draw <= old || h.Reason != facts.NewHistory || h.FirstLSN != facts.Tail.LSN+1 {
		t.Fatalf("%+v", h)
	}
	for _, st := range h.Streams {
		if len(st.Lineage) != 0 {
			t.Fatalf("%+v", st)
		}
	}
	// The log still shows the generations before; they must not come back.
	m.crash(false)
	must(t, m.open())
	for _, st := range m.contract.History().Streams {
		if len(st.Lineage) != 1 || st.Lineage[0].Generation < h.Draw {
			t.Fatalf("%+v", st)
		}
	}
}

func TestLineageKeepsSixtyFourGenerations(t *testing.T) {
	noChance(t)
	m := newModel(t, 5)
	must(t, m.open())
	for range MaxPast + 9 {
		must(t, m.flushAll())
	}
	must(t, m.sync())
	must(t, sidecars(m))
	for range 2 {
		h := m.contract.History()
		for i, st := range h.Streams {
			if len(st.Lineage) != MaxPast || st.Lineage[MaxPast-1].EndLSN != uint64(len(m.ops)) {
				t.Fatalf("stream %d: %d past generations, the last %+v", i, len(st.Lineage), st.Lineage[MaxPast-1])
			}
		}
		m.crash(true)
		must(t, m.open())
	}
}

// TestEndsAreClippedToWhatWasRecovered plays a disk that lost what it had called
// durable.
func TestEndsAreClippedToWhatWasRecovered(t *testing.T) {
	noChance(t)
	m := newModel(t, 9)
	must(t, m.open())
	for range 4 {
		must(t, m.append(0))
	}
	must(t, m.flushAll()) // LSN 5
	for range 3 {
		must(t, m.append(1))
	}
	must(t, m.sync())
	must(t, sidecars(m))
	before := m.contract.History()
	m.liar = true
	must(t, m.log.Truncate(int64(bytes.Index(readAll(t, m.log), []byte("op 3 ")))))
	must(t, m.log.Sync())
	m.crash(true)
	must(t, m.open())
	h := m.contract.History()
	for i, st := range h.Streams {
		if len(st.Lineage) != 1 || st.Lineage[0].Generation != before.Streams[i].Lineage[0].Generation || st.Lineage[0].EndLSN != 2 {
			t.Fatalf("stream %d: %+v", i, st)
		}
	}
	if got := []uint64{h.Streams[0].Lineage[0].End, h.Streams[1].Lineage[0].End, h.Streams[2].Lineage[0].End}; got[0] != 2 || got[1] != 0 || got[2] != 2 {
		t.Fatalf("ends %v", got)
	}
	if h.Draw <= before.Draw {
		t.Fatal("the new draw is not above the lost one")
	}
}

func readAll(t *testing.T, f vfs.File) []byte {
	t.Helper()
	size, err := f.Size()
	must(t, err)
	data, err := io.ReadAll(io.NewSectionReader(f, 0, size))
	must(t, err)
	return data
}

func TestSyncWaitsForDurability(t *testing.T) {
	noChance(t)
	m := newModel(t, 2)
	must(t, m.open())
	must(t, m.append(0))
	must(t, m.flushAll()) // ends with LSN 2
	must(t, m.append(0))
	must(t, m.flushAll()) // ends with LSN 4
	h := m.contract.History()
	for _, tc := range []struct {
		durable uint64
		want    uint64 // what the .gen file names
		pending bool
	}{
		{1, h.Streams[0].Lineage[0].Generation, true},
		{2, h.Streams[0].Lineage[1].Generation, true},
		{3, h.Streams[0].Lineage[1].Generation, true},
		{4, h.Streams[0].Generation, false},
	} {
		must(t, m.contract.Sync(tc.durable))
		side, err := ReadSidecars(m.fs, "data", modelShards)
		must(t, err)
		if got := side.streams[0].Generation; got != tc.want || m.contract.Pending() != tc.pending {
			t.Errorf("durable %d: .gen names %d, want %d; pending %v", tc.durable, got, tc.want, m.contract.Pending())
		}
	}
}

func TestAWrongCountForgetsTheLineage(t *testing.T) {
	noChance(t)
	m := newModel(t, 6)
	must(t, m.open())
	must(t, m.some(3))
	m.crash(false)
	side, err := ReadSidecars(m.fs, "data", modelShards)
	must(t, err)
	facts, err := m.recover(side)
	must(t, err)
	facts.Next[0] = facts.Tail.LSN + 1
	c, err := OpenContract(side, facts, nowSec)
	must(t, err)
	h := c.History()
	if len(h.Streams[0].Lineage) != 0 || len(h.Streams[1].Lineage) != 1 {
		t.Fatalf("%+v", h.Streams)
	}
}

func TestAFailedDiskStopsTheStart(t *testing.T) {
	for budget := range 12 {
		m := newModel(t, 4)
		c := &cutFS{FS: m.fs, budget: budget}
		m.fs = c
		if err := m.open(); !errors.Is(err, errCut) {
			t.Fatalf("budget %d: %v", budget, err)
		}
	}
}

func TestFreshHistory(t *testing.T) {
	h, err := FreshHistory(nowSec, 4)
	must(t, err)
	for i, st := range h.Streams {
		if st.Generation != h.Draw+uint64(i) || st.FirstLSN != 1 || st.Next != 0 || len(st.Lineage) != 0 {
			t.Fatalf("stream %d: %+v", i, st)
		}
	}
	if len(h.Streams) != 5 || h.Resumed || h.Reason == "" {
		t.Fatalf("%+v", h)
	}
}
