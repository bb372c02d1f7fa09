package aof

import "slices"

// SegmentInfo describes a file that readers may read.
type SegmentInfo struct {
	FirstLSN uint64 // of its first op
	LastLSN  uint64 // of the last op so far, FirstLSN-1 if there is none
	Bytes    int64
	UnixMs   int64 // when it was begun
	// Positions are where the streams stood at FirstLSN; nil if the file was not
	// read so far, and PositionsAt reads it.
	Positions []Position
}

// Segments lists the files that readers may read, oldest first.
func (l *Log) Segments() []SegmentInfo {
	d := &l.dir
	d.segMu.Lock()
	defer d.segMu.Unlock()
	out := make([]SegmentInfo, 0, len(d.segments))
	for _, s := range d.segments {
		out = append(out, SegmentInfo{FirstLSN: s.first, LastLSN: s.last, Bytes: s.bytes, UnixMs: s.unixMs, Positions: s.positions})
	}
	return out
}

// PositionsAt reads where the streams stand at the beginning of the segment
// whose first op is firstLSN; nil if it does not say. The error matches
// ErrTruncated if the segment was removed.
func (l *Log) PositionsAt(firstLSN uint64) ([]Position, error) {
	r, err := l.NewReader(firstLSN)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	span, ok, err := r.Next()
	if err != nil || !ok {
		return nil, err
	}
	return slices.Clone(span.Position), nil
}
