package vfs

import (
	"math/rand/v2"
	"time"
)

// sectorBytes is what a disk writes whole or not at all.
const sectorBytes = 512

// node is a file or a directory. Its fields are guarded by the mu of its Mem.
type node struct {
	inode   uint64
	modMs   int64
	links   int // names in cached directories
	handles int // open files and locks
	locked  bool

	// A file. Its bytes are never changed in place: whoever shortens data gives up its capacity. So data, disk and the
	// changes can share one array, a sync copies nothing, and a reader needs no lock once it has the slice.
	data     []byte   // contents as reads see them
	disk     []byte   // contents at the last sync
	changes  []change // what was done to data since, in order
	diverged bool     // a sync failed: disk with the changes applied is not data

	// A directory.
	dir         bool
	entries     map[string]*node // as lookups see them
	diskEntries map[string]*node // at the last sync
}

// change is a write of bytes at off, or with bytes nil the setting of the size to off.
type change struct {
	off   int64
	bytes []byte
}

func (n *node) info(name string) Info {
	return Info{
		Name:  name,
		Size:  int64(len(n.data)),
		Inode: n.inode,
		IsDir: n.dir,
		ModMs: n.modMs,
	}
}

// append writes p, which it does not keep, at the end of a file.
func (m *Mem) append(n *node, p []byte) {
	if len(p) == 0 {
		return
	}
	off := len(n.data)
	n.data = append(n.data, p...)
	n.changes = append(n.changes, change{int64(off), n.data[off:len(n.data):len(n.data)]})
	n.modMs = time.Now().UnixMilli()
	m.used += int64(len(p))
}

// resize sets the size of a file.
func (m *Mem) resize(n *node, size int64) {
	m.used += size - int64(len(n.data))
	n.data = setLen(n.data, size)
	n.changes = append(n.changes, change{off: size})
	n.modMs = time.Now().UnixMilli()
}

// synced makes the contents durable.
func (n *node) synced() {
	if n.diverged {
		// The pages that a failed sync dropped count as clean: only what was changed since is written.
		img := append([]byte(nil), n.disk...)
		for _, c := range n.changes {
			img = c.apply(img)
		}
		n.disk = img
	} else {
		n.disk = n.data[:len(n.data):len(n.data)]
	}
	n.changes = nil
	if len(n.disk) == 0 && len(n.data) == 0 {
		n.diverged = false
	}
}

// syncFailed drops what was written, as the kernel does. The size is metadata, which does not go with the pages.
func (n *node) syncFailed() {
	var kept []change
	for _, c := range n.changes {
		if c.bytes == nil {
			kept = append(kept, c)
		} else {
			n.diverged = true
		}
	}
	n.changes = kept
}

// apply makes the change to img, whose array it may write to and return.
func (c change) apply(img []byte) []byte {
	if c.bytes == nil {
		return setLen(img, c.off)
	}
	if end := c.off + int64(len(c.bytes)); end > int64(len(img)) {
		img = append(img, make([]byte, end-int64(len(img)))...)
	}
	copy(img[c.off:], c.bytes)
	return img
}

// setLen cuts b, its capacity included, or adds zeros.
func setLen(b []byte, size int64) []byte {
	if size <= int64(len(b)) {
		return b[:size:size]
	}
	return append(b, make([]byte, size-int64(len(b)))...)
}

// cut returns what a power cut leaves of the contents. The node is not changed; the result may share its bytes, but
// has no capacity beyond them.
func (n *node) cut(rng *rand.Rand) []byte {
	if len(n.changes) == 0 {
		return n.disk[:len(n.disk):len(n.disk)]
	}
	var img []byte
	switch rng.IntN(8) {
	case 0, 1: // nothing had been written back
		img = n.disk
	case 2: // everything had
		img = n.ordered(len(n.changes), rng)
	case 3, 4: // in order, up to some point
		img = n.ordered(rng.IntN(len(n.changes)+1), rng)
	default:
		img = n.scattered(rng)
	}
	return img[:len(img):len(img)]
}

// ordered applies the first count changes and of the next one, if it is a write, a number of whole sectors.
func (n *node) ordered(count int, rng *rand.Rand) []byte {
	img := append([]byte(nil), n.disk...)
	for _, c := range n.changes[:count] {
		img = c.apply(img)
	}
	if count < len(n.changes) && n.changes[count].bytes != nil {
		c := n.changes[count]
		first, last := c.sectors()
		if end := (first + rng.Int64N(last-first)) * sectorBytes; end > c.off {
			c.bytes = c.bytes[:end-c.off]
			img = c.apply(img)
		}
	}
	return img
}

// sectors is the range of sectors, last excluded, that a write touches.
func (c change) sectors() (first, last int64) {
	end := c.off + int64(len(c.bytes))
	return c.off / sectorBytes, (end + sectorBytes - 1) / sectorBytes
}

// scattered writes the sectors of each change back or not, independent of one another and of the size.
func (n *node) scattered(rng *rand.Rand) []byte {
	// cached is the contents as they were after each change, one after the other; onDisk collects the sectors that were
	// written back at that moment. Both are as long as the file ever was, the rest of the last sector included: the
	// kernel keeps zeros there.
	sizes := n.sizes()
	most := int64(0)
	for _, size := range sizes {
		most = max(most, size)
	}
	room := (most + sectorBytes - 1) / sectorBytes * sectorBytes
	cached := make([]byte, room)
	onDisk := make([]byte, room)
	copy(cached, n.disk)
	copy(onDisk, n.disk)
	for i, c := range n.changes {
		first, last := c.sectors()
		if c.bytes == nil {
			// What a smaller size leaves behind reads as zeros if the file grows again.
			first, last = c.off/sectorBytes, (max(sizes[i], c.off)+sectorBytes-1)/sectorBytes
			clear(cached[c.off:])
		} else {
			copy(cached[c.off:], c.bytes)
		}
		writtenBack := scatter(rng, last-first)
		for s := first; s < last; s++ {
			if writtenBack(s - first) {
				at := s * sectorBytes
				copy(onDisk[at:at+sectorBytes], cached[at:])
			}
		}
	}
	return onDisk[:cutSize(sizes, rng)]
}

// sizes returns the size on disk and then the size after each change.
func (n *node) sizes() []int64 {
	sizes := make([]int64, 0, len(n.changes)+1)
	size := int64(len(n.disk))
	sizes = append(sizes, size)
	for _, c := range n.changes {
		if c.bytes == nil {
			size = c.off
		} else {
			size = max(size, c.off+int64(len(c.bytes)))
		}
		sizes = append(sizes, size)
	}
	return sizes
}

// cutSize picks the size that a power cut leaves: one that the file had, or a sector's border between two of them.
func cutSize(sizes []int64, rng *rand.Rand) int64 {
	last := sizes[len(sizes)-1]
	switch rng.IntN(3) {
	case 0:
		return last
	case 1:
		return sizes[rng.IntN(len(sizes))]
	}
	a, b := sizes[rng.IntN(len(sizes))], last
	if a > b {
		a, b = b, a
	}
	// Never below both: what lies there was neither written nor cut.
	first := (a + sectorBytes - 1) / sectorBytes
	if first*sectorBytes > b {
		return last
	}
	return (first + rng.Int64N(b/sectorBytes-first+1)) * sectorBytes
}

// scatter decides which of count sectors were written back.
func scatter(rng *rand.Rand, count int64) func(i int64) bool {
	switch rng.IntN(8) {
	case 0, 1, 2:
		return func(int64) bool { return true }
	case 3, 4:
		return func(int64) bool { return false }
	case 5:
		border := rng.Int64N(count + 1)
		return func(i int64) bool { return i < border }
	case 6:
		border := rng.Int64N(count + 1)
		return func(i int64) bool { return i >= border }
	}
	return func(int64) bool { return rng.IntN(2) == 0 }
}
