// Package oracle runs random commands on two servers at once, redis-server 7.0.15 and the one under test,
// and compares every reply and, again and again, the whole keyspace. A difference is reduced to a short
// list of commands and printed as a script.
package oracle

import (
	"fmt"
	"strings"

	"kevy/tests/wire"
)

// Step is one command on one of the connections.
type Step struct {
	Conn int
	Args [][]byte
	// PauseMs is how long to wait after the reply, for expiries that must have passed on both sides.
	PauseMs int
}

func cmd(args ...string) [][]byte {
	out := make([][]byte, len(args))
	for i, a := range args {
		out[i] = []byte(a)
	}
	return out
}

// containers are the commands that are named together with their subcommand.
var containers = map[string]bool{
	"OBJECT": true, "CLIENT": true, "CONFIG": true, "COMMAND": true, "MEMORY": true, "CLUSTER": true, "MODULE": true, "DEBUG": true,
	"XGROUP": true, "XINFO": true, "SLOWLOG": true, "LATENCY": true, "SCRIPT": true, "FUNCTION": true, "ACL": true, "PUBSUB": true, "CHANGES": true,
}

// name is the command's name in upper case, with the subcommand of a container.
func name(args [][]byte) string {
	n := strings.ToUpper(string(args[0]))
	if containers[n] && len(args) > 1 {
		return n + " " + strings.ToUpper(string(args[1]))
	}
	return n
}

// MayWait reports whether the command may keep its client waiting.
func (s Step) MayWait() bool {
	switch name(s.Args) {
	case "BLPOP", "BRPOP", "BLMOVE", "BRPOPLPUSH", "BLMPOP", "BZPOPMIN", "BZPOPMAX", "BZMPOP":
		return true
	case "XREAD", "XREADGROUP":
		return argBehind(s.Args, "BLOCK") != ""
	}
	return false
}

// String is the step as a line of a script.
func (s Step) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "C%d>", s.Conn+1)
	for _, a := range s.Args {
		b.WriteByte(' ')
		if rep, ok := repeated(a); ok {
			b.WriteString(rep)
			continue
		}
		b.WriteString(wire.Quote(a))
	}
	if s.PauseMs > 0 {
		fmt.Fprintf(&b, "\nsleep %d", s.PauseMs)
	}
	return b.String()
}

// repeated writes a long argument of one repeated character as @REP.
func repeated(a []byte) (string, bool) {
	if len(a) < 20 || a[0] <= ' ' || a[0] > 126 || a[0] == ':' {
		return "", false
	}
	for _, c := range a {
		if c != a[0] {
			return "", false
		}
	}
	return fmt.Sprintf("@REP:%c:%d", a[0], len(a)), true
}
