//go:build linux || darwin || freebsd || dragonfly

package vfs

import (
	"io/fs"
	"math"
	"math/bits"
	"syscall"
)

func (osFS) Free(dir string) (bytes int64, err error) {
	var st syscall.Statfs_t
	if err := retryInterrupted(func() error { return syscall.Statfs(dir, &st) }); err != nil {
		return 0, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	// The types of both fields differ between systems; where the number of blocks is signed, it is below 0 when only
	// the superuser may still write.
	blocks, size := int64(st.Bavail), int64(st.Bsize)
	if blocks <= 0 || size <= 0 {
		return 0, nil
	}
	if hi, lo := bits.Mul64(uint64(blocks), uint64(size)); hi == 0 && lo <= math.MaxInt64 {
		return int64(lo), nil
	}
	return math.MaxInt64, nil
}
