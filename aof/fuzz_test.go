package aof

import (
	"fmt"
	"testing"
	"time"

	"kevy/internal/vfs"
)

// FuzzSegment recovers any bytes as the last file of a log: an error or a log
// that goes on, and the second time the same without a fault.
func FuzzSegment(f *testing.F) {
	f.Add([]byte(exampleFile()))
	f.Add([]byte(exampleFile() + commandText("SELECT", "0") + commandText("MULTI") + commandText("SET", "k", "v")))
	f.Add([]byte("#TS:1700000000\r\n" + commandText("SET", "k", "v")))
	f.Add([]byte(exampleFile()[:600] + "*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		// Anything that takes long is a loop without progress.
		defer time.AfterFunc(10*time.Second, func() { panic(fmt.Sprintf("no end with %q", text)) }).Stop()
		fs := vfs.NewMem()
		if err := fs.MkdirAll("data/appendonlydir"); err != nil {
			t.Fatal(err)
		}
		writeFileText(t, fs, firstSegment, string(text))
		writeFileText(t, fs, theManifest, "file appendonly.aof.1.incr.aof seq 1 type i\n")
		opt := testOptions(fs)
		opt.NowMs = func() int64 { return 1 }
		for mode := RecoverRefuse; mode <= RecoverSkip; mode++ {
			opt.FS = fs.Clone()
			l, report, err := Recover(opt, mode, anySink{})
			if err != nil {
				continue
			}
			last := l.Append(rawCommit(commandText("SET", "k", "v")))
			if err := l.WaitWritten(last); err != nil {
				t.Fatal(err)
			}
			if _, err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if mode == RecoverSkip && len(report.Damaged) > 0 {
				continue
			}
			again, second, err := Recover(opt, RecoverRefuse, anySink{})
			if err != nil {
				t.Fatalf("mode %d: the second time: %v", mode, err)
			}
			if second.Torn != nil || again.Last() != last {
				t.Fatalf("mode %d: the second time %+v", mode, second)
			}
			if _, err := again.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// anySink takes everything.
type anySink struct{}

func (anySink) Position(int, uint64, uint64) error { return nil }
func (anySink) Generation(uint64, uint64) error    { return nil }
func (anySink) BasePayload([]byte) error           { return nil }
func (anySink) Block(BlockHeader, []byte) error    { return nil }
func (anySink) Foreign([]byte) error               { return nil }
