// Command gendoc writes docs/commands.md and docs/differences.md from the Specs
// of the commands and from the names that Redis and Valkey know.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"kevy/internal/server"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gendoc DIRECTORY")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "gendoc:", err)
		os.Exit(1)
	}
}

func write(dir string) error {
	c, err := compare(server.Commands(), peersText, notSupported)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "commands.md"), c.commands(), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "differences.md"), c.differences(), 0o644)
}
