package oracle

import (
	"bufio"
	_ "embed"
	"fmt"
	"regexp"
	"strings"

	"kevy/tests/wire"
)

//go:embed allow.txt
var allowText string

// allowance is a difference that is meant, with its reason.
type allowance struct {
	line                   int
	command, oracle, other *regexp.Regexp
	reason                 string
	hits                   int
}

// allowList is the parsed allow.txt.
type allowList []*allowance

// parseAllow reads blocks of four lines: command, oracle, server (regular expressions over the command as a
// script shows it and over both replies), reason.
func parseAllow(text string) (allowList, error) {
	var list allowList
	cur := &allowance{}
	sc := bufio.NewScanner(strings.NewReader(text))
	for n := 1; sc.Scan(); n++ {
		line := strings.TrimSpace(sc.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		field, arg, _ := strings.Cut(line, " ")
		arg = strings.TrimSpace(arg)
		re, err := regexp.Compile("^(?:" + arg + ")$")
		if err != nil {
			return nil, fmt.Errorf("allow.txt:%d: %w", n, err)
		}
		switch field {
		case "command":
			cur.command, cur.line = re, n
		case "oracle":
			cur.oracle = re
		case "server":
			cur.other = re
		case "reason":
			cur.reason = arg
			if cur.command == nil || cur.oracle == nil || cur.other == nil || arg == "" {
				return nil, fmt.Errorf("allow.txt:%d: an incomplete entry", n)
			}
			list, cur = append(list, cur), &allowance{}
		default:
			return nil, fmt.Errorf("allow.txt:%d: unknown field %q", n, field)
		}
	}
	if cur.command != nil {
		return nil, fmt.Errorf("allow.txt: the last entry has no reason")
	}
	return list, nil
}

// allows reports whether the difference is one that is meant.
func (l allowList) allows(args [][]byte, want, got wire.Reply) bool {
	text := Step{Args: args}.String()
	text = text[strings.Index(text, " ")+1:]
	for _, a := range l {
		if a.command.MatchString(text) && a.oracle.MatchString(want.String()) && a.other.MatchString(got.String()) {
			a.hits++
			return true
		}
	}
	return false
}
