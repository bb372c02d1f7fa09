package strings

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"

	"kevy/internal/command"
	"kevy/internal/xxh3"
	"kevy/resp"
)

// conditionKind is what a condition of SET or DELEX asks of the key's string.
type conditionKind uint8

const (
	unconditional conditionKind = iota
	ifMissing                   // NX
	ifExists                    // XX
	ifEqual                     // IFEQ
	ifNotEqual                  // IFNE
	ifDigest                    // IFDEQ
	ifNotDigest                 // IFDNE
)

// condition says when a key is to be changed.
type condition struct {
	kind  conditionKind
	match []byte // the value or the digest that it compares with
}

// matchKind returns the condition with a match that has that name.
func matchKind(name []byte) (kind conditionKind, ok bool) {
	switch {
	case command.EqualFold(name, "IFEQ"):
		return ifEqual, true
	case command.EqualFold(name, "IFNE"):
		return ifNotEqual, true
	case command.EqualFold(name, "IFDEQ"):
		return ifDigest, true
	case command.EqualFold(name, "IFDNE"):
		return ifNotDigest, true
	}
	return unconditional, false
}

// takeExistence consumes NX or XX. It may come again, but not with another
// condition.
func (c *condition) takeExistence(a *command.Args) bool {
	switch {
	case c.allows(ifMissing) && a.Is("NX"):
		c.kind = ifMissing
	case c.allows(ifExists) && a.Is("XX"):
		c.kind = ifExists
	default:
		return false
	}
	return true
}

// takeMatch consumes a condition on the value. It is the only condition.
func (c *condition) takeMatch(a *command.Args) bool {
	kind, ok := matchKind(a.Peek())
	if !ok || c.kind != unconditional {
		return false
	}
	a.Bytes()
	c.kind, c.match = kind, a.Bytes()
	return true
}

func (c *condition) allows(kind conditionKind) bool { return c.kind == unconditional || c.kind == kind }

// readsValue reports whether the condition needs more than to know if there is
// a key, which must hold a string then.
func (c *condition) readsValue() bool { return c.kind >= ifEqual }

// holds reports whether the condition is true for a key that holds value, or
// does not exist. A digest that is none is refused only where there is something
// to compare it with, as in Redis 8.4.
func (c *condition) holds(value []byte, found bool) (bool, *resp.Error) {
	switch c.kind {
	case ifMissing:
		return !found, nil
	case ifExists:
		return found, nil
	case ifEqual:
		return found && bytes.Equal(value, c.match), nil
	case ifNotEqual:
		return !found || !bytes.Equal(value, c.match), nil
	case ifDigest, ifNotDigest:
		if !found {
			return c.kind == ifNotDigest, nil
		}
		if len(c.match) != digestBytes {
			return false, errDigest
		}
		digest := digestOf(value)
		return bytes.EqualFold(digest[:], c.match) == (c.kind == ifDigest), nil
	}
	return true, nil
}

// digestBytes is the length of a digest's text.
const digestBytes = 16

var errDigest = &resp.Error{Code: "ERR", Text: "must be exactly 16 hexadecimal characters"}

// digestOf returns the digest of a value as DIGEST answers it: its XXH3 in
// hexadecimal, highest digit first.
func digestOf(value []byte) (text [digestBytes]byte) {
	var sum [digestBytes / 2]byte
	binary.BigEndian.PutUint64(sum[:], xxh3.Sum64(value))
	hex.Encode(text[:], sum[:])
	return text
}
