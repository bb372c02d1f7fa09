//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package vfs

import "os"

// syncData is a full sync here: darwin's fdatasync does not reach the medium, and os.File.Sync does.
func syncData(f *os.File) error { return f.Sync() }
