// Package acl has the commands with which connections log in, and those about
// users.
package acl

import (
	"kevy/internal/acl"
	"kevy/internal/command"
	"kevy/resp"
)

// Session is what these commands need of their session.
type Session interface {
	command.Session
	// User is who the connection is logged in as; nil if there are no users.
	User() *acl.User
	// Authenticate logs the connection in, and reports whether it could. name is in
	// the log of refusals otherwise.
	Authenticate(name, password []byte) bool
}

// Server is what these commands need of the server.
type Server interface {
	Users() *acl.Users
	// SetUser is acl.Users.Set, and ends the connections that hear what they may not
	// hear any more.
	SetUser(name string, rules []string) *resp.Error
	// DeleteUsers removes users, ends their connections, that of c after its reply,
	// and returns how many there were.
	DeleteUsers(c command.Session, names []string) (int, *resp.Error)
	// HasUserFile reports whether there is a file of users.
	HasUserFile() bool
	// LoadUsers replaces the users by those of their file, and ends the connections of
	// those before but for the default one's, that of c after its reply.
	LoadUsers(c command.Session) *resp.Error
	// SaveUsers writes the users to their file.
	SaveUsers() *resp.Error
	// NowMs is the time, in milliseconds since 1970.
	NowMs() int64
}

// Commands returns the family; table returns the commands that rules are about.
func Commands(srv Server, table func() *command.Table) []*command.Spec {
	return []*command.Spec{auth(srv), container(srv, table)}
}

// adminFlags are those of the subcommands about users, plainFlags of those that
// everybody may be given.
const (
	plainFlags = command.NoScript | command.Loading | command.Stale | command.Unlocked
	adminFlags = plainFlags | command.Admin
)

func container(srv Server, table func() *command.Table) *command.Spec {
	return &command.Spec{
		Name: "acl", Arity: -2, Group: "server", Since: "6.0.0",
		Summary: "Commands about users and what they may do.",
		Differences: "Rules are shown with the commands that are here, in the order of their names. A user has bounds, which docs/security.md lists. " +
			"RESTORE looks at every payload in depth, whatever skip-sanitize-payload says.",
		Sub: []*command.Spec{
			cat(table), delUser(srv), dryRun(srv, table), genPass(), getUser(srv), help(), list(srv), load(srv), log(srv), save(srv), setUser(srv),
			users(srv), whoAmI(),
		},
	}
}

func help() *command.Spec {
	return &command.Spec{
		Name: "help", Arity: 2, Flags: command.Loading | command.Stale | command.Unlocked, Since: "6.0.0", Complexity: "O(1)",
		Summary: "Lists the subcommands.",
		Run:     func(c *command.Ctx) { command.Help(c, helpLines) },
	}
}

// The lines are those of redis-server.
var helpLines = []string{
	"CAT [<category>]",
	"    List all commands that belong to <category>, or all command categories",
	"    when no category is specified.",
	"DELUSER <username> [<username> ...]",
	"    Delete a list of users.",
	"DRYRUN <username> <command> [<arg> ...]",
	"    Returns whether the user can execute the given command without executing the command.",
	"GETUSER <username>",
	"    Get the user's details.",
	"GENPASS [<bits>]",
	"    Generate a secure 256-bit user password. The optional `bits` argument can",
	"    be used to specify a different size.",
	"LIST",
	"    Show users details in config file format.",
	"LOAD",
	"    Reload users from the ACL file.",
	"LOG [<count> | RESET]",
	"    Show the ACL log entries.",
	"SAVE",
	"    Save the current config to the ACL file.",
	"SETUSER <username> <attribute> [<attribute> ...]",
	"    Create or modify a user with the specified attributes.",
	"USERS",
	"    List all the registered usernames.",
	"WHOAMI",
	"    Return the current connection username.",
}
