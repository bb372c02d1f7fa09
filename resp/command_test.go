package resp

import (
	"bufio"
	"bytes"
	"strings"
	"testing"
)

func TestAppendCommand(t *testing.T) {
	got := string(AppendCommand([]byte("before"), "SET", "", "a\r\nb", strings.Repeat("x", 12)))
	want := "before*4\r\n$3\r\nSET\r\n$0\r\n\r\n$4\r\na\r\nb\r\n$12\r\nxxxxxxxxxxxx\r\n"
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
	// What it writes is read back, as a reply of this shape.
	args := [][]byte{[]byte("ECHO"), {0xff, 0}}
	r, err := ReadReply(bufio.NewReader(bytes.NewReader(AppendCommand(nil, args...))))
	if err != nil || len(r.Elems) != 2 || !bytes.Equal(r.Elems[1].Str, args[1]) {
		t.Errorf("%v, %v", r, err)
	}
}
