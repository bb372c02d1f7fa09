package lualib

import (
	"fmt"
	"strings"
)

// token is a kind of word of Lua 5.1. One-character tokens are their character.
type token int

const (
	tkEOF token = iota + 256
	tkAnd
	tkBreak
	tkDo
	tkElse
	tkElseif
	tkEnd
	tkFalse
	tkFor
	tkFunction
	tkIf
	tkIn
	tkLocal
	tkNil
	tkNot
	tkOr
	tkRepeat
	tkReturn
	tkThen
	tkTrue
	tkUntil
	tkWhile
	tkConcat
	tkDots
	tkEq
	tkGe
	tkLe
	tkNe
	tkNumber
	tkName
	tkString
)

var tokenNames = map[token]string{
	tkEOF: "<eof>", tkAnd: "and", tkBreak: "break", tkDo: "do", tkElse: "else", tkElseif: "elseif", tkEnd: "end",
	tkFalse: "false", tkFor: "for", tkFunction: "function", tkIf: "if", tkIn: "in", tkLocal: "local", tkNil: "nil",
	tkNot: "not", tkOr: "or", tkRepeat: "repeat", tkReturn: "return", tkThen: "then", tkTrue: "true", tkUntil: "until",
	tkWhile: "while", tkConcat: "..", tkDots: "...", tkEq: "==", tkGe: ">=", tkLe: "<=", tkNe: "~=",
	tkNumber: "<number>", tkName: "<name>", tkString: "<string>",
}

// reserved are the words that no name can be.
var reserved = func() map[string]token {
	m := make(map[string]token)
	for t := tkAnd; t <= tkWhile; t++ {
		m[tokenNames[t]] = t
	}
	return m
}()

// text is how an error names a kind of token.
func (t token) text() string {
	if name, ok := tokenNames[t]; ok {
		return name
	}
	if t < 32 || t == 127 {
		return fmt.Sprintf("char(%d)", int(t))
	}
	return string([]byte{byte(t)})
}

// syntaxError is an error of the compiler, as Lua words it.
type syntaxError struct{ text string }

func (e *syntaxError) Error() string { return e.text }

// lexer splits source into tokens, with one token of look-ahead. Errors are
// panics with a *syntaxError: parse catches them.
type lexer struct {
	src   string
	pos   int
	chunk string // as errors name the chunk
	// line is that of the token being read, lastLine that of the one before t.
	line, lastLine int
	t, ahead       lexeme
	hasAhead       bool
	tokens         int // so far
}

// lexeme is a token with what it stands for.
type lexeme struct {
	kind token
	text string  // of a name or a string: its value
	num  float64 // of a number
	raw  string  // of names, strings and numbers: as written
}

func (x *lexer) fail(text, near string, hasNear bool) {
	text = fmt.Sprintf("%s:%d: %s", x.chunk, x.line, text)
	if hasNear {
		text += " near '" + near + "'"
	}
	panic(&syntaxError{text})
}

// failNear fails near the current token.
func (x *lexer) failNear(text string) {
	near := x.t.kind.text()
	switch x.t.kind {
	case tkName, tkString, tkNumber:
		near = cText(x.t.raw)
	}
	x.fail(text, near, x.t.kind != 0) // Lua has no word for a zero byte
}

// cText is a string as C prints it: up to its first zero byte.
func cText(s string) string {
	if i := strings.IndexByte(s, 0); i >= 0 {
		return s[:i]
	}
	return s
}

func (x *lexer) next() {
	x.lastLine = x.line
	if x.hasAhead {
		x.t, x.hasAhead = x.ahead, false
		return
	}
	x.t = x.scan()
}

func (x *lexer) peek() token {
	if !x.hasAhead {
		x.ahead, x.hasAhead = x.scan(), true
	}
	return x.ahead.kind
}

// at returns the byte i places on, 0 beyond the end.
func (x *lexer) at(i int) byte {
	if x.pos+i < len(x.src) {
		return x.src[x.pos+i]
	}
	return 0
}

// skip goes past a byte of set, or past a zero byte: Lua looks for it with strchr, which finds that in every set.
func (x *lexer) skip(set string) bool {
	if x.pos == len(x.src) {
		return false
	}
	c := x.src[x.pos]
	found := c == 0 || strings.IndexByte(set, c) >= 0
	if found {
		x.pos++
	}
	return found
}

func (x *lexer) newline() {
	c := x.src[x.pos]
	x.pos++
	if d := x.at(0); x.pos < len(x.src) && (d == '\n' || d == '\r') && d != c {
		x.pos++
	}
	x.line++
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isAlpha(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }
func isAlnum(c byte) bool { return isDigit(c) || isAlpha(c) }

func (x *lexer) scan() lexeme {
	if x.tokens++; x.tokens > maxTokens {
		x.fail(tooComplex, "", false)
	}
	for x.pos < len(x.src) {
		c := x.src[x.pos]
		switch {
		case c == '\n' || c == '\r':
			x.newline()
		case c == '-':
			if x.at(1) != '-' {
				x.pos++
				return lexeme{kind: '-'}
			}
			x.pos += 2
			if x.at(0) == '[' {
				start := x.pos
				if level := x.longLevel(); level >= 0 {
					x.longText(level, "unfinished long comment", start)
					continue
				}
			}
			for x.pos < len(x.src) && x.src[x.pos] != '\n' && x.src[x.pos] != '\r' {
				x.pos++
			}
		case c == '[':
			start := x.pos
			level := x.longLevel()
			if level >= 0 {
				return x.longText(level, "unfinished long string", start)
			}
			if level == -1 {
				return lexeme{kind: '['}
			}
			x.fail("invalid long string delimiter", x.src[start:x.pos], true)
		case c == '=' || c == '<' || c == '>' || c == '~':
			x.pos++
			if x.at(0) != '=' {
				return lexeme{kind: token(c)}
			}
			x.pos++
			return lexeme{kind: map[byte]token{'=': tkEq, '<': tkLe, '>': tkGe, '~': tkNe}[c]}
		case c == '"' || c == '\'':
			return x.shortText(c)
		case c == '.':
			x.pos++
			if x.skip(".") {
				if x.skip(".") {
					return lexeme{kind: tkDots}
				}
				return lexeme{kind: tkConcat}
			}
			if !isDigit(x.at(0)) {
				return lexeme{kind: '.'}
			}
			x.pos--
			return x.number()
		case isSpace(c):
			x.pos++
		case isDigit(c):
			return x.number()
		case isAlpha(c) || c == '_':
			start := x.pos
			for isAlnum(x.at(0)) || x.at(0) == '_' {
				x.pos++
			}
			word := x.src[start:x.pos]
			if k, ok := reserved[word]; ok {
				return lexeme{kind: k}
			}
			return lexeme{kind: tkName, text: word, raw: word}
		default:
			x.pos++
			return lexeme{kind: token(c)}
		}
	}
	return lexeme{kind: tkEOF}
}

func (x *lexer) number() lexeme {
	start := x.pos
	for isDigit(x.at(0)) || x.at(0) == '.' {
		x.pos++
	}
	if x.skip("eE") {
		x.skip("+-")
	}
	for isAlnum(x.at(0)) || x.at(0) == '_' {
		x.pos++
	}
	raw := cText(x.src[start:x.pos])
	f, ok := parseNumber(raw)
	if !ok {
		x.fail("malformed number", raw, true)
	}
	return lexeme{kind: tkNumber, num: f, raw: raw}
}

// longLevel reads "[==[" and returns the number of "=", or -1 behind a lone "[",
// or -2 where neither stands.
func (x *lexer) longLevel() int {
	n := 1
	for x.at(n) == '=' {
		n++
	}
	if x.at(n) == '[' {
		x.pos += n + 1
		return n - 1
	}
	x.pos += n
	if n == 1 {
		return -1
	}
	return -2
}

// longText reads what follows "[==[".
func (x *lexer) longText(level int, unfinished string, start int) lexeme {
	if c := x.at(0); x.pos < len(x.src) && (c == '\n' || c == '\r') {
		x.newline()
	}
	var b strings.Builder
	for {
		if x.pos >= len(x.src) {
			x.fail(unfinished, "<eof>", true)
		}
		switch c := x.src[x.pos]; c {
		case ']':
			n := 1
			for x.at(n) == '=' {
				n++
			}
			if n-1 == level && x.at(n) == ']' {
				x.pos += n + 1
				return lexeme{kind: tkString, text: b.String(), raw: x.src[start:x.pos]}
			}
			b.WriteString(x.src[x.pos : x.pos+n])
			x.pos += n
		case '\n', '\r':
			x.newline()
			b.WriteByte('\n')
		default:
			b.WriteByte(c)
			x.pos++
		}
	}
}

// shortText reads a string between quotes.
func (x *lexer) shortText(quote byte) lexeme {
	x.pos++
	b := []byte{quote} // as errors show it: what has been read, escapes resolved
	for {
		if x.pos >= len(x.src) {
			x.fail("unfinished string", "<eof>", true)
		}
		c := x.src[x.pos]
		switch {
		case c == quote:
			x.pos++
			text := string(b[1:])
			return lexeme{kind: tkString, text: text, raw: string(append(b, quote))}
		case c == '\n' || c == '\r':
			x.fail("unfinished string", cText(string(b)), true)
		case c != '\\':
			b = append(b, c)
			x.pos++
		default:
			x.pos++
			if x.pos >= len(x.src) {
				continue // the error is raised above
			}
			c = x.src[x.pos]
			switch {
			case c == '\n' || c == '\r':
				x.newline()
				b = append(b, '\n')
			case isDigit(c):
				n := 0
				for i := 0; i < 3 && isDigit(x.at(0)); i++ {
					n = n*10 + int(x.at(0)-'0')
					x.pos++
				}
				if n > 255 {
					x.fail("escape sequence too large", cText(string(b)), true)
				}
				b = append(b, byte(n))
			default:
				if i := strings.IndexByte("abfnrtv", c); i >= 0 {
					c = "\a\b\f\n\r\t\v"[i]
				}
				b = append(b, c)
				x.pos++
			}
		}
	}
}
