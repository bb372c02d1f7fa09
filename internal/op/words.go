package op

import (
	"encoding/hex"
	"strings"
)

// Words splits the first line of a script or a library as Redis splits a
// line: words stand between spaces, or in quotes; in double quotes a backslash
// escapes. ok is false if a quote is open at the end, or is followed by anything
// but a space.
func Words(line string) (words []string, ok bool) {
	for {
		line = strings.TrimLeft(line, " \t\n\v\f\r")
		if line == "" {
			return words, true
		}
		var word string
		if word, line, ok = nextWord(line); !ok {
			return nil, false
		}
		words = append(words, word)
	}
}

const endsWord = " \t\n\r\x00"

// nextWord takes the word that line begins with.
func nextWord(line string) (word, rest string, ok bool) {
	var b []byte
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case strings.IndexByte(endsWord, c) >= 0:
			return string(b), line[i+1:], true
		case c == '"' || c == '\'':
			var n int
			if b, n, ok = quoted(b, line[i+1:], c); !ok {
				return "", "", false
			}
			i += 1 + n
			if i+1 < len(line) && strings.IndexByte(" \t\n\v\f\r", line[i+1]) < 0 {
				return "", "", false
			}
			return string(b), line[i+1:], true
		default:
			b = append(b, c)
		}
	}
	return string(b), "", true
}

// quoted appends what stands before the closing quote, which is byte n of text.
func quoted(b []byte, text string, quote byte) (_ []byte, n int, ok bool) {
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == quote:
			return b, i, true
		case c != '\\' || i+1 == len(text) || quote == '\'' && text[i+1] != '\'':
			b = append(b, c)
			continue
		}
		i++
		if text[i] == 'x' && i+2 < len(text) {
			if v, err := hex.DecodeString(text[i+1 : i+3]); err == nil {
				b = append(b, v[0])
				i += 2
				continue
			}
		}
		if at := strings.IndexByte("nrtba", text[i]); at >= 0 && quote == '"' {
			b = append(b, "\n\r\t\b\a"[at])
		} else {
			b = append(b, text[i])
		}
	}
	return b, 0, false
}
