package resp

import "io"

// Fill reads once from the source. It returns the source's error as it is
// (bytes that came with it are kept and the error is returned by the next
// call), and [ErrQueryTooBig] if more bytes wait than the limits allow. After
// an error of the source, a time-out for instance, Fill may be called again.
// It ends the validity of the arguments that Next returned.
func (r *Reader) Fill() error {
	if r.failed != nil {
		return r.failed
	}
	if err := r.srcErr; err != nil {
		r.srcErr = nil
		return err
	}
	if r.waitingBytes()+r.argSlotsBytes() > r.lim.MaxQueryBytes {
		return r.fail(ErrQueryTooBig)
	}
	if r.left == 0 {
		r.settle()
	}
	if r.end == len(r.buf) && !r.gathering() {
		r.makeRoom()
	}
	if r.gathering() {
		n, err := r.read(r.large.space())
		r.large.arrived(n)
		return err
	}
	room := r.buf[r.end:]
	n, err := r.read(room)
	r.end += n
	r.filled = r.filled || n == len(room)
	return err
}

// read reads at least one byte or returns an error.
func (r *Reader) read(room []byte) (int, error) {
	for range maxEmptyReads {
		n, err := r.src.Read(room)
		if n > 0 {
			r.srcErr = err
			return n, nil
		}
		if err != nil {
			return 0, err
		}
	}
	return 0, io.ErrNoProgress
}

// gathering reports whether the next bytes belong to a large argument.
func (r *Reader) gathering() bool { return r.large.want > 0 && !r.large.full() }

// waitingBytes counts the bytes that have arrived and belong to no command
// that Next has returned.
func (r *Reader) waitingBytes() int64 {
	start := r.pos
	if r.left > 0 {
		start = r.cmd
	}
	return r.outsideBytes + int64(r.large.have) + int64(r.end-start)
}

// argSlotsBytes is the memory that the slice of arguments needs for a command
// that is not whole yet.
func (r *Reader) argSlotsBytes() int64 {
	if r.left == 0 {
		return 0
	}
	return int64(len(r.earlierArgs)*argChunk+len(r.args)) * argSlotBytes
}

// settle, between commands, lets go of what the last ones needed and fits an
// empty buffer to what the client sends.
func (r *Reader) settle() {
	if r.loose {
		r.dropArgs()
	}
	if r.pos < r.end {
		return
	}
	size := len(r.buf)
	switch {
	case size > readAheadBytes:
		r.buf = make([]byte, readAheadBytes)
	case r.filled && size < readAheadBytes:
		r.buf = make([]byte, min(4*size, readAheadBytes))
	}
	r.filled = false
	r.pos, r.end, r.scanned = 0, 0, 0
}

// dropArgs forgets the arguments, so that they keep no memory alive.
func (r *Reader) dropArgs() {
	r.loose = false
	r.earlierArgs = nil
	if cap(r.args) > keptArgs {
		r.args = nil
		return
	}
	clear(r.args[:cap(r.args)])
	r.args = r.args[:0]
}

// makeRoom makes the full buffer take more bytes. Each way moves at most as
// many bytes as must arrive before the next move, which keeps the work linear.
func (r *Reader) makeRoom() {
	if r.left > 0 && r.bulkLen >= largeBulkBytes && r.large.want == 0 && r.bulkLen+2 > len(r.buf)-r.pos {
		n := min(r.bulkLen, r.end-r.pos)
		r.large.start(r.bulkLen, r.buf[r.pos:r.pos+n])
		r.end = r.pos + copy(r.buf[r.pos:], r.buf[r.pos+n:r.end])
		if r.end < len(r.buf) {
			return
		}
	}
	start := r.pos
	if r.left > 0 {
		start = r.cmd
	}
	if start > 0 && start >= len(r.buf)/2 && !r.split {
		// The arguments of an unfinished command would move away under
		// r.args, so parse it again: it is less than half a buffer long.
		if r.left > 0 && r.large.want == 0 {
			r.rewind()
		}
		if r.left == 0 {
			r.end = copy(r.buf, r.buf[r.pos:r.end])
			r.pos = 0
			return
		}
	}
	// Finished arguments stay where they are; only what is not parsed moves.
	tail := r.buf[r.pos:r.end]
	size := max(firstBufferBytes, min(4*len(r.buf), maxBufferBytes), 2*len(tail))
	buf := make([]byte, size)
	r.end = copy(buf, tail)
	if r.left > 0 {
		r.outsideBytes += int64(r.pos - r.cmd)
		r.split = true
	}
	r.buf, r.pos, r.cmd = buf, 0, 0
}

// rewind goes back to the first byte of the command being parsed.
func (r *Reader) rewind() {
	r.pos, r.left, r.bulkLen = r.cmd, 0, -1
	r.scanned, r.noEnd = 0, false
	r.args, r.earlierArgs = r.args[:0], nil
}

// Shrink gives back what large commands left behind if nothing is buffered.
// Fill does so by itself; call Shrink before a wait that is not a Fill. It ends
// the validity of the arguments that Next returned.
func (r *Reader) Shrink() {
	if r.left > 0 || r.pos < r.end {
		return
	}
	if r.loose {
		r.dropArgs()
	}
	if len(r.buf) > readAheadBytes {
		r.buf = nil
		r.pos, r.end, r.scanned = 0, 0, 0
	}
}

// Release gives back all memory if nothing is buffered, which it reports: for a
// connection that has been idle. The Reader stays usable; a new one would do as
// well. It ends the validity of the arguments that Next returned.
func (r *Reader) Release() bool {
	if r.left > 0 || r.pos < r.end || r.failed != nil || r.srcErr != nil {
		return false
	}
	r.buf, r.args = nil, nil
	r.pos, r.end, r.scanned = 0, 0, 0
	r.loose, r.filled = false, false
	return true
}
