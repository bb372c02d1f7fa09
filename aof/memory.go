package aof

import (
	"bytes"
	"math"
	"sort"
	"unsafe"
)

// memory is the recent log: a queue of chunks, the last of which is being
// appended to. All of it is guarded by Log.mu, with two exceptions that never
// touch the same bytes: the writer fills in the line of a block that is closed,
// and a reader that holds a chunk reads payload bytes that are appended.
type memory struct {
	chunks []*chunk
	gone   int // number of chunks dropped from the front, ever
	open   bool
	bytes  int64
	keep   uint64 // from this LSN on nothing is dropped

	// The first block that is not written yet.
	nextChunk int // counts from the first chunk ever
	nextBlock int

	free       []*chunk // reusable
	chunkBytes int
	blockBytes int
}

// chunk is a buffer with whole blocks in it.
type chunk struct {
	buf    []byte
	used   int
	blocks []block
	refs   int   // the queue's and one for each reader
	bytes  int64 // beyond buf: what blocks, lines and large commits take
}

// room is how many bytes may still be put into buf. None where as much lies beside
// it as in it: a chunk is let go as a whole.
func (c *chunk) room() int {
	if c.bytes >= int64(len(c.buf)) {
		return 0
	}
	return len(c.buf) - c.used
}

// block is a block in memory. Its line is put, when it is sealed, right before
// start, where room is reserved for it.
type block struct {
	first      uint64
	unixMs     int64
	ops        int32
	start, end int32 // of the payload in the chunk's buf
	extra      *blockExtra
}

// blockExtra is what few blocks have.
type blockExtra struct {
	payload []byte // of a commit larger than a block; it is not in the chunk
	lines   []byte // annotation lines before the block, without checksums
	newFile bool   // the block begins a file
}

const (
	blockStructBytes = int64(unsafe.Sizeof(block{}))
	maxFreeChunks    = 4
)

func (b *block) next() uint64 { return b.first + uint64(b.ops) }

// annotates reports whether lines stand before the block that belong to the
// commit before it.
func (b *block) annotates() bool {
	return b.extra != nil && !b.extra.newFile && len(b.extra.lines) > 0
}

func (b *block) payload(c *chunk) []byte {
	if b.extra != nil && b.extra.payload != nil {
		return b.extra.payload
	}
	return c.buf[b.start:b.end]
}

// lineRoom is the most that the line of a block takes that begins with first
// and has no larger payload than the limit.
func (m *memory) lineRoom(first uint64, unixMs int64) int {
	lsn, size := decimalDigits(first), decimalDigits(uint64(m.blockBytes))
	return len(blockPrefix) + 2*(lsn+1) + 2*(size+1) + decimalDigits(uint64(unixMs)) + 1 + checksumBytes
}

// tail returns the chunk and the block that were added last. The queue must not
// be empty.
func (m *memory) tail() (*chunk, *block) {
	c := m.chunks[len(m.chunks)-1]
	return c, &c.blocks[len(c.blocks)-1]
}

// add begins a block, with room for blockBytes of payload if it is to have any.
func (m *memory) add(first uint64, unixMs int64, payload bool) (*chunk, *block) {
	room := m.lineRoom(first, unixMs)
	need := room
	if payload {
		need += m.blockBytes
	}
	if len(m.chunks) == 0 || m.chunks[len(m.chunks)-1].room() < need {
		m.push()
	}
	c := m.chunks[len(m.chunks)-1]
	at := int32(c.used + room)
	c.used += room
	had := cap(c.blocks)
	c.blocks = append(c.blocks, block{first: first, unixMs: unixMs, start: at, end: at})
	m.charge(c, int64(cap(c.blocks)-had)*blockStructBytes)
	return c, &c.blocks[len(c.blocks)-1]
}

func (m *memory) charge(c *chunk, bytes int64) {
	c.bytes += bytes
	m.bytes += bytes
}

// push adds a chunk to the queue.
func (m *memory) push() {
	var c *chunk
	if n := len(m.free); n > 0 {
		c = m.free[n-1]
		m.free = m.free[:n-1]
	} else {
		c = &chunk{buf: make([]byte, m.chunkBytes)}
	}
	c.refs = 1
	c.bytes = int64(cap(c.blocks)) * blockStructBytes
	m.chunks = append(m.chunks, c)
	m.bytes += int64(len(c.buf)) + c.bytes
}

// trim drops written chunks from the front while the queue is larger than
// limit. What is to be kept stays, and the last chunk.
func (m *memory) trim(limit int64, written bool) {
	n := 0
	for len(m.chunks)-n > 1 && m.bytes > limit && (written || m.gone+n < m.nextChunk) {
		c := m.chunks[n]
		if c.blocks[len(c.blocks)-1].next() > m.keep {
			break
		}
		m.bytes -= int64(len(c.buf)) + c.bytes
		m.release(c)
		n++
	}
	if n == 0 {
		return
	}
	m.gone += n
	rest := copy(m.chunks, m.chunks[n:])
	clear(m.chunks[rest:])
	m.chunks = m.chunks[:rest]
}

// release gives up one reference to a chunk.
func (m *memory) release(c *chunk) {
	c.refs--
	if c.refs > 0 || len(m.free) == maxFreeChunks {
		return
	}
	clear(c.blocks)
	c.blocks = c.blocks[:0]
	c.used = 0
	m.free = append(m.free, c)
}

// pending is a block that is to be written, with what it needs of its chunk.
type pending struct {
	block
	chunk *chunk
}

// maxBatchBlocks bounds what a writer takes at a time, so that others see
// progress.
const maxBatchBlocks = 256

// unwritten appends the blocks that come next in the file, with the lines that
// belong to the last one. No block may be open.
func (m *memory) unwritten(batch []pending) []pending {
	at := m.nextBlock
	for i := m.nextChunk - m.gone; i < len(m.chunks); i++ {
		c := m.chunks[i]
		for ; at < len(c.blocks); at++ {
			if len(batch) >= maxBatchBlocks && !c.blocks[at].annotates() {
				return batch
			}
			batch = append(batch, pending{c.blocks[at], c})
		}
		at = 0
	}
	return batch
}

// wrote says that n more blocks are in the file.
func (m *memory) wrote(n int) {
	m.nextBlock += n
	// Blocks are added to the last chunk only.
	for m.nextChunk-m.gone < len(m.chunks)-1 {
		blocks := len(m.chunks[m.nextChunk-m.gone].blocks)
		if m.nextBlock < blocks {
			return
		}
		m.nextBlock -= blocks
		m.nextChunk++
	}
}

// oldest is the LSN from which on the queue holds everything, next if it is
// empty.
func (m *memory) oldest(next uint64) uint64 {
	if len(m.chunks) == 0 || len(m.chunks[0].blocks) == 0 {
		return next
	}
	return m.chunks[0].blocks[0].first
}

// find returns the place of the block that holds lsn, or of the first empty
// block before it, as indices into chunks and its blocks.
func (m *memory) find(lsn uint64) (chunkIndex, blockIndex int, ok bool) {
	if lsn < m.oldest(math.MaxUint64) {
		return 0, 0, false
	}
	reaches := func(b *block) bool { return b.next() > lsn || b.ops == 0 && b.first >= lsn }
	chunkIndex = sort.Search(len(m.chunks), func(i int) bool {
		blocks := m.chunks[i].blocks
		return reaches(&blocks[len(blocks)-1])
	})
	if chunkIndex == len(m.chunks) {
		return 0, 0, false
	}
	blocks := m.chunks[chunkIndex].blocks
	return chunkIndex, sort.Search(len(blocks), func(i int) bool { return reaches(&blocks[i]) }), true
}

// eachLine calls fn for every line, without its end.
func eachLine(lines []byte, fn func(text []byte)) {
	for len(lines) > 0 {
		line, rest, _ := bytes.Cut(lines, []byte("\n"))
		if line = bytes.TrimSuffix(line, []byte("\r")); len(line) > 0 {
			fn(line)
		}
		lines = rest
	}
}
