package aof

import (
	"strings"
	"testing"
)

// TestBytesFrom: about how much follows an op, whether memory still has it or the
// files alone do.
func TestBytesFrom(t *testing.T) {
	opt := diskOptions(t.TempDir())
	opt.BlockBytes, opt.MemoryBytes = 4<<10, 64<<10
	l, _ := openLog(t, opt)
	value := strings.Repeat("x", 1000)
	const ops = 2000
	for range ops {
		l.set(0, "k", value)
		if l.Last()%10 == 0 {
			l.mustWrite()
		}
	}
	oldest := uint64(0) // in memory
	l.mu.Lock()
	oldest = l.mem.oldest(0)
	l.mu.Unlock()
	if oldest < 100 || oldest > ops-10 {
		t.Fatalf("memory begins with LSN %d", oldest)
	}
	for _, lsn := range []uint64{1, 500, oldest - 1, oldest, ops - 10, ops, ops + 1} {
		want := int64(ops+1-lsn) * 1030
		most := want + want/10 + markBytes
		if lsn >= oldest {
			most = want + want/10 + 2*int64(opt.BlockBytes)
		}
		if got := l.BytesFrom(lsn); got < want-want/20 || got > most || lsn > ops && got != 0 {
			t.Errorf("from LSN %d: %d bytes, about %d are there", lsn, got, want)
		}
	}
	l.mustClose()
}
