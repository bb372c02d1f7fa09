package rdb

import (
	"encoding/binary"
	"errors"
)

// functionsVersion is the first version of the format with libraries of functions.
const functionsVersion = 10

// ErrNotFunctions answers a payload that holds something else than libraries.
var ErrNotFunctions = errors.New("given type is not a function")

// AppendFunctions appends what FUNCTION DUMP answers to dst: each library's code
// behind its opcode, then version and checksum.
func AppendFunctions(dst []byte, codes [][]byte) []byte {
	e := encoders.Get().(*encoder)
	defer encoders.Put(e)
	start := len(dst)
	e.buf = dst
	for _, code := range codes {
		e.byte(opFunction)
		e.str(code)
	}
	dst, e.buf = e.buf, nil
	dst = binary.LittleEndian.AppendUint16(dst, functionsVersion)
	return appendChecksum(dst, checksum(0, dst[start:]))
}

// ParseFunctions returns the libraries' code of such a payload. The error is
// ErrPayload, ErrNotFunctions, or one that IsDamage knows.
func ParseFunctions(payload []byte) (codes [][]byte, err error) {
	if len(payload) < trailerBytes {
		return nil, ErrPayload
	}
	body := payload[:len(payload)-trailerBytes]
	trailer := payload[len(body):]
	if binary.LittleEndian.Uint16(trailer) > MaxVersion ||
		!SkipChecksums.Load() && binary.LittleEndian.Uint64(trailer[2:]) != checksum(0, payload[:len(payload)-checksumBytes]) {
		return nil, ErrPayload
	}
	d := decoder{src: &source{buf: body, size: int64(len(body))}}
	for d.src.offset() < d.src.size {
		op, err := d.src.byte()
		if err != nil {
			return nil, err
		}
		if op != opFunction {
			return nil, ErrNotFunctions
		}
		code, err := d.str()
		if err != nil {
			return nil, err
		}
		codes = append(codes, append([]byte(nil), code...))
	}
	return codes, nil
}

// Function writes a library of functions. They come before the keys.
func (w *Writer) Function(code []byte) {
	w.e.byte(opFunction)
	w.e.str(code)
	w.e.flushIfFull()
}
