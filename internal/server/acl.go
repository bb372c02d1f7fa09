package server

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"kevy/feed"
	"kevy/internal/acl"
	"kevy/internal/command"
	"kevy/internal/command/connection"
	"kevy/internal/config"
	"kevy/internal/pubsub"
	"kevy/resp"
)

// openUsers makes the users that the settings name, once there is a table.
func (s *Server) openUsers(table *command.Table) error {
	cfg := s.cfg
	s.users = acl.New(table, func() bool { return cfg.ACLPubSubDefault.Load() == config.AllChannels }, cfg.ACLLogMaxLen.Load)
	if password := cfg.RequirePass.Load(); password != "" {
		s.users.SetPassword(password)
	}
	lines := make([]acl.Line, len(cfg.Users()))
	for i, l := range cfg.Users() {
		lines[i] = acl.Line{Origin: l.Origin, Words: l.Words}
	}
	if s.HasUserFile() && len(lines) > 0 {
		return fmt.Errorf("%s: users are defined here and aclfile names a file of users: keep one of the two", lines[0].Origin)
	}
	err := s.users.Define(lines, func(name string) {
		s.log.Info("a user is disabled, as there is no 'on' among its rules", "user", name)
	})
	if err != nil || !s.HasUserFile() {
		return err
	}
	text, refused := s.readUserFile()
	if refused != nil {
		return errors.New(refused.Text)
	}
	_, err = s.users.Load(cfg.ACLFile.Load(), text, nil)
	return err
}

// Users implements the family of users.
func (s *Server) Users() *acl.Users { return s.users }

// HasUser implements connection.Server.
func (s *Server) HasUser(name string) bool { return s.users.Find(name) != nil }

// NowMs implements the family of users.
func (s *Server) NowMs() int64 { return s.store.NowMs() }

// HasUserFile implements the family of users.
func (s *Server) HasUserFile() bool { return s.cfg.ACLFile.Load() != "" }

// SetUser implements the family of users.
func (s *Server) SetUser(name string, rules []string) *resp.Error {
	return s.users.Set(name, rules, s.rightsChanged)
}

// rightsChanged ends the connections of a user that listen to what it may not hear
// any more: channels, and streams of the feed.
func (s *Server) rightsChanged(u *acl.User, before, now *acl.Rights) {
	hearsLess := acl.HearsLess(before, now)
	for _, c := range s.clientsOf(u) {
		if hearsLess && !s.hearsAll(c, now) || !c.readsAll(now) {
			s.Kill(c.id)
		}
	}
}

// clientsOf returns the connections of a user.
func (s *Server) clientsOf(u *acl.User) (of []*client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.clients {
		if c.es.User() == u {
			of = append(of, c)
		}
	}
	return of
}

// hearsAll reports whether the rights allow all channels of a connection.
func (s *Server) hearsAll(c *client, now *acl.Rights) bool {
	r := c.receiver.Load()
	if r == nil {
		return true
	}
	for _, kind := range []pubsub.Kind{pubsub.Channels, pubsub.Patterns, pubsub.Shard} {
		for _, name := range s.hub.Names(r.channels, kind) {
			if !now.HearsChannel([]byte(name), kind == pubsub.Patterns) {
				return false
			}
		}
	}
	return true
}

// readsAll reports whether the rights allow all subscriptions of the connection to
// the feed.
func (c *client) readsAll(now *acl.Rights) bool {
	r := c.receiver.Load()
	if now.Everything() || r == nil || !r.subs.Any() {
		return true
	}
	return r.subs.Every(func(f *feed.Filter) bool {
		reason, _ := now.CheckReads(c.srv.subscribeSpec, subscribeArgs, f.Keys())
		return reason == acl.Allowed
	})
}

// subscribeArgs are the arguments by which a subscription that exists is judged:
// of CHANGES SUBSCRIBE rules can name no first argument.
var subscribeArgs = [][]byte{[]byte("changes"), []byte("subscribe")}

// DeleteUsers implements the family of users.
func (s *Server) DeleteUsers(c command.Session, names []string) (int, *resp.Error) {
	gone, err := s.users.Delete(names)
	s.endClients(c, gone)
	return len(gone), err
}

// endClients ends the connections of users that are gone; that of the session that
// asked ends after its reply.
func (s *Server) endClients(by command.Session, gone []*acl.User) {
	for _, u := range gone {
		for _, c := range s.clientsOf(u) {
			if c.id == by.ID() {
				c.es.Begin(s.users)
				c.HangUp()
				continue
			}
			s.Kill(c.id)
		}
	}
}

// LoadUsers implements the family of users.
func (s *Server) LoadUsers(c command.Session) *resp.Error {
	s.userFile.Lock()
	defer s.userFile.Unlock()
	text, refused := s.readUserFile()
	if refused != nil {
		return refused
	}
	gone, err := s.users.Load(s.cfg.ACLFile.Load(), text, s.rightsChanged)
	if err != nil {
		return resp.Errorf("ERR", "%s", err)
	}
	s.endClients(c, gone)
	return nil
}

func (s *Server) readUserFile() (string, *resp.Error) {
	name := s.cfg.ACLFile.Load()
	fail := func(err error) (string, *resp.Error) {
		var path *os.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		text := err.Error()
		if len(text) > 0 {
			text = strings.ToUpper(text[:1]) + text[1:] // as C's strerror has it
		}
		return "", resp.Errorf("ERR", "Error loading ACLs, opening file '%s': %s", name, text)
	}
	f, err := os.Open(s.cfg.Path(name))
	if err != nil {
		return fail(err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, acl.MaxFileBytes+1))
	switch {
	case err != nil:
		return fail(err)
	case len(text) > acl.MaxFileBytes:
		return fail(fmt.Errorf("it is larger than %d bytes", acl.MaxFileBytes))
	}
	return string(text), nil
}

var errSave = resp.Errorf("ERR", "There was an error trying to save the ACLs. Please check the server logs for more information")

// SaveUsers implements the family of users: a file beside it that takes its place
// whole.
func (s *Server) SaveUsers() *resp.Error {
	s.userFile.Lock()
	defer s.userFile.Unlock()
	name := s.cfg.Path(s.cfg.ACLFile.Load())
	if err := replaceFile(name, s.users.Text()); err != nil {
		s.log.Error("cannot save the users", "file", name, "error", err)
		return errSave
	}
	return nil
}

// replaceFile writes a file that only its owner reads: hashes are in it.
func replaceFile(name, text string) (err error) {
	temp := fmt.Sprintf("%s.tmp-%d-%d", name, os.Getpid(), time.Now().UnixMilli())
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temp)
		}
	}()
	_, err = f.WriteString(text)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(temp, name)
	}
	return err
}

// User implements the Session of the family of users.
func (c *client) User() *acl.User { return c.es.User() }

// Authenticate implements the Session of the families of users and connections.
func (c *client) Authenticate(name, password []byte) bool {
	u := c.srv.users.Authenticate(name, password)
	if u == nil {
		c.es.NoteRefusal(acl.Auth, string(c.es.CommandName()), string(name))
		return false
	}
	c.es.Login(u)
	c.holdToLimits()
	return true
}

// LoggedIn implements connection.Conn.
func (c *client) LoggedIn() bool { return c.es.LoggedIn() }

// ClientInfo describes the connection for the log of refusals.
func (c *client) ClientInfo() string {
	cl := c.Describe()
	return strings.TrimSuffix(cl.Line(), "\n")
}

// KeepOrHangUp implements the Session of the family of channels.
func (c *client) KeepOrHangUp(spec *command.Spec, args [][]byte) {
	if reason, _ := c.es.User().Rights().Check(spec, args); reason != acl.Allowed {
		c.srv.Kill(c.id)
	}
}

// ReadsEveryKey implements what SORT needs of its session.
func (c *client) ReadsEveryKey(spec *command.Spec, args [][]byte) bool {
	return c.es.ReadsEveryKey(spec, args)
}

// MayRead implements the Session of the family of the feed.
func (c *client) MayRead(spec *command.Spec, args [][]byte, f *feed.Filter) *resp.Error {
	u := c.es.User()
	reason, denied := u.Rights().CheckReads(spec, args, f.Keys())
	if reason == acl.Allowed {
		return nil
	}
	c.es.NoteRefusal(reason, refusedObject(spec, denied), u.Name())
	return feedRefusal(reason, spec)
}

// refusedObject is what the log of refusals says of keys that a filter selects.
func refusedObject(spec *command.Spec, denied *feed.Keys) string {
	switch {
	case denied == nil:
		return spec.FullName()
	case denied.Pattern != nil:
		return string(denied.Pattern)
	case denied.Exact:
		return string(denied.Prefix)
	}
	return string(denied.Prefix) + "*"
}

func feedRefusal(reason acl.Reason, spec *command.Spec) *resp.Error {
	if reason == acl.Key {
		return resp.Errorf("NOPERM", "this user has no permissions to read all the keys that the command would show; "+
			"filters must lie within the key patterns that the user may read, as PREFIX p does within ~p*")
	}
	return resp.Errorf("NOPERM", "this user has no permissions to run the '%s' command", spec.FullName())
}

// holdToLimits makes the client be held to the limits of who it is now.
func (c *client) holdToLimits() {
	limits := c.srv.limits.Load()
	if c.es.MustLogIn() {
		limits = &strangerLimits
	}
	if limits != c.limits {
		c.limits = limits
		c.r.SetLimits(*limits)
	}
}

// strangerLimits are those of who must log in first.
var strangerLimits = resp.UnauthenticatedLimits()

var _ connection.Conn = (*client)(nil)
