package command

import (
	"bytes"
	"strings"

	"kevy/resp"
)

// SubcommandError is the error for arguments that a subcommand does not take.
func SubcommandError(c *Ctx) *resp.Error {
	const most = 128 // bytes of the subcommand that are repeated
	sub := CText(c.Args[1])
	return resp.Errorf("ERR", "unknown subcommand or wrong number of arguments for '%s'. Try %s HELP.",
		sub[:min(len(sub), most)], bytes.ToUpper(c.Args[0]))
}

// Help replies to a HELP subcommand in Redis's shape: a line that names the
// command, the lines given, and two on HELP itself.
func Help(c *Ctx, lines []string) {
	name := c.Spec.Name
	if p := c.Spec.Parent(); p != nil {
		name = p.Name
	}
	c.W.Array(len(lines) + 3)
	c.W.Simple(strings.ToUpper(name) + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")
	for _, l := range lines {
		c.W.Simple(l)
	}
	c.W.Simple("HELP")
	c.W.Simple("    Prints this help.")
}
