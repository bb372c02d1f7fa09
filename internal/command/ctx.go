package command

import (
	"kevy/resp"
	"kevy/shard"
)

// Ctx is one run of a command. It belongs to the session; a handler keeps
// nothing of it.
type Ctx struct {
	Spec *Spec
	// Args are the arguments, the name included. They are valid and read-only
	// while the handler runs.
	Args [][]byte
	// Tx reads and changes the keys that the Spec names; nil for a command that
	// runs Unlocked.
	Tx *shard.Tx
	// W takes the reply.
	W *resp.Writer
	// Session is the connection that the command came from. A family that needs
	// more of it than the data families do declares an interface and asserts it.
	Session Session
	// ErrorCounted says that the reply is an error that has been counted among the
	// errors already, as that of a command which a script called.
	ErrorCounted bool
	// Scripted says that a script has called the command.
	Scripted bool

	wait   Wait // of Block
	blocks bool // it was called
}

// Session is what every command may know of its connection.
type Session interface {
	// ID is the number that CLIENT ID answers.
	ID() uint64
	// DB is the selected database.
	DB() int
}

// Key returns argument i, by convention a key.
func (c *Ctx) Key(i int) []byte { return c.Args[i] }

// Replies that many handlers give.
var (
	ErrSyntax      = &resp.Error{Code: "ERR", Text: "syntax error"}
	ErrNotInt      = &resp.Error{Code: "ERR", Text: "value is not an integer or out of range"}
	ErrNotFloat    = &resp.Error{Code: "ERR", Text: "value is not a valid float"}
	ErrNoSuchKey   = &resp.Error{Code: "ERR", Text: "no such key"}
	ErrOutOfRange  = &resp.Error{Code: "ERR", Text: "index out of range"}
	ErrNotPositive = &resp.Error{Code: "ERR", Text: "value is out of range, must be positive"}
	ErrNumKeys     = &resp.Error{Code: "ERR", Text: "numkeys should be greater than 0"}
	ErrTooLong     = &resp.Error{Code: "ERR", Text: "string exceeds maximum allowed size (proto-max-bulk-len)"}
	ErrWrongType   = shard.ErrWrongType
)

// ArityError returns the error for a wrong number of arguments.
func (s *Spec) ArityError() *resp.Error {
	return resp.Errorf("ERR", "wrong number of arguments for '%s' command", s.FullName())
}

// InvalidExpire returns the error for an expiry that is no time.
func (s *Spec) InvalidExpire() *resp.Error {
	return resp.Errorf("ERR", "invalid expire time in '%s' command", s.FullName())
}
