package changes

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestFileStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cursors")
	ctx := t.Context()
	s, err := OpenFileStore(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := s.Load(ctx, All); ok || err != nil {
		t.Fatalf("a store without a file has a cursor, or %v", err)
	}
	want := map[string]Cursor{}
	for i := range 3 {
		for _, stream := range []string{All, "0", "15"} {
			want[stream] = Cursor{1<<53 - 1, uint64(i * len(stream))}
			if err := s.Save(ctx, stream, want[stream]); err != nil {
				t.Fatal(err)
			}
		}
		again, err := OpenFileStore(path)
		if err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(again.Cursors(), want) || !maps.Equal(s.Cursors(), want) {
			t.Errorf("the file has %v, want %v", again.Cursors(), want)
		}
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("%v %v are left in the directory", entries, err)
	}
	if err := s.Save(ctx, "a b", Cursor{}); err == nil {
		t.Error("a name that the file cannot hold was taken")
	}
	// A write that was cut off leaves the old file.
	if err := os.WriteFile(path+".tmp", []byte("kevy-cur"), 0o600); err != nil {
		t.Fatal(err)
	}
	if again, err := OpenFileStore(path); err != nil || !maps.Equal(again.Cursors(), want) {
		t.Errorf("beside a file that was cut off: %v", err)
	}
	if err := s.Save(ctx, All, Cursor{7, 7}); err != nil {
		t.Errorf("saving over it: %v", err)
	}
}

// TestFileStoreRefusesDamage changes and cuts a file at every byte.
func TestFileStoreRefusesDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cursors")
	s, err := OpenFileStore(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := s.Save(t.Context(), fmt.Sprint(i), Cursor{1, uint64(i)}); err != nil {
			t.Fatal(err)
		}
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	check := func(bad []byte, what string) {
		t.Helper()
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := OpenFileStore(path)
		var damaged *DamagedFileError
		if !errors.As(err, &damaged) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", what, err)
		}
		if after, err := os.ReadFile(path); err != nil || string(after) != string(bad) {
			t.Errorf("%s: the file was touched", what)
		}
	}
	for i := range good {
		bad := append([]byte(nil), good...)
		bad[i] ^= 1
		check(bad, fmt.Sprintf("byte %d changed", i))
		check(good[:i], fmt.Sprintf("cut at %d", i))
	}
	check(append(good, "0 1 2\n"...), "more behind the checksum")
	check(make([]byte, maxCursorFileBytes+1), "too large")
	for _, lines := range []string{"0 1\n", "0 1 2\n0 1 3\n", "0 1 -2\n", "0 1 2 3\n", "\n"} {
		check([]byte(withChecksum(cursorFileHead+"\n"+lines)), fmt.Sprintf("lines %q", lines))
	}
	if _, err := OpenFileStore(t.TempDir()); err == nil {
		t.Error("a directory was opened as a file")
	}
	missing, err := OpenFileStore(filepath.Join(t.TempDir(), "no", "cursors"))
	if err != nil {
		t.Fatal(err)
	}
	if err := missing.Save(t.Context(), All, Cursor{1, 1}); err == nil {
		t.Error("saved into a directory that is not there")
	}
}

func TestFileStoreSharesWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cursors")
	s, err := OpenFileStore(path)
	if err != nil {
		t.Fatal(err)
	}
	const streams, saves = 16, 20
	var all sync.WaitGroup
	for i := range streams {
		all.Go(func() {
			for n := range saves {
				if err := s.Save(t.Context(), fmt.Sprint(i), Cursor{1, uint64(n)}); err != nil {
					t.Error(err)
				}
				if n%10 == 9 { // what Save has returned for is in the file
					again, err := OpenFileStore(path)
					if err != nil {
						t.Error(err)
					} else if at, _, _ := again.Load(t.Context(), fmt.Sprint(i)); at.Offset != uint64(n) {
						t.Errorf("stream %d: the file has %v after saving %d", i, at, n)
					}
				}
			}
		})
	}
	all.Wait()
}
