package feed

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"strconv"
	"sync"
	"unicode/utf8"
)

// regex is a compiled regular expression of a filter. Its time grows with the
// text and with its size, never worse: there is no backtracking.
type regex struct {
	re       *regexp.Regexp
	byteMode bool
}

// compile compiles a pattern of a filter of some kind once for all frames.
func compile(kind string, pattern []byte, byteMode bool) (*regex, error) {
	text := string(pattern)
	if byteMode {
		var err error
		if text, err = bytePattern(kind, pattern); err != nil {
			return nil, err
		}
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, patternError(kind, err)
	}
	// The parser bounds what repetitions can multiply; what is left to bound is
	// small enough to be counted by doing it.
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, patternError(kind, err)
	}
	if len(prog.Inst) > MaxRegexSize {
		return nil, &FilterError{fmt.Sprintf("%s compiles to %d steps, at most %d are allowed: repeat less", kind, len(prog.Inst), MaxRegexSize)}
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, patternError(kind, err)
	}
	return &regex{re, byteMode}, nil
}

// patternError says what is wrong with a pattern, and where.
func patternError(kind string, err error) error {
	var e *syntax.Error
	if !errors.As(err, &e) {
		return &FilterError{kind + ": " + err.Error()}
	}
	switch e.Code {
	case syntax.ErrInvalidUTF8:
		return &FilterError{kind + " is not UTF-8: bytes are matched with BYTEMODE"}
	case syntax.ErrLarge:
		return &FilterError{fmt.Sprintf("%s is too large: at most %d steps are allowed", kind, MaxRegexSize)}
	}
	return &FilterError{fmt.Sprintf("%s: %s at %q; the syntax is RE2's, as in Go", kind, e.Code, e.Expr)}
}

// found reports whether the expression matches somewhere in the text.
func (r *regex) found(text []byte) bool {
	if !r.byteMode || isASCII(text) {
		return r.re.Match(text)
	}
	b := byteReaders.Get().(*byteReader)
	b.rest = text
	ok := r.re.MatchReader(b)
	b.rest = nil
	byteReaders.Put(b)
	return ok
}

func isASCII(text []byte) bool {
	for _, c := range text {
		if c >= 0x80 {
			return false
		}
	}
	return true
}

// byteRune is what stands for a byte in BYTEMODE, in patterns and in texts:
// itself if it is ASCII, else a code point for private use. Those are no letters
// and have no case, so that a byte is matched by itself alone, by ranges and by
// what is said of ASCII.
func byteRune(c byte) rune {
	if c < 0x80 {
		return rune(c)
	}
	return privateRunes + rune(c)
}

const privateRunes = 0xe000

// bytePattern writes a pattern of bytes in the code points that stand for them.
func bytePattern(kind string, pattern []byte) (string, error) {
	out := make([]byte, 0, 2*len(pattern))
	raw := func(text []byte) {
		for _, c := range text {
			out = utf8.AppendRune(out, byteRune(c))
		}
	}
	for rest := pattern; len(rest) > 0; {
		n := 1
		switch code, size := numericEscape(rest); {
		case size > 0 && code > 0xff:
			return "", &FilterError{fmt.Sprintf("%s: %q is no byte, and BYTEMODE matches bytes", kind, rest[:size])}
		case size > 0 && code >= 0x80:
			out = fmt.Appendf(out, `\x{%x}`, byteRune(byte(code)))
			rest = rest[size:]
			continue
		case size > 0:
			n = size
		case bytes.HasPrefix(rest, []byte(`\Q`)):
			if n = bytes.Index(rest, []byte(`\E`)); n < 0 {
				n = len(rest)
			}
		case rest[0] == '\\' && len(rest) > 1:
			n = 2
		}
		raw(rest[:n])
		rest = rest[n:]
	}
	return string(out), nil
}

// numericEscape returns the code that a pattern begins with in the form \xFF,
// \x{FF} or \377, and its length; 0 if it does not begin with one.
func numericEscape(p []byte) (code uint64, size int) {
	switch {
	case len(p) >= 4 && p[0] == '\\' && p[1] == 'x':
		digits := p[2:4]
		size = 4
		if p[2] == '{' {
			n := bytes.IndexByte(p, '}')
			if n < 0 {
				return 0, 0
			}
			digits, size = p[3:n], n+1
		}
		return parseCode(digits, 16, size)
	case len(p) >= 2 && p[0] == '\\' && '0' <= p[1] && p[1] <= '7':
		n := 1
		for n < min(4, len(p)) && '0' <= p[n] && p[n] <= '7' {
			n++
		}
		return parseCode(p[1:n], 8, n)
	}
	return 0, 0
}

// parseCode leaves what is no number to the parser of the pattern.
func parseCode(digits []byte, base, size int) (uint64, int) {
	code, err := strconv.ParseUint(string(digits), base, 32)
	if err != nil {
		return 0, 0
	}
	return code, size
}

// byteReader yields the code points that stand for the bytes of rest.
type byteReader struct{ rest []byte }

func (b *byteReader) ReadRune() (r rune, size int, err error) {
	if len(b.rest) == 0 {
		return 0, 0, io.EOF
	}
	r = byteRune(b.rest[0])
	b.rest = b.rest[1:]
	return r, 1, nil
}

var byteReaders = sync.Pool{New: func() any { return new(byteReader) }}
