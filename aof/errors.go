package aof

import (
	"errors"
	"fmt"
)

var (
	// ErrFailed is wrapped by every error after the log has failed for good: an
	// fsync failed, so that nobody knows what the disk has. Only a new start, which
	// reads the disk, goes on from there.
	ErrFailed = errors.New("the log has failed")
	// ErrStalled is wrapped by errors for as long as the log cannot be written, as
	// with a full disk. What was appended stays in memory and is written, in order,
	// once the cause is gone.
	ErrStalled = errors.New("the log cannot be written")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("the log is closed")
	// ErrNoFile is returned where a log without files is asked for one.
	ErrNoFile = errors.New("the log is kept in memory only")
	// ErrTruncated says that the log does not reach back to the LSN asked for.
	ErrTruncated = errors.New("the log does not reach back that far")
	// ErrRDB is wrapped by the error of Recover for a file in RDB format.
	ErrRDB = errors.New("it is an RDB file, which kevy does not read: " +
		"set aof-use-rdb-preamble no on the redis-server that wrote it, let it rewrite (BGREWRITEAOF), then start kevy")
)

// ErrSingleFile is wrapped by the error of Recover for a directory that holds the
// log of a Redis before 7 and none of Redis 7.
var ErrSingleFile = errors.New("it is the append only file of a Redis before 7, which kevy does not read: " +
	"start redis-server 7 on this directory with appendonly yes and aof-use-rdb-preamble no, let it rewrite (BGREWRITEAOF), then start kevy")

// DamageError says that a file of the log is not what was durably written
// there.
type DamageError struct {
	File   string
	Offset int64 // of the first byte that is not as it should be
	Reason string
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("%s is damaged at offset %d: %s", e.File, e.Offset, e.Reason)
}

// FormatError says that a file was written by a newer version.
type FormatError struct {
	File   string
	Format uint64
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("%s has format %d, and this version of kevy reads format %d: it was written by a newer version, so start that one on this directory",
		e.File, e.Format, formatVersion)
}

// CommandError says that what the log holds cannot be interpreted.
type CommandError struct {
	File string
	// Offset is that of the command, or of the block that holds it. A Sink counts
	// it in the payload that it was given.
	Offset int64
	Err    error
}

func (e *CommandError) Error() string {
	return fmt.Sprintf("%s, at offset %d: %v", e.File, e.Offset, e.Err)
}

func (e *CommandError) Unwrap() error { return e.Err }

// placed says in which file, from which offset on, a Sink met an error.
func placed(err error, file string, at int64) error {
	var c *CommandError
	if err == nil || errors.As(err, &c) && c.File != "" {
		return err
	}
	if c == nil {
		return &CommandError{File: file, Offset: at, Err: err}
	}
	return &CommandError{File: file, Offset: at + c.Offset, Err: c.Err}
}
