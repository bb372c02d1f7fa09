package feed

import (
	"errors"

	"kevy/internal/op"
)

// ErrTruncated says that the log does not reach back to an LSN.
var ErrTruncated = errors.New("the log does not reach back that far")

// Archive is the log as the feed needs it: the only place where frames are
// kept. LSNs are those of the log.
type Archive interface {
	// OpenAt returns a reader whose first span holds lsn, or begins with it, lsn
	// being at most Last()+1. The error matches ErrTruncated if lsn lies below
	// OldestLSN.
	OpenAt(lsn uint64) (ArchiveReader, error)
	// OldestLSN is the lowest LSN that a reader can be opened at: the first op of
	// a block.
	OldestLSN() uint64
	// Last is the LSN of the last op appended, Durable that of the last one
	// fsynced.
	Last() uint64
	Durable() uint64
	// Segments lists the files of the log that readers may read, oldest first; none
	// for a log without files.
	Segments() []Segment
	// BytesFrom is about how many bytes the log has from the op lsn on.
	BytesFrom(lsn uint64) int64
	// FirstAt is the LSN of the first op whose block was opened at or after a time
	// in unix milliseconds; OldestLSN if all were, Last()+1 if none was. It does not
	// read the log from its beginning.
	FirstAt(unixMs int64) (uint64, error)
	// BlockCRC is the checksum of the block that holds lsn, which must be durable.
	// The error matches ErrTruncated if the log does not reach back to it.
	BlockCRC(lsn uint64) (uint32, error)
	// MemoryBytes is what the recent log takes in memory.
	MemoryBytes() int64
	// SetFloor says that no reader needs ops below lsn; OldestLSN then may lie
	// higher than before, but not above lsn. A lower one than before keeps what is
	// still there. It does no I/O.
	SetFloor(lsn uint64)
	// RemoveDropped removes from disk what SetFloor let go of.
	RemoveDropped()
	// Keep says that a log in memory drops nothing from lsn on, however much that
	// takes.
	Keep(lsn uint64)
}

// ArchiveReader reads the log forward.
type ArchiveReader interface {
	// Next returns the next span, and false at the tail, after which it may be
	// called again. The error matches ErrTruncated if what comes next was
	// removed.
	Next() (Span, bool, error)
	Close()
}

// Span is a stretch of the log: whole commits in LSN order.
type Span struct {
	FirstLSN uint64
	Ops      int // in the payload
	UnixMs   int64
	// BlockStart says that the payload selects its own database.
	BlockStart bool
	// Payload is valid until the next call of Next or Close.
	Payload []byte
	// Large is the payload, instead of Payload, where it is not held in memory; valid
	// as long. An error that matches ErrTruncated says that it cannot be read any
	// more.
	Large op.Input
}

// Segment is a file of the log.
type Segment struct {
	FirstLSN uint64
	Bytes    int64
	// LastMs is the unix time in milliseconds of the last op or later; of the
	// file's beginning if it has none.
	LastMs int64
	// Spare says that recovery does not need it: it goes once no reader does.
	Spare bool
	// Positions returns where the streams stand at FirstLSN, as the file's first
	// lines say; nil if it does not say.
	Positions func() ([]Position, error)
}

// Position says which offset the next frame of a stream has.
type Position struct {
	Stream     int
	Generation uint64
	Next       uint64
}
