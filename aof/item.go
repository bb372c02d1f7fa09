package aof

import (
	"bytes"
	"hash/crc32"
)

type itemKind uint8

const (
	itemFault   itemKind = iota // what stands there does not check
	itemBlock                   // a block that checks
	itemLine                    // an annotation line that checks
	itemForeign                 // another server's commands begin
)

// item is what stands at one place of a log file, between blocks.
type item struct {
	kind    itemKind
	header  BlockHeader
	payload []byte        // of a block; valid until the window is moved
	large   *LargePayload // of a block, instead of payload
	text    []byte        // of a line, without its checksum; valid likewise
	end     int64
	reason  string // of a fault
}

func fault(reason string) item { return item{kind: itemFault, reason: reason} }

// readItem reads and checks what stands at offset at, which is below the size.
// random is the file's, last the LSN of the last op before.
func readItem(w *window, at int64, random uint32, last uint64) (item, error) {
	head, err := w.peek(at, maxLineBytes)
	if err != nil {
		return item{}, err
	}
	switch {
	case bytes.HasPrefix(head, []byte(blockPrefix)):
		h, n, ok := parseBlockLine(head)
		if !ok {
			return fault("the line of a block is malformed"), nil
		}
		if h.FirstLSN != last+1 {
			return fault("a block does not have the LSN that comes next"), nil
		}
		if int64(h.PayloadBytes) > w.size-at-int64(n) {
			return fault("a block is cut short"), nil
		}
		if h.PayloadBytes > maxWholeBytes {
			p, crc, err := readLarge(w, crc32.Update(random, castagnoli, head[:n-checksumBytes]), at+int64(n), int64(h.PayloadBytes))
			if err != nil {
				return item{}, err
			}
			if crc != h.CRC {
				return fault(wrongChecksum), nil
			}
			return item{kind: itemBlock, header: h, large: p, end: p.at + p.size}, nil
		}
		whole, err := w.peek(at, int64(n)+int64(h.PayloadBytes))
		if err != nil {
			return item{}, err
		}
		if blockChecksum(random, whole[:n-checksumBytes], whole[n:]) != h.CRC {
			return fault(wrongChecksum), nil
		}
		return item{kind: itemBlock, header: h, payload: whole[n:], end: at + int64(len(whole))}, nil
	case bytes.HasPrefix(head, []byte(linePrefix)):
		text, n, ok := checkLine(head, random, last)
		if !ok {
			return fault("an annotation does not have the checksum that it states"), nil
		}
		return item{kind: itemLine, text: text, end: at + int64(n)}, nil
	case head[0] == '*', bytes.HasPrefix(head, []byte(redisTimeLine)):
		return item{kind: itemForeign, end: at}, nil
	}
	return fault("neither a block nor a command begins here"), nil
}

const wrongChecksum = "a block does not have the checksum that it states"

// whole returns the payload of a block in memory, valid until the window is moved.
func (it *item) whole() ([]byte, error) {
	if it.large != nil {
		return it.large.Ahead(0, it.large.size)
	}
	return it.payload, nil
}

// readFileLine reads the first line of a file; ok is false if it is not there
// or does not check.
func readFileLine(w *window) (l fileLine, n int64, ok bool, err error) {
	head, err := w.peek(0, maxLineBytes)
	if err != nil || !bytes.HasPrefix(head, []byte(filePrefix)) {
		return fileLine{}, 0, false, err
	}
	l, length, ok := parseFileLine(head)
	return l, int64(length), ok, nil
}
