package resp

import "bytes"

// SplitInline splits an inline command, given without its line end, into
// arguments by the quoting rules of Redis (sdssplitargs): white space
// separates; "…" knows \n \r \t \b \a \xHH, and a backslash before any other
// byte yields that byte; '…' knows \' only; a closing quote must be followed
// by white space or the end. A zero byte ends the line. The arguments are
// copies. The error is an *[Error].
func SplitInline(line []byte) ([][]byte, error) {
	args, ok := splitInline(nil, bytes.Clone(line))
	if !ok {
		return nil, errInlineQuotes
	}
	return args, nil
}

// splitInline is SplitInline in place: arguments are appended to args and lie
// in line, which is overwritten (an argument is never longer than its source).
// It is false for unbalanced quotes.
func splitInline(args [][]byte, line []byte) ([][]byte, bool) {
	if i := bytes.IndexByte(line, 0); i >= 0 {
		line = line[:i]
	}
	r, w := 0, 0
	for {
		for r < len(line) && isSpace(line[r]) {
			r++
		}
		if r == len(line) {
			return args, true
		}
		start := w
		var ok bool
		r, w, ok = unquote(line, r, w)
		if !ok {
			return args, false
		}
		args = append(args, line[start:w:w])
	}
}

// unquote decodes the argument that begins at line[r] to line[w:]; w ≤ r.
func unquote(line []byte, r, w int) (int, int, bool) {
	for r < len(line) {
		switch c := line[r]; c {
		case ' ', '\n', '\r', '\t':
			return r, w, true
		case '"', '\'':
			r, w = unquoteString(line, r+1, w, c)
			if r < 0 || r < len(line) && !isSpace(line[r]) {
				return r, w, false
			}
			return r, w, true
		default:
			line[w] = c
			r, w = r+1, w+1
		}
	}
	return r, w, true
}

// unquoteString decodes what follows an opening quote up to and including the
// closing one; the position is negative if there is none.
func unquoteString(line []byte, r, w int, quote byte) (int, int) {
	for r < len(line) {
		c := line[r]
		r++
		switch {
		case c == quote:
			return r, w
		case c != '\\' || r == len(line):
		case quote == '\'':
			if line[r] == '\'' {
				c = '\''
				r++
			}
		case line[r] == 'x' && r+2 < len(line) && isHex(line[r+1]) && isHex(line[r+2]):
			c = unhex(line[r+1])<<4 | unhex(line[r+2])
			r += 3
		default:
			c = unescape(line[r])
			r++
		}
		line[w] = c
		w++
	}
	return -1, w
}

func unescape(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'b':
		return '\b'
	case 'a':
		return '\a'
	}
	return c
}

func isSpace(c byte) bool {
	return c == ' ' || '\t' <= c && c <= '\r'
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func unhex(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c <= 'F':
		return c - 'A' + 10
	default:
		return c - 'a' + 10
	}
}
