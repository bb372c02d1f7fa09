package changes

import (
	"strconv"
	"time"

	"kevy/resp"
)

// number reads a line that is a type byte and a number. The usual line, one that
// is whole, is read without looking for its end first.
func number(b []byte, at int, kind byte) (n int64, next int, err error) {
	if at >= len(b) {
		return 0, 0, errShort
	}
	if b[at] != kind {
		return 0, 0, protocolError("type byte %q, not %q", b[at], kind)
	}
	i := at + 1
	for ; i < len(b) && i-at < maxNumberBytes; i++ {
		d := b[i] - '0'
		if d > 9 {
			break
		}
		n = n*10 + int64(d)
	}
	if i-at > 1 && i-at < 19 && i+1 < len(b) && b[i] == '\r' && b[i+1] == '\n' {
		return n, i + 2, nil
	}
	line, next, err := lineAt(b, at, maxNumberBytes)
	if err != nil {
		return 0, 0, err
	}
	n, ok := decimal(line[1:])
	if !ok {
		return 0, 0, protocolError("number %q", line)
	}
	return n, next, nil
}

// offset reads a number that is not negative.
func offset(b []byte, at int) (n uint64, next int, err error) {
	i, next, err := number(b, at, ':')
	if err == nil && i < 0 {
		err = protocolError("the negative number %d", i)
	}
	return uint64(i), next, err
}

// bulk reads a string, which stays where it is.
func bulk(b []byte, at int) (s []byte, next int, err error) {
	n, at, err := number(b, at, '$')
	if err != nil {
		return nil, 0, err
	}
	if n < 0 {
		return nil, 0, protocolError("a null")
	}
	if int64(len(b)-at) < n+2 {
		return nil, 0, errShort
	}
	next = at + int(n)
	if b[next] != '\r' || b[next+1] != '\n' {
		return nil, 0, protocolError("a string longer than its length %d", n)
	}
	return b[at:next:next], next + 2, nil
}

const minBulkBytes = 6 // $0 and two line ends

// op reads an array of strings, which stay where they are.
func (r *Reader) op(b []byte, at int) (args [][]byte, next int, err error) {
	n, at, err := number(b, at, '*')
	if err != nil {
		return nil, 0, err
	}
	if n < 1 {
		return nil, 0, protocolError("an op of %d arguments", n)
	}
	if n > r.maxBytes()/minBulkBytes {
		return nil, 0, &TooLargeError{MaxBytes: r.maxBytes()}
	}
	if int64(len(b)-at) < n*minBulkBytes {
		return nil, 0, errShort
	}
	args = r.room(int(n))
	for i := range args {
		if args[i], at, err = bulk(b, at); err != nil {
			return nil, 0, err
		}
	}
	r.args = r.args[n:]
	return args, at, nil
}

// room returns space for n arguments; what is used of it the caller cuts off
// r.args.
func (r *Reader) room(n int) [][]byte {
	if n > len(r.args) {
		size := argsSlab
		if !r.Keep {
			size = min(max(2*len(r.slab), argsSlab), keptFrames)
		}
		r.args = make([][]byte, max(size, n))
		r.slab = r.args
		if r.Keep || len(r.slab) > keptFrames {
			r.slab = nil
		}
	}
	return r.args[:n:n]
}

// frame reads a frame with META, and which commit it is of.
func (r *Reader) frame(b []byte, f *Frame) (first, last uint64, next int, err error) {
	n, at, err := number(b, 0, '*')
	if err != nil {
		return 0, 0, 0, err
	}
	if n < 3 {
		return 0, 0, 0, protocolError("a frame of %d parts: META must be asked for", n)
	}
	more := n - 3
	if f.Offset, at, err = offset(b, at); err != nil {
		return 0, 0, 0, err
	}
	if f.Args, at, err = r.op(b, at); err != nil {
		return 0, 0, 0, err
	}
	first, last, at, err = meta(b, at, f)
	if err == nil && more != 0 {
		err = protocolError("a frame of %d parts", n)
	}
	return first, last, at, err
}

// meta reads [lsn, unix-ms, db, first, last, cause].
func meta(b []byte, at int, f *Frame) (first, last uint64, next int, err error) {
	n, at, err := number(b, at, '*')
	if err != nil {
		return 0, 0, 0, err
	}
	if n != 6 {
		return 0, 0, 0, protocolError("META of %d parts", n)
	}
	if f.LSN, at, err = offset(b, at); err != nil {
		return 0, 0, 0, err
	}
	var unixMs, db int64
	if unixMs, at, err = number(b, at, ':'); err != nil {
		return 0, 0, 0, err
	}
	if db, at, err = number(b, at, ':'); err != nil {
		return 0, 0, 0, err
	}
	f.Time, f.DB = time.UnixMilli(unixMs), int(db)
	if first, at, err = offset(b, at); err != nil {
		return 0, 0, 0, err
	}
	if last, at, err = offset(b, at); err != nil {
		return 0, 0, 0, err
	}
	cause, at, err := bulk(b, at)
	if err != nil {
		return 0, 0, 0, err
	}
	switch string(cause) {
	case string(User):
		f.Cause = User
	case string(Expired):
		f.Cause = Expired
	case string(Evicted):
		f.Cause = Evicted
	default:
		f.Cause = Cause(cause)
	}
	return first, last, at, nil
}

// nextFrame decodes a frame from the source.
func (r *Reader) nextFrame(f *Frame) (first, last uint64, err error) {
	first, last, n, err := r.frame(r.buf[r.pos:r.end], f)
	if err == errShort {
		if n, err = r.whole(); err != nil {
			return 0, 0, err
		}
		var used int
		first, last, used, err = r.frame(r.buf[r.pos:r.pos+n], f)
		if err == nil && used != n || err == errShort {
			err = protocolError("a frame that is not one")
		}
	}
	if err != nil {
		return 0, 0, err
	}
	r.pos += n
	return first, last, r.spend(n + frameBytes + argBytes*len(f.Args))
}

// nextOp decodes an op from the source.
func (r *Reader) nextOp() ([][]byte, error) {
	args, n, err := r.op(r.buf[r.pos:r.end], 0)
	if err == errShort {
		if n, err = r.whole(); err != nil {
			return nil, err
		}
		var used int
		args, used, err = r.op(r.buf[r.pos:r.pos+n], 0)
		if err == nil && used != n || err == errShort {
			err = protocolError("an op that is not one")
		}
	}
	if err != nil {
		return nil, err
	}
	r.pos += n
	return args, r.spend(n + argBytes*len(args))
}

// nextNumber decodes a line that is a type byte and a number from the source.
func (r *Reader) nextNumber(kind byte) (int64, error) {
	for {
		n, size, err := number(r.buf[r.pos:r.end], 0, kind)
		if err != errShort {
			r.pos += size
			return n, err
		}
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
}

func (r *Reader) nextOffset() (uint64, error) {
	n, err := r.nextNumber(':')
	if err == nil && n < 0 {
		err = protocolError("the negative number %d", n)
	}
	return uint64(n), err
}

func (r *Reader) nextCursor() (at Cursor, err error) {
	if at.Generation, err = r.nextOffset(); err == nil {
		at.Offset, err = r.nextOffset()
	}
	return at, err
}

// header reads the head of an array that must have n elements.
func (r *Reader) header(kind byte, n int64) error {
	got, err := r.nextNumber(kind)
	if err == nil && got != n {
		err = protocolError("%d parts, not %d", got, n)
	}
	return err
}

// text reads a string of any kind.
func (r *Reader) text() (string, error) {
	reply, err := r.reply()
	if err != nil {
		return "", err
	}
	switch {
	case reply.Type == ':':
		return strconv.FormatInt(reply.Int, 10), nil
	case reply.Null, reply.Elems != nil:
		return "", nil
	}
	return string(reply.Str), nil
}

// name reads the name of a stream.
func (r *Reader) name() (string, error) {
	for {
		s, size, err := bulk(r.buf[r.pos:r.end], 0)
		switch {
		case err == nil:
			r.pos += size
			if string(s) != r.stream {
				r.stream = string(s)
			}
			return r.stream, nil
		case err != errShort || r.end-r.pos > maxLineBytes:
			return r.text()
		}
		if err := r.fill(); err != nil {
			return "", err
		}
	}
}

// push decodes a push message.
func (r *Reader) push(m *Message) error {
	n, err := r.nextNumber('>')
	if err != nil {
		return err
	}
	if n < 1 {
		return protocolError("a push of %d parts", n)
	}
	var kind []byte
	size := 0
	for {
		kind, size, err = bulk(r.buf[r.pos:r.end], 0)
		if err != errShort {
			break
		}
		if r.end-r.pos > maxLineBytes {
			return protocolError("a push whose kind is longer than %d bytes", maxLineBytes)
		}
		if err := r.fill(); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	parts := int64(0)
	switch string(kind) {
	case "changes":
		m.Kind, parts = KindChanges, 6
	case "changes-subscribe":
		m.Kind, parts = KindSubscribed, 4
	case "changes-credit":
		m.Kind, parts = KindCredited, 3
	case "changes-unsubscribe":
		m.Kind, parts = KindUnsubscribed, 2
	case "changes-snapshot-start":
		m.Kind, parts = KindSnapshotStart, 3
	case "changes-snapshot":
		m.Kind, parts = KindSnapshotPart, 5
	case "changes-snapshot-end":
		m.Kind, parts = KindSnapshotEnd, 4
	case "changes-end":
		m.Kind, parts = KindEnd, 3
	default:
		return r.otherPush(m, n, string(kind), size)
	}
	r.pos += size
	if n != parts {
		return protocolError("a message %q of %d parts, not %d: META must be asked for", kind, n, parts)
	}
	if m.Stream, err = r.name(); err != nil {
		return err
	}
	switch m.Kind {
	case KindChanges:
		err = r.changes(m)
	case KindSubscribed, KindSnapshotEnd:
		m.At, err = r.nextCursor()
	case KindCredited:
		m.N, err = r.nextOffset()
	case KindSnapshotStart:
		m.Token, err = r.text()
	case KindSnapshotPart:
		err = r.part(m)
	case KindEnd:
		var text string
		text, err = r.text()
		m.Err = replyError(text)
	}
	return err
}

// otherPush decodes a push that is not the feed's, whose kind is buffered.
func (r *Reader) otherPush(m *Message, n int64, kind string, size int) error {
	m.Kind = KindPush
	m.Reply = resp.Reply{Type: '>', Elems: []resp.Reply{{Type: '$', Str: []byte(kind)}}}
	r.pos += size
	for ; n > 1; n-- {
		e, err := r.reply()
		if err != nil {
			return err
		}
		if err := r.spend(frameBytes); err != nil {
			return err
		}
		m.Reply.Elems = append(m.Reply.Elems, e)
	}
	return nil
}

// changes decodes [generation, next-offset, frames, complete-lsn].
func (r *Reader) changes(m *Message) (err error) {
	if m.At, err = r.nextCursor(); err != nil {
		return err
	}
	n, err := r.nextNumber('*')
	if err != nil {
		return err
	}
	if n < 0 {
		return protocolError("null for frames")
	}
	if m.frames == nil {
		m.frames = make([]Frame, 0, min(n, int64(r.end-r.pos)/minFrameBytes+1))
	}
	for ; n > 0; n-- {
		m.frames = append(m.frames, Frame{})
		f := &m.frames[len(m.frames)-1]
		first, last, err := r.nextFrame(f)
		if err != nil {
			return err
		}
		if err := m.place(f.Offset, first, last); err != nil {
			return err
		}
	}
	if m.CompleteLSN, err = r.nextOffset(); err != nil {
		return err
	}
	return m.cut()
}

// minFrameBytes is what a frame with META takes on the wire at least.
const minFrameBytes = 50

// place says which commit the last frame belongs to, which must be the one of
// the frame before it or come behind that.
func (m *Message) place(offset, first, last uint64) error {
	if offset < first || offset > last {
		return protocolError("a frame %d outside its commit, %d to %d", offset, first, last)
	}
	k := len(m.bounds)
	if k > 0 && m.bounds[k-1].first == first {
		b := &m.bounds[k-1]
		if b.last != last || m.frames[b.end-1].Offset >= offset {
			return protocolError("a frame %d out of order", offset)
		}
		b.end = len(m.frames)
		return nil
	}
	if k > 0 && m.bounds[k-1].last >= first {
		return protocolError("a commit at %d inside the one before it", first)
	}
	m.bounds = append(m.bounds, bound{end: len(m.frames), first: first, last: last})
	return nil
}

// cut makes commits of the frames.
func (m *Message) cut() error {
	if k := len(m.bounds); k == 0 {
		return nil
	} else if last := m.bounds[k-1].last; m.At.Offset <= last {
		return protocolError("the frame %d, and go on at %d", last, m.At.Offset)
	}
	if m.Commits == nil {
		m.Commits = make([]Commit, 0, len(m.bounds))
	}
	begin := 0
	for _, b := range m.bounds {
		frames := m.frames[begin:b.end:b.end]
		begin = b.end
		m.Commits = append(m.Commits, Commit{
			Stream: m.Stream, Generation: m.At.Generation, First: b.first, Last: b.last, Frames: frames,
			Next: Cursor{Generation: m.At.Generation, Offset: b.last + 1}, CompleteLSN: frames[len(frames)-1].LSN,
		})
	}
	last := &m.Commits[len(m.Commits)-1]
	last.Next, last.CompleteLSN = m.At, max(m.CompleteLSN, last.CompleteLSN)
	return nil
}

// part decodes the rest of a snapshot's message: n, db, ops.
func (r *Reader) part(m *Message) error {
	n, err := r.nextOffset()
	if err != nil {
		return err
	}
	db, err := r.nextOffset()
	if err != nil {
		return err
	}
	ops, err := r.nextNumber('*')
	if err != nil {
		return err
	}
	if ops < 0 || db > 1<<31-1 {
		return protocolError("%d ops in database %d", ops, db)
	}
	m.N, m.DB = n, int(db)
	for ; ops > 0; ops-- {
		args, err := r.nextOp()
		if err != nil {
			return err
		}
		m.Ops = append(m.Ops, args)
	}
	return nil
}
