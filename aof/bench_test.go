package aof

import (
	"testing"
	"time"

	"kevy/internal/vfs"
)

// rawCommit is a commit that is encoded already.
type rawCommit []byte

func (c rawCommit) Ops() int                           { return 1 }
func (c rawCommit) AppendTo(dst []byte, _ bool) []byte { return append(dst, c...) }

func benchCommit() Encoder {
	var e Encoder = rawCommit("*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000001\r\n$43\r\n0123456789012345678901234567890123456789012\r\n")
	return e
}

func benchLog(b *testing.B, opt Options) *Log {
	b.Helper()
	opt.NowMs = func() int64 { return time.Now().UnixMilli() }
	l, _, err := Recover(opt, RecoverRefuse, &record{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if _, err := l.Close(); err != nil {
			b.Fatal(err)
		}
	})
	return l
}

// BenchmarkAppend is the memory part alone.
func BenchmarkAppend(b *testing.B) {
	l := benchLog(b, Options{NoFile: true, MemoryBytes: 16 << 20})
	e := benchCommit()
	b.SetBytes(int64(len(e.(rawCommit))))
	b.ReportAllocs()
	for b.Loop() {
		l.Append(e)
	}
}

// BenchmarkAppendPipeline16 is what a session with 16 commands in a batch does.
func BenchmarkAppendPipeline16(b *testing.B) { benchmarkBatches(b, 16) }

// BenchmarkAppendWaitWritten is a session without pipelining.
func BenchmarkAppendWaitWritten(b *testing.B) { benchmarkBatches(b, 1) }

func benchmarkBatches(b *testing.B, batch int) {
	l := benchLog(b, Options{FS: vfs.OS(), Dir: b.TempDir(), Policy: PolicyEverySec, MemoryBytes: 16 << 20})
	e := benchCommit()
	b.SetBytes(int64(len(e.(rawCommit))))
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		lsn := l.Append(e)
		if n++; n%batch == 0 {
			if err := l.WaitWritten(lsn); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkAppendWaitWrittenParallel is 50 sessions without pipelining.
func BenchmarkAppendWaitWrittenParallel(b *testing.B) {
	l := benchLog(b, Options{FS: vfs.OS(), Dir: b.TempDir(), Policy: PolicyEverySec, MemoryBytes: 16 << 20})
	e := benchCommit()
	b.SetBytes(int64(len(e.(rawCommit))))
	b.ReportAllocs()
	b.SetParallelism(25)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := l.WaitWritten(l.Append(e)); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkRead is a consumer that is in memory, block by block.
func BenchmarkRead(b *testing.B) {
	l := benchLog(b, Options{NoFile: true, MemoryBytes: 16 << 20})
	e := benchCommit()
	for range 100_000 {
		l.Append(e)
	}
	benchReads(b, l)
}

// benchReads reads the log from its beginning, again and again.
func benchReads(b *testing.B, l *Log) {
	b.ReportAllocs()
	ops := 0
	for b.Loop() {
		r, err := l.NewReader(l.OldestLSN())
		if err != nil {
			b.Fatal(err)
		}
		for {
			s, ok, err := r.Next()
			if err != nil {
				b.Fatal(err)
			}
			if !ok {
				break
			}
			ops += s.Ops
		}
		r.Close()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(ops), "ns/read-op")
}

// nullSink counts bytes.
type nullSink struct {
	anySink
	bytes int64
}

func (n *nullSink) Block(_ BlockHeader, payload []byte) error {
	n.bytes += int64(len(payload))
	return nil
}

// BenchmarkRecover reads, checks and hands on a log on disk.
func BenchmarkRecover(b *testing.B) {
	opt := Options{FS: vfs.OS(), Dir: b.TempDir(), Policy: PolicyNo, NowMs: func() int64 { return time.Now().UnixMilli() }}
	l, _, err := Recover(opt, RecoverRefuse, anySink{})
	if err != nil {
		b.Fatal(err)
	}
	e := benchCommit()
	for i := range 500_000 {
		if lsn := l.Append(e); i%16 == 0 {
			if err := l.WaitWritten(lsn); err != nil {
				b.Fatal(err)
			}
		}
	}
	if _, err := l.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		sink := &nullSink{}
		l, _, err := Recover(opt, RecoverRefuse, sink)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(sink.bytes)
		if _, err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
