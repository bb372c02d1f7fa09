package aof

// SegmentInfo describes a file that readers may read.
type SegmentInfo struct {
	FirstLSN uint64 // of its first op
	LastLSN  uint64 // of the last op so far, FirstLSN-1 if there is none
	Bytes    int64
	UnixMs   int64 // when it was begun
	Spare    bool  // recovery does not need it
	// Positions are where the streams stood at FirstLSN; nil if the file does not
	// say. They must not be changed.
	Positions []Position
}

// Segments lists the files that readers may read, oldest first. One without ops
// is listed only if it is the last.
func (l *Log) Segments() []SegmentInfo {
	d := &l.dir
	d.segMu.Lock()
	defer d.segMu.Unlock()
	segments := make([]SegmentInfo, 0, len(d.segments))
	for i, s := range d.segments {
		if s.first < d.history || s.last < s.first && i < len(d.segments)-1 {
			continue
		}
		segments = append(segments, SegmentInfo{s.first, s.last, s.bytes, s.unixMs, s.seq == 0, s.positions})
	}
	return segments
}

// PositionsAt returns where the streams stand at the beginning of the segment
// whose first op is firstLSN; nil if it does not say, ErrTruncated if there is
// no such segment any more.
func (l *Log) PositionsAt(firstLSN uint64) ([]Position, error) {
	for _, s := range l.Segments() {
		if s.FirstLSN == firstLSN {
			return s.Positions, nil
		}
	}
	return nil, ErrTruncated
}
