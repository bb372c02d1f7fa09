package resp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
)

func TestWriter(t *testing.T) {
	for _, c := range []struct {
		name         string
		write        func(w *Writer)
		resp2, resp3 string // resp3 "" : as resp2
	}{
		{"OK", func(w *Writer) { w.OK() }, "+OK\r\n", ""},
		{"Simple", func(w *Writer) { w.Simple("QUEUED") }, "+QUEUED\r\n", ""},
		{"Simple, lines", func(w *Writer) { w.Simple("a\r\n+b") }, "+a  +b\r\n", ""},
		{"Error", func(w *Writer) { w.Error(Errorf("WRONGTYPE", "not %s", "so")) }, "-WRONGTYPE not so\r\n", ""},
		{"Error, lines", func(w *Writer) { w.Error(Errorf("ERR", "a\r\n-b\nc")) }, "-ERR a  -b c\r\n", ""},
		{"Error, line end", func(w *Writer) { w.Error(Errorf("ERR", "a\r\n")) }, "-ERR a\r\n", ""},
		{"Error, no code", func(w *Writer) { w.Error(&Error{Text: "a"}) }, "-a\r\n", ""},
		{"Err, own", func(w *Writer) { w.Err(Errorf("OOM", "no")) }, "-OOM no\r\n", ""},
		{"Err, wrapped", func(w *Writer) { w.Err(fmt.Errorf("x: %w", Errorf("OOM", "no"))) }, "-OOM no\r\n", ""},
		{"Err, other", func(w *Writer) { w.Err(errors.New("a\nb\n")) }, "-ERR a b\r\n", ""},
		{"Int", func(w *Writer) { w.Int(0); w.Int(9); w.Int(10); w.Int(-1); w.Int(math.MinInt64) }, ":0\r\n:9\r\n:10\r\n:-1\r\n:-9223372036854775808\r\n", ""},
		{"Bulk", func(w *Writer) { w.Bulk([]byte("a\r\nb")); w.Bulk(nil) }, "$4\r\na\r\nb\r\n$0\r\n\r\n", ""},
		{"BulkString", func(w *Writer) { w.BulkString("0123456789") }, "$10\r\n0123456789\r\n", ""},
		{"BulkInt", func(w *Writer) { w.BulkInt(-42); w.BulkInt(math.MinInt64) }, "$3\r\n-42\r\n$20\r\n-9223372036854775808\r\n", ""},
		{"Null", func(w *Writer) { w.Null() }, "$-1\r\n", "_\r\n"},
		{"NullArray", func(w *Writer) { w.NullArray() }, "*-1\r\n", "_\r\n"},
		{"Array", func(w *Writer) { w.Array(0); w.Array(12) }, "*0\r\n*12\r\n", ""},
		{"Map", func(w *Writer) { w.Map(0); w.Map(5) }, "*0\r\n*10\r\n", "%0\r\n%5\r\n"},
		{"Set", func(w *Writer) { w.Set(3) }, "*3\r\n", "~3\r\n"},
		{"Push", func(w *Writer) { w.Push(3) }, "*3\r\n", ">3\r\n"},
		{"Double", func(w *Writer) { w.Double(1.5); w.Double(math.Inf(-1)); w.Double(math.NaN()) }, "$3\r\n1.5\r\n$4\r\n-inf\r\n$3\r\nnan\r\n", ",1.5\r\n,-inf\r\n,nan\r\n"},
		{"Bool", func(w *Writer) { w.Bool(true); w.Bool(false) }, ":1\r\n:0\r\n", "#t\r\n#f\r\n"},
		{"BigNumber", func(w *Writer) { w.BigNumber("12345678901234567890") }, "$20\r\n12345678901234567890\r\n", "(12345678901234567890\r\n"},
		{"Verbatim", func(w *Writer) { w.Verbatim("txt", "a\nb") }, "$3\r\na\nb\r\n", "=7\r\ntxt:a\nb\r\n"},
		{"Raw", func(w *Writer) { w.Raw([]byte("+RAW\r\n")) }, "+RAW\r\n", ""},
		{"EndArray", func(w *Writer) { w.OK(); m := w.Begin(); w.Int(1); w.Int(2); w.EndArray(m, 2) }, "+OK\r\n*2\r\n:1\r\n:2\r\n", ""},
		{"EndArray, empty", func(w *Writer) { w.EndArray(w.Begin(), 0) }, "*0\r\n", ""},
		{"EndSet", func(w *Writer) { m := w.Begin(); w.Int(1); w.EndSet(m, 1) }, "*1\r\n:1\r\n", "~1\r\n:1\r\n"},
		{"EndMap", func(w *Writer) { m := w.Begin(); w.Int(1); w.Int(2); w.EndMap(m, 1) }, "*2\r\n:1\r\n:2\r\n", "%1\r\n:1\r\n:2\r\n"},
		{"nested", func(w *Writer) {
			outer := w.Begin()
			w.BulkString("a")
			inner := w.Begin()
			for i := range 100 {
				w.Int(int64(i % 10))
			}
			w.EndArray(inner, 100)
			w.EndMap(outer, 1)
		}, "*2\r\n$1\r\na\r\n*100\r\n" + strings.Repeat(":0\r\n:1\r\n:2\r\n:3\r\n:4\r\n:5\r\n:6\r\n:7\r\n:8\r\n:9\r\n", 10),
			"%1\r\n$1\r\na\r\n*100\r\n" + strings.Repeat(":0\r\n:1\r\n:2\r\n:3\r\n:4\r\n:5\r\n:6\r\n:7\r\n:8\r\n:9\r\n", 10)},
		{"Truncate", func(w *Writer) {
			w.OK()
			n := w.Len()
			w.Array(3)
			w.Int(1)
			w.Truncate(n)
			w.Error(Errorf("ERR", "x"))
		}, "+OK\r\n-ERR x\r\n", ""},
		{"long", func(w *Writer) { w.OK(); w.BulkString(strings.Repeat("x", 10_000)) }, "+OK\r\n$10000\r\n" + strings.Repeat("x", 10_000) + "\r\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.resp3 == "" {
				c.resp3 = c.resp2
			}
			for proto, want := range map[int]string{2: c.resp2, 3: c.resp3} {
				w := NewWriter(proto)
				if w.Proto() != proto {
					t.Errorf("Proto() = %d", w.Proto())
				}
				c.write(w)
				if got := string(w.Bytes()); got != want || w.Len() != len(want) {
					t.Errorf("RESP%d: %.200q, want %.200q", proto, got, want)
				}
			}
		})
	}
}

func TestWriterReset(t *testing.T) {
	w := NewWriter(2)
	w.BulkString(strings.Repeat("x", 1000))
	w.Reset()
	if w.Len() != 0 || cap(w.Bytes()) < 1000 {
		t.Errorf("a small buffer is not kept: %d, %d", w.Len(), cap(w.Bytes()))
	}
	w.BulkString(strings.Repeat("x", 2*keptReplyBytes))
	w.Reset()
	if w.Len() != 0 || cap(w.Bytes()) > keptReplyBytes {
		t.Errorf("a large buffer is kept: %d, %d", w.Len(), cap(w.Bytes()))
	}
}

func TestWriterAllocs(t *testing.T) {
	value := []byte("value")
	own := Errorf("ERR", "syntax error")
	for _, proto := range []int{2, 3} {
		w := NewWriter(proto)
		n := testing.AllocsPerRun(1000, func() {
			w.Reset()
			w.OK()
			w.Simple("PONG")
			w.Error(own)
			w.Err(own)
			w.Int(1 << 40)
			w.Bulk(value)
			w.BulkString("value")
			w.BulkInt(1 << 40)
			w.Null()
			w.NullArray()
			m := w.Begin()
			w.Map(1)
			w.Set(1)
			w.Push(1)
			w.Array(100)
			w.Double(0.1)
			w.Double(1e300)
			w.Bool(true)
			w.BigNumber("123")
			w.Verbatim("txt", "x")
			w.EndArray(m, 1)
			w.EndMap(m, 1)
			w.EndSet(m, 1)
			w.Truncate(w.Len() / 2)
		})
		if n != 0 {
			t.Errorf("RESP%d: %v allocations", proto, n)
		}
	}
}

func TestErrorType(t *testing.T) {
	if got := Errorf("ERR", "a %d", 1).Error(); got != "ERR a 1" {
		t.Error(got)
	}
	if got := (&Error{Text: "a"}).Error(); got != "a" {
		t.Error(got)
	}
}

func TestReadReply(t *testing.T) {
	for in, want := range map[string]string{
		"+OK\r\n":                             "+OK",
		"-ERR a \"b\"\r\n":                    `-ERR a \"b\"`,
		":1\r\n":                              ":1",
		":-9223372036854775808\r\n":           ":-9223372036854775808",
		"$4\r\nbulk\r\n":                      `"bulk"`,
		"$0\r\n\r\n":                          `""`,
		"$8\r\n\r\n\t\"\\\x00\x7f\xff\r\n":    `"\r\n\t\"\\\x00\x7f\xff"`,
		"$-1\r\n":                             "$nil",
		"*-1\r\n":                             "*nil",
		"_\r\n":                               "_nil",
		"*0\r\n":                              "[]",
		"*2\r\n$1\r\na\r\n*1\r\n:2\r\n":       `["a", [:2]]`,
		"%2\r\n+a\r\n:1\r\n+b\r\n_\r\n":       "map{+a: :1, +b: _nil}",
		"~2\r\n:1\r\n:2\r\n":                  "set{:1, :2}",
		">2\r\n+a\r\n:1\r\n":                  "push[+a, :1]",
		",1.5\r\n":                            ",1.5",
		",inf\r\n":                            ",inf",
		",nan\r\n":                            ",nan",
		"#t\r\n":                              "#t",
		"#f\r\n":                              "#f",
		"(123456789012345678901234567890\r\n": "(123456789012345678901234567890",
		"=8\r\ntxt:a\r\nb\r\n":                `="txt:a\r\nb"`,
		"!5\r\nERR x\r\n":                     `!"ERR x"`,
		"|1\r\n+ttl\r\n:3\r\n+OK\r\n":         "+OK",
		"*2\r\n|1\r\n+a\r\n*1\r\n:1\r\n:5\r\n:6\r\n": "[:5, :6]",
	} {
		src := bufio.NewReader(strings.NewReader(in + "+NEXT\r\n"))
		reply, err := ReadReply(src)
		if err != nil || reply.String() != want {
			t.Errorf("%q: %v, %v; want %s", in, reply, err, want)
			continue
		}
		if next, err := ReadReply(src); err != nil || next.String() != "+NEXT" {
			t.Errorf("%q is not read to its end: then %v, %v", in, next, err)
		}
		for n := range len(in) {
			_, err := ReadReply(bufio.NewReader(strings.NewReader(in[:n])))
			if want := io.ErrUnexpectedEOF; n > 0 && err != want || n == 0 && err != io.EOF {
				t.Errorf("%q: %v", in[:n], err)
			}
		}
	}
}

func TestReplyFields(t *testing.T) {
	in := ":7\r\n,-2.5\r\n#t\r\n-NOAUTH log in\r\n!5\r\nERR x\r\n$-1\r\n,1e999\r\n"
	src := bufio.NewReader(strings.NewReader(in))
	var got []Reply
	for {
		r, err := ReadReply(src)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, r)
	}
	if len(got) != 7 || got[0].Int != 7 || got[1].Float != -2.5 || got[2].Int != 1 || !got[5].Null || !math.IsInf(got[6].Float, 1) {
		t.Fatal(got)
	}
	for i, want := range map[int]Error{3: {"NOAUTH", "log in"}, 4: {"ERR", "x"}} {
		var e *Error
		if !errors.As(got[i].Err(), &e) || *e != want {
			t.Errorf("%v.Err() = %v", got[i], got[i].Err())
		}
	}
	if err := got[0].Err(); err != nil {
		t.Error(err)
	}
}

func TestReadReplyErrors(t *testing.T) {
	for name, in := range map[string]string{
		"empty line":       "\r\n",
		"no \\r":           "+OK\n",
		"type":             "?1\r\n",
		"integer":          ":1x\r\n",
		"integer too long": ":9223372036854775808\r\n",
		"double":           ",x\r\n",
		"boolean":          "#x\r\n",
		"null":             "_x\r\n",
		"length":           "$x\r\n",
		"negative length":  "$-2\r\n",
		"negative map":     "%-1\r\n",
		"streamed string":  "$?\r\n",
		"longer string":    "$1\r\nabc\r\n",
		"string too long":  fmt.Sprintf("$%d\r\n", maxReplyBytes),
		"map too long":     "%9223372036854775807\r\n",
		"too deep":         strings.Repeat("*1\r\n", maxReplyDepth+1) + ":1\r\n",
		"too deep, by |":   strings.Repeat("|0\r\n", maxReplyDepth+1) + ":1\r\n",
		"line too long":    "+" + strings.Repeat("x", maxReplyLineBytes+1),
	} {
		if _, err := ReadReply(bufio.NewReader(strings.NewReader(in))); !errors.Is(err, ErrReply) {
			t.Errorf("%s: %v", name, err)
		}
	}
	deep := strings.Repeat("*1\r\n", maxReplyDepth) + ":1\r\n"
	if _, err := ReadReply(bufio.NewReader(strings.NewReader(deep))); err != nil {
		t.Error(err)
	}
	if _, err := ReadReply(bufio.NewReader(io.MultiReader(strings.NewReader("+O"), readerFunc(func([]byte) (int, error) { return 0, io.ErrClosedPipe })))); err != io.ErrClosedPipe {
		t.Error(err)
	}
}

// TestReadReplySize reaches the bound on a whole reply without sending it all:
// the decoder gives up as soon as what is announced or begun is too much.
func TestReadReplySize(t *testing.T) {
	d := replyDecoder{src: bufio.NewReader(strings.NewReader("*1000\r\n" + strings.Repeat("$100\r\n"+strings.Repeat("x", 100)+"\r\n", 1000))), budget: 100_000}
	if _, err := d.reply(0); !errors.Is(err, ErrReply) {
		t.Error(err)
	}
	got := allocated(func() {
		for _, in := range []string{"$1000000000\r\nabc", "*1000000000\r\n:1\r\n", "%500000000\r\n+a\r\n", "$-1\r\n"} {
			ReadReply(bufio.NewReader(strings.NewReader(in)))
		}
	})
	if got > 200_000 {
		t.Errorf("announcements cost %d bytes", got)
	}
}

func FuzzReadReply(f *testing.F) {
	for _, in := range []string{"*2\r\n$1\r\na\r\n:1\r\n", "%1\r\n+a\r\n,1.5\r\n", "|1\r\n+a\r\n#t\r\n_\r\n", "$-1\r\n", "=5\r\ntxt:a\r\n"} {
		f.Add([]byte(in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		reply, err := ReadReply(bufio.NewReader(strings.NewReader(string(in))))
		if err != nil {
			if !errors.Is(err, ErrReply) && err != io.EOF && err != io.ErrUnexpectedEOF {
				t.Fatal(err)
			}
			return
		}
		if s := reply.String(); s == "" || strings.ContainsAny(s, "\r\n") {
			t.Fatalf("%q", s)
		}
	})
}

func BenchmarkWriterBulk(b *testing.B) {
	value := []byte(strings.Repeat("x", 64))
	w := NewWriter(2)
	b.ReportAllocs()
	for i := range b.N {
		if i%100 == 0 {
			w.Reset()
		}
		w.Bulk(value)
	}
}

func BenchmarkWriterDouble(b *testing.B) {
	w := NewWriter(3)
	b.ReportAllocs()
	for i := range b.N {
		if i%100 == 0 {
			w.Reset()
		}
		w.Double(float64(i) / 7)
	}
}
