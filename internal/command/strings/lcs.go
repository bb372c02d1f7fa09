package strings

import (
	"kevy/internal/command"
	"kevy/resp"
)

func lcs() *command.Spec {
	return &command.Spec{
		Name: "lcs", Arity: -3, Flags: command.ReadOnly, Category: command.CatString,
		Keys:  []command.KeySpec{command.Range(1, 1, 1, command.RO|command.Access)},
		Group: "string", Since: "7.0.0", Complexity: "O(N*M) with strings of N and M bytes",
		Syntax:  "key1 key2 [LEN] [IDX] [MINMATCHLEN length] [WITHMATCHLEN]",
		Summary: "Answers the longest subsequence that two strings have in common.",
		Run:     runLCS,
	}
}

var (
	errLCSType  = &resp.Error{Code: "ERR", Text: "The specified keys must contain string values"}
	errLCSBoth  = &resp.Error{Code: "ERR", Text: "If you want both the length and indexes, please just use IDX."}
	errLCSTable = &resp.Error{Code: "ERR", Text: "Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len"}
)

// lcsCellBytes is what Redis spends on each pair of bytes: by that measure the
// work of a call is bounded.
const lcsCellBytes = 4

// lcsOptions are the options of LCS.
type lcsOptions struct {
	length, ranges, withMatchLen bool
	minMatchLen                  int64
}

func parseLCSOptions(a *command.Args) (o lcsOptions) {
	for a.More() {
		switch {
		case a.Is("LEN"):
			o.length = true
		case a.Is("IDX"):
			o.ranges = true
		case a.Is("WITHMATCHLEN"):
			o.withMatchLen = true
		case a.Is("MINMATCHLEN"):
			o.minMatchLen = a.Int()
		default:
			a.Fail(command.ErrSyntax)
		}
	}
	if o.length && o.ranges {
		a.Fail(errLCSBoth)
	}
	return o
}

func runLCS(c *command.Ctx) {
	// The keys are looked at before the options, so their error comes first.
	x, _, errX := c.Tx.String(c.Args[1])
	y, _, errY := c.Tx.String(c.Args[2])
	if errX != nil || errY != nil {
		c.W.Error(errLCSType)
		return
	}
	a := c.Scan(3)
	o := parseLCSOptions(&a)
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	if (int64(len(x))+1)*(int64(len(y))+1) > command.StringLimit()/lcsCellBytes {
		c.W.Error(errLCSTable)
		return
	}
	if o.length {
		c.W.Int(int64(lcsLength(x, y, nil)))
		return
	}
	var t lcsTrace
	n := lcsLength(x, y, &t)
	if o.ranges {
		t.replyRanges(c.W, x, y, n, o)
		return
	}
	common := make([]byte, n)
	t.each(x, y, func(i, _ int) {
		n--
		common[n] = x[i]
	})
	c.W.Bulk(common)
}

// lcsTrace holds, for each pair of ends in two strings, in which of the two to
// step back where the bytes there differ: one bit instead of the number that it
// is derived from.
type lcsTrace struct {
	width int
	bits  []uint64 // set: step back in the first string
}

func (t *lcsTrace) init(n, m int) {
	t.width = m
	t.bits = make([]uint64, (n*m+63)/64)
}

// lcsLength returns the length of the longest common subsequence and, if t is
// not nil, fills it in.
func lcsLength(x, y []byte, t *lcsTrace) int {
	if t != nil {
		t.init(len(x), len(y))
	}
	// row[j] is the length for the bytes of x before the current one, and then
	// with it, and the first j of y.
	row := make([]uint32, len(y)+1)
	for i, b := range x {
		var diagonal uint32 // row[j] before this round
		for j := range y {
			above, left := row[j+1], row[j]
			switch {
			case b == y[j]:
				row[j+1] = diagonal + 1
			case above > left:
				if t != nil {
					k := i*t.width + j
					t.bits[k/64] |= 1 << (k % 64)
				}
			default:
				row[j+1] = left
			}
			diagonal = above
		}
	}
	return int(row[len(y)])
}

// each calls fn with the positions of the common bytes, from the last to the
// first.
func (t *lcsTrace) each(x, y []byte, fn func(i, j int)) {
	i, j := len(x)-1, len(y)-1
	for i >= 0 && j >= 0 {
		k := i*t.width + j
		switch {
		case x[i] == y[j]:
			fn(i, j)
			i--
			j--
		case t.bits[k/64]&(1<<(k%64)) != 0:
			i--
		default:
			j--
		}
	}
}

// replyRanges replies with the runs of common bytes that follow each other in
// both strings, the last one first.
func (t *lcsTrace) replyRanges(w *resp.Writer, x, y []byte, n int, o lcsOptions) {
	w.Map(2)
	w.BulkString("matches")
	start, count := w.Begin(), 0
	var i, j, run int // the run that is being gathered begins at x[i] and y[j]
	flush := func() {
		if run == 0 || int64(run) < o.minMatchLen {
			return
		}
		if o.withMatchLen {
			w.Array(3)
		} else {
			w.Array(2)
		}
		for _, from := range [2]int{i, j} {
			w.Array(2)
			w.Int(int64(from))
			w.Int(int64(from + run - 1))
		}
		if o.withMatchLen {
			w.Int(int64(run))
		}
		count++
	}
	t.each(x, y, func(atX, atY int) {
		if run == 0 || atX != i-1 || atY != j-1 {
			flush()
			run = 0
		}
		i, j = atX, atY
		run++
	})
	flush()
	w.EndArray(start, count)
	w.BulkString("len")
	w.Int(int64(n))
}
