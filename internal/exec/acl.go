package exec

import (
	"kevy/internal/acl"
	"kevy/internal/command"
	"kevy/resp"
)

// identity is who a session acts for. Without a user nobody is asked.
type identity struct {
	user     *acl.User
	loggedIn bool // with a password, or because none was needed when it began
}

// User returns who the session acts for, nil if there are no users. Any goroutine
// may ask.
func (s *Session) User() *acl.User {
	if id := s.identity.Load(); id != nil {
		return id.user
	}
	return nil
}

// Begin makes the session the default user's, who need not log in if that is so
// now.
func (s *Session) Begin(users *acl.Users) {
	s.identity.Store(&identity{users.Default(), users.Open()})
}

// Login makes the session a user's, who has shown a password if one was needed.
func (s *Session) Login(u *acl.User) { s.identity.Store(&identity{u, true}) }

// LoggedIn reports whether the session has logged in, or had no need to when it
// began.
func (s *Session) LoggedIn() bool {
	id := s.identity.Load()
	return id == nil || id.loggedIn
}

// MustLogIn reports whether the session may do nothing before it logs in.
func (s *Session) MustLogIn() bool {
	id := s.identity.Load()
	return id != nil && !id.loggedIn && !id.user.Users().Open()
}

var errNoAuth = resp.Errorf("NOAUTH", "Authentication required.")

// RefuseUnauthenticated holds a session that must log in to the commands that do
// that.
func RefuseUnauthenticated(s *Session, spec *command.Spec, _ [][]byte) *resp.Error {
	if spec.Flags&command.NoAuth == 0 && s.MustLogIn() {
		return errNoAuth
	}
	return nil
}

// RefuseForbidden holds a session to what its user may do. As in Redis the text
// depends on what the command is part of.
func RefuseForbidden(s *Session, spec *command.Spec, args [][]byte) *resp.Error {
	id := s.identity.Load()
	if id == nil {
		return nil
	}
	rights := id.user.Rights()
	if rights.Everything() {
		return nil
	}
	reason, arg := rights.Check(spec, args)
	if reason == acl.Allowed {
		return nil
	}
	object := spec.FullName()
	if reason != acl.Command {
		object = string(args[arg])
	}
	s.NoteRefusal(reason, object, id.user.Name())
	return forbidden(s.Context(), reason, spec)
}

func forbidden(context Context, reason acl.Reason, spec *command.Spec) *resp.Error {
	switch context {
	case InExec:
		why := map[acl.Reason]string{
			acl.Command: "no permission to execute the command or subcommand",
			acl.Key:     "no permission to touch the specified keys",
			acl.Channel: "no permission to access one of the channels used as arguments",
		}[reason]
		return resp.Errorf("NOPERM", "ACLs rules changed between the moment the transaction was accumulated and the EXEC call. "+
			"This command is no longer allowed for the following reason: %s", why)
	case InScript:
		why := map[acl.Reason]string{
			acl.Command: "can't run this command or subcommand",
			acl.Key:     "can't access at least one of the keys mentioned in the command arguments",
			acl.Channel: "can't publish to the channel mentioned in the command",
		}[reason]
		return resp.Errorf("ERR", "The user executing the script %s", why)
	}
	switch reason {
	case acl.Key:
		return resp.Errorf("NOPERM", "this user has no permissions to access one of the keys used as arguments")
	case acl.Channel:
		return resp.Errorf("NOPERM", "this user has no permissions to access one of the channels used as arguments")
	}
	return resp.Errorf("NOPERM", "this user has no permissions to run the '%s' command", spec.FullName())
}

// describer is what a session's connection offers for ACL LOG.
type describer interface{ ClientInfo() string }

// NoteRefusal puts a refusal into the log of the users that the session's is
// among.
func (s *Session) NoteRefusal(reason acl.Reason, object, username string) {
	id := s.identity.Load()
	if id == nil {
		return
	}
	e := acl.Entry{Reason: reason, Context: "toplevel", Object: object, Username: username, UnixMs: s.x.store.NowMs()}
	switch s.Context() {
	case Queueing, InExec:
		e.Context = "multi"
	case InScript:
		e.Context = "lua"
	}
	if d, ok := s.self.(describer); ok {
		e.Client = d.ClientInfo()
	}
	id.user.Users().Note(e)
}

// Permitted reports whether the session's user may run a command line, as
// redis.acl_check_cmd asks; known is false if there is no such command.
func (s *Session) Permitted(args [][]byte) (permitted, known bool) {
	spec := s.x.table.Lookup(args)
	if spec == nil || len(spec.Sub) > 0 && len(args) > 1 {
		return false, false
	}
	id := s.identity.Load()
	if id == nil {
		return true, true
	}
	reason, _ := id.user.Rights().Check(spec, args)
	return reason == acl.Allowed, true
}

// ReadsEveryKey reports whether the session's user may run a command and read any
// key, also those that no argument names.
func (s *Session) ReadsEveryKey(spec *command.Spec, args [][]byte) bool {
	id := s.identity.Load()
	return id == nil || id.user.Rights().ReadsEveryKey(spec, args)
}
