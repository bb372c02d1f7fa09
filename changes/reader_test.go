package changes

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"kevy/resp"
)

// seed is of a random test: that in KEVY_SEED, or a new one that is printed.
func seed(t testing.TB) *rand.Rand {
	t.Helper()
	n := rand.Uint64()
	if s := os.Getenv("KEVY_SEED"); s != "" {
		var err error
		if n, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("KEVY_SEED: %v", err)
		}
	}
	t.Logf("KEVY_SEED=%d", n)
	return rand.New(rand.NewPCG(n, 0))
}

// writeFrames writes what a server sends between next-offset and complete-lsn.
func writeFrames(w *resp.Writer, commits []Commit) {
	n := 0
	for _, c := range commits {
		n += len(c.Frames)
	}
	w.Array(n)
	for _, c := range commits {
		for _, f := range c.Frames {
			w.Array(3)
			w.Int(int64(f.Offset))
			w.Array(len(f.Args))
			for _, a := range f.Args {
				w.Bulk(a)
			}
			w.Array(6)
			w.Int(int64(f.LSN))
			w.Int(f.Time.UnixMilli())
			w.Int(int64(f.DB))
			w.Int(int64(c.First))
			w.Int(int64(c.Last))
			w.BulkString(string(f.Cause))
		}
	}
}

func writeChanges(w *resp.Writer, stream string, at Cursor, commits []Commit, complete uint64) {
	w.Push(6)
	w.BulkString("changes")
	w.BulkString(stream)
	w.Int(int64(at.Generation))
	w.Int(int64(at.Offset))
	writeFrames(w, commits)
	w.Int(int64(complete))
}

// randomCommits makes n commits from an offset on, some frames of which a filter
// left out, and returns where to go on.
func randomCommits(rnd *rand.Rand, stream string, at Cursor, n int) ([]Commit, Cursor) {
	var commits []Commit
	lsn := at.Offset*2 + 1
	for range n {
		at.Offset += rnd.Uint64N(3)
		c := Commit{Stream: stream, Generation: at.Generation, First: at.Offset, Last: at.Offset + rnd.Uint64N(4)}
		for o := c.First; o <= c.Last; o++ {
			lsn++
			if len(c.Frames) > 0 && rnd.IntN(3) == 0 || len(c.Frames) == 0 && o < c.Last && rnd.IntN(4) == 0 {
				continue
			}
			f := Frame{Offset: o, LSN: lsn, Time: time.UnixMilli(1700000000000 + rnd.Int64N(1e6)), DB: rnd.IntN(16)}
			f.Cause = []Cause{User, Expired, Evicted, "melted"}[rnd.IntN(4)]
			for range 1 + rnd.IntN(5) {
				size := rnd.IntN(12)
				if rnd.IntN(200) == 0 {
					size = rnd.IntN(100 << 10)
				}
				arg := make([]byte, size)
				for i := range arg {
					arg[i] = byte(rnd.Uint32())
				}
				f.Args = append(f.Args, arg)
			}
			c.Frames = append(c.Frames, f)
		}
		at.Offset = c.Last + 1
		c.Next, c.CompleteLSN = at, c.Frames[len(c.Frames)-1].LSN
		commits = append(commits, c)
	}
	return commits, at
}

// TestReaderDecodes compares what comes out of a Reader with what was written,
// however the bytes were cut.
func TestReaderDecodes(t *testing.T) {
	rnd := seed(t)
	for _, keep := range []bool{false, true} {
		w := resp.NewWriter(3)
		var want []Message
		at := Cursor{Generation: 1 << 52, Offset: 5}
		for i := range 200 {
			stream := []string{All, "0", "15"}[rnd.IntN(3)]
			switch i % 10 {
			case 0:
				w.Push(4)
				w.BulkString("changes-subscribe")
				w.BulkString(stream)
				w.Int(int64(at.Generation))
				w.Int(int64(at.Offset))
				want = append(want, Message{Kind: KindSubscribed, Stream: stream, At: at})
			case 1:
				w.Push(3)
				w.BulkString("changes-end")
				w.BulkString(stream)
				w.BulkString("FEEDRESYNC 1 2 3 4 evicted")
				want = append(want, Message{Kind: KindEnd, Stream: stream, Err: resp.Errorf("FEEDRESYNC", "1 2 3 4 evicted")})
			case 2:
				w.Array(2)
				w.Int(1)
				w.OK()
				want = append(want, Message{Kind: KindReply, Reply: resp.Reply{Type: '*', Elems: []resp.Reply{{Type: ':', Int: 1}, {Type: '+', Str: []byte("OK")}}}})
			case 3:
				w.Push(5)
				w.BulkString("changes-snapshot")
				w.BulkString(stream)
				w.Int(int64(i))
				w.Int(3)
				w.Array(2)
				for range 2 {
					w.Array(3)
					w.BulkString("SET")
					w.BulkString("k")
					w.BulkString(strings.Repeat("v", rnd.IntN(1000)))
				}
				want = append(want, Message{Kind: KindSnapshotPart, Stream: stream, N: uint64(i), DB: 3})
			case 4:
				w.Push(2)
				w.BulkString("invalidate")
				w.Null()
				want = append(want, Message{Kind: KindPush, Reply: resp.Reply{Type: '>', Elems: []resp.Reply{{Type: '$', Str: []byte("invalidate")}, {Type: '_', Null: true}}}})
			default:
				commits, next := randomCommits(rnd, stream, at, rnd.IntN(40))
				next.Offset += rnd.Uint64N(2)
				complete := next.Offset*2 + 1
				writeChanges(w, stream, next, commits, complete)
				if k := len(commits); k > 0 {
					commits[k-1].Next, commits[k-1].CompleteLSN = next, max(complete, commits[k-1].CompleteLSN)
				}
				want = append(want, Message{Kind: KindChanges, Stream: stream, At: next, Commits: commits, CompleteLSN: complete})
				at = next
			}
		}
		for _, cut := range []string{"whole", "halves", "random", "bytes"} {
			var src io.Reader = bytes.NewReader(w.Bytes())
			switch cut {
			case "halves":
				src = iotest.HalfReader(src)
			case "bytes":
				if w.Len() > 1<<20 {
					src = randomReader{src, rnd, 16}
				} else {
					src = iotest.OneByteReader(src)
				}
			case "random":
				src = randomReader{src, rnd, 5000}
			}
			r := NewReader(src)
			r.Keep = keep
			var kept []*Message
			for i := range want {
				m, err := r.Next()
				if err != nil {
					t.Fatalf("%s, message %d: %v", cut, i, err)
				}
				if keep {
					kept = append(kept, m)
				} else {
					checkMessage(t, m, &want[i])
				}
			}
			for i, m := range kept { // what was read later has not changed them
				checkMessage(t, m, &want[i])
			}
			if m, err := r.Next(); err != io.EOF {
				t.Fatalf("%s: after the last message: %v, %v", cut, m, err)
			}
			if t.Failed() {
				t.Fatalf("cut in %s, keep %v", cut, keep)
			}
		}
	}
}

type randomReader struct {
	src  io.Reader
	rnd  *rand.Rand
	most int
}

func (r randomReader) Read(b []byte) (int, error) {
	return r.src.Read(b[:min(len(b), 1+r.rnd.IntN(r.most))])
}

func checkMessage(t *testing.T, got, want *Message) {
	t.Helper()
	if got.Kind != want.Kind || got.Stream != want.Stream || got.At != want.At || got.CompleteLSN != want.CompleteLSN ||
		got.N != want.N || got.DB != want.DB || !reflect.DeepEqual(got.Err, want.Err) || got.Reply.String() != want.Reply.String() {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if want.Kind == KindSnapshotPart && (len(got.Ops) != 2 || len(got.Ops[1]) != 3 || string(got.Ops[1][1]) != "k") {
		t.Errorf("ops %q", got.Ops)
	}
	if len(got.Commits) != len(want.Commits) {
		t.Errorf("%d commits, want %d", len(got.Commits), len(want.Commits))
		return
	}
	for i := range got.Commits {
		if g, w := describe(&got.Commits[i]), describe(&want.Commits[i]); g != w {
			t.Errorf("commit %d is %.300s\nwant %.300s", i, g, w)
		}
	}
}

func describe(c *Commit) string {
	s := fmt.Sprintf("%s %d %d-%d next %v complete %d:", c.Stream, c.Generation, c.First, c.Last, c.Next, c.CompleteLSN)
	for _, f := range c.Frames {
		s += fmt.Sprintf(" [%d %d %d %d %s %q]", f.Offset, f.LSN, f.Time.UnixMilli(), f.DB, f.Cause, f.Args)
	}
	return s
}

func TestReaderSince(t *testing.T) {
	w := resp.NewWriter(2)
	commits, next := randomCommits(seed(t), "3", Cursor{Generation: 9}, 3)
	w.Array(4)
	w.Int(int64(next.Generation))
	w.Int(int64(next.Offset))
	writeFrames(w, commits)
	w.Int(1 << 40)
	w.Error(resp.Errorf("FEEDBEHIND", "9 1"))
	r := NewReader(bytes.NewReader(w.Bytes()))
	m, err := r.NextSince("3")
	if err != nil {
		t.Fatal(err)
	}
	commits[2].CompleteLSN = 1 << 40
	checkMessage(t, m, &Message{Kind: KindChanges, Stream: "3", At: next, Commits: commits, CompleteLSN: 1 << 40})
	if m, err = r.NextSince("3"); err != nil || m.Kind != KindReply || m.Reply.Err().Error() != "FEEDBEHIND 9 1" {
		t.Errorf("an error reply: %+v, %v", m, err)
	}
}

// TestReaderRefuses holds that what is no message of the feed is an error, and
// that a cut one is an unexpected end.
func TestReaderRefuses(t *testing.T) {
	const head = ">6\r\n$7\r\nchanges\r\n$3\r\nALL\r\n:7\r\n"
	frame := func(offset, first, last int) string {
		return fmt.Sprintf("*3\r\n:%d\r\n*2\r\n$3\r\nDEL\r\n$1\r\nk\r\n*6\r\n:1\r\n:1\r\n:0\r\n:%d\r\n:%d\r\n$4\r\nuser\r\n", offset, first, last)
	}
	if _, err := NewReader(strings.NewReader(head + ":1\r\n*1\r\n" + frame(0, 0, 0) + ":1\r\n")).Next(); err != nil {
		t.Fatalf("the sound one: %v", err)
	}
	for name, text := range map[string]string{
		"no type byte":            "x\r\n",
		"blank":                   "\r\n",
		"line feed only":          ":1\n",
		"push of nothing":         ">0\r\n",
		"push of a null":          ">-1\r\n",
		"push without a name":     ">1\r\n*0\r\n",
		"without META":            ">5\r\n$7\r\nchanges\r\n$3\r\nALL\r\n:7\r\n:1\r\n*0\r\n",
		"frame without META":      head + ":1\r\n*1\r\n*2\r\n:0\r\n*1\r\n$8\r\nFLUSHALL\r\n:1\r\n",
		"frames as null":          head + ":1\r\n*-1\r\n:1\r\n",
		"frames as text":          head + ":1\r\n$1\r\nx\r\n:1\r\n",
		"negative offset":         head + ":-1\r\n*0\r\n:1\r\n",
		"offset with a plus":      head + ":+1\r\n*0\r\n:1\r\n",
		"offset beyond 63 bits":   head + ":9223372036854775808\r\n*0\r\n:1\r\n",
		"next below the frames":   head + ":0\r\n*1\r\n" + frame(0, 0, 0) + ":1\r\n",
		"frame outside a commit":  head + ":9\r\n*1\r\n" + frame(3, 0, 2) + ":1\r\n",
		"frame twice":             head + ":9\r\n*2\r\n" + frame(1, 0, 2) + frame(1, 0, 2) + ":1\r\n",
		"frames that go back":     head + ":9\r\n*2\r\n" + frame(4, 4, 4) + frame(3, 3, 3) + ":1\r\n",
		"commit that grows":       head + ":9\r\n*2\r\n" + frame(1, 0, 2) + frame(2, 0, 3) + ":1\r\n",
		"commit inside a commit":  head + ":9\r\n*2\r\n" + frame(1, 0, 5) + frame(3, 3, 3) + ":1\r\n",
		"argument that is a null": head + ":9\r\n*1\r\n*3\r\n:0\r\n*1\r\n$-1\r\n" + strings.Repeat("x\r\n", 99),
		"argument too long":       head + ":9\r\n*1\r\n*3\r\n:0\r\n*1\r\n$1\r\nab\r\n" + strings.Repeat(" ", 99),
		"op of nothing":           head + ":9\r\n*1\r\n*3\r\n:0\r\n*0\r\n" + strings.Repeat("x\r\n", 99),
		"endless line":            "+" + strings.Repeat("x", 3*maxLineBytes),
		"endless number":          head + ":" + strings.Repeat("1", 100),
		"endless kind":            ">2\r\n$99999\r\n" + strings.Repeat("x", 2*maxLineBytes),
		"nested too deep":         strings.Repeat("*1\r\n", 1000) + ":1\r\n",
	} {
		for _, one := range []bool{false, true} {
			var src io.Reader = strings.NewReader(text)
			if one {
				src = iotest.OneByteReader(src)
			}
			if m, err := NewReader(src).Next(); !errors.Is(err, ErrProtocol) {
				t.Errorf("%s: %+v, %v", name, m, err)
			}
		}
	}
	whole := head + ":9\r\n*2\r\n" + frame(1, 0, 2) + frame(2, 0, 2) + ":1\r\n"
	for i := 1; i < len(whole); i++ {
		if _, err := NewReader(strings.NewReader(whole[:i])).Next(); err != io.ErrUnexpectedEOF {
			t.Fatalf("cut at %d of %d: %v", i, len(whole), err)
		}
	}
}

// TestReaderLimit reaches the limit of a message in each way.
func TestReaderLimit(t *testing.T) {
	w := resp.NewWriter(3)
	commits, next := randomCommits(seed(t), All, Cursor{Generation: 9}, 2000)
	writeChanges(w, All, next, commits, 1)
	for name, src := range map[string]io.Reader{
		"many frames":    bytes.NewReader(w.Bytes()),
		"announced":      strings.NewReader("$99999999\r\n"),
		"elements":       strings.NewReader("*99999999\r\n"),
		"pairs":          strings.NewReader("%99999999\r\n"),
		"frames":         io.MultiReader(strings.NewReader(">6\r\n$7\r\nchanges\r\n$3\r\nALL\r\n:7\r\n:9\r\n*1\r\n*3\r\n:0\r\n*99999999\r\n"), &repeated{text: []byte("$1\r\nx\r\n")}),
		"never ends":     io.MultiReader(strings.NewReader("*50000\r\n"), &repeated{text: []byte("$1\r\nx\r\n")}),
		"arguments":      io.MultiReader(strings.NewReader(">6\r\n$7\r\nchanges\r\n$3\r\nALL\r\n:7\r\n:9\r\n*1\r\n*3\r\n:0\r\n*16000\r\n"), &repeated{text: []byte("$1\r\nx\r\n")}),
		"snapshot parts": io.MultiReader(strings.NewReader(">5\r\n$16\r\nchanges-snapshot\r\n$3\r\nALL\r\n:0\r\n:0\r\n*9999999\r\n"), &repeated{text: []byte("*1\r\n$0\r\n\r\n")}),
	} {
		r := NewReader(src)
		r.MaxMessageBytes = 100_000
		_, err := r.Next()
		var large *TooLargeError
		if !errors.As(err, &large) || large.MaxBytes != 100_000 {
			t.Errorf("%s: %v", name, err)
		}
		if len(r.buf) > 4*100_000 {
			t.Errorf("%s: a buffer of %d bytes", name, len(r.buf))
		}
	}
	r := NewReader(strings.NewReader("$99999999\r\n"))
	if _, err := r.Next(); err != io.ErrUnexpectedEOF || len(r.buf) > firstBufferBytes {
		t.Errorf("memory of %d bytes follows an announced length: %v", len(r.buf), err)
	}
}

type repeated struct {
	text []byte
	at   int
}

func (r *repeated) Read(b []byte) (int, error) {
	n := copy(b, r.text[r.at:])
	r.at = (r.at + n) % len(r.text)
	return n, nil
}

// TestReaderIsLinear sends an op of many small arguments in small packets.
func TestReaderIsLinear(t *testing.T) {
	const args = 300_000
	w := resp.NewWriter(3)
	c := Commit{Frames: []Frame{{Args: [][]byte{[]byte("SADD"), []byte("k")}, Time: time.UnixMilli(1), Cause: User}}}
	for range args {
		c.Frames[0].Args = append(c.Frames[0].Args, []byte("m"))
	}
	writeChanges(w, All, Cursor{7, 1}, []Commit{c}, 1)
	r := NewReader(randomReader{bytes.NewReader(w.Bytes()), rand.New(rand.NewPCG(1, 1)), 64})
	start := time.Now()
	m, err := r.Next()
	if err != nil || len(m.Commits) != 1 || len(m.Commits[0].Frames[0].Args) != args+2 {
		t.Fatalf("%v, %v", m, err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("%d bytes took %v", w.Len(), took)
	}
}

func TestReaderAllocatesLittle(t *testing.T) {
	w := resp.NewWriter(3)
	var commits []Commit
	at := Cursor{Generation: 7}
	for range 300 {
		commits = append(commits, Commit{First: at.Offset, Last: at.Offset, Frames: []Frame{{
			Offset: at.Offset, Args: [][]byte{[]byte("SET"), []byte("key:123456"), []byte("value")}, Time: time.UnixMilli(1), Cause: User,
		}}})
		at.Offset++
	}
	writeChanges(w, All, at, commits, 1)
	r := NewReader(&repeated{text: slices.Clone(w.Bytes())})
	read := func() {
		m, err := r.Next()
		if err != nil || len(m.Commits) != 300 {
			t.Fatalf("%v", err)
		}
	}
	for range 20 {
		read()
	}
	if n := testing.AllocsPerRun(200, read); n > 1 {
		t.Errorf("%v allocations a message of 300 frames", n)
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte(">6\r\n$7\r\nchanges\r\n$3\r\nALL\r\n:7\r\n:1\r\n*1\r\n*3\r\n:0\r\n*2\r\n$3\r\nDEL\r\n$1\r\nk\r\n*6\r\n:1\r\n:1\r\n:0\r\n:0\r\n:0\r\n$4\r\nuser\r\n:1\r\n"), false)
	f.Add([]byte("*4\r\n:7\r\n:1\r\n*0\r\n:1\r\n"), true)
	f.Add([]byte(">5\r\n$16\r\nchanges-snapshot\r\n$1\r\n0\r\n:0\r\n:0\r\n*1\r\n*1\r\n$0\r\n\r\n"), false)
	f.Add([]byte("|1\r\n+a\r\n+b\r\n:1\r\n"), false)
	f.Fuzz(func(t *testing.T, b []byte, since bool) {
		read := func(src io.Reader) (kinds []Kind, last error) {
			r := NewReader(src)
			r.MaxMessageBytes = 1 << 20
			for {
				m, err := r.Next()
				if since && err == nil {
					kinds = append(kinds, m.Kind)
					m, err = r.NextSince("0")
				}
				if err != nil {
					return kinds, err
				}
				kinds = append(kinds, m.Kind)
			}
		}
		kinds, err := read(bytes.NewReader(b))
		again, err2 := read(iotest.OneByteReader(bytes.NewReader(b)))
		if !slices.Equal(kinds, again) || (err == io.EOF) != (err2 == io.EOF) {
			t.Errorf("whole: %v %v; byte by byte: %v %v", kinds, err, again, err2)
		}
	})
}

func BenchmarkReader(b *testing.B) {
	w := resp.NewWriter(3)
	var commits []Commit
	at := Cursor{Generation: 7}
	for range 256 {
		commits = append(commits, Commit{First: at.Offset, Last: at.Offset, Frames: []Frame{{
			Offset: at.Offset, LSN: 123456789, Args: [][]byte{[]byte("SET"), []byte("key:123456"), []byte("value-16-bytes..")}, Time: time.UnixMilli(1700000000000), Cause: User,
		}}})
		at.Offset++
	}
	writeChanges(w, All, at, commits, 1)
	for _, keep := range []bool{false, true} {
		b.Run(fmt.Sprintf("keep=%v", keep), func(b *testing.B) {
			r := NewReader(&repeated{text: w.Bytes()})
			r.Keep = keep
			frames := 0
			b.SetBytes(int64(w.Len() / 256))
			b.ReportAllocs()
			for b.Loop() {
				if frames%256 == 0 {
					if _, err := r.Next(); err != nil {
						b.Fatal(err)
					}
				}
				frames++
			}
		})
	}
}
