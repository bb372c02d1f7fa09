package resp

// Pairs begins a list of n pairs; n times Pair and two replies follow. In RESP2
// it is an array of 2n replies.
func (w *Writer) Pairs(n int) {
	if w.resp3 {
		w.header('*', int64(n))
		return
	}
	w.header('*', 2*int64(n))
}

// Pair begins one pair of a list that Pairs began. In RESP2 it writes nothing.
func (w *Writer) Pair() {
	if w.resp3 {
		w.header('*', 2)
	}
}

// MapEntry begins one entry of a map that EndMapEntries ends; a key and a value
// follow.
func (w *Writer) MapEntry() {
	if !w.resp3 {
		w.header('*', 2)
	}
}

// EndMapEntries makes what was written since m, n times MapEntry and two
// replies, a map. In RESP2 it is an array of arrays of two.
func (w *Writer) EndMapEntries(m Mark, n int) {
	kind := byte('*')
	if w.resp3 {
		kind = '%'
	}
	w.insertHeader(m, kind, int64(n))
}
