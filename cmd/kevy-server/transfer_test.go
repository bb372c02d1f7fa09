package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kevy/internal/transfer"
)

// a file of version 9: two strings, one of which has expired and one expires in
// 2050, a library without a function and a value of a module.
const (
	rdbHead     = "REDIS0009\xfa\x09redis-ver\x056.2.6\xfe\x00"
	rdbKeys     = "\x00\x01a\x01x\xfd\x01\x00\x00\x00\x00\x01b\x01y\xfc\x00\xa0\xe9\x6b\x4c\x02\x00\x00\x00\x01c\x01z"
	rdbFunction = "\xf5\x17#!lua name=lib\nreturn 1"
	rdbModule   = "\x07\x01m\x81\x4d\x22\x42\x52\x8f\x09\x04\x03\x05\x02hi\x00"
	rdbEnd      = "\xff\x00\x00\x00\x00\x00\x00\x00\x00"
)

// kevyServer runs the program with arguments.
func kevyServer(args ...string) (stdout, stderr string, err error) {
	var out, errOut bytes.Buffer
	root := newRoot(nil, &out, &errOut)
	root.SetArgs(withSubcommand(root, args))
	err = root.Execute()
	return out.String(), errOut.String(), err
}

func TestImportAndExport(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "dump.rdb")
	write := func(parts ...string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(strings.Join(parts, "")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(rdbHead, rdbKeys, rdbEnd)
	store := filepath.Join(dir, "store")
	out, stderr, err := kevyServer("import", file, "--dir", store)
	if err != nil {
		t.Fatal(err, stderr)
	}
	for _, want := range []string{"imported 2 keys, 1 key with an expiry, from " + file, "RDB version 9 by redis 6.2.6", "into " + store, "passed over: 1 key that had expired\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if stderr != "" {
		t.Errorf("a bar, though there is no terminal: %q", stderr)
	}

	exported := filepath.Join(dir, "out.rdb")
	out, _, err = kevyServer("export", exported, "--dir", store)
	if err != nil || !strings.Contains(out, "exported 2 keys, 1 key with an expiry, from "+store+" to "+exported) {
		t.Errorf("%v\n%s", err, out)
	}
	out, _, err = kevyServer("export", exported, "--dir", store, "--json")
	var ex transfer.ExportReport
	if err != nil || json.Unmarshal([]byte(out), &ex) != nil || ex.Keys != 2 || ex.RDBVersion != 10 {
		t.Errorf("%v\n%s", err, out)
	}
	_, _, err = kevyServer("import", exported, "--dir", store)
	if err == nil || !strings.Contains(err.Error(), "holds 2 keys") || !strings.Contains(err.Error(), "--replace") {
		t.Errorf("into a store with keys: %v", err)
	}
	out, _, err = kevyServer("import", exported, "--dir", store, "--replace", "--json")
	var im transfer.ImportReport
	if err != nil || json.Unmarshal([]byte(out), &im) != nil || im.Keys != 2 || im.NewStore {
		t.Errorf("%v\n%s", err, out)
	}

	// Functions go along.
	code := "#!lua name=lib\nredis.register_function('f', function() return 1 end)"
	write(rdbHead, "\xf5\x40", string(rune(len(code))), code, rdbKeys, rdbEnd)
	withFunctions := filepath.Join(dir, "functions")
	out, _, err = kevyServer("import", file, "--dir", withFunctions)
	if err != nil || !strings.Contains(out, "and the function libraries lib\n") {
		t.Errorf("%v\n%s", err, out)
	}
	out, _, err = kevyServer("export", exported, "--dir", withFunctions)
	if err != nil || !strings.Contains(out, "and the function libraries lib\n") {
		t.Errorf("%v\n%s", err, out)
	}
	if b, err := os.ReadFile(exported); err != nil || !strings.Contains(string(b), code) {
		t.Errorf("the library is not in the file: %v %q", err, b)
	}

	// What a store does not have, or cannot take, is named, and left out only on
	// request.
	write(rdbHead, rdbFunction, rdbKeys, rdbModule, rdbEnd)
	refused := filepath.Join(dir, "refused")
	_, _, err = kevyServer("import", file, "--dir", refused)
	if err == nil || !strings.Contains(err.Error(), `the function library "lib": No functions registered`) {
		t.Errorf("a function: %v", err)
	}
	_, _, err = kevyServer("import", file, "--dir", refused, "--leave-out", "functions")
	if err == nil || !strings.Contains(err.Error(), "module type") || !strings.Contains(err.Error(), `key "m" of database 0`) {
		t.Errorf("a module: %v", err)
	}
	// Nobody is served from what did not come to an end.
	_, _, err = kevyServer("serve", "--dir", refused, "--port", "0")
	if err == nil || !strings.Contains(err.Error(), "did not finish") {
		t.Errorf("serving half an import: %v", err)
	}
	out, _, err = kevyServer("import", file, "--dir", refused, "--leave-out", "functions,modules")
	if err != nil || !strings.Contains(out, "left out: the function libraries lib\n") || !strings.Contains(out, "passed over: 1 key of the module types ") {
		t.Errorf("%v\n%s", err, out)
	}
	_, _, err = kevyServer("import", file, "--dir", refused, "--leave-out", "everything")
	if err == nil || !strings.Contains(err.Error(), `not "everything"`) {
		t.Errorf("a wrong word: %v", err)
	}
	for _, wrong := range []string{"--db=16", "--db=-2", "--databases=0"} {
		if _, _, err = kevyServer("export", exported, "--dir", store, wrong); err == nil || !strings.Contains(err.Error(), "takes a number from") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
	_, stderr, err = kevyServer("export", exported, "--dir", store, "--db", "1")
	if err != nil || stderr != "" {
		t.Errorf("%v, warnings: %s", err, stderr)
	}
	_, _, err = kevyServer("export", exported, "--dir", filepath.Join(dir, "none"))
	if err == nil || !strings.Contains(err.Error(), "holds no store") {
		t.Errorf("export of nothing: %v", err)
	}
}

func TestTransferHelp(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"import --help", "kevy-server import dump.rdb --leave-out functions --json"},
		{"help import", "IMPORTING"},
		{"import -h", "--databases"},
		{"export --help", "kevy-server export dump.rdb --dir /srv/kevy"},
	} {
		out, _, err := kevyServer(strings.Fields(test.args)...)
		if err != nil || !strings.Contains(out, test.want) {
			t.Errorf("%s: %v\n%s", test.args, err, out)
		}
	}
	if _, _, err := kevyServer("import"); err == nil {
		t.Error("import without a file is no error")
	}
}

func TestFiguresForPeople(t *testing.T) {
	for n, want := range map[int64]string{0: "0 keys", 1: "1 key", 999: "999 keys", 1000: "1,000 keys", 1234567: "1,234,567 keys"} {
		if got := counted(n, "key"); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	for n, want := range map[int64]string{1: "1 byte", 1023: "1,023 bytes", 1536: "1.5 KiB", 5 << 20: "5.0 MiB", 3 << 40: "3072.0 GiB"} {
		if got := inBytes(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
