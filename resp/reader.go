package resp

import (
	"bytes"
	"io"
	"unsafe"
)

const (
	firstBufferBytes = 1 << 10   // before a client has shown what it sends
	readAheadBytes   = 32 << 10  // the buffer of a client that fills its reads; also what an idle one may keep
	maxBufferBytes   = 128 << 10 // growth stops here unless unread bytes need more
	largeBulkBytes   = 32 << 10  // an argument from this length on need not fit the buffer
	keptArgs         = 1 << 10   // argument slots that are kept between commands
	argChunk         = 64 << 10  // argument slots of an unfinished command that are in one piece
	maxEmptyReads    = 100       // reads without a byte or an error before the source counts as broken

	argSlotBytes = int64(unsafe.Sizeof([]byte(nil)))
)

// Reader reads the commands of one client. Next parses what is buffered; when
// that is not a whole command, Fill reads more. It is not safe for concurrent
// use.
//
// Parsing is in place: arguments are slices of the buffer. Nothing is
// allocated for a command that fits the buffer. Memory follows what has
// arrived, never what was announced, and goes back when the buffer runs empty.
type Reader struct {
	src io.Reader
	lim Limits

	buf     []byte
	pos     int  // buf[pos:end] is not parsed yet
	end     int  //
	scanned int  // this many bytes from pos on hold no line end
	noEnd   bool // the line at pos holds a zero byte, behind which no line end counts

	// The command being parsed. While left > 0 its first byte is at buf[cmd],
	// or, if it is split, at buf[cmd] goes on what began in earlier memory,
	// which args keep alive.
	args         [][]byte
	earlierArgs  [][][]byte // those before args, argChunk at a time: growing one slice would leave as much garbage again
	left         int        // arguments that are missing
	bulkLen      int        // of the argument at pos, -1 before its length line
	cmd          int
	large        largeBulk
	split        bool
	outsideBytes int64 // of the command, in memory other than buf and large

	loose  bool   // args refer to memory other than buf, or are many
	filled bool   // the last read left no room
	failed *Error // a protocol error is final
	srcErr error  // came with the last bytes; Fill returns it next
}

// NewReader returns a Reader of the commands in src.
func NewReader(src io.Reader, lim Limits) *Reader {
	return &Reader{src: src, lim: lim.withDefaults(), bulkLen: -1}
}

// SetLimits changes the limits. Lengths that were read before stay accepted.
func (r *Reader) SetLimits(lim Limits) { r.lim = lim.withDefaults() }

// Buffered returns the number of bytes that have been read and belong to no
// command that Next has returned.
func (r *Reader) Buffered() int {
	return int(r.waitingBytes())
}

// Unparsed returns the number of bytes that have been read and are not part of an argument
// that is whole, nor of a line that has been understood.
func (r *Reader) Unparsed() int { return r.large.have + r.end - r.pos }

// MemBytes returns the memory that the Reader holds, in bytes.
func (r *Reader) MemBytes() int {
	n := int64(len(r.buf)) + int64(r.large.held) + r.outsideBytes + int64(len(r.earlierArgs)*argChunk+cap(r.args))*argSlotBytes
	return int(n)
}

// Next returns the arguments of the next command that is buffered as a whole;
// there is at least one. ok is false if there is none: call Fill and try
// again. Empty commands (*0, a negative count, a blank line) are skipped.
//
// The slice args is reused by the next call of Next; the arguments in it
// belong to the Reader and stay unchanged until Fill, Shrink or Release.
//
// err is an *[Error] with the text that Redis sends. It is final: after
// sending it, close the connection. The commands before it in the same buffer
// are returned first.
func (r *Reader) Next() (args [][]byte, ok bool, err error) {
	if r.failed != nil {
		return nil, false, r.failed
	}
	for r.left == 0 {
		if r.pos == r.end {
			return nil, false, nil
		}
		if r.loose {
			r.dropArgs()
		}
		r.args = r.args[:0]
		r.cmd = r.pos
		if r.buf[r.pos] != '*' {
			done, e := r.inline()
			if e != nil {
				return nil, false, r.fail(e)
			}
			if !done {
				return nil, false, nil
			}
			if len(r.args) > 0 {
				return r.args, true, nil
			}
			continue
		}
		done, e := r.multibulk()
		if e != nil {
			return nil, false, r.fail(e)
		}
		if !done {
			return nil, false, nil
		}
	}
	done, e := r.bulks()
	if e != nil {
		return nil, false, r.fail(e)
	}
	if !done {
		return nil, false, nil
	}
	if r.split || len(r.args) > keptArgs {
		r.split, r.loose = false, true
		r.outsideBytes = 0
	}
	return r.args, true, nil
}

func (r *Reader) fail(e *Error) *Error {
	r.failed = e
	return e
}

// multibulk reads the line "*<count>"; done is false if it is not whole.
func (r *Reader) multibulk() (done bool, err *Error) {
	n, size := shortLength(r.buf[r.pos:r.end])
	count := int64(n)
	if size > 0 {
		r.pos += size
		r.scanned = 0
	} else {
		line, ok, err := r.lengthLine(errMultibulkLine)
		if !ok {
			return false, err
		}
		count, ok = parseLength(line[1:])
		if !ok {
			return false, errMultibulkLength
		}
	}
	if err := r.lim.checkArgs(count); err != nil {
		return false, err
	}
	r.left = int(max(count, 0))
	r.bulkLen = -1
	return true, nil
}

// bulks reads the arguments that are missing; done is false if the buffer
// ends before the last.
func (r *Reader) bulks() (done bool, err *Error) {
	for {
		if len(r.args) >= argChunk {
			r.earlierArgs = append(r.earlierArgs, r.args)
			r.args = make([][]byte, 0, argChunk)
		}
		if r.bulkLen < 0 {
			r.wholeBulks()
			if r.left == 0 {
				r.joinArgs()
				return true, nil
			}
			if len(r.args) >= argChunk {
				continue
			}
			done, err := r.bulkLine()
			if !done {
				return false, err
			}
		}
		// Redis skips two bytes behind an argument without looking at them.
		if r.large.want > 0 {
			if !r.large.full() || r.end-r.pos < 2 {
				return false, nil
			}
			r.args = append(r.args, r.large.take())
			r.outsideBytes += int64(r.bulkLen)
			r.split = true
			r.pos += 2
		} else {
			next := r.pos + r.bulkLen + 2
			if next > r.end {
				return false, nil
			}
			r.args = append(r.args, r.buf[r.pos:next-2:next-2])
			r.pos = next
		}
		r.left--
		r.bulkLen = -1
	}
}

// joinArgs makes one slice of all arguments.
func (r *Reader) joinArgs() {
	if r.earlierArgs == nil {
		return
	}
	all := make([][]byte, 0, len(r.earlierArgs)*argChunk+len(r.args))
	for i, chunk := range r.earlierArgs {
		all = append(all, chunk...)
		r.earlierArgs[i] = nil
	}
	r.args, r.earlierArgs = append(all, r.args...), nil
}

// wholeBulks takes the arguments, from the start of a length line on, that lie
// in the buffer as a whole and have the usual form. It is what bulks does, for
// the common case: all else is left to it.
func (r *Reader) wholeBulks() {
	buf, pos, args, left := r.buf[:r.end], r.pos, r.args, r.left
	maxBulkBytes := r.lim.MaxBulkBytes
	for left > 0 && len(args) < argChunk {
		rest := buf[pos:]
		if len(rest) < 4 || rest[0] != '$' {
			break
		}
		n, size := int(rest[1]-'0'), 4
		if n > 9 || rest[2] != '\r' {
			if n, size = shortLength(rest); size == 0 {
				break
			}
		}
		rest = rest[size:]
		if int64(n) > maxBulkBytes || len(rest) < n+2 {
			break
		}
		args = append(args, rest[:n:n])
		pos += size + n + 2
		left--
	}
	if left < r.left {
		r.pos, r.args, r.left = pos, args, left
		r.scanned = 0
	}
}

// bulkLine reads the line "$<length>"; done is false if it is not whole.
func (r *Reader) bulkLine() (done bool, err *Error) {
	rest := r.buf[r.pos:r.end]
	if n, size := shortLength(rest); size > 0 && rest[0] == '$' && int64(n) <= r.lim.MaxBulkBytes {
		r.pos += size
		r.scanned = 0
		r.bulkLen = n
		return true, nil
	}
	line, ok, err := r.lengthLine(errBulkLine)
	if !ok {
		return false, err
	}
	if len(line) == 0 {
		return false, errNotBulk('\r')
	}
	if line[0] != '$' {
		return false, errNotBulk(line[0])
	}
	n, ok := parseLength(line[1:])
	if !ok {
		return false, errBulkLength
	}
	if err := r.lim.checkBulk(n); err != nil {
		return false, err
	}
	r.bulkLen = int(n)
	return true, nil
}

// lengthLine returns the line at pos without the carriage return that ends it
// and moves pos behind the byte after that, which Redis does not look at. ok is
// false if the line is not whole, with tooLong as err if it cannot become so.
func (r *Reader) lengthLine(tooLong *Error) (line []byte, ok bool, err *Error) {
	i, err := r.lineEnd('\r', tooLong)
	if i < 0 || r.pos+i+2 > r.end {
		return nil, false, err
	}
	line = r.buf[r.pos : r.pos+i]
	r.pos += i + 2
	r.scanned = 0
	return line, true, nil
}

// inline reads a command that is a line of text; done is false if the line is
// not whole.
func (r *Reader) inline() (done bool, err *Error) {
	i, err := r.lineEnd('\n', errInlineLine)
	if i < 0 {
		return false, err
	}
	line := r.buf[r.pos : r.pos+i]
	r.pos += i + 1
	r.scanned = 0
	if i > 0 && line[i-1] == '\r' {
		line = line[:i-1]
	}
	args, ok := splitInline(r.args, line)
	if !ok {
		return false, errInlineQuotes
	}
	r.args = args
	return true, nil
}

// lineEnd returns the distance from pos to the byte that ends the line, or a
// negative number if it has not arrived, with tooLong as err if it is too far
// away. No byte is looked at twice over all calls for one line. As in Redis,
// which searches a C string, a zero byte hides the line end behind it.
func (r *Reader) lineEnd(end byte, tooLong *Error) (int, *Error) {
	line := r.buf[r.pos:r.end]
	n := len(line)
	if !r.noEnd {
		fresh := line[r.scanned:]
		i := bytes.IndexByte(fresh, end)
		if i >= 0 {
			fresh = fresh[:i]
			n = r.scanned + i
		}
		switch {
		case bytes.IndexByte(fresh, 0) >= 0:
			r.noEnd = true
			n = len(line)
		case i >= 0 && n <= r.lim.MaxInlineBytes:
			r.scanned = n
			return n, nil
		default:
			r.scanned = n
		}
	}
	if n > r.lim.MaxInlineBytes {
		return -1, tooLong
	}
	return -1, nil
}
