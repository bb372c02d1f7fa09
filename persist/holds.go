package persist

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"kevy/internal/vfs"
)

const (
	holdsName   = "feed-holds"
	holdsKind   = "kevy-feed-holds"
	holdsFormat = 1

	// MaxHolds bounds the holds of a store; one for each name and stream.
	MaxHolds = 1024
	// MaxHoldNameBytes bounds a hold's name.
	MaxHoldNameBytes = 128
	// MaxEpoch is the highest epoch of a hold.
	MaxEpoch = 1<<63 - 1

	// A line of a hold has its name, eight numbers of at most 20 digits, and a word.
	maxHoldLineBytes  = MaxHoldNameBytes + 8*21 + 32
	maxHoldsFileBytes = 256 + MaxHolds*maxHoldLineBytes
)

// Broken says why a hold no longer keeps the log. The texts are on disk and on
// the wire.
type Broken string

const (
	// NotBroken: it keeps the log.
	NotBroken Broken = ""
	// BrokenSize: it would have kept more than it may.
	BrokenSize Broken = "max-bytes"
	// BrokenDiskFull: the disk was full, and the log could not be written while the
	// hold kept of it what nobody else needed.
	BrokenDiskFull Broken = "disk-full"
	// BrokenEvicted: the log no longer reaches back to it.
	BrokenEvicted Broken = "evicted"
	// BrokenGeneration: its position is not of this store's history.
	BrokenGeneration Broken = "generation"
	// BrokenLost: its position lies beyond what a crash left.
	BrokenLost Broken = "lost"
)

// holding is what stands for NotBroken on disk.
const holding = "holding"

// Hold is a consumer's position that keeps the log.
type Hold struct {
	Name   string
	Stream int
	// Generation and Offset are the cursor: the frame at Offset is the next one.
	Generation, Offset uint64
	// LSN is that of an op before which nothing is needed for what follows the
	// cursor. CRC is the checksum of the block that holds the op before it; 0 where
	// that was not fsynced yet, or not known.
	LSN uint64
	CRC uint32
	// Epoch is the same for all holds of one name.
	Epoch   uint64
	MovedMs int64 // unix milliseconds
	Broken  Broken
}

// Holds is the content of feed-holds.
type Holds struct {
	// DurableLSN was fsynced when the file was written: a log that ends before it
	// has lost what was durable.
	DurableLSN uint64
	Holds      []Hold
}

// ValidHoldName reports whether a hold may be called so: 1 to MaxHoldNameBytes
// bytes of visible ASCII.
func ValidHoldName(name string) bool {
	for i := range len(name) {
		if name[i] <= ' ' || name[i] > '~' {
			return false
		}
	}
	return len(name) > 0 && len(name) <= MaxHoldNameBytes
}

// HoldsFile returns the name of the file of a directory's holds.
func HoldsFile(dir string) string { return filepath.Join(dir, holdsName) }

// ReadHolds reads the holds of a store of n shards; none if there is no file. The
// error is a *FormatError or a *FileError for one that cannot be understood.
func ReadHolds(fsys vfs.FS, dir string, n int) (Holds, error) {
	name := HoldsFile(dir)
	data, err := readBounded(fsys, name, maxHoldsFileBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return Holds{}, nil
	}
	if err != nil {
		return Holds{}, err
	}
	return parseHolds(name, data, n)
}

func parseHolds(name string, data []byte, n int) (h Holds, err error) {
	lines, err := parseFacts(name, data, holdsKind, holdsFormat)
	if err != nil {
		return Holds{}, err
	}
	if len(lines) == 0 || len(lines) > MaxHolds+1 {
		return Holds{}, &FileError{File: name, Reason: fmt.Sprintf("it has %d lines of facts instead of 1 to %d", len(lines), MaxHolds+1)}
	}
	if lines[0].name != "durable-lsn" {
		return Holds{}, lines[0].errorf("%q stands where durable-lsn belongs", lines[0].name)
	}
	if err := lines[0].count(1); err != nil {
		return Holds{}, err
	}
	if h.DurableLSN, err = lines[0].uint(0, 1<<64-1); err != nil {
		return Holds{}, err
	}
	type key struct {
		name   string
		stream int
	}
	seen := make(map[key]bool, len(lines))
	epochs := make(map[string]uint64, len(lines))
	for i := range lines[1:] {
		l := &lines[i+1]
		hold, err := parseHold(l, n)
		if err != nil {
			return Holds{}, err
		}
		if seen[key{hold.Name, hold.Stream}] {
			return Holds{}, l.errorf("%s holds a stream twice", hold.Name)
		}
		seen[key{hold.Name, hold.Stream}] = true
		if epoch, ok := epochs[hold.Name]; ok && epoch != hold.Epoch {
			return Holds{}, l.errorf("%s has two epochs", hold.Name)
		}
		epochs[hold.Name] = hold.Epoch
		h.Holds = append(h.Holds, hold)
	}
	return h, nil
}

func parseHold(l *factLine, n int) (h Hold, err error) {
	if l.name != "hold" {
		return h, l.errorf("%q stands where a hold belongs", l.name)
	}
	if err := l.count(9); err != nil {
		return h, err
	}
	if h.Name = l.values[0]; !ValidHoldName(h.Name) {
		return h, l.errorf("%q is no name of a hold", h.Name)
	}
	if h.Stream = n; l.values[1] != StreamName(n, n) {
		stream, err := l.uint(1, uint64(n-1))
		if err != nil {
			return h, err
		}
		h.Stream = int(stream)
	}
	if h.Generation, err = l.uint(2, MaxGeneration); err != nil {
		return h, err
	}
	if h.Offset, err = l.uint(3, 1<<64-1); err != nil {
		return h, err
	}
	if h.LSN, err = l.uint(4, 1<<64-1); err != nil {
		return h, err
	}
	if h.LSN == 0 {
		return h, l.errorf("there is no LSN 0")
	}
	if h.CRC, err = l.hex32(5); err != nil {
		return h, err
	}
	if h.Epoch, err = l.uint(6, MaxEpoch); err != nil {
		return h, err
	}
	moved, err := l.uint(7, 1<<63-1)
	if err != nil {
		return h, err
	}
	h.MovedMs = int64(moved)
	switch h.Broken = Broken(l.values[8]); h.Broken {
	case holding:
		h.Broken = NotBroken
	case BrokenSize, BrokenDiskFull, BrokenEvicted, BrokenGeneration, BrokenLost:
	default:
		return h, l.errorf("%q says neither that a hold holds nor why it does not", l.values[8])
	}
	return h, nil
}

// WriteHolds writes the holds of a store of n shards durably.
func WriteHolds(fsys vfs.FS, dir string, n int, h Holds) error {
	w := newFactWriter(holdsKind, holdsFormat)
	w.number("durable-lsn", h.DurableLSN)
	for i := range h.Holds {
		hold := &h.Holds[i]
		state := string(hold.Broken)
		if hold.Broken == NotBroken {
			state = holding
		}
		w.fact("hold", hold.Name, StreamName(hold.Stream, n), decimal(hold.Generation), decimal(hold.Offset), decimal(hold.LSN),
			fmt.Sprintf("%08x", hold.CRC), decimal(hold.Epoch), strconv.FormatInt(hold.MovedMs, 10), state)
	}
	name, data := HoldsFile(dir), w.seal()
	// What the next start would refuse is not written.
	if _, err := parseHolds(name, data, n); err != nil {
		return fmt.Errorf("write the feed's holds: %w", err)
	}
	if err := replaceFiles(fsys, dir, []namedData{{name, data}}); err != nil {
		return fmt.Errorf("write the feed's holds: %w", err)
	}
	return nil
}

// SetHoldsAside renames a damaged feed-holds, durably, so that a store can go on
// without it.
func SetHoldsAside(fsys vfs.FS, dir string) error {
	name := HoldsFile(dir)
	err := fsys.Rename(name, name+".damaged")
	if err == nil {
		err = fsys.SyncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("set the feed's damaged holds aside: %w", err)
	}
	return nil
}
