package aof

import (
	"testing"
	"time"

	"kevy/internal/vfs"
)

// BenchmarkReadDisk is a consumer that is far behind: it reads from files, in
// blocks of many commits.
func BenchmarkReadDisk(b *testing.B) {
	opt := Options{FS: vfs.OS(), Dir: b.TempDir(), Policy: PolicyNo, NowMs: func() int64 { return time.Now().UnixMilli() }}
	l, _, err := Recover(opt, RecoverRefuse, anySink{})
	if err != nil {
		b.Fatal(err)
	}
	state := -1
	e := &testCommit{pairs: [][2]string{{"key:000000000001", "0123456789012345678901234567890123456789012"}}, state: &state}
	for i := range 500_000 {
		if lsn := l.Append(e); i%64 == 0 {
			if err := l.WaitWritten(lsn); err != nil {
				b.Fatal(err)
			}
		}
	}
	if _, err := l.Close(); err != nil {
		b.Fatal(err)
	}
	l = benchLog(b, opt) // nothing of it is in memory
	benchReads(b, l)
}
