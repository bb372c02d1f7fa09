package aof

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"kevy/internal/vfs"
)

// Policy says when the log is fsynced.
type Policy int32

// The policies, as appendfsync names them.
const (
	// PolicyAlways fsyncs before WaitDurable returns, one fsync for all who wait.
	PolicyAlways Policy = iota
	// PolicyEverySec fsyncs once a second, beside the writing.
	PolicyEverySec
	// PolicyNo leaves it to the kernel, but for every 30 seconds and the end of
	// each segment.
	PolicyNo
)

// String returns the name that appendfsync has for p.
func (p Policy) String() string {
	switch p {
	case PolicyAlways:
		return "always"
	case PolicyEverySec:
		return "everysec"
	case PolicyNo:
		return "no"
	}
	return fmt.Sprintf("Policy(%d)", int32(p))
}

// Encoder is a commit. It is used under the mutex of the log.
type Encoder interface {
	// Ops is the number of ops; nothing is appended for 0.
	Ops() int
	// AppendTo appends the commit to dst. With blockStart the commit is the first
	// of its block and must select its database in any case. A commit that does
	// not fit is encoded again as the first of the next block: the result of the
	// last call is the one that counts.
	AppendTo(dst []byte, blockStart bool) []byte
}

// Options configure a log.
type Options struct {
	FS     vfs.FS // required unless NoFile
	Dir    string // the data directory; must exist
	Policy Policy

	SegmentBytes      int64 // a segment is closed at this size; 0: 64 MiB
	BlockBytes        int   // largest payload of a block of several commits; 0: 64 KiB
	MemoryBytes       int64 // what is kept in memory for readers; 0: 64 MiB
	MaxUnwrittenBytes int64 // Admit makes writers wait beyond it; 0: 64 MiB

	NowMs  func() int64 // unix ms; required. Called under the log's mutex.
	Logger *slog.Logger // nil: discarded

	// Publish, if set, is called in the critical section of Append once the commit
	// is in the log. Calls come in the order of the log. It must be quick, and must
	// not call the log.
	Publish func(firstLSN uint64, e Encoder)
	// Took, if set, is told how long the file was written to, and how long an fsync took
	// under PolicyAlways: the events aof-write and aof-fsync-always of Redis.
	Took func(event string, took time.Duration)
	// FileHeader, if set, appends the lines "#kevy-pos <stream> <generation>
	// <next-offset>", each with CR LF, that begin a new file: the position of each
	// stream after all that was published. It is called under the log's mutex.
	FileHeader func(dst []byte) []byte
	// NoFile keeps the log in memory only.
	NoFile bool

	// KnownDurableLSN is the highest LSN of which the caller knows that it was
	// fsynced, from a clean-close marker, a hold or the lineage. A log that ends
	// before it is damaged.
	KnownDurableLSN uint64
}

const (
	defaultSegmentBytes      = 64 << 20
	defaultBlockBytes        = 64 << 10
	defaultMemoryBytes       = 64 << 20
	defaultMaxUnwrittenBytes = 64 << 20
	maxBlockBytes            = 16 << 20
	maxChunkBytes            = 1 << 20
)

func (o *Options) check() error {
	if o.NowMs == nil {
		return errors.New("aof: Options.NowMs is required")
	}
	if o.FS == nil && !o.NoFile {
		return errors.New("aof: Options.FS is required")
	}
	if o.SegmentBytes == 0 {
		o.SegmentBytes = defaultSegmentBytes
	}
	if o.BlockBytes == 0 {
		o.BlockBytes = defaultBlockBytes
	}
	if o.MemoryBytes == 0 {
		o.MemoryBytes = defaultMemoryBytes
	}
	if o.MaxUnwrittenBytes == 0 {
		o.MaxUnwrittenBytes = defaultMaxUnwrittenBytes
	}
	if o.SegmentBytes < 0 || o.MemoryBytes < 0 || o.MaxUnwrittenBytes < 0 || o.BlockBytes < 0 || o.BlockBytes > maxBlockBytes {
		return fmt.Errorf("aof: a size is out of range: segments %d, blocks %d (at most %d), memory %d, unwritten %d",
			o.SegmentBytes, o.BlockBytes, maxBlockBytes, o.MemoryBytes, o.MaxUnwrittenBytes)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

// chunkBytes is the size of the buffers that hold the recent log: a few of them
// make up MemoryBytes, and each holds at least two full blocks.
func (o *Options) chunkBytes() int {
	n := min(o.MemoryBytes/8, maxChunkBytes)
	return int(max(n, 2*int64(o.BlockBytes+maxBlockLineBytes)))
}
