package oracle

import "strings"

// aclFamily has the commands about users. The connections stay the default user's: what others may do is what ACL
// DRYRUN says of commands that are whole: where keys cannot be told, redis-server looks for none and lets everybody run
// it. The rules leave at most one command that no category stands for: Redis shows several in the order of a hash table.
var aclFamily = family{
	makers: []maker{
		{"AUTH", 1, func(g *Generator) [][]byte {
			return join("AUTH", g.oneOf("default", "default", "alice", "nosuch", ""), g.oneOf("x", ""), g.maybe(5, "z"))
		}, true, false},
		{"ACL SETUSER", 4, func(g *Generator) [][]byte { return append(cmd("ACL", "SETUSER", g.aclUser()), g.aclRules()...) }, true, false},
		{"ACL GETUSER", 2, func(g *Generator) [][]byte { return join("ACL", "GETUSER", g.aclUser()) }, true, false},
		{"ACL DELUSER", 1, func(g *Generator) [][]byte {
			return join("ACL", "DELUSER", g.times(1, 2, g.aclUser), g.maybe(10, "default"))
		}, true, false},
		{"ACL DRYRUN", 4, func(g *Generator) [][]byte {
			words := g.oneOf("GET a1", "SET b1 v", "MGET a1 c1", "DEL d1", "COPY a1 b1", "PING", "CONFIG GET x", "CONFIG SET x y", "SELECT 1", "NOSUCH", "GET")
			return append(cmd("ACL", "DRYRUN", g.aclUser()), cmd(strings.Fields(words)...)...)
		}, true, false},
		{"ACL LIST", 1, func(*Generator) [][]byte { return cmd("ACL", "LIST") }, true, false},
		{"ACL USERS", 1, func(*Generator) [][]byte { return cmd("ACL", "USERS") }, true, false},
		{"ACL WHOAMI", 1, func(*Generator) [][]byte { return cmd("ACL", "WHOAMI") }, true, false},
		{"ACL CAT", 1, func(g *Generator) [][]byte { return join("ACL", "CAT", g.maybe(20, "nosuch")) }, true, false},
		{"ACL GENPASS", 1, func(g *Generator) [][]byte {
			return join("ACL", "GENPASS", g.maybe(70, g.oneOf("1", "5", "4096", "0", "-1", "4097", "x")))
		}, true, false},
		{"ACL LOG", 1, func(g *Generator) [][]byte {
			return join("ACL", "LOG", g.maybe(80, g.oneOf("RESET", "reset", "0", "-1", "x", "1", "3", "20")))
		}, true, false},
		{"ACL SAVE", 1, func(*Generator) [][]byte { return cmd("ACL", "SAVE") }, true, false},
		{"ACL LOAD", 1, func(*Generator) [][]byte { return cmd("ACL", "LOAD") }, true, false},
	},
	more: []maker{
		{"ACL DRYRUN", 2, func(g *Generator) [][]byte {
			return append(cmd("ACL", "DRYRUN", g.aclUser()), g.someCommand()...)
		}, false, false},
	},
	modes:    map[string]mode{"ACL GENPASS": shape, "ACL LOG": refusals},
	specials: map[string]special{"ACL DRYRUN": {run: dryRun, queued: true}},
	avoid: map[string]func(*Generator, [][]byte) bool{
		"ACL DRYRUN": func(g *Generator, args [][]byte) bool { return len(args) > 3 && avoidInner(g, args[1:]) },
		"ACL CAT":    func(_ *Generator, args [][]byte) bool { return len(args) > 2 && string(args[2]) != "nosuch" },
	},
}

func (g *Generator) aclUser() string { return g.oneOf("alice", "bob", "carol") }

// aclRules begin with what makes a user whose commands do not depend on what was before.
func (g *Generator) aclRules() [][]byte {
	rules := cmd(g.oneOf("+@all", "-@all", "reset", "allcommands", "nocommands"))
	add := func(percent int, words ...string) {
		if g.p(percent) {
			rules = append(rules, cmd(g.oneOf(words...))...)
		}
	}
	add(30, "on", "off", "nopass", "resetpass", "sanitize-payload", "skip-sanitize-payload", "clearselectors")
	add(30, ">a", ">b", "<a", "<b", "#ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb", "#x", "!y")
	add(50, "~*", "~a*", "%R~b*", "%W~c*", "%RW~d?", "resetkeys", "allkeys", "%~x", "~a b", "%RR~x")
	add(40, "&*", "&a*", "&b", "resetchannels", "allchannels", "&a b")
	add(50, "+get", "-get", "+config|get", "-config|set", "+select|1", "+nosuch", "+config|get|x", "-select|1", "+@nosuch")
	add(15, "(+get ~a*)", "(-@all +set %W~b*)", "(+@all ~*)", "(~* ~a)", "(on)", "(&c +publish)", "(~x")
	return rules
}

// dryRun runs ACL DRYRUN. Where keys cannot be told, redis-server looks for none and lets everybody run the command
// that then fails; ours refuses who may not touch every key.
func dryRun(p *Pair, s Step, at int) (*Difference, error) {
	want, got, err := p.exchange([]Step{s})
	if err != nil {
		return nil, err
	}
	diff := p.compare(s, at, want[0], got[0])
	if diff == nil || string(want[0].Text) != "OK" {
		return diff, nil
	}
	var args []string
	for _, a := range s.Args[3:] {
		args = append(args, string(a))
	}
	keys, err := p.oracle.admin.Do(append([]string{"COMMAND", "GETKEYS"}, args...)...)
	if err != nil || keys.IsError("ERR") && strings.Contains(string(keys.Text), "Invalid arguments") {
		return nil, err
	}
	return diff, nil
}
