package aof

import (
	"bytes"
)

// redisSelect is how Redis begins what it appends.
var redisSelect = []byte("*2\r\n$6\r\nSELECT\r\n")

// ourSelect is how a block begins that can be told from what Redis appends.
var ourSelect = []byte("*2\r\n$6\r\nselect\r\n")

type progress uint8

const (
	whole      progress = iota
	incomplete          // the file ends before it does
	malformed
)

// maxCommandName is the longest name that commandAt reports.
const maxCommandName = 16

// command is a RESP array of bulk strings in a file.
type command struct {
	end  int64
	args int
	name string // in capitals; "" if it is longer than maxCommandName
}

// commandAt finds the end of the command at offset at.
func commandAt(w *window, at int64) (c command, p progress, err error) {
	args, at, p, err := countAt(w, at, '*')
	if p != whole || err != nil {
		return c, p, err
	}
	if args < 1 {
		return c, malformed, nil
	}
	for i := range args {
		n, body, p, err := countAt(w, at, '$')
		if p != whole || err != nil {
			return c, p, err
		}
		if n > w.size-body-2 {
			return c, incomplete, nil
		}
		if i == 0 && n <= maxCommandName {
			name, err := w.peek(body, n)
			if err != nil {
				return c, 0, err
			}
			c.name = string(bytes.ToUpper(name))
		}
		end, err := w.peek(body+n, 2)
		if err != nil {
			return c, 0, err
		}
		if string(end) != "\r\n" {
			return c, malformed, nil
		}
		at = body + n + 2
	}
	c.end, c.args = at, int(min(args, 1<<31-1))
	return c, whole, nil
}

// countAt reads a line of kind and a number.
func countAt(w *window, at int64, kind byte) (n, end int64, p progress, err error) {
	const maxDigits = 18 // which do not overflow
	const maxLine = 1 + maxDigits + 2
	line, err := w.peek(at, maxLine)
	if err != nil {
		return 0, 0, 0, err
	}
	for i, c := range line {
		switch {
		case i == 0 && c == kind:
		case i > 0 && i <= maxDigits && c >= '0' && c <= '9':
			n = n*10 + int64(c-'0')
		case i > 1 && c == '\r':
			if i+1 == len(line) {
				return 0, 0, incomplete, nil
			}
			if line[i+1] != '\n' {
				return 0, 0, malformed, nil
			}
			return n, at + int64(i) + 2, whole, nil
		default:
			return 0, 0, malformed, nil
		}
	}
	return 0, 0, incomplete, nil
}

// region is a stretch of a file that another server wrote.
type region struct {
	end      int64 // behind the last whole command and transaction
	commands int
	// stop is where the region stops before the end of the file: at a line of
	// ours, or at what is not whole.
	stop   int64
	left   progress // how the rest looks; whole if there is none, or it is ours
	reason string   // why the rest is not whole
}

// foreignRegion finds out how far another server's commands reach from offset
// at.
func foreignRegion(w *window, at int64) (r region, err error) {
	multi := int64(-1)
	r.end = at
	for at < w.size {
		head, err := w.peek(at, maxLineBytes)
		if err != nil {
			return r, err
		}
		if head[0] == '#' {
			if bytes.HasPrefix(head, []byte(linePrefix[:len(linePrefix)-1])) {
				break
			}
			n, p := skippedLine(head)
			if p != whole {
				return r.stopped(at, p, "a line is neither a command nor a time"), nil
			}
			at += int64(n)
			if multi < 0 {
				r.end = at
			}
			continue
		}
		c, p, err := commandAt(w, at)
		if err != nil {
			return r, err
		}
		if p != whole {
			return r.stopped(at, p, "a command is not whole"), nil
		}
		switch {
		case c.name == "MULTI" && multi < 0:
			multi = at
		case c.name == "EXEC" && multi >= 0:
			multi = -1
		}
		at = c.end
		r.commands++
		if multi < 0 {
			r.end = at
		}
	}
	r.stop = at
	if multi >= 0 {
		p := incomplete
		if at < w.size {
			p = malformed
		}
		return r.stopped(multi, p, "a MULTI has no EXEC"), nil
	}
	return r, nil
}

func (r region) stopped(at int64, p progress, reason string) region {
	r.stop, r.left, r.reason = at, p, reason
	return r
}

// skippedLine is the length of a line that is no command and may stand between
// commands: a time that Redis wrote, or the cause of a DEL or HDEL in a block of ours
// that Redis took over.
func skippedLine(head []byte) (n int, p progress) {
	for _, line := range []string{"#x\r\n", "#e\r\n"} {
		if bytes.HasPrefix(head, []byte(line)) {
			return len(line), whole
		}
	}
	end := bytes.IndexByte(head, '\n')
	if end < 0 {
		if len(head) < maxLineBytes && bytes.HasPrefix([]byte(redisTimeLine), head[:min(len(head), len(redisTimeLine))]) {
			return 0, incomplete
		}
		return 0, malformed
	}
	digits := bytes.TrimSuffix(head[:end], []byte("\r"))
	if !bytes.HasPrefix(digits, []byte(redisTimeLine)) {
		return 0, malformed
	}
	for _, c := range digits[len(redisTimeLine):] {
		if c < '0' || c > '9' {
			return 0, malformed
		}
	}
	return end + 1, whole
}

// foreignChunkBytes is about how much is handed on at a time.
const foreignChunkBytes = 256 << 10

// eachForeign calls fn with the commands between two offsets, which
// foreignRegion found whole.
func eachForeign(w *window, at, end int64, fn func(commands []byte) error) error {
	for at < end {
		start := at
		for at < end && at-start < foreignChunkBytes {
			head, err := w.peek(at, maxLineBytes)
			if err != nil {
				return err
			}
			if head[0] == '#' {
				break
			}
			c, _, err := commandAt(w, at)
			if err != nil {
				return err
			}
			at = c.end
		}
		if at > start {
			commands, err := w.peek(start, at-start)
			if err != nil {
				return err
			}
			if err := fn(commands); err != nil {
				return placed(err, w.f.Name(), start)
			}
			continue
		}
		head, err := w.peek(at, maxLineBytes)
		if err != nil {
			return err
		}
		n, _ := skippedLine(head)
		at += int64(n)
	}
	return nil
}

// takeover is a torn block of ours that Redis found and went on behind.
type takeover struct {
	start int64 // of the commands that Redis read
	// Where the block was torn inside a transaction, Redis has forgotten it and
	// left it in the file: from multi up to resume. Else the two are the same.
	multi, resume int64
}

// takenOver looks at what does not check at the end of the log, at offset at,
// for a torn block of ours that Redis executed as far as it was whole, and went
// on behind.
func takenOver(w *window, at int64) (t takeover, ok bool, err error) {
	head, err := w.peek(at, maxLineBytes)
	if err != nil {
		return t, false, err
	}
	line, _, _ := bytes.Cut(head, []byte("\n"))
	h, n, isBlock := BlockHeader{}, 0, false
	if bytes.HasPrefix(head, []byte(blockPrefix)) {
		h, n, isBlock = parseBlockLine(head)
	}
	if !isBlock {
		// Torn within the line, behind which Redis went on.
		i := bytes.IndexByte(line, '*')
		if !bytes.HasPrefix(line, []byte(linePrefix[:min(len(linePrefix)-1, max(i, 0))])) || i < 0 {
			return t, false, nil
		}
		if !bytes.HasPrefix(head[i:], redisSelect) {
			return t, false, nil
		}
		start := at + int64(i)
		_, p, err := commandAt(w, start)
		return takeover{start, start, start}, p == whole, err
	}
	if h.PayloadBytes == 0 {
		return t, false, nil
	}
	t.start = at + int64(n)
	t.multi = -1
	ours := false
	for pos := t.start; pos < w.size; {
		head, err := w.peek(pos, maxLineBytes)
		if err != nil {
			return t, false, err
		}
		if head[0] == '#' {
			n, p := skippedLine(head)
			if p != whole {
				return t, false, nil
			}
			pos += int64(n)
			continue
		}
		redis := bytes.HasPrefix(head, redisSelect)
		ours = ours || bytes.HasPrefix(head, ourSelect)
		c, p, err := commandAt(w, pos)
		if err != nil {
			return t, false, err
		}
		if redis || p != whole {
			t.resume = pos
			if t.multi < 0 {
				t.multi = pos
			}
			return t, redis && (ours || pos == t.start) && p == whole, nil
		}
		switch c.name {
		case "MULTI":
			t.multi = pos
		case "EXEC":
			t.multi = -1
		}
		pos = c.end
	}
	return t, false, nil
}
