package wire

import (
	"fmt"
	"strconv"
	"strings"
)

// Parse reads one reply in the notation of Reply.String from the start of s and returns what follows it.
func Parse(s string) (r Reply, rest string, err error) { return parse(s, "") }

// parse reads a reply; a line-shaped one (+, -, :, …) ends at the first byte of stop that is not
// escaped, or at the end when stop is empty.
func parse(s, stop string) (Reply, string, error) {
	for _, a := range []struct {
		open, end string
		kind      Kind
	}{{"[", "]", Array}, {"push[", "]", Push}, {"set{", "}", Set}, {"map{", "}", Map}} {
		if strings.HasPrefix(s, a.open) {
			return parseElems(Reply{Kind: a.kind}, s[len(a.open):], a.end)
		}
	}
	switch {
	case strings.HasPrefix(s, "$nil"):
		return Reply{Kind: Bulk, Nil: true}, s[4:], nil
	case strings.HasPrefix(s, "*nil"):
		return Reply{Kind: Array, Nil: true}, s[4:], nil
	case strings.HasPrefix(s, "_nil"):
		return Reply{Kind: Null, Nil: true}, s[4:], nil
	case strings.HasPrefix(s, `"`):
		return parseQuoted(Reply{Kind: Bulk}, s[1:])
	case strings.HasPrefix(s, `="`):
		return parseQuoted(Reply{Kind: Verbatim}, s[2:])
	case s != "" && strings.IndexByte("+-:,#(", s[0]) >= 0:
		end := len(s)
		if stop != "" {
			if i := strings.IndexAny(s, stop); i >= 0 {
				end = i
			}
		}
		text, err := Unescape(s[1:end])
		if err == nil && s[0] == ':' {
			_, err = strconv.ParseInt(string(text), 10, 64)
		}
		return Reply{Kind: Kind(s[0]), Text: text}, s[end:], err
	}
	return Reply{}, s, fmt.Errorf("no reply at %q", s)
}

func parseQuoted(r Reply, s string) (Reply, string, error) {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			text, err := Unescape(s[:i])
			r.Text = text
			return r, s[i+1:], err
		}
	}
	return r, "", fmt.Errorf("no closing quote in %q", s)
}

func parseElems(r Reply, s, end string) (Reply, string, error) {
	r.Elems = []Reply{}
	for {
		if strings.HasPrefix(s, end) {
			return r, s[len(end):], nil
		}
		if n := len(r.Elems); n > 0 {
			sep := ", "
			if r.Kind == Map && n%2 == 1 {
				sep = ": "
			}
			if !strings.HasPrefix(s, sep) {
				return r, s, fmt.Errorf("expected %q at %q", sep, s)
			}
			s = s[len(sep):]
		}
		stop := ",]}"
		if r.Kind == Map && len(r.Elems)%2 == 0 {
			stop = ":"
			if s != "" && s[0] == ':' {
				// An integer as a key: its own colon is not the separator.
				stop = ""
				if i := strings.Index(s, ": "); i > 0 {
					e, _, err := parse(s[:i], "")
					if err != nil {
						return r, s, err
					}
					r.Elems, s = append(r.Elems, e), s[i:]
					continue
				}
			}
		} else if s != "" && s[0] == ',' {
			// A double: its own comma is not the separator.
			stop = "]}"
			if i := strings.Index(s, ", "); i > 0 {
				if j := strings.IndexAny(s, "]}"); j < 0 || i < j {
					e, _, err := parse(s[:i], "")
					if err != nil {
						return r, s, err
					}
					r.Elems, s = append(r.Elems, e), s[i:]
					continue
				}
			}
		} else if s != "" && s[0] == '-' {
			// An error's text may hold commas; it ends with the element before the next reply.
			stop = "]}"
			if i := nextElement(s); i > 0 {
				e, _, err := parse(s[:i], "")
				if err != nil {
					return r, s, err
				}
				r.Elems, s = append(r.Elems, e), s[i:]
				continue
			}
		}
		e, rest, err := parse(s, stop)
		if err != nil {
			return r, s, err
		}
		r.Elems, s = append(r.Elems, e), rest
	}
}

// nextElement is the index of the first ", " that a reply follows, before the end of the aggregate; 0 if none.
func nextElement(s string) int {
	for i := 1; i+2 < len(s); i++ {
		if s[i] == ']' || s[i] == '}' {
			return 0
		}
		if strings.HasPrefix(s[i:], ", ") && strings.IndexByte(`+-:,#("$*_=[`, s[i+2]) >= 0 {
			return i
		}
	}
	return 0
}
