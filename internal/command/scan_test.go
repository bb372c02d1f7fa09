package command

import (
	"fmt"
	"strings"
	"testing"
)

func TestScanOptions(t *testing.T) {
	keyspace := func(a *Args) ScanOptions { return a.ScanOptions(true) }
	elements := func(a *Args) ScanOptions { return a.ScanOptions(false) }
	hash := (*Args).HashScanOptions
	for _, c := range []struct {
		text string
		read func(*Args) ScanOptions
		want string // or the error
	}{
		{"", keyspace, "10   false"},
		{"count 5 match a* type hash", keyspace, "5 a* hash false"},
		{"MATCH * COUNT 1", elements, "1   false"},
		{"MATCH a MATCH b", elements, "10 b  false"},
		{"COUNT 9223372036854775807", elements, "2147483647   false"},
		{"COUNT 2 novalues MATCH f", hash, "2 f  true"},
		{"NOVALUES", elements, "ERR syntax error"},
		{"NOVALUES", keyspace, "ERR syntax error"},
		{"TYPE hash", elements, "ERR syntax error"},
		{"TYPE hash", hash, "ERR syntax error"},
		{"COUNT 0", elements, "ERR syntax error"},
		{"COUNT -1", elements, "ERR syntax error"},
		{"COUNT x", elements, "ERR value is not an integer or out of range"},
		{"COUNT x FOO", elements, "ERR value is not an integer or out of range"},
		{"FOO COUNT x", elements, "ERR syntax error"},
		{"COUNT", elements, "ERR syntax error"},
		{"MATCH", elements, "ERR syntax error"},
		{"TYPE", keyspace, "ERR syntax error"},
	} {
		var a Args
		for _, arg := range strings.Fields(c.text) {
			a.rest = append(a.rest, []byte(arg))
		}
		o := c.read(&a)
		got := fmt.Sprintf("%d %s %s %v", o.Count, o.Match, o.Type, o.NoValues)
		if err := a.Err(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%q: %s, want %s", c.text, got, c.want)
		}
	}
}
