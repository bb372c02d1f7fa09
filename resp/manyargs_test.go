package resp

import (
	"bytes"
	"fmt"
	"io"
	"testing"
	"testing/iotest"
)

// TestManyArguments reads commands whose arguments fill one, or several, pieces
// of slots to the last or just beyond.
func TestManyArguments(t *testing.T) {
	for _, n := range []int{argChunk - 1, argChunk, argChunk + 1, 2*argChunk - 1, 2 * argChunk, 2*argChunk + 1, 5 * argChunk} {
		var in bytes.Buffer
		fmt.Fprintf(&in, "*%d\r\n", n)
		for i := range n {
			text := fmt.Sprint(i)
			if i == argChunk-1 || i == argChunk {
				text += string(make([]byte, largeBulkBytes)) // the slow way, at the border
			}
			fmt.Fprintf(&in, "$%d\r\n%s\r\n", len(text), text)
		}
		in.WriteString("*1\r\n$4\r\nPING\r\n")
		for _, src := range []io.Reader{bytes.NewReader(in.Bytes()), iotest.HalfReader(bytes.NewReader(in.Bytes()))} {
			r := NewReader(src, DefaultLimits())
			args := next(t, r)
			if len(args) != n {
				t.Fatalf("%d arguments came as %d", n, len(args))
			}
			for i, a := range args {
				if text := fmt.Sprint(i); !bytes.HasPrefix(a, []byte(text)) || (len(a) != len(text) && len(a) != len(text)+largeBulkBytes) {
					t.Fatalf("argument %d of %d is %.20q, %d bytes", i, n, a, len(a))
				}
			}
			if args := next(t, r); len(args) != 1 || string(args[0]) != "PING" {
				t.Fatalf("behind %d arguments: %.80q", n, args)
			}
			if mem := r.MemBytes(); mem > 8<<20 {
				t.Errorf("after %d arguments the reader holds %d bytes", n, mem)
			}
		}
	}
}

func next(t *testing.T, r *Reader) [][]byte {
	t.Helper()
	for {
		args, ok, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			return args
		}
		if err := r.Fill(); err != nil {
			t.Fatal(err)
		}
	}
}
