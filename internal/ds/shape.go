package ds

// Shape describes how tables keep their entries.
type Shape struct {
	Entries  int
	Slots    int // places for entries
	Segments int
	// Longest is the number of segments of the longest chain: 1 unless a segment
	// has outgrown its slots and could not be split.
	Longest int
	// Fill counts the segments, chained ones as one, by how full they are, in tenths.
	Fill [11]int
}

// Add takes the figures of another shape in.
func (s *Shape) Add(other Shape) {
	s.Entries += other.Entries
	s.Slots += other.Slots
	s.Segments += other.Segments
	s.Longest = max(s.Longest, other.Longest)
	for i, n := range other.Fill {
		s.Fill[i] += n
	}
}

// Shape walks over the table's segments.
func (t *Table) Shape() (shape Shape) {
	shape.Entries = t.count
	for at := uint64(0); at < uint64(len(t.dir)); {
		first, n := t.span(at)
		at = first + n
		chain, slots, entries := 0, 0, 0
		for s := t.dir[first]; s != nil; s = s.over {
			chain++
			slots += s.room()
			entries += int(s.count)
		}
		shape.Segments += chain
		shape.Slots += slots
		shape.Longest = max(shape.Longest, chain)
		shape.Fill[10*entries/slots]++
	}
	return shape
}

// ShapeOf describes the table of a collection, if it is kept in one.
func ShapeOf(o Object) (Shape, bool) {
	var t *Table
	switch o := o.(type) {
	case *Hash:
		t = o.table
	case *Set:
		t = o.table
	case *ZSet:
		t = o.table
	}
	if t == nil {
		return Shape{}, false
	}
	return t.Shape(), true
}

// Chunks returns the number of the list's chunks.
func (l *List) Chunks() int { return len(l.chunks()) }

// ChunkBytes returns the size of the chunks, without what points to them.
func (l *List) ChunkBytes() int { return l.bytes }
