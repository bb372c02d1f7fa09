package op

import (
	"bytes"
	"errors"
	"fmt"
)

// Frame is an op as the log holds it.
type Frame struct {
	Verb  Verb
	DB    int
	Cause Cause
	// First and Last mark the borders of the op's commit.
	First, Last bool
	// Raw is the RESP command; Args are its arguments, the verb included. Both
	// point into the payload.
	Raw  []byte
	Args [][]byte
}

// Key returns the key of the op, nil if it has none.
func (f *Frame) Key() []byte {
	if at := f.Verb.KeyAt(); at > 0 {
		return f.Args[at]
	}
	return nil
}

// ErrPayload is wrapped by every error of Scanner but those of an Input: the
// payload is not what Commit.AppendTo writes.
var ErrPayload = errors.New("log payload is malformed")

// Scanner takes whole commits apart. It checks all that it reads: a payload
// with a right checksum may still have been written by a faulty program.
//
// A copy of a Scanner goes on from where it was taken, as long as what it reads is
// the same.
type Scanner struct {
	rest     []byte // of an input: only what look found there
	input    Input  // nil for a payload that is in memory
	at       int64  // offset in the payload of what comes next
	db       int
	inCommit bool
	started  bool
	frame    Frame
	args     [][]byte
}

// Reset starts over on payload, which begins at a commit border, in database db
// (a block's own SELECT comes first in it). The frames point into payload.
func (s *Scanner) Reset(payload []byte, db int) {
	s.rest, s.input, s.at = payload, nil, 0
	s.db = db
	s.inCommit = false
	s.started = false
}

// ResetInput is Reset for a payload that is not in memory.
func (s *Scanner) ResetInput(in Input, db int) {
	s.Reset(nil, db)
	s.input = in
}

// DB returns the database after what was read so far.
func (s *Scanner) DB() int { return s.db }

// Rest returns the number of bytes not read yet.
func (s *Scanner) Rest() int {
	if s.input != nil {
		return int(s.input.Size() - s.at)
	}
	return len(s.rest)
}

// pass goes on behind n bytes.
func (s *Scanner) pass(n int) {
	s.rest = s.rest[n:]
	s.at += int64(n)
}

// Next returns the next op, or nil at the end. The frame is valid until the
// next call.
func (s *Scanner) Next() (*Frame, error) {
	f := &s.frame
	f.Cause = User
	for {
		if s.input != nil {
			if err := s.look(); err != nil {
				return nil, err
			}
		}
		if len(s.rest) == 0 {
			if s.inCommit {
				return nil, fmt.Errorf("%w: it ends inside a MULTI", ErrPayload)
			}
			return nil, nil
		}
		if s.rest[0] == '#' {
			if err := s.annotation(f); err != nil {
				return nil, err
			}
			continue
		}
		raw, err := s.command()
		if err != nil {
			return nil, err
		}
		v := verbOf(s.args[0])
		if v == None {
			if err := s.control(); err != nil {
				return nil, err
			}
			continue
		}
		if len(s.args) < minArgs[v] {
			return nil, fmt.Errorf("%w: %s with %d arguments", ErrPayload, v, len(s.args)-1)
		}
		f.Verb, f.DB, f.Raw, f.Args = v, s.db, raw, s.args
		f.First = !s.inCommit || !s.started
		f.Last = !s.inCommit || bytes.HasPrefix(s.rest, execLine)
		s.started = true
		return f, nil
	}
}

var minArgs = [numVerbs]int{
	Set: 3, SetRange: 4, Del: 2, PExpireAt: 3, Persist: 2, HSet: 4, HDel: 3,
	LPush: 3, RPush: 3, LPop: 2, RPop: 2, LSet: 4, LInsert: 5, LRem: 4, LTrim: 4,
	SAdd: 3, SRem: 3, ZAdd: 4, ZRem: 3, FlushDB: 1, FlushAll: 1, SwapDB: 3, Function: 2,
	HPExpireAt: 6, HPersist: 5,
	XAdd: 5, XDel: 3, XTrim: 5, XSetID: 3, XGroup: 4, XClaim: 6, XAck: 4,
}

// annotation reads a '#' line. Lines that it does not know are skipped, as
// Redis skips them.
func (s *Scanner) annotation(f *Frame) error {
	i := bytes.IndexByte(s.rest, '\n')
	if i < 0 {
		return fmt.Errorf("%w: an annotation line without an end", ErrPayload)
	}
	switch line := s.rest[:i+1]; {
	case bytes.Equal(line, expiredLine):
		f.Cause = Expired
	case bytes.Equal(line, evictedLine):
		f.Cause = Evicted
	}
	s.pass(i + 1)
	return nil
}

// control handles the commands that are no ops: SELECT, MULTI, EXEC.
func (s *Scanner) control() error {
	switch name := s.args[0]; {
	case (string(name) == "select" || string(name) == "SELECT") && len(s.args) == 2:
		n, ok := atoi(s.args[1])
		if !ok {
			return fmt.Errorf("%w: SELECT %q", ErrPayload, s.args[1])
		}
		s.db = n
	case string(name) == "MULTI" && !s.inCommit:
		s.inCommit, s.started = true, false
	case string(name) == "EXEC" && s.inCommit:
		s.inCommit = false
	default:
		return fmt.Errorf("%w: %q is no op", ErrPayload, name)
	}
	return nil
}

// command reads one RESP array of bulk strings into s.args and returns its
// bytes.
func (s *Scanner) command() (raw []byte, err error) {
	n, args, err := ReadCommand(s.rest, s.args[:0])
	if err != nil {
		return nil, err
	}
	raw = s.rest[:n:n]
	s.args = args
	s.pass(n)
	return raw, nil
}

// ReadCommand reads the RESP array of bulk strings that b begins with. It
// returns the array's length in bytes and its arguments, which point into b and
// are appended to args; the first is never missing.
func ReadCommand(b []byte, args [][]byte) (n int, _ [][]byte, err error) {
	count, i, ok := header(b, 0, '*')
	if !ok || count < 1 {
		return 0, nil, fmt.Errorf("%w: no command where one begins", ErrPayload)
	}
	for ; count > 0; count-- {
		size, j, ok := header(b, i, '$')
		if !ok || size > len(b)-j-2 {
			return 0, nil, fmt.Errorf("%w: an argument is cut short", ErrPayload)
		}
		args = append(args, b[j:j+size:j+size])
		i = j + size
		if b[i] != '\r' || b[i+1] != '\n' {
			return 0, nil, fmt.Errorf("%w: an argument does not end where it says", ErrPayload)
		}
		i += 2
	}
	return i, args, nil
}

// header reads kind, a decimal number and CRLF at b[i:] and returns the number
// and where it ends.
func header(b []byte, i int, kind byte) (n, next int, ok bool) {
	if i >= len(b) || b[i] != kind {
		return 0, 0, false
	}
	i++
	first := i
	for i < len(b) && b[i] >= '0' && b[i] <= '9' && i-first < 10 {
		n = n*10 + int(b[i]-'0')
		i++
	}
	if i == first || i+1 >= len(b) || b[i] != '\r' || b[i+1] != '\n' {
		return 0, 0, false
	}
	return n, i + 2, true
}

func atoi(b []byte) (n int, ok bool) {
	if len(b) == 0 || len(b) > 9 {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}
