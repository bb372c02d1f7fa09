package server

import (
	"fmt"
	"strings"
	"testing"
)

// TestSecretsStayHidden: no password and no user's rules get into SLOWLOG, MONITOR, the
// figures or the log, whether the command works or fails.
func TestSecretsStayHidden(t *testing.T) {
	const secret = "hush"
	in := start(t)
	c, m := in.conn(), in.conn()
	c.expect("CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 1000", "+OK")
	m.expect("MONITOR", "+OK")
	commands := []struct {
		line  string
		shown string // as SLOWLOG has it
	}{
		{"AUTH hush-1", "AUTH (redacted)"},
		{"AUTH hush-user hush-2", "AUTH (redacted) (redacted)"},
		{"AUTH a hush-3 b", "AUTH (redacted) (redacted) (redacted)"},
		{"HELLO 2 AUTH hush-user hush-4", "HELLO 2 AUTH (redacted) (redacted)"},
		{"HELLO 3 SETNAME me AUTH hush-user hush-5", "HELLO 3 SETNAME me AUTH (redacted) (redacted)"},
		{"HELLO 2 auth hush-6", "HELLO 2 auth (redacted)"},
		{"ACL SETUSER hush-user on >hush-7 ~hush-keys +@all", "ACL SETUSER (redacted) (redacted) (redacted) (redacted) (redacted)"},
		{"ACL SETUSER hush-user bogus-hush-8", "ACL SETUSER (redacted) (redacted)"},
		{"AUTH hush-user hush-7", "AUTH (redacted) (redacted)"},
		{"HELLO 2 AUTH hush-user hush-7", "HELLO 2 AUTH (redacted) (redacted)"},
		{"ACL GETUSER hush-user", "ACL GETUSER (redacted)"},
		{"CONFIG SET requirepass hush-9 masterauth hush-10 timeout 0", "CONFIG SET requirepass (redacted) masterauth (redacted) timeout 0"},
		{"CONFIG SET TLS-Key-File-Pass hush-11", "CONFIG SET TLS-Key-File-Pass (redacted)"},
		{"CONFIG SET requirepass hush-12 nosuch x", "CONFIG SET requirepass (redacted) nosuch x"},
		{"AUTH default hush-9", "AUTH (redacted) (redacted)"},
		{"ACL DELUSER hush-user hush-user2", "ACL DELUSER (redacted) (redacted)"},
	}
	for _, one := range commands {
		c.do("SLOWLOG RESET")
		c.do(one.line)
		found := false
		for _, entry := range c.do("SLOWLOG GET -1").Elems {
			var words []string
			for _, w := range entry.Elems[3].Elems {
				words = append(words, string(w.Text))
			}
			shown := strings.Join(words, " ")
			if strings.Contains(shown, secret) {
				t.Errorf("SLOWLOG shows %s as %s", one.line, shown)
			}
			found = found || shown == one.shown
		}
		if !found {
			t.Errorf("SLOWLOG has no %s", one.shown)
		}
	}
	for _, command := range []string{"INFO everything", "CLIENT LIST", "LATENCY HISTOGRAM"} {
		if reply := fmt.Sprintf("%q", c.do(command)); strings.Contains(reply, secret) {
			t.Errorf("%s shows a secret: %s", command, reply)
		}
	}
	c.do("ECHO end")
	lines := 0
	for line := ""; !strings.HasSuffix(line, `"ECHO" "end"`); lines++ {
		if line = m.line(); strings.Contains(line, secret) {
			t.Errorf("MONITOR shows %s", line)
		}
	}
	if lines < 10 {
		t.Errorf("MONITOR has shown %d lines", lines)
	}
	if log := in.log.String(); strings.Contains(log, secret) {
		t.Errorf("the log has a secret:\n%s", log)
	}
}
