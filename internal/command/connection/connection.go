// Package connection has the commands that concern the connection they come
// from, and the list of all of them.
package connection

import (
	"time"

	"kevy/internal/command"
	"kevy/resp"
)

// Conn is what these commands need of their session.
type Conn interface {
	command.Session
	// Select changes the database; db is within DBs.
	Select(db int)
	// DBs is the number of databases.
	DBs() int
	// Name is the connection's name, empty if it has none.
	Name() string
	SetName(name string)
	// SetLib notes the name and the version of the client library.
	SetLib(attribute LibAttribute, value string)
	// Describe shows the connection itself, as of now.
	Describe() Client
	// Reset puts the connection into the state of a new one.
	Reset()
	// Authenticate logs the connection in and reports whether it could; LoggedIn,
	// whether it has, or need not when it began.
	Authenticate(name, password []byte) bool
	LoggedIn() bool
	// Reply says whether replies are sent, from now on.
	Reply(mode ReplyMode)
	// SetNoEvict and SetNoTouch are CLIENT NO-EVICT and NO-TOUCH.
	SetNoEvict(on bool)
	SetNoTouch(on bool)
	// Tracking is what CLIENT TRACKING has made of the connection; Track begins or
	// changes it, and Untrack ends it. AskCaching is CLIENT CACHING.
	Tracking() TrackingInfo
	Track(o TrackingOptions)
	Untrack()
	AskCaching()
	// HangUp ends the connection after the replies so far.
	HangUp()
}

// LibAttribute is what CLIENT SETINFO tells of a client library.
type LibAttribute int

// The attributes of a client library.
const (
	LibName LibAttribute = iota
	LibVersion
)

// Server is what these commands need of the server.
type Server interface {
	// Version is the Redis version that clients are told.
	Version() string
	// Clients returns every connection in the order of their ids, as of when
	// each last waited for input.
	Clients() []Client
	// HasUser reports whether there is a user with that name.
	HasUser(name string) bool
	// HasClient reports whether there is a connection with that id.
	HasClient(id uint64) bool
	// Kill ends another connection and reports whether there was one.
	Kill(id uint64) bool
	// Unblock ends the wait of a connection's command, as its timeout would or
	// with an error, and reports whether it waited.
	Unblock(id uint64, withError bool) bool
	// Pause keeps commands of all connections waiting, Unpause ends that.
	Pause(mode PauseMode, d time.Duration)
	Unpause()
}

// Commands returns the family.
func Commands(srv Server) []*command.Spec {
	return []*command.Spec{ping(), echo(), selectDB(), quit(), reset(), hello(srv), client(srv)}
}

func conn(c *command.Ctx) Conn { return c.Session.(Conn) }

var errBadName = &resp.Error{Code: "ERR", Text: "Client names cannot contain spaces, newlines or special characters."}

// printable reports whether a text can stand in a line of CLIENT LIST.
func printable(text []byte) bool {
	for _, c := range text {
		if c < '!' || c > '~' {
			return false
		}
	}
	return true
}
