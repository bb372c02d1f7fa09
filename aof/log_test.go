package aof

import (
	"testing"

	"kevy/internal/vfs"
)

func TestWriteAndRecover(t *testing.T) {
	fs := vfs.NewMem()
	l, _ := openLog(t, testOptions(fs))
	check(t, "LSN", l.set(0, "a", "1"), 1)
	check(t, "LSN", l.set(3, "b", "2", "c", "3"), 3)
	l.mustWrite()
	check(t, "LSN", l.set(3, "d", "4"), 4)
	tail := l.mustClose()

	again, rec := openLog(t, testOptions(fs))
	checkOps(t, "recovered", rec.ops, l.ops)
	check(t, "tail", again.report.Tail, tail)
	check(t, "last", again.Last(), 4)
	check(t, "durable", again.Durable(), 4)
	again.set(0, "e", "5")
	again.mustClose()

	third, rec := openLog(t, testOptions(fs))
	checkOps(t, "recovered", rec.ops, append(l.ops, again.ops...))
	third.mustClose()
}
