package resp

const (
	// exactBulkBytes: an argument up to this long gets its own memory, whole,
	// once a quarter of it has arrived.
	exactBulkBytes = 8 << 20
	minChunkBytes  = 1 << 10
	maxChunkBytes  = 1 << 20
)

// largeBulk gathers an argument that is too long for the buffer. What has
// arrived lies in chunks that grow with it, so that an announced length costs
// nothing, and that are never copied until the argument is whole, so that an
// unfinished one does not leave several times its size in outgrown buffers.
type largeBulk struct {
	want   int // bytes of the argument; 0: no argument is gathered
	have   int // bytes that have arrived
	held   int // bytes of memory for them, and for those that are to come
	chunks [][]byte
	whole  []byte // of length want, once allocated; chunks is empty then
	room   []byte // where the next bytes go: the rest of whole, or of the last chunk
}

// start begins an argument of want bytes of which head has arrived already.
func (b *largeBulk) start(want int, head []byte) {
	b.want = want
	b.grow(len(head))
	for len(head) > 0 {
		if len(b.room) == 0 {
			b.grow(b.have)
		}
		n := copy(b.room, head)
		b.arrived(n)
		head = head[n:]
	}
}

func (b *largeBulk) full() bool { return b.have == b.want }

// space returns where to read into. It is never longer than what is missing,
// and empty only if nothing is.
func (b *largeBulk) space() []byte {
	if len(b.room) == 0 && !b.full() {
		b.grow(b.have)
	}
	return b.room
}

// arrived says that n bytes have been put at the start of space.
func (b *largeBulk) arrived(n int) {
	b.have += n
	b.room = b.room[n:]
}

// grow makes room in proportion to the bytes known to have arrived.
func (b *largeBulk) grow(arrivedBytes int) {
	if b.want <= exactBulkBytes && arrivedBytes >= b.want/4 {
		b.join()
		b.room = b.whole[b.have:]
		return
	}
	size := min(max(arrivedBytes, minChunkBytes), maxChunkBytes, b.want-b.have)
	chunk := make([]byte, size)
	b.held += size
	b.chunks = append(b.chunks, chunk)
	b.room = chunk
}

// join moves what has arrived into memory for the whole argument.
func (b *largeBulk) join() {
	b.whole = make([]byte, b.want)
	b.held = b.want
	n := 0
	for i, c := range b.chunks {
		n += copy(b.whole[n:b.have], c)
		b.chunks[i] = nil
	}
	b.chunks = nil
}

// take returns the argument, which must be full, and ends it. The caller owns
// the bytes.
func (b *largeBulk) take() []byte {
	if b.whole == nil {
		b.join()
	}
	arg := b.whole
	*b = largeBulk{}
	return arg
}
