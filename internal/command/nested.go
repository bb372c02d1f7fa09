package command

// Nested runs commands on behalf of another one, which holds every shard: a
// script. Its methods are called by the goroutine of that one.
type Nested interface {
	// Call runs a command and returns its one reply as it stands on the wire in
	// protocol version proto. The reply is valid until the next call; args are read
	// until Call returns. What Redis does not let a script do is answered with its
	// error, as is a command that does not exist.
	Call(args [][]byte, proto int) (reply []byte)
	// Permitted reports whether the session's user may run a command; known is
	// false if there is none. How many arguments it has is not asked.
	Permitted(args [][]byte) (allowed, known bool)
	// Tick says why the script has to end, nil if it may go on. It is to be called
	// every few thousand instructions.
	Tick() error
	// Counted says that the reply is an error of a call, which is counted already.
	Counted(is bool)
	// End ends the calls. What they did is committed with the command that they
	// were part of, and its Ctx is again what it was.
	End()
}

// NestedOptions say what a script may do.
type NestedOptions struct {
	// Name is what a log line and FUNCTION STATS say of it: its SHA1, or the name of
	// a function.
	Name string
	// Function says that it is one: FUNCTION KILL ends it, not SCRIPT KILL.
	Function bool
	// ReadOnly refuses commands that write.
	ReadOnly bool
	// AllowOOM lets commands run that need memory when there is none.
	AllowOOM bool
}
