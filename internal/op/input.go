package op

import "bytes"

// Input is a payload of which only a part is in memory at a time.
type Input interface {
	// Size is the payload's, in bytes.
	Size() int64
	// Ahead returns what is in memory from the offset at on: at least n bytes, fewer
	// where the payload ends. They are valid until the next call.
	Ahead(at, n int64) ([]byte, error)
}

const (
	// lookBytes is how much of an Input is looked at at least. Every annotation fits
	// in it.
	lookBytes = 1 << 10
	// headerBytes is the longest header that there is, of an array or a string.
	headerBytes = len("$0123456789\r\n")
)

// look takes into rest what comes next in the input: a whole line or command, and
// behind it as much as tells whether the commit ends there. What is malformed may
// be cut short.
func (s *Scanner) look() error {
	left := s.input.Size() - s.at
	var m measure
	for n := int64(lookBytes); ; {
		rest, err := s.input.Ahead(s.at, min(n, left))
		if err != nil {
			return err
		}
		s.rest = rest
		if int64(len(rest)) >= left || !m.goOn(rest) {
			return nil
		}
		n = int64(m.end + len(execLine))
		if !m.whole {
			n += int64(headerBytes)
		}
		if n <= int64(len(rest)) || int64(m.end) > left {
			return nil
		}
	}
}

// measure finds where a command ends of which only the beginning may be there. It
// goes on where it stood once there is more.
type measure struct {
	begun bool
	args  int // that come after end
	end   int // of what is known of the command
	whole bool
}

// goOn measures what b, which begins with the command, has of it; false if that is
// not a command.
func (m *measure) goOn(b []byte) bool {
	if b[0] == '#' {
		m.end, m.whole = bytes.IndexByte(b, '\n')+1, true
		return m.end > 0
	}
	for !m.whole && m.end <= len(b) {
		kind := byte('$')
		if !m.begun {
			kind = '*'
		}
		n, next, ok := header(b, m.end, kind)
		if !ok {
			return len(b)-m.end < headerBytes
		}
		if m.begun {
			m.args--
			m.end = next + n + len("\r\n")
		} else {
			m.begun, m.args, m.end = true, n, next
		}
		m.whole = m.args <= 0
	}
	return true
}
