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
