package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestConfigRewrite: a server that starts with the file that CONFIG REWRITE has written
// has the settings and the users of the one that wrote it.
func TestConfigRewrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kevy.conf")
	if err := os.WriteFile(file, []byte("# mine\ntimeout 5\nuser gone on nopass +@all\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	in := startFile(t, file)
	c := in.conn()
	c.expect("ACL DELUSER gone", ":1")
	c.expect(`CONFIG SET timeout 7 maxmemory 3mb`, "+OK")
	c.expect(`ACL SETUSER bob on >pw ~a"b* %R~c* &ch* +get (+set ~s*)`, "+OK")
	users := c.do("ACL LIST").Strings()
	c.expect("CONFIG SET requirepass hush", "+OK")
	c.expect("CONFIG REWRITE", "+OK")
	if !strings.Contains(in.log.String(), "the configuration file was rewritten") {
		t.Error("the log says nothing")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(text), "# mine\ntimeout 7\nuser bob on ") || strings.Contains(string(text), "gone") || strings.Count(string(text), "\nuser ") != 2 {
		t.Errorf("the file is\n%s", text)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode: %v, %v", info, err)
	}

	c = startFile(t, file).conn()
	c.expect("PING", "-NOAUTH Authentication required.")
	c.expect("AUTH hush", "+OK")
	for name, want := range map[string]string{"timeout": "7", "maxmemory": "3145728", "requirepass": "hush"} {
		if got := c.do("CONFIG GET " + name).Strings(); len(got) != 2 || got[1] != want {
			t.Errorf("%s is %q", name, got)
		}
	}
	if got := c.do("ACL LIST").Strings(); len(got) != 2 || got[0] != users[0] {
		t.Errorf("users were %q and are %q", users, got)
	}
}

// TestConfigRewriteWithUserFile: users that have a file of their own do not get into
// the file of settings.
func TestConfigRewriteWithUserFile(t *testing.T) {
	dir := t.TempDir()
	file, users := filepath.Join(dir, "kevy.conf"), filepath.Join(dir, "users.acl")
	if err := os.WriteFile(users, []byte("user bob on nopass +@all\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("aclfile "+users+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := startFile(t, file).conn()
	c.expect("CONFIG REWRITE", "+OK")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "\nuser ") || !strings.HasPrefix(string(text), `aclfile "`+users+`"`+"\n") {
		t.Errorf("the file is\n%s", text)
	}
}
