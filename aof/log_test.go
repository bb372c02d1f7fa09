package aof

import (
	"strings"
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

// Writers that are admitted keep what is unwritten within its bound.
func TestAdmit(t *testing.T) {
	opt := testOptions(vfs.NewMem())
	opt.MaxUnwrittenBytes = 4 << 10
	l, _ := openLog(t, opt)
	most := int64(0)
	for range 1000 {
		if err := l.Admit(); err != nil {
			t.Fatal(err)
		}
		l.set(0, "key", strings.Repeat("v", 100))
		most = max(most, l.unwrittenBytes.Load())
	}
	if most <= opt.MaxUnwrittenBytes || most > opt.MaxUnwrittenBytes+200 {
		t.Fatalf("%d bytes were unwritten, and the bound is %d", most, opt.MaxUnwrittenBytes)
	}
	l.mustWrite()
	check(t, "unwritten", l.unwrittenBytes.Load(), 0)
	l.mustClose()
}

// Small commits share a block up to its limit, one that does not fit begins the
// next, and one that is larger than a block is a block of its own.
func TestBlockSizes(t *testing.T) {
	fs := vfs.NewMem()
	opt := testOptions(fs)
	opt.BlockBytes = 300
	l, _ := openLog(t, opt)
	for range 20 {
		l.set(0, "small", "v")
	}
	l.set(0, "large", strings.Repeat("v", 300))
	l.set(0, "small", "v")
	l.mustWrite()
	l.mustClose()
	var sizes []int
	sink := &blockList{}
	opt.NowMs = l.clock.Load
	again, _, err := Recover(opt, RecoverRefuse, sink)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	for _, h := range sink.headers {
		sizes = append(sizes, h.PayloadBytes)
	}
	selected := len(commandText("select", "0"))
	small := len(commandText("SET", "small", "v"))
	perBlock := (300 - selected) / small
	for i, size := range sizes[:20/perBlock] {
		check(t, "size", size, selected+perBlock*small)
		check(t, "ops", sink.headers[i].Ops, perBlock)
	}
	large := sink.headers[len(sizes)-2]
	check(t, "ops of the large one", large.Ops, 1)
	check(t, "size of the large one", large.PayloadBytes, selected+len(commandText("SET", "large", strings.Repeat("v", 300))))
}

// bufferedCommit is a commit whose encoder builds it elsewhere.
type bufferedCommit struct{ text string }

func (bufferedCommit) Ops() int { return 1 }
func (c bufferedCommit) AppendTo(dst []byte, _ bool) []byte {
	return append(append([]byte(nil), dst...), c.text...)
}

func TestEncoderThatDoesNotWriteInPlace(t *testing.T) {
	fs := vfs.NewMem()
	l, _ := openLog(t, testOptions(fs))
	l.set(0, "a", "1")
	l.Append(bufferedCommit{commandText("SET", "b", "2")})
	l.set(0, "c", "3")
	l.mustWrite()
	l.mustClose()
	again, rec := openLog(t, testOptions(fs))
	checkOps(t, "recovered", rec.ops, []string{"0 a 1", "0 b 2", "0 c 3"})
	again.mustClose()
}

// An encoder that panics leaves the log as it was, and unlocked.
func TestEncoderThatPanics(t *testing.T) {
	fs := vfs.NewMem()
	l, _ := openLog(t, testOptions(fs))
	l.set(0, "a", "1")
	for range 2 {
		func() {
			defer func() { _ = recover() }()
			l.Append(panicking{})
		}()
		l.mem.open = false
	}
	check(t, "LSN", l.set(0, "b", "2"), 2)
	l.mustWrite()
	l.mustClose()
	again, rec := openLog(t, testOptions(fs))
	checkOps(t, "recovered", rec.ops, l.ops)
	again.mustClose()
}

type panicking struct{}

func (panicking) Ops() int                           { return 1 }
func (panicking) AppendTo(dst []byte, _ bool) []byte { panic("a bug") }

func TestAnnotationsAreBounded(t *testing.T) {
	l, _ := openLog(t, testOptions(vfs.NewMem()))
	longest := "#kevy-" + strings.Repeat("x", maxLineBytes-1-checksumBytes-len("#kevy-"))
	l.Annotate(longest)
	l.mustClose()
	defer func() {
		if recover() == nil {
			t.Fatal("a line that Redis would not skip is taken")
		}
	}()
	l.Annotate(longest + "x")
}

func TestOptions(t *testing.T) {
	now := func() int64 { return 1 }
	for _, opt := range []Options{
		{},
		{NowMs: now},
		{FS: vfs.NewMem()},
		{FS: vfs.NewMem(), NowMs: now, BlockBytes: maxBlockBytes + 1},
		{FS: vfs.NewMem(), NowMs: now, BlockBytes: -1},
		{FS: vfs.NewMem(), NowMs: now, SegmentBytes: -1},
	} {
		if _, _, err := Recover(opt, RecoverRefuse, &record{}); err == nil {
			t.Errorf("%+v is accepted", opt)
		}
	}
	for p, want := range map[Policy]string{PolicyAlways: "always", PolicyEverySec: "everysec", PolicyNo: "no", 7: "Policy(7)"} {
		check(t, "name", p.String(), want)
	}
}

// A log that was closed takes no more, and says so.
func TestClosed(t *testing.T) {
	l, _ := openLog(t, testOptions(vfs.NewMem()))
	l.set(0, "a", "1")
	l.mustClose()
	lsn := l.set(0, "b", "2")
	for what, err := range map[string]error{
		"WaitWritten": l.WaitWritten(lsn),
		"WaitDurable": l.WaitDurable(lsn),
		"Sync":        l.Sync(),
		"Admit":       l.Admit(),
		"Status":      l.Status().Err,
	} {
		check(t, what, err, ErrClosed)
	}
	if _, err := l.BeginBase(1); err != ErrClosed {
		t.Fatal(err)
	}
	check(t, "what is durable", l.WaitDurable(1), nil)
}
