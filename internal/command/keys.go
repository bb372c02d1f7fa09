package command

import (
	"errors"
	"strings"
)

// KeySpec says where a command's keys stand, as Redis 7's key specifications:
// a place to begin and a way to find the keys from there.
type KeySpec struct {
	Flags KeyFlags
	Notes string
	// Vary, where VariableFlags is set, says what a command with these arguments does
	// with its keys. They may be fewer than it takes.
	Vary func(args [][]byte) KeyFlags
	// Index is the argument at which the search begins; with Keyword it is the
	// argument after the keyword, searched for from StartFrom on (backwards
	// from the end if that is negative).
	Index     int
	Keyword   string
	StartFrom int
	// A range: from the start to Last (relative to it; negative from the end),
	// every Step-th; Limit 2 stops halfway (the rest are no keys).
	Last, Step, Limit int
	// Or a count, if NumKeys is set: the argument CountAt (relative to the
	// start) says how many keys begin at FirstKey (relative to it).
	NumKeys           bool
	CountAt, FirstKey int
	// Unknown, if set, means that no such rule finds the keys; what else than what Find
	// finds the command looks at is said by Spec.Reach. Find, if there is one, returns
	// the positions of keys in place of the rule, which then is for COMMAND INFO alone.
	Unknown bool
	Find    func(args [][]byte) []int
}

// KeyFlags say what a command does with the keys of a spec.
type KeyFlags uint16

const (
	RO KeyFlags = 1 << iota
	RW
	OW
	RM
	Access
	Update
	Insert
	Delete
	NotKey
	Incomplete
	VariableFlags
)

var keyFlagNames = []string{"RO", "RW", "OW", "RM", "access", "update", "insert", "delete", "not_key", "incomplete", "variable_flags"}

// Names returns Redis's names of the flags.
func (f KeyFlags) Names() []string {
	var out []string
	for i, n := range keyFlagNames {
		if f&(1<<i) != 0 {
			out = append(out, n)
		}
	}
	return out
}

// One is the spec of a single key at argument i. note, at most one, is what
// COMMAND INFO says beside the flags.
func One(i int, f KeyFlags, note ...string) []KeySpec {
	ks := Range(i, 0, 1, f)
	ks.Notes = strings.Join(note, " ")
	return []KeySpec{ks}
}

// Range is the spec of keys from argument first to last (relative to first,
// negative from the end), every step-th.
func Range(first, last, step int, f KeyFlags) KeySpec {
	return KeySpec{Flags: f, Index: first, Last: last, Step: step}
}

// Count is the spec of keys that a count at argument at announces.
func Count(at int, f KeyFlags) KeySpec {
	return KeySpec{Flags: f, Index: at, NumKeys: true, FirstKey: 1, Step: 1}
}

// ErrBadKeys means that a command's arguments do not say where its keys are;
// the handler finds out why.
var ErrBadKeys = errors.New("invalid key arguments")

// HasKeys reports whether any of the command's arguments can be a key.
func (s *Spec) HasKeys() bool {
	for i := range s.Keys {
		if s.Keys[i].Flags&NotKey == 0 {
			return true
		}
	}
	return false
}

// EachKey calls fn with the position in args of each key of the command.
// Arguments that make no sense end with ErrBadKeys; the keys found up to there
// were passed to fn.
func (s *Spec) EachKey(args [][]byte, fn func(i int, f KeyFlags)) error {
	for k := range s.Keys {
		ks := &s.Keys[k]
		if ks.Flags&NotKey != 0 {
			continue
		}
		if err := ks.each(args, s.Flags&NoMandatoryKeys != 0, fn); err != nil {
			return err
		}
	}
	return nil
}

// each is EachKey for one spec. mayBeNone says that a count may be zero.
func (ks *KeySpec) each(args [][]byte, mayBeNone bool, fn func(i int, f KeyFlags)) error {
	if ks.Find != nil {
		for _, i := range ks.Find(args) {
			fn(i, ks.Flags)
		}
		return nil
	}
	if ks.Unknown {
		return nil
	}
	first := ks.Index
	if ks.Keyword != "" {
		if first = ks.findKeyword(args); first == 0 {
			return nil
		}
	}
	var last int
	switch {
	case ks.NumKeys:
		at := first + ks.CountAt
		if at >= len(args) {
			return ErrBadKeys
		}
		n, ok := ParseInt(args[at])
		if ok && n == 0 && mayBeNone {
			return nil
		}
		if !ok || n < 1 || n > int64(len(args)) {
			return ErrBadKeys
		}
		first += ks.FirstKey
		last = first + int(n-1)*ks.Step
	case ks.Last >= 0:
		last = first + ks.Last
	case ks.Limit > 1:
		last = first + (len(args)-first)/ks.Limit - 1
	default:
		last = len(args) + ks.Last
	}
	if last >= len(args) || last < first {
		return ErrBadKeys
	}
	flags := ks.Flags
	if ks.Vary != nil {
		flags = ks.Vary(args)
	}
	for i := first; i <= last; i += ks.Step {
		fn(i, flags)
	}
	return nil
}

// findKeyword returns the argument after the keyword, 0 if it is not there. As
// in Redis a keyword with nothing behind it is none.
func (ks *KeySpec) findKeyword(args [][]byte) int {
	if ks.StartFrom < 0 {
		for i := len(args) + ks.StartFrom; i > 1; i-- {
			if strings.EqualFold(string(args[i]), ks.Keyword) {
				return i + 1
			}
		}
		return 0
	}
	for i := ks.StartFrom; i < len(args)-1; i++ {
		if strings.EqualFold(string(args[i]), ks.Keyword) {
			return i + 1
		}
	}
	return 0
}

// ChannelUse is what a command does with channels, which its first arguments
// name.
type ChannelUse uint8

const (
	NoChannels           ChannelUse = iota
	Publishes                       // to the first argument
	Subscribes                      // to every argument
	SubscribesToPatterns            // every argument is a pattern
)

// ChannelArgs returns the arguments, from the first behind the name on, that are
// channels or patterns of channels.
func (s *Spec) ChannelArgs(args [][]byte) [][]byte {
	switch {
	case s.Channels == NoChannels || len(args) < 2:
		return nil
	case s.Channels == Publishes:
		return args[1:2]
	}
	return args[1:]
}

// FirstLastStep returns the key positions in the form of Redis before 7, zeros
// if the command has no keys at fixed places.
func (s *Spec) FirstLastStep() (first, last, step int) {
	for i := range s.Keys {
		ks := &s.Keys[i]
		if ks.Keyword != "" || ks.NumKeys || ks.Unknown || ks.Flags&Incomplete != 0 && i > 0 {
			continue
		}
		l := ks.Last
		if l >= 0 {
			l += ks.Index
		}
		switch {
		case first == 0:
			first, last, step = ks.Index, l, ks.Step
		case last >= 0 && ks.Index == last+1:
			last = l
		}
	}
	return first, last, step
}
