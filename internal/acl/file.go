package acl

import (
	"fmt"
	"strings"
)

// MaxFileBytes bounds a file of users.
const MaxFileBytes = 64 << 20

// Text returns all users as a file of users has them, one a line.
func (us *Users) Text() string {
	var b strings.Builder
	for _, u := range us.All() {
		b.WriteString(u.Line())
		b.WriteByte('\n')
	}
	return b.String()
}

// Line returns the user as a line of a file, or of ACL LIST.
func (u *User) Line() string { return "user " + u.name + " " + u.Rights().String() }

// Load replaces all users by those of a file's text, or, if anything is wrong
// with it, none. Of those before only the default one stays; the others, which are
// returned, can do nothing any more, and the default one is as if nobody had said
// anything unless the file says otherwise. file is what errors call the file; they
// have Redis's words, all in one line. changed, unless nil, is called as by Set for the
// default one.
func (us *Users) Load(file, text string, changed func(u *User, before, now *Rights)) (gone []*User, err error) {
	loaded := make(map[string]*Rights)
	var faults strings.Builder
	for i, line := range strings.Split(text, "\n") {
		us.loadLine(loaded, &faults, fmt.Sprintf("%s:%d", file, i+1), i+1, line)
	}
	if len(loaded) > MaxUsers {
		fmt.Fprintf(&faults, "%s: there can be at most %d users. ", file, MaxUsers)
	}
	if faults.Len() > 0 {
		return nil, fmt.Errorf("%sWARNING: ACL errors detected, no change to the previously active ACL rules was performed", faults.String())
	}
	deflt := loaded[DefaultName]
	if deflt == nil {
		deflt = us.grammar.unlimited()
	}
	delete(loaded, DefaultName)
	us.mu.Lock()
	defer us.mu.Unlock()
	for name, u := range us.byName {
		if u != us.deflt {
			delete(us.byName, name)
			us.end(u)
			gone = append(gone, u)
		}
	}
	before := us.deflt.become(deflt)
	if changed != nil {
		changed(us.deflt, before, deflt)
	}
	for name, r := range loaded {
		us.byName[name] = us.newUser(name, r)
	}
	return gone, nil
}

// maxFaults is how many bytes of errors a file may cause before no more are told.
const maxFaults = 64 << 10

// loadLine adds the user of a line to loaded, or what is wrong with it to faults.
func (us *Users) loadLine(loaded map[string]*Rights, faults *strings.Builder, origin string, number int, line string) {
	if line = strings.Trim(line, " \t\r\n"); line == "" || faults.Len() > maxFaults {
		return
	}
	words := strings.Split(line, " ")
	if words[0] != "user" || len(words) < 2 {
		fmt.Fprintf(faults, "%s should start with user keyword followed by the username. ", origin)
		return
	}
	name := words[1]
	if CheckName(name) != nil {
		fmt.Fprintf(faults, "'%s: username '%s' contains invalid characters. ", origin, name)
		return
	}
	if loaded[name] != nil {
		fmt.Fprintf(faults, "WARNING: Duplicate user '%s' found on line %d. ", name, number)
		return
	}
	r := us.grammar.fresh()
	loaded[name] = r
	if len(words) > MaxRules {
		fmt.Fprintf(faults, "%s: %s. ", origin, errManyRules.Text)
		return
	}
	rules, err := merge(words[2:])
	if err != nil {
		fmt.Fprintf(faults, "%s: Unmatched parenthesis in selector definition.", origin)
		return
	}
	told := false
	for _, rule := range rules {
		rule = strings.Trim(rule, "\t\r\n")
		switch err := r.apply(us.grammar, rule); {
		case err == nil:
		case err == errUnknown:
			fmt.Fprintf(faults, "%s: Error in applying operation '%s': %s. ", origin, cText(rule), err)
		case !told:
			// What follows may be wrong for this reason only. The rule may hold a password.
			fmt.Fprintf(faults, "%s: %s. ", origin, err)
			told = true
		}
	}
	r.seal()
}
