// Command kevy-server serves a store to Redis clients.
package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"kevy/internal/config"
	"kevy/internal/server"
)

func main() {
	root := newRoot(os.Stdin, os.Stdout, os.Stderr)
	root.SetArgs(withSubcommand(root, os.Args[1:]))
	if err := root.Execute(); err != nil {
		fmt.Fprintf(os.Stderr, "kevy-server: %v\n", err)
		os.Exit(1)
	}
}

const description = `kevy-server keeps data in memory and on disk, speaks to every Redis client, and
delivers each committed change, in order and without a gap, to whoever keeps a
cursor.

It is called as redis-server is. Settings come from a file in redis.conf syntax,
from standard input (-), and from options, and what comes later wins.`

const examples = `  kevy-server                                    127.0.0.1:6379, data in ./data
  kevy-server --port 7000 --dir /srv/kevy
  kevy-server /etc/kevy.conf --appendfsync always
  kevy-server import dump.rdb                    what a Redis has saved; see import --help
  kevy-server export dump.rdb                    for a Redis; see export --help
  echo "maxclients 100" | kevy-server - --port 0  a free port, which it prints
  kevy-server changes tail                       every change of a running server; see changes --help`

// newRoot builds the commands. Settings are not cobra's flags: there a word
// after --name may be missing or begin with --, and a name may have several.
func newRoot(stdin io.Reader, stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:               "kevy-server",
		Short:             "A Redis-compatible server that delivers every change",
		Version:           version(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetVersionTemplate("kevy-server {{.Version}}\n")
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { writeHelp(cmd.OutOrStdout()) })
	root.AddCommand(&cobra.Command{
		Use:                "serve [FILE] [-] [--name value …]…",
		Short:              "Serve; what runs without a subcommand",
		DisableFlagParsing: true,
		Args:               cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && slices.Contains(helpFlags, args[0]) {
				return cmd.Help()
			}
			return serve(args, stdin, stdout, stderr)
		},
	})
	root.AddCommand(importCommand(stdout, stderr), exportCommand(stdout, stderr), changesCommand(stdout, stderr))
	return root
}

var (
	helpFlags    = []string{"--help", "-h"}
	versionFlags = []string{"--version", "-v"}
)

// withSubcommand puts serve in front of what is not a subcommand or one of the
// two options that stand alone, so that cobra never looks at settings.
func withSubcommand(root *cobra.Command, args []string) []string {
	if len(args) > 0 {
		root.InitDefaultHelpCmd()
		first := args[0]
		if slices.Contains(helpFlags, first) {
			return []string{"--help"}
		}
		if slices.Contains(versionFlags, first) {
			return []string{"--version"}
		}
		for _, cmd := range root.Commands() {
			if cmd.Name() == first {
				return args
			}
		}
	}
	return append([]string{"serve"}, args...)
}

// writeHelp lists the settings that do something, from the registry.
func writeHelp(out io.Writer) {
	fmt.Fprintf(out, "%s\n\nUsage:\n  kevy-server [serve] [FILE] [-] [--name value …]…\n  kevy-server import | export FILE …\n  kevy-server changes tail | snapshot | info | hold | pipe | chaos …\n  kevy-server --version | --help\n\nExamples:\n%s\n", description, examples)
	group := ""
	for _, s := range config.New().Settings() {
		if s.Effect != config.Applied {
			continue
		}
		if s.Group != group {
			group = s.Group
			fmt.Fprintf(out, "\n%s:\n", group)
		}
		fmt.Fprintf(out, "  --%-28s %-25s %s\n", s.Name, valueForHelp(s.Default), firstSentence(s.Summary))
	}
	fmt.Fprint(out, "\nEvery setting, its values and those of Redis that are accepted: docs/config.md\n")
}

// version names the release and the compiler.
func version() string { return server.Version() + " " + runtime.Version() }

func valueForHelp(def string) string {
	const widest = 24
	if def == "" {
		return `""`
	}
	if len(def) > widest {
		return def[:widest-1] + "…"
	}
	return def
}

func firstSentence(text string) string {
	for _, end := range []string{". ", ": ", "; "} {
		if before, _, found := strings.Cut(text, end); found {
			text = before
		}
	}
	return strings.TrimSuffix(text, ".")
}
