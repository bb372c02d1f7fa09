package oracle

import (
	"slices"
	"strings"
	"testing"

	"kevy/internal/server"
)

// notGenerated are the commands that a Generator does not make, and why.
var notGenerated = map[string]string{
	"SHUTDOWN":            "ends the server",
	"QUIT":                "ends the connection whose replies are compared",
	"BGREWRITEAOF":        "runs after each round, and what it wrote is loaded",
	"SAVE":                "takes long where a rewrite of the log runs, which redis-server refuses it then",
	"BGSAVE":              "as SAVE",
	"MIGRATE":             "needs a third server; the script beside it has what goes without",
	"PFSELFTEST":          "takes no argument, and seconds on redis-server",
	"SUBSCRIBE":           "its messages come between the replies that are compared; the scripts beside it run on both servers",
	"MONITOR":             "its lines come between the replies that are compared",
	"PSUBSCRIBE":          "as SUBSCRIBE",
	"SSUBSCRIBE":          "as SUBSCRIBE",
	"CLIENT NO-TOUCH":     "redis-server 7.0 has none",
	"COMMAND":             "describes all commands, and each server has others",
	"CLIENT TRACKING":     "its messages come between the replies that are compared: TestTrackers compares both",
	"CLIENT CACHING":      "as CLIENT TRACKING",
	"CLIENT TRACKINGINFO": "as CLIENT TRACKING",
	"CLIENT GETREDIR":     "as CLIENT TRACKING",
}

// notGeneratedPrefixes are those of families, or HELP texts, of which the same is true of all.
var notGeneratedPrefixes = map[string]string{
	"CLUSTER ": "all answer one error: there is no cluster",
	"CHANGES ": "Redis has no change feed; each round reads ALL of it",
	"FEED.":    "Redis has no change feed",
}

// TestGeneratesEveryCommand: what the server has is generated, or named above.
func TestGeneratesEveryCommand(t *testing.T) {
	made := Names(true)
	checked, used := 0, map[string]bool{}
	for _, s := range server.Commands().All() {
		specs := s.Sub
		if len(specs) == 0 {
			specs = append(specs, s)
		}
		for _, one := range specs {
			n := strings.ToUpper(strings.ReplaceAll(one.FullName(), "|", " "))
			excused := notGenerated[n] != ""
			for prefix := range notGeneratedPrefixes {
				if strings.HasPrefix(n, prefix) {
					excused, used[prefix] = true, true
				}
			}
			// Their texts name the subcommands that a server has.
			excused = excused || strings.HasSuffix(n, " HELP") && n != "COMMAND HELP"
			// A command without subcommands of its own may still be made by its first word.
			generated := slices.ContainsFunc(made, func(m string) bool { return m == n || len(s.Sub) == 0 && strings.HasPrefix(m, n+" ") })
			switch {
			case generated && excused:
				t.Errorf("%s is generated, and excused for not being so", n)
			case !generated && !excused:
				t.Errorf("%s is not generated", n)
			}
			used[n] = true
			checked++
		}
	}
	for _, list := range []map[string]string{notGenerated, notGeneratedPrefixes} {
		for n := range list {
			if !used[n] && n != "COMMAND" {
				t.Errorf("the server has no %s", n)
			}
		}
	}
	if checked < 200 {
		t.Errorf("%d commands were looked at", checked)
	}
}
