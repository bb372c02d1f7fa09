package strings_test

import (
	stdstrings "strings"
	"testing"

	"kevy/internal/command"
	"kevy/internal/command/commandtest"
	"kevy/internal/command/strings"
)

// The limit of a string's length is reached to the byte, and not passed.
func TestStringLimit(t *testing.T) {
	const limit = 100
	command.MaxStringBytes.Store(limit)
	defer command.MaxStringBytes.Store(0)
	r := commandtest.NewRunner(strings.Commands())
	const tooLong = "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n"
	full := stdstrings.Repeat("x", limit)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"APPEND", "a", full}, ":100\r\n"},
		{[]string{"APPEND", "a", ""}, ":100\r\n"},
		{[]string{"APPEND", "a", "x"}, tooLong},
		{[]string{"SETRANGE", "b", "99", "x"}, ":100\r\n"},
		{[]string{"SETRANGE", "b", "100", "x"}, tooLong},
		{[]string{"SETRANGE", "b", "100", ""}, ":100\r\n"},
		{[]string{"SETRANGE", "b", "99", "xy"}, tooLong},
		{[]string{"SETRANGE", "c", "9223372036854775807", "x"}, tooLong},
		{[]string{"STRLEN", "b"}, ":100\r\n"},
		{[]string{"SET", "x", "abcd"}, "+OK\r\n"},
		{[]string{"LCS", "x", "x", "LEN"}, ":4\r\n"}, // a table of 5 × 5 cells of 4 bytes
		{[]string{"SET", "y", "abcde"}, "+OK\r\n"},
		{[]string{"LCS", "x", "y"}, "-ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len\r\n"},
	} {
		if got := r.Do(c.args...); got != c.want {
			t.Errorf("%.60q: %q, want %q", c.args, got, c.want)
		}
	}
}
