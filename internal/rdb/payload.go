package rdb

import (
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"

	"kevy/internal/ds"
	"kevy/shard"
)

// A payload is what DUMP answers: type and value, the version (2 bytes), the
// checksum over all that.
const trailerBytes = 2 + checksumBytes

// ErrPayload answers a payload that is of a newer version or that its checksum
// does not belong to.
var ErrPayload = errors.New("the version or the checksum of the payload is wrong")

// SkipChecksums makes payloads be read whatever their checksum: what is damaged
// behind it is found all the same. Tests ask for it.
var SkipChecksums atomic.Bool

var encoders = sync.Pool{New: func() any { return new(encoder) }}

// AppendPayload appends the payload of a value to dst.
func AppendPayload(dst []byte, v shard.Value) []byte {
	e := encoders.Get().(*encoder)
	defer encoders.Put(e)
	start := len(dst)
	typ, ver := typeOf(v)
	e.buf = append(dst, typ)
	e.value(typ, v)
	dst, e.buf = e.buf, nil
	dst = binary.LittleEndian.AppendUint16(dst, uint16(ver))
	return appendChecksum(dst, checksum(0, dst[start:]))
}

// ParsePayload builds the value of a payload. Bytes between the value and the
// trailer count for the checksum only, as in Redis. A string points into payload,
// or is the caller's. The error is ErrPayload, one that IsDamage knows, or Unsupported.
func ParsePayload(payload []byte, limits *ds.Limits) (shard.Value, error) {
	if len(payload) < trailerBytes {
		return shard.Value{}, ErrPayload
	}
	body := payload[:len(payload)-trailerBytes]
	trailer := payload[len(body):]
	if binary.LittleEndian.Uint16(trailer) > MaxVersion ||
		!SkipChecksums.Load() && binary.LittleEndian.Uint64(trailer[2:]) != checksum(0, payload[:len(payload)-checksumBytes]) {
		return shard.Value{}, ErrPayload
	}
	d := decoder{src: &source{buf: body, size: int64(len(body))}, limits: limits}
	typ, err := d.src.byte()
	if err != nil {
		return shard.Value{}, err
	}
	return d.value(typ)
}
