package aof

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math/bits"
)

// The texts below are on disk (docs/formats.md).
const (
	formatVersion = 1

	blockPrefix    = "#kevy "
	linePrefix     = "#kevy-" // every line of ours but a block's
	filePrefix     = "#kevy-file "
	positionPrefix = "#kevy-pos "
	drawPrefix     = "#kevy-gen "
	endPrefix      = "#kevy-end "
	redisTimeLine  = "#TS:"
	rdbMagic       = "REDIS"

	// maxLineBytes is the longest line that Redis skips, its end included.
	maxLineBytes = 1023
	// maxBlockLineBytes holds a block's line whatever its numbers are.
	maxBlockLineBytes = len(blockPrefix) + 5*(20+1) + checksumBytes
	// checksumBytes is the end of a line: the checksum, CR and LF.
	checksumBytes = 8 + 2
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// BlockHeader is the line that precedes a block's payload.
type BlockHeader struct {
	FirstLSN     uint64
	Ops          int
	DurableLSN   uint64 // fsynced up to here when the block was sealed
	UnixMs       int64  // when the block was opened
	PayloadBytes int
	CRC          uint32
}

// LastLSN is that of the block's last op, FirstLSN-1 for an empty block.
func (h *BlockHeader) LastLSN() uint64 { return h.FirstLSN + uint64(h.Ops) - 1 }

// appendBlockLine appends the line without its checksum. It is what the
// checksum covers first.
func appendBlockLine(dst []byte, h *BlockHeader) []byte {
	dst = append(dst, blockPrefix...)
	dst = append(appendUint(dst, h.FirstLSN), ' ')
	dst = append(appendUint(dst, uint64(h.Ops)), ' ')
	dst = append(appendUint(dst, h.DurableLSN), ' ')
	dst = append(appendUint(dst, uint64(h.UnixMs)), ' ')
	return append(appendUint(dst, uint64(h.PayloadBytes)), ' ')
}

func appendChecksum(dst []byte, crc uint32) []byte {
	dst = appendHex32(dst, crc)
	return append(dst, '\r', '\n')
}

func blockChecksum(random uint32, line, payload []byte) uint32 {
	return crc32.Update(crc32.Update(random, castagnoli, line), castagnoli, payload)
}

// lineChecksum covers a line of ours that is no block's: text runs to the space
// before the checksum, last is the LSN of the last op before the line.
func lineChecksum(random uint32, last uint64, text []byte) uint32 {
	var place [8]byte
	binary.LittleEndian.PutUint64(place[:], last)
	return crc32.Update(crc32.Update(random, castagnoli, place[:]), castagnoli, text)
}

// appendLine appends an annotation line with its checksum. text is without line
// end and checksum.
func appendLine(dst []byte, random uint32, last uint64, text []byte) []byte {
	start := len(dst)
	dst = append(dst, text...)
	dst = append(dst, ' ')
	return appendChecksum(dst, lineChecksum(random, last, dst[start:]))
}

// parseBlockLine takes a block's line apart. line begins with blockPrefix and
// may go on after its end; n is the line's length. It accepts one spelling of
// each number only, and no header that no writer makes.
func parseBlockLine(line []byte) (h BlockHeader, n int, ok bool) {
	f := fields{rest: line[len(blockPrefix):]}
	h.FirstLSN = f.uint()
	ops := f.uint()
	h.DurableLSN = f.uint()
	unixMs := f.uint()
	payload := f.uint()
	h.CRC = f.checksum()
	if f.bad || h.FirstLSN == 0 || h.DurableLSN >= h.FirstLSN ||
		ops > maxOps || payload > maxPayloadBytes || unixMs > 1<<63-1 ||
		h.FirstLSN+ops < h.FirstLSN || (ops == 0) != (payload == 0) || ops > payload {
		return BlockHeader{}, 0, false
	}
	h.Ops, h.UnixMs, h.PayloadBytes = int(ops), int64(unixMs), int(payload)
	return h, len(line) - len(f.rest), true
}

const (
	maxOps          = 1<<31 - 1
	maxPayloadBytes = 1 << 46
)

// fileLine is the first line of a file.
type fileLine struct {
	format uint64
	first  uint64
	random uint32
}

func appendFileLine(dst []byte, first uint64, random uint32) []byte {
	text := append([]byte(nil), filePrefix...)
	text = append(appendUint(text, formatVersion), ' ')
	text = append(appendUint(text, first), ' ')
	text = appendHex32(text, random)
	return appendLine(dst, random, first-1, text)
}

// parseFileLine checks the first line, whose end line does not have to be at.
func parseFileLine(line []byte) (l fileLine, n int, ok bool) {
	f := fields{rest: line[len(filePrefix):]}
	l.format = f.uint()
	l.first = f.uint()
	l.random = f.hex32()
	f.space()
	text := line[:len(line)-len(f.rest)]
	crc := f.checksum()
	if f.bad || l.first == 0 || crc != lineChecksum(l.random, l.first-1, text) {
		return fileLine{}, 0, false
	}
	return l, len(line) - len(f.rest), true
}

// checkLine checks an annotation line of ours and returns its text without
// checksum and line end. line may go on after its end.
func checkLine(line []byte, random uint32, last uint64) (text []byte, n int, ok bool) {
	end := bytes.IndexByte(line, '\n')
	if end < 0 || end >= maxLineBytes {
		return nil, 0, false
	}
	n = end + 1
	at := n - checksumBytes
	if at < 1 || line[at-1] != ' ' {
		return nil, 0, false
	}
	f := fields{rest: line[at:n]}
	crc := f.checksum()
	if f.bad || crc != lineChecksum(random, last, line[:at]) {
		return nil, 0, false
	}
	return line[:at-1], n, true
}

// Position says, at the beginning of a file, which offset the next frame of a
// stream has.
type Position struct {
	Stream     int
	Generation uint64
	Next       uint64
}

// parsePosition reads the text of a position line, without checksum.
func parsePosition(text []byte) (p Position, ok bool) {
	f := fields{rest: append(append([]byte(nil), text[len(positionPrefix):]...), ' ')}
	stream := f.uint()
	p.Generation = f.uint()
	p.Next = f.uint()
	p.Stream = int(stream)
	return p, !f.bad && len(f.rest) == 0 && stream < 1<<31
}

// parseDraw reads the text of a generation line, without checksum.
func parseDraw(text []byte) (draw uint64, ok bool) {
	f := fields{rest: append(append([]byte(nil), text[len(drawPrefix):]...), ' ')}
	draw = f.uint()
	return draw, !f.bad && len(f.rest) == 0
}

// endLine closes a base.
type endLine struct {
	cut uint64
	ops uint64
}

func appendEndLine(dst []byte, l endLine, blocks uint32) []byte {
	start := len(dst)
	dst = append(dst, endPrefix...)
	dst = append(appendUint(dst, l.cut), ' ')
	dst = append(appendUint(dst, l.ops), ' ')
	return appendChecksum(dst, crc32.Update(blocks, castagnoli, dst[start:]))
}

// parseEndLine checks the last line of a base; blocks is the checksum of the
// blocks' checksums.
func parseEndLine(line []byte, blocks uint32) (l endLine, n int, ok bool) {
	f := fields{rest: line[len(endPrefix):]}
	l.cut = f.uint()
	l.ops = f.uint()
	text := line[:len(line)-len(f.rest)]
	crc := f.checksum()
	if f.bad || crc != crc32.Update(blocks, castagnoli, text) {
		return endLine{}, 0, false
	}
	return l, len(line) - len(f.rest), true
}

// chainChecksum adds a block to the checksum that a base's end line closes.
func chainChecksum(chain, crc uint32) uint32 {
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], crc)
	return crc32.Update(chain, castagnoli, b[:])
}

// fields reads the fields of a line. The first fault makes bad true, and all
// further results 0.
type fields struct {
	rest []byte
	bad  bool
}

// uint reads a number and the space behind it.
func (f *fields) uint() uint64 {
	var n uint64
	for i, c := range f.rest {
		if c == ' ' && i > 0 {
			f.rest = f.rest[i+1:]
			return n
		}
		if c < '0' || c > '9' || i > 0 && n == 0 {
			break
		}
		hi, lo := bits.Mul64(n, 10)
		sum, carry := bits.Add64(lo, uint64(c-'0'), 0)
		if hi != 0 || carry != 0 {
			break
		}
		n = sum
	}
	f.fail()
	return 0
}

func (f *fields) hex32() uint32 {
	if len(f.rest) < 8 {
		f.fail()
		return 0
	}
	var n uint32
	for _, c := range f.rest[:8] {
		switch {
		case c >= '0' && c <= '9':
			n = n<<4 | uint32(c-'0')
		case c >= 'a' && c <= 'f':
			n = n<<4 | uint32(c-'a'+10)
		default:
			f.fail()
			return 0
		}
	}
	f.rest = f.rest[8:]
	return n
}

func (f *fields) space() {
	if len(f.rest) == 0 || f.rest[0] != ' ' {
		f.fail()
		return
	}
	f.rest = f.rest[1:]
}

// checksum reads a checksum and the end of the line.
func (f *fields) checksum() uint32 {
	crc := f.hex32()
	if len(f.rest) < 2 || f.rest[0] != '\r' || f.rest[1] != '\n' {
		f.fail()
		return 0
	}
	f.rest = f.rest[2:]
	return crc
}

func (f *fields) fail() {
	f.bad = true
	f.rest = nil
}

func appendUint(dst []byte, n uint64) []byte {
	var scratch [20]byte
	at := len(scratch)
	for {
		at--
		scratch[at] = byte('0' + n%10)
		n /= 10
		if n == 0 {
			return append(dst, scratch[at:]...)
		}
	}
}

func appendHex32(dst []byte, n uint32) []byte {
	const digits = "0123456789abcdef"
	for shift := 28; shift >= 0; shift -= 4 {
		dst = append(dst, digits[n>>shift&15])
	}
	return dst
}

func decimalDigits(n uint64) int {
	digits := 1
	for n >= 10 {
		n /= 10
		digits++
	}
	return digits
}
