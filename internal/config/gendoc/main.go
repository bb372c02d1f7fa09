// Command gendoc writes docs/config.md from the registry of settings.
package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"kevy/internal/config"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gendoc FILE")
		os.Exit(2)
	}
	if err := os.WriteFile(os.Args[1], render(config.New().Settings()), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "gendoc:", err)
		os.Exit(1)
	}
}

const preamble = `<!-- Written by "make generate" from internal/config; edit the registry there. -->

# Settings

    kevy-server --port 7000 --appendfsync always

` + "`kevy-server [serve] [FILE] [-] [--name value …]…`" + `: settings have the names, values and bounds of redis-server 7.0.
They come, in this order, from a file in redis.conf syntax, from standard input (` + "`-`" + `), and from the command line; what
comes later wins. A word directly after a ` + "`--name`" + ` is its value, even if it begins with ` + "`--`" + `.

In a file each line is a name and its values. Values are quoted as in Redis: ` + "`\"…\"`" + ` knows ` + "`\\n \\r \\t \\b \\a \\xHH`" + `, ` + "`'…'`" + `
knows ` + "`\\'`" + ` only, and a closing quote ends its word. A line that begins with ` + "`#`" + ` is a comment; one that ends in a
comment is not. ` + "`include FILE`" + ` reads another file in its place; a relative name stands for a file in the working
directory and a pattern may match none; as an option it is unknown. Lines ` + "`user name rule …`" + ` and ` + "`rename-command old new`" + ` may be there
several times ([security.md](security.md)). A setting that is unknown, or has a value that is not allowed, stops the start.

Bytes may have a unit: ` + "`k` `m` `g`" + ` for powers of 1000, ` + "`kb` `mb` `gb`" + ` for powers of 1024.

CONFIG GET shows every setting, and CONFIG SET changes those that have "yes" under "While running"; several in one
command change together or not at all.
`

const withoutEffect = `
## Redis settings without a part here

These are understood so that an existing redis.conf and the CONFIG SET of clients work. They can be set and read, and
change nothing; a start that moves one from its default says so in the log. Where the values are "only the
default", anything else is refused, because to go on without it could surprise.
`

const tail = `
## What this is not

Not every setting of every Redis: those of Sentinel, of modules and of versions after 7.0 that are not above stop the start.
CONFIG SET lasts until the server ends: CONFIG REWRITE keeps it, where the server was started with a FILE.
`

// render gives the whole document.
func render(settings []*config.Setting) []byte {
	var out bytes.Buffer
	out.WriteString(preamble)
	group, intro := "", false
	for _, s := range settings {
		compatibility := strings.HasPrefix(s.Group, "Redis: ")
		if compatibility && !intro {
			out.WriteString(withoutEffect)
			intro = true
		}
		if s.Group != group {
			group = s.Group
			if compatibility {
				fmt.Fprintf(&out, "\n### %s\n\n| Setting | Default | Values | While running | Instead |\n| --- | --- | --- | --- | --- |\n", heading(group))
			} else {
				fmt.Fprintf(&out, "\n## %s\n\n| Setting | Default | Values | While running | What it does |\n| --- | --- | --- | --- | --- |\n", group)
			}
		}
		fmt.Fprintf(&out, "| %s | %s | %s | %s | %s |\n", names(s), defaultOf(s), cell(s.Allowed()), running(s), cell(about(s)))
	}
	out.WriteString(tail)
	return out.Bytes()
}

func heading(group string) string {
	topic := strings.TrimPrefix(group, "Redis: ")
	return strings.ToUpper(topic[:1]) + topic[1:]
}

func names(s *config.Setting) string {
	if s.Alias == "" {
		return "`" + s.Name + "`"
	}
	return "`" + s.Name + "`, `" + s.Alias + "`"
}

func defaultOf(s *config.Setting) string {
	if s.Default == "" {
		return "empty"
	}
	return "`" + s.Default + "`"
}

func running(s *config.Setting) string {
	if s.Runtime && s.Effect != config.DefaultOnly {
		return "yes"
	}
	return "no"
}

func about(s *config.Setting) string {
	why := ""
	if s.Why() != "" {
		why = strings.ToUpper(s.Why()[:1]) + s.Why()[1:] + "."
	}
	if s.Summary != "" && s.Effect == config.Accepted {
		return strings.TrimSpace("Without effect. " + why)
	}
	return strings.TrimSpace(s.Summary + " " + why)
}

// cell keeps a text from being taken for markup.
func cell(text string) string { return strings.NewReplacer("|", `\|`, "*", `\*`).Replace(text) }
