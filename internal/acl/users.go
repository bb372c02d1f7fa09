package acl

import (
	"cmp"
	"crypto/subtle"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"kevy/internal/command"
	"kevy/resp"
)

// DefaultName is the user that a connection is until it logs in as another.
const DefaultName = "default"

// User is an account. It stays the same while its rights change.
type User struct {
	name   string
	users  *Users
	rights atomic.Pointer[Rights]
}

// Name returns the user's name.
func (u *User) Name() string { return u.name }

// Rights returns what the user may do now.
func (u *User) Rights() *Rights { return u.rights.Load() }

// Users returns the users that this one is among.
func (u *User) Users() *Users { return u.users }

// Users are those of a server. It is safe for use by many goroutines.
type Users struct {
	grammar *grammar
	deflt   *User // never removed
	log     Log
	logLen  func() int64

	mu     sync.RWMutex
	byName map[string]*User // guarded by mu
}

// New returns the users of a server of which nobody has said anything: the
// default one, who needs no password and may do everything. allChannels says
// whether a new user, or selector, hears all channels, and logLen how many refusals
// are kept; both are asked each time.
func New(table *command.Table, allChannels func() bool, logLen func() int64) *Users {
	u := &Users{grammar: &grammar{table: table, allChannels: allChannels}, logLen: logLen, byName: make(map[string]*User)}
	u.deflt = u.newUser(DefaultName, u.grammar.unlimited())
	u.byName[DefaultName] = u.deflt
	return u
}

// unlimited returns the rights of the default user unless somebody says otherwise.
func (g *grammar) unlimited() *Rights {
	r := g.fresh()
	for _, rule := range []string{"+@all", "~*", "on", "nopass"} {
		if err := r.apply(g, rule); err != nil {
			panic(err)
		}
	}
	r.selectors[0].allChannels = true
	return r.seal()
}

func (us *Users) newUser(name string, r *Rights) *User {
	u := &User{name: name, users: us}
	u.rights.Store(r)
	return u
}

// Default returns the default user.
func (us *Users) Default() *User { return us.deflt }

// Log returns what was refused.
func (us *Users) Log() *Log { return &us.log }

// Note adds a refusal to the log.
func (us *Users) Note(e Entry) { us.log.Add(e, us.logLen()) }

// Open reports whether a connection need not log in.
func (us *Users) Open() bool { return us.deflt.Rights().open() }

// NeedsPassword reports whether the default user must log in with a password:
// where that is not so, protected mode keeps strangers out.
func (us *Users) NeedsPassword() bool { return !us.deflt.Rights().nopass }

// Find returns the user with that name, nil if there is none.
func (us *Users) Find(name string) *User {
	us.mu.RLock()
	defer us.mu.RUnlock()
	return us.byName[name]
}

// All returns the users in the order of their names.
func (us *Users) All() []*User {
	us.mu.RLock()
	all := slices.Collect(maps.Values(us.byName))
	us.mu.RUnlock()
	slices.SortFunc(all, func(a, b *User) int { return cmp.Compare(a.name, b.name) })
	return all
}

// absent is compared with where there is no hash to compare with.
var absent = hashOf("")

// Authenticate returns the user with that name if the password is right and the
// user is not disabled, else nil. How long it takes says nothing about the
// passwords.
func (us *Users) Authenticate(name, password []byte) *User {
	u := us.Find(string(name))
	hash := []byte(hashOf(string(password)))
	if u == nil {
		subtle.ConstantTimeCompare(hash, []byte(absent))
		return nil
	}
	r := u.Rights()
	right := 0
	for _, have := range r.passwords {
		right |= subtle.ConstantTimeCompare(hash, []byte(have))
	}
	if r.disabled || right == 0 && !r.nopass {
		return nil
	}
	return u
}

var (
	errName      = resp.Errorf("ERR", "Usernames can't contain spaces or null characters")
	errLongName  = resp.Errorf("ERR", "Usernames have at most %d bytes", MaxNameBytes)
	errManyUsers = resp.Errorf("ERR", "There can be at most %d users", MaxUsers)
	errManyRules = resp.Errorf("ERR", "A user can be given at most %d rules at once", MaxRules)
)

// CheckName returns what is wrong with the name of a user.
func CheckName(name string) *resp.Error {
	switch {
	case hasSpaces(name):
		return errName
	case len(name) > MaxNameBytes:
		return errLongName
	}
	return nil
}

// Set gives a user rules, beginning with what it has, and makes it if it does not
// exist. All rules take effect, or none. changed, unless nil, is called before the
// new rights of a user that exists are in effect for whoever asks later than its
// return; it must not call back.
func (us *Users) Set(name string, rules []string, changed func(u *User, before, now *Rights)) *resp.Error {
	if err := CheckName(name); err != nil {
		return err
	}
	if len(rules) > MaxRules {
		return errManyRules
	}
	merged, err := merge(rules)
	if err != nil {
		return resp.Errorf("ERR", "%s", err)
	}
	us.mu.Lock()
	defer us.mu.Unlock()
	u := us.byName[name]
	before := us.grammar.fresh()
	if u != nil {
		before = u.Rights()
	}
	now, rule, err := before.with(merged)
	if err != nil {
		return resp.Errorf("ERR", "Error in ACL SETUSER modifier '%s': %s", cText(rule), err)
	}
	if u == nil {
		if len(us.byName) == MaxUsers {
			return errManyUsers
		}
		us.byName[name] = us.newUser(name, now)
		return nil
	}
	u.become(now)
	if changed != nil {
		changed(u, before, now)
	}
	return nil
}

// become gives the user other rights and returns those before.
func (u *User) become(now *Rights) (before *Rights) {
	before = u.rights.Swap(now)
	close(before.superseded)
	return before
}

// HearsLess reports whether subscriptions to channels that before allowed can be
// forbidden now.
func HearsLess(before, now *Rights) bool { return now.hearsLess(before) }

// SetPassword gives the default user a password, and no other one; empty means
// that it needs none. That is what the setting requirepass does.
func (us *Users) SetPassword(password string) {
	rules := []string{"resetpass", "nopass"}
	if password != "" {
		rules[1] = ">" + password
	}
	us.mu.Lock()
	defer us.mu.Unlock()
	now, _, err := us.deflt.Rights().with(rules)
	if err != nil {
		panic(err) // no rule of these can fail
	}
	us.deflt.become(now)
}

// errDefault is what DELUSER answers for the one who must stay.
var errDefault = resp.Errorf("ERR", "The 'default' user cannot be removed")

// Delete removes users and returns those that there were. They can do nothing any
// more, on whatever connection.
func (us *Users) Delete(names []string) ([]*User, *resp.Error) {
	if slices.Contains(names, DefaultName) {
		return nil, errDefault
	}
	us.mu.Lock()
	defer us.mu.Unlock()
	var gone []*User
	for _, name := range names {
		if u := us.byName[name]; u != nil {
			delete(us.byName, name)
			us.end(u)
			gone = append(gone, u)
		}
	}
	return gone, nil
}

// end takes all rights of a user that is removed.
func (us *Users) end(u *User) { u.become(us.grammar.emptyRights()) }

// emptyRights are those of nobody.
func (g *grammar) emptyRights() *Rights {
	return (&Rights{grammar: g, disabled: true, selectors: []*selector{g.emptySelector()}}).seal()
}

// Line is the definition of a user in a configuration or a file of users.
type Line struct {
	Origin string // where it stands, for errors
	Words  []string
}

// Define makes the users of a configuration, before anybody is served. disabled
// is called with each that nobody can log in as.
func (us *Users) Define(lines []Line, disabled func(name string)) error {
	seen := make(map[string]bool)
	for _, line := range lines {
		if len(line.Words) == 0 {
			return fmt.Errorf("%s: user takes a name and rules", line.Origin)
		}
		name := line.Words[0]
		if err := CheckName(name); err != nil {
			return fmt.Errorf("%s: %s", line.Origin, err.Text)
		}
		if seen[name] {
			return fmt.Errorf("%s: Error in user declaration '%s': Duplicate user found. A user can only be defined once in config files", line.Origin, name)
		}
		seen[name] = true
		rules := line.Words[1:]
		if name == DefaultName {
			rules = append([]string{"reset"}, rules...)
		}
		if err := us.Set(name, rules, nil); err != nil {
			return fmt.Errorf("%s: user %s: %s", line.Origin, name, err.Text)
		}
		if us.Find(name).Rights().disabled {
			disabled(name)
		}
	}
	return nil
}
