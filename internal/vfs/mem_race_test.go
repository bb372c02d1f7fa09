package vfs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestCrashUnderLoad crashes a Mem while writers append records, sync and rename, and readers follow. What was
// acknowledged is there, whichever way it ends.
func TestCrashUnderLoad(t *testing.T) {
	rng := newRand(testSeed(t))
	const writers = 4
	const recordBytes = 8
	for range 30 {
		m := NewMem()
		var written, synced [writers]atomic.Uint64 // records acknowledged
		var group sync.WaitGroup
		for w := range writers {
			name := fmt.Sprint("log", w)
			f, err := m.Create(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := m.SyncDir("/"); err != nil {
				t.Fatal(err)
			}
			group.Go(func() {
				for n := uint64(1); ; n++ {
					if _, err := f.Write(binary.BigEndian.AppendUint64(nil, n)); err != nil {
						wantDead(t, err)
						return
					}
					written[w].Store(n)
					if n%7 == 0 {
						if err := f.Sync(); err != nil {
							wantDead(t, err)
							return
						}
						synced[w].Store(n)
					}
					if n%50 == 0 {
						if err := WriteFileAtomic(m, "shared"+name, []byte(name)); err != nil {
							wantDead(t, err)
							return
						}
					}
				}
			})
			group.Go(func() {
				r, err := m.Open(name)
				if err != nil {
					wantDead(t, err)
					return
				}
				next := uint64(1)
				for buf := make([]byte, recordBytes); ; {
					n, err := r.Read(buf)
					if errors.Is(err, io.EOF) {
						continue
					}
					if err != nil {
						wantDead(t, err)
						return
					}
					if got := binary.BigEndian.Uint64(buf[:n]); got != next {
						t.Errorf("%s: read record %d, want %d", name, got, next)
						return
					}
					next++
				}
			})
		}
		time.Sleep(time.Duration(rng.IntN(3000)) * time.Microsecond)
		wrote, durable := [writers]uint64{}, [writers]uint64{}
		for w := range writers {
			durable[w], wrote[w] = synced[w].Load(), written[w].Load()
		}
		killed := m.Kill()
		group.Wait()
		cut := m.PowerCut(rng)
		for w := range writers {
			name := fmt.Sprint("log", w)
			if n := intactRecords(t, killed, name); n < wrote[w] {
				t.Fatalf("%s: %d records after a kill, %d were acknowledged", name, n, wrote[w])
			}
			if n := intactRecords(t, cut, name); n < durable[w] {
				t.Fatalf("%s: %d records after a power cut, %d were synced", name, n, durable[w])
			}
			if data, err := readFile(cut, "shared"+name); durable[w] > 50 && (err != nil || string(data) != name) {
				t.Fatalf("shared%s: %q, %v", name, data, err)
			}
		}
	}
}

func wantDead(t *testing.T, err error) {
	if !errors.Is(err, ErrDead) {
		t.Error(err)
	}
}

// intactRecords counts the records of a log that follow one another from 1.
func intactRecords(t *testing.T, m *Mem, name string) uint64 {
	data, err := readFile(m, name)
	if err != nil {
		t.Fatal(err)
	}
	n := uint64(0)
	for len(data) >= 8 && binary.BigEndian.Uint64(data) == n+1 {
		n++
		data = data[8:]
	}
	return n
}

// TestConcurrentDirectories has many goroutines at the directories of one Mem, and some at copies taken meanwhile.
func TestConcurrentDirectories(t *testing.T) {
	m := NewMem()
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			for i := range 100 {
				dir := fmt.Sprintf("d%d", i%5)
				name := fmt.Sprintf("%s/%d-%d", dir, g, i)
				err := errors.Join(m.MkdirAll(dir), WriteFileAtomic(m, name, []byte(name)))
				if _, listErr := m.List(dir); listErr != nil {
					err = errors.Join(err, listErr)
				}
				if i%3 == 0 {
					err = errors.Join(err, m.Rename(name, name+"r"), m.Link(name+"r", name), m.Remove(name+"r"))
				}
				if i%10 == 0 {
					err = errors.Join(err, WriteFileAtomic(m.Clone(), name, []byte("other")))
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	cut := m.Clone()
	for g := range 4 {
		for i := range 100 {
			name := fmt.Sprintf("d%d/%d-%d", i%5, g, i)
			if data, err := readFile(cut, name); err != nil || !bytes.Equal(data, []byte(name)) {
				t.Fatalf("%s: %q, %v", name, data, err)
			}
		}
	}
}

func BenchmarkMemWriteSync(b *testing.B) {
	m := NewMem()
	f, err := m.Create("log")
	if err != nil {
		b.Fatal(err)
	}
	block := make([]byte, 1000)
	for n := 0; b.Loop(); n++ {
		if n%1000 == 0 {
			if err := f.Truncate(0); err != nil {
				b.Fatal(err)
			}
		}
		f.Write(block)
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPowerCut cuts the power of a small data directory with a log of 256 KiB, partly unsynced.
func BenchmarkPowerCut(b *testing.B) {
	m := NewMem()
	s := do(b, m, "mkdir aof\ncreate f aof/log\nwrite f A*200000\nsync f\nsyncdir aof")
	for i := range 40 {
		do(b, m, fmt.Sprintf("atomic feed-%d meta", i))
		s.run("write f B*1500")
	}
	rng := newRand(1)
	for b.Loop() {
		m.PowerCut(rng)
	}
}
