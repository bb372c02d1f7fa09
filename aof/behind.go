package aof

import "sort"

// BytesFrom is about how many bytes the log has from the op lsn on, lines and
// headers included. What lies before the log's beginning does not count.
func (l *Log) BytesFrom(lsn uint64) (bytes int64) {
	l.mu.Lock()
	ci, bi, ok := l.mem.find(lsn)
	if ok {
		bytes = l.mem.bytesFrom(ci, bi)
	}
	end := lsn > l.last.Load()
	l.mu.Unlock()
	if ok || end || l.opt.NoFile {
		return bytes
	}
	d := &l.dir
	d.segMu.Lock()
	defer d.segMu.Unlock()
	first := d.find(lsn)
	for _, s := range d.segments {
		switch {
		case s == first:
			bytes += s.bytes - s.offsetOf(lsn)
		case s.first > lsn:
			bytes += s.bytes
		}
	}
	return bytes + l.unwrittenBytes.Load()
}

// offsetOf is about where an op of the segment stands: between two marks ops are
// taken to be of one size. The caller holds segMu.
func (s *segment) offsetOf(lsn uint64) int64 {
	lo, hi := s.around(func(m *mark) bool { return m.lsn > lsn })
	next := s.last + 1
	if i := sort.Search(len(s.index), func(i int) bool { return s.index[i].lsn > lsn }); i < len(s.index) {
		next = s.index[i].lsn
	}
	if lsn >= next {
		return hi
	}
	return lo.at + int64(float64(lsn-lo.lsn)/float64(next-lo.lsn)*float64(hi-lo.at))
}

// bytesFrom is about how many bytes there are from a block on.
func (m *memory) bytesFrom(chunkIndex, blockIndex int) (bytes int64) {
	for _, c := range m.chunks[chunkIndex+1:] {
		bytes += int64(c.used) + c.bytes - int64(cap(c.blocks))*blockStructBytes
	}
	c := m.chunks[chunkIndex]
	for i := blockIndex; i < len(c.blocks); i++ {
		bytes += int64(len(c.blocks[i].payload(c)))
	}
	return bytes
}
