package vfs

import (
	"errors"
	"io/fs"
	"math"
	"testing"
)

func TestFree(t *testing.T) {
	m := NewMem()
	free := func(dir string) int64 {
		t.Helper()
		n, err := m.Free(dir)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if got := free("/"); got != math.MaxInt64 {
		t.Errorf("without a quota %d bytes are free", got)
	}
	f, err := m.Create("/f")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(make([]byte, 60)); err != nil {
		t.Fatal(err)
	}
	for quota, want := range map[int64]int64{100: 40, 60: 0, 10: 0} {
		m.SetQuota(quota)
		if got := free("/"); got != want {
			t.Errorf("60 of %d bytes are used, and %d are free, not %d", quota, got, want)
		}
	}
	if _, err := m.Free("/nosuch"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a directory that is not there: %v", err)
	}
	m.Kill()
	if _, err := m.Free("/"); !errors.Is(err, ErrDead) {
		t.Errorf("after a crash: %v", err)
	}

	dir := t.TempDir()
	if n, err := OS().Free(dir); err != nil || n <= 0 {
		t.Errorf("the machine has %d bytes free: %v", n, err)
	}
	if _, err := OS().Free(dir + "/nosuch"); runsStatfs && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a directory that is not there: %v", err)
	}
}

// runsStatfs says that the machine can tell.
var runsStatfs = func() bool { n, err := OS().Free("."); return err == nil && n < math.MaxInt64 }()
