package lualib

// Levels of redis.log.
const (
	LogDebug   = 0
	LogVerbose = 1
	LogNotice  = 2
	LogWarning = 3
)

// Host is what a running script reaches outside its state. The goroutine that
// runs the script calls it.
type Host interface {
	// Call runs a command; args has at least its name. It returns the one reply
	// as it stands on the wire in protocol version proto (2 or 3), an error as a
	// line that begins with '-'. The reply is valid until the next call.
	//
	// The arguments are read while Call runs only.
	Call(args [][]byte, proto int) (reply []byte)
	// Log takes a line for the server's log. level is one of the Log constants.
	Log(level int, text string)
	// Permitted reports whether the user that runs the script may run a command.
	// known is false if there is no such command; how many arguments it has is not asked.
	Permitted(args [][]byte) (allowed, known bool)
	// Tick is asked again and again while a script runs, every TickInstructions
	// instructions and by what takes long within one. An error ends the script,
	// whatever it protects itself with, and is what the client gets: its code and text.
	Tick() error
}
