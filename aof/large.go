package aof

import (
	"fmt"
	"hash/crc32"

	"kevy/internal/vfs"
)

// maxWholeBytes is the largest payload that is read at once. A larger one may not
// be what the line before it says, and even if it is, each of many readers would
// hold it.
const maxWholeBytes = 1 << 20

// LargePayload is the payload of a block in a file that is too large to be held in
// memory. It was checked from end to end when it was found, and it is checked
// again, piece by piece, as it is read: what it returns is what was written. One
// goroutine may use it.
type LargePayload struct {
	file vfs.File // nil once it is not valid any more
	at   int64    // offset in the file
	size int64
	skip int64    // that many bytes in front do not belong to the span
	sums []uint32 // of each piece of windowBytes

	from int64 // offset in the payload of buf, which holds whole pieces
	buf  []byte

	// changed makes the error for a piece, at an offset of the file, that is not
	// what was checked; nil for one that only says so.
	changed func(at int64) error
}

// readLarge reads a payload of size bytes at offset at of the window's file once,
// to find the checksum of each piece, and that of the whole, which goes on from
// crc.
func readLarge(w *window, crc uint32, at, size int64) (*LargePayload, uint32, error) {
	p := &LargePayload{file: w.f, at: at, size: size}
	pieces := window{f: w.f, size: w.size} // w keeps what it has of the block's beginning
	for done := int64(0); done < size; {
		b, err := pieces.peek(at+done, min(size-done, windowBytes))
		if err != nil {
			return nil, 0, err
		}
		crc = crc32.Update(crc, castagnoli, b)
		p.sums = append(p.sums, crc32.Checksum(b, castagnoli))
		done += int64(len(b))
	}
	return p, crc, nil
}

// Size returns the size in bytes.
func (p *LargePayload) Size() int64 { return p.size - p.skip }

// Ahead returns what is in memory from the offset at on: at least n bytes, fewer
// where the payload ends. What is held is n bytes, a quarter of them more if n
// grew slowly, and two pieces; behind a large n up to twice as much, or
// maxWindowedKept. The bytes are valid until the next call, and until
// the reader's next one; they must not be changed. The errors are those of
// Reader.Next.
func (p *LargePayload) Ahead(at, n int64) ([]byte, error) {
	at += p.skip
	n = min(n, p.size-at)
	if n <= 0 {
		return nil, nil
	}
	if p.file == nil {
		return nil, ErrClosed
	}
	if at < p.from || at+n > p.from+int64(len(p.buf)) {
		if err := p.fill(at, at+n); err != nil {
			return nil, err
		}
	}
	return p.buf[at-p.from : len(p.buf) : len(p.buf)], nil
}

// fill reads the pieces that hold what lies between two offsets.
func (p *LargePayload) fill(from, to int64) error {
	from -= from % windowBytes
	to = min(to+windowBytes-1-(to-1)%windowBytes, p.size)
	var kept []byte
	if from >= p.from && from < p.from+int64(len(p.buf)) {
		kept = p.buf[from-p.from:]
	}
	want := int(to - from)
	if had := cap(p.buf); had < want || had > maxWindowedKept && want < had/2 {
		room := want
		if had < want {
			// An op of many arguments tells only bit by bit how large it is.
			room = max(want, had+had/4)
		}
		p.buf = make([]byte, 0, room)
	}
	p.buf = append(p.buf[:0], kept...)
	p.from = from
	for len(p.buf) < want {
		had := len(p.buf)
		b := p.buf[had:min(had+windowBytes, want)]
		at := p.at + from + int64(had)
		if err := readFull(p.file, b, at); err != nil {
			return err
		}
		if crc32.Checksum(b, castagnoli) != p.sums[(from+int64(had))/windowBytes] {
			if p.changed != nil {
				return p.changed(at)
			}
			return fmt.Errorf("read %s: what stands at %d was another thing a moment ago", p.file.Name(), at)
		}
		p.buf = p.buf[:had+len(b)]
	}
	return nil
}

// release gives up what the payload holds: it is not valid any more.
func (p *LargePayload) release() { p.file, p.buf = nil, nil }
