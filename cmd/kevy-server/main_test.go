package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"kevy/internal/config"
)

func TestSubcommandIsFound(t *testing.T) {
	for _, test := range []struct{ args, want []string }{
		{nil, []string{"serve"}},
		{[]string{"serve", "--port", "1"}, []string{"serve", "--port", "1"}},
		{[]string{"--port", "1"}, []string{"serve", "--port", "1"}},
		{[]string{"kevy.conf", "--dir", "serve"}, []string{"serve", "kevy.conf", "--dir", "serve"}},
		{[]string{"-"}, []string{"serve", "-"}},
		{[]string{"--dir", "help"}, []string{"serve", "--dir", "help"}},
		{[]string{"help"}, []string{"help"}},
		{[]string{"-h", "x"}, []string{"--help"}},
		{[]string{"-v"}, []string{"--version"}},
	} {
		if got := withSubcommand(newRoot(nil, nil, nil), test.args); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%q: got %q, want %q", test.args, got, test.want)
		}
	}
}

func TestHelpAndVersion(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"--help", "Usage:\n  kevy-server [serve] [FILE] [-] [--name value …]…"},
		{"-h", "--appendfsync "},
		{"help", "--feed-backlog-bytes "},
		{"serve --help", "echo \"maxclients 100\" | kevy-server -"},
		{"help serve", "Examples:"},
		{"--version", "kevy-server " + version() + "\n"},
	} {
		var out bytes.Buffer
		root := newRoot(strings.NewReader(""), &out, &out)
		root.SetArgs(withSubcommand(root, strings.Fields(test.args)))
		if err := root.Execute(); err != nil {
			t.Errorf("%s: %v", test.args, err)
		}
		if !strings.Contains(out.String(), test.want) {
			t.Errorf("%s: %q is not in\n%s", test.args, test.want, out.String())
		}
	}
}

func TestLogFileIsFollowedWhenMoved(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "logs", "kevy.log")
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load([]string{"--dir", dir, "--logfile", "logs/kevy.log"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	log, closeLog, err := openLog(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer closeLog()
	log.Info("one")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	log.Info("two")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	log.Info("three")
	for name, want := range map[string]string{path + ".1": "one", path: "three"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(string(text), "\n") != 1 || !strings.Contains(string(text), "msg="+want) {
			t.Errorf("%s holds %q", filepath.Base(name), text)
		}
	}
}

func TestLogFollowsLevel(t *testing.T) {
	cfg, err := config.Load([]string{"--loglevel", "warning"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	log, closeLog, err := openLog(cfg, &out)
	if err != nil {
		t.Fatal(err)
	}
	defer closeLog()
	for _, level := range []string{"warning", "notice", "verbose", "debug"} {
		out.Reset()
		if err := cfg.Set([]config.Pair{{Name: "loglevel", Value: level}}); err != nil {
			t.Fatal(err)
		}
		log.Debug("d")
		log.Log(t.Context(), config.LevelVerbose, "v")
		log.Info("n")
		log.Warn("w")
		want := map[string]string{"warning": "w", "notice": "n w", "verbose": "v n w", "debug": "d v n w"}[level]
		var got []string
		for _, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
			_, message, _ := strings.Cut(line, "msg=")
			got = append(got, message)
			if message == "v" && !strings.Contains(line, "level=VERBOSE") {
				t.Errorf("a verbose line: %s", line)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s logs %q, want %q", level, got, want)
		}
	}
	slog.SetDefault(slog.New(slog.DiscardHandler))
}
