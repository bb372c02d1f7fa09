package nats

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"kevy/changes"
)

// A subject is made of a template of tokens:
//
//	{stream}  ALL, or the number of a shard
//	{db}      the number of the database
//	{verb}    the op: SET, DEL …
//	{key}     the key as one token
//	{path}    the key as a token for each part between ':', last in the template
//
// All else stands for itself. In a token every byte of a key that is not a
// letter, a digit or one of "-_:=/+@,;" is % and two hexadecimal digits; an empty
// part is a lone %. What has no key, a FLUSHALL for instance, has %- in the place
// of one.
type subject []piece

type piece struct {
	kind pieceKind
	text string // of a literal
}

type pieceKind int

const (
	pieceLiteral pieceKind = iota
	pieceStream
	pieceDB
	pieceVerb
	pieceKey
	piecePath
)

var pieceNames = map[string]pieceKind{"{stream}": pieceStream, "{db}": pieceDB, "{verb}": pieceVerb, "{key}": pieceKey, "{path}": piecePath}

const (
	noKey = "%-"

	// maxKeyBytes is how much of a key is in its subject. A longer one is cut,
	// and a hash of the whole key is put behind it: servers take lines of 4 KiB.
	maxKeyBytes = 256
	// maxPathTokens bounds the tokens of {path}; the last has what is left.
	maxPathTokens = 16

	maxTemplate = 512
)

func parseSubject(template string) (subject, error) {
	if len(template) > maxTemplate {
		return nil, fmt.Errorf("nats: a subject of %d bytes; at most %d", len(template), maxTemplate)
	}
	var s subject
	tokens := strings.Split(template, ".")
	for i, token := range tokens {
		kind, known := pieceNames[token]
		switch {
		case token == "":
			return nil, fmt.Errorf("nats: the subject %q has an empty token", template)
		case kind == piecePath && i != len(tokens)-1:
			return nil, fmt.Errorf("nats: the subject %q has something behind {path}", template)
		case known:
			s = append(s, piece{kind: kind})
		case strings.ContainsAny(token, " \t\r\n*>{}"):
			return nil, fmt.Errorf("nats: the subject %q has the token %q: words, {stream}, {db}, {verb}, {key} and, last, {path}", template, token)
		default:
			s = append(s, piece{text: token})
		}
	}
	if s[0].kind != pieceLiteral {
		return nil, errors.New("nats: a subject begins with a word")
	}
	return s, nil
}

// filter matches the subjects that are made for a stream of the store; for all
// of them if stream is empty.
func (s subject) filter(stream string) string {
	var b strings.Builder
	for i, p := range s {
		if i > 0 {
			b.WriteByte('.')
		}
		switch {
		case p.kind == pieceLiteral:
			b.WriteString(p.text)
		case p.kind == pieceStream && stream != "":
			b.WriteString(stream)
		case p.kind == piecePath:
			b.WriteByte('>')
		default:
			b.WriteByte('*')
		}
	}
	return b.String()
}

// of makes the subject of an op; f is empty for what encloses a snapshot.
func (s subject) of(stream string, db int, f *changes.Frame) string {
	b := make([]byte, 0, 64)
	for i, p := range s {
		if i > 0 {
			b = append(b, '.')
		}
		switch p.kind {
		case pieceLiteral:
			b = append(b, p.text...)
		case pieceStream:
			b = append(b, stream...)
		case pieceDB:
			b = strconv.AppendInt(b, int64(db), 10)
		case pieceVerb:
			if verb := f.Verb(); verb != "" {
				b = appendToken(b, []byte(verb))
			} else {
				b = append(b, noKey...)
			}
		case pieceKey, piecePath:
			key := f.Key()
			if key == nil {
				b = append(b, noKey...)
				continue
			}
			b = appendKey(b, key, p.kind == piecePath)
		}
	}
	return string(b)
}

func appendKey(b, key []byte, path bool) []byte {
	whole := key
	if len(key) > maxKeyBytes {
		key = key[:maxKeyBytes]
	}
	for n := 1; path && n < maxPathTokens; n++ {
		part, rest, more := strings.Cut(string(key), ":")
		if !more {
			break
		}
		b = append(appendToken(b, []byte(part)), '.')
		key = []byte(rest)
	}
	b = appendToken(b, key)
	if len(whole) > maxKeyBytes {
		sum := sha256.Sum256(whole)
		b = append(b, "%~"...)
		b = hex.AppendEncode(b, sum[:16])
	}
	return b
}

func appendToken(b, text []byte) []byte {
	if len(text) == 0 {
		return append(b, '%')
	}
	const digits = "0123456789ABCDEF"
	for _, c := range text {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-_:=/+@,;", c) >= 0 {
			b = append(b, c)
		} else {
			b = append(b, '%', digits[c>>4], digits[c&15])
		}
	}
	return b
}

// covers reports whether every subject that b matches is matched by a.
func covers(a, b string) bool {
	for {
		a1, a2, moreA := strings.Cut(a, ".")
		b1, b2, moreB := strings.Cut(b, ".")
		switch {
		case a1 == ">":
			return true
		case b1 == ">", a1 != "*" && a1 != b1:
			return false
		case !moreA || !moreB:
			return moreA == moreB
		}
		a, b = a2, b2
	}
}
