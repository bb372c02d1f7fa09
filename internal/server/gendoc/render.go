package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// groups is the order of the groups, with their headings.
var groups = []struct{ name, heading string }{
	{own, "The change feed"}, {"string", "Strings"}, {"bitmap", "Bitmaps"}, {"hash", "Hashes"}, {"list", "Lists"}, {"set", "Sets"},
	{"sorted-set", "Sorted sets"}, {"stream", "Streams"}, {"geo", "Geo"}, {"hyperloglog", "HyperLogLog"}, {"generic", "Keys"},
	{"transactions", "Transactions"}, {"connection", "Connections"}, {"server", "Server"}, {"scripting", "Scripts and functions"},
	{"pubsub", "Pub/sub"}, {"cluster", "Cluster"}, {"array", "Arrays"}, {"vector-set", "Vector sets"}, {"json", "JSON"},
	{"search", "Search"}, {"time-series", "Time series"}, {"bloom", "Bloom filters"}, {"cuckoo", "Cuckoo filters"},
	{"count-min", "Count-min sketches"}, {"top-k", "Top-k"}, {"t-digest", "t-digest"},
}

const written = "<!-- Written by \"make generate\" from the Specs of the commands; see internal/server/gendoc. -->\n\n"

const commandsHead = `# Commands

    redis-cli command docs zadd        # what a server says of a command that it has

%d commands and subcommands of Redis (up to 8.12) and Valkey (up to 9.1): %d are supported, %d more with a difference that
is stated here and in [differences.md](differences.md), %d are not, with the reason. %d are kevy's own. "Since" is the
version of Redis that brought a command, of Valkey where Redis lacks it, of kevy in the first table.
`

const commandsTail = `
## What this is not

No list of options: those of Redis 7.0.15 are there wherever a command is, and so are later ones that its documentation
names above; what is missing of a supported command is its difference. No tutorial: the documentation of Redis holds for
what is supported.
`

// commands gives the whole of docs/commands.md.
func (c *comparison) commands() []byte {
	var out bytes.Buffer
	same, differing, missing, ours := c.counts()
	out.WriteString(written)
	fmt.Fprintf(&out, commandsHead, same+differing+missing, same, differing, missing, ours)
	for _, g := range groups {
		fmt.Fprintf(&out, "\n## %s\n\n| Command | Since | Complexity | State |\n| --- | --- | --- | --- |\n", g.heading)
		for _, e := range c.entries {
			if e.group != g.name {
				continue
			}
			syntax, complexity, state := "", "", "supported"
			switch {
			case e.spec == nil:
				state = "not supported: " + e.why
			case e.differs():
				state = "differs: " + e.spec.Differences
			}
			if e.spec != nil {
				complexity = e.spec.Complexity
				if e.spec.Syntax != "" {
					syntax = " " + e.spec.Syntax
				}
			}
			fmt.Fprintf(&out, "| `%s%s` | %s | %s | %s |\n", shown(e.name), strings.ReplaceAll(syntax, "|", `\|`), e.since(), cell(complexity), cell(state))
		}
	}
	out.WriteString(commandsTail)
	return out.Bytes()
}

const differencesHead = `# Differences

    redis-cli zadd z 0.1 m; redis-cli zscore z m      # "0.1", where redis-server 7.0 answers "0.10000000000000001"

What a command answers is what redis-server 7.0.15 answers, byte for byte, but for what this page says. A command that came
later answers as its own documentation says. Random commands run on both servers side by side hold that
(` + "`make fuzz-oracle`" + `); what they may find different is listed in tests/oracle/allow.txt, each with its reason.

## Everywhere

- **Options that came after 7.0** are there as far as Redis 8.4 and Valkey 9.0 have them for data, but for CLAIM of XREADGROUP,
  NOSCORES of ZSCAN, BYPOLYGON of GEOSEARCH and the filters of CLIENT LIST and CLIENT KILL. Not there are later ones: IDMP and
  IDMPAUTO of XADD, AGGREGATE COUNT, MAXCOUNT and MAXSIZE of XREAD.
- **Scores and other doubles** have the shortest text that reads back as the same number, as in Redis 7.2 and later: 0.1
  where 7.0 prints 0.10000000000000001. INCRBYFLOAT and HINCRBYFLOAT have the digits of Redis on x86-64, on every machine.
- **-0** is one score with 0 and is kept as 0 where Redis sometimes keeps the sign.
- **Cursors** of SCAN and its kin are numbers of our own; the guarantee is Redis's: what is there from the beginning of an
  iteration to its end is answered.
- **The order** in which hashes, sets and keys are listed is unspecified and not Redis's once they have outgrown their
  packed form. ZRANGEBYLEX and its kin over members of different scores are unspecified in both.
- **WATCH** fails a transaction if the key was changed. What leaves a key as it is, such as an LTRIM of nothing or an APPEND
  of nothing, does not count; in Redis it does.
- **SWAPDB** makes keys ready for those who wait for them in an order that is unspecified in both.
- **The log and the feed** have finer steps than Redis's append-only file: each is one change to one key
  ([ops.md](ops.md)). RENAME, MOVE and COPY write the value again, so they cost what it weighs.
- **The version** that HELLO and INFO tell is 7.2.4, because clients choose by it what to use.
- **Memory** is counted, not measured: used_memory of INFO, which maxmemory bounds, is what keys, values and clients occupy by a
  count that is exact behind each command. The process has more: garbage that is not collected yet (allocator_allocated,
  used_memory_rss) and the log's window for readers of the feed (kevy_log_memory). A command that only reads does not evict: the
  background does. A key that is overdue when eviction finds it goes as expired.
`

const differencesTail = `
## What this is not

No list of what INFO, CONFIG GET and DEBUG show of a server's inside: [config.md](config.md) has the settings. No promise
about the replies of commands that Redis documents as random or unordered.
`

// differences gives the whole of docs/differences.md.
func (c *comparison) differences() []byte {
	var out bytes.Buffer
	out.WriteString(written + differencesHead)
	out.WriteString("\n## By command\n\n| Commands | Difference |\n| --- | --- |\n")
	told := make(map[string]bool)
	for _, e := range c.entries {
		if !e.differs() || told[e.spec.Differences] {
			continue
		}
		told[e.spec.Differences] = true
		var names []string
		for _, other := range c.entries {
			if other.differs() && other.spec.Differences == e.spec.Differences {
				names = append(names, "`"+shown(other.name)+"`")
			}
		}
		fmt.Fprintf(&out, "| %s | %s |\n", strings.Join(names, ", "), cell(e.spec.Differences))
	}
	out.WriteString("\n## Not supported\n\n| Why | Commands |\n| --- | --- |\n")
	for _, r := range notSupported {
		var names []string
		for _, e := range c.entries {
			if e.why == r.why {
				names = append(names, "`"+shown(e.name)+"`")
			}
		}
		fmt.Fprintf(&out, "| %s | %s |\n", cell(r.why), strings.Join(names, ", "))
	}
	out.WriteString(differencesTail)
	return out.Bytes()
}

// shown is a name as a user types it.
func shown(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "|", " ")) }

// cell keeps a text from being taken for the border of a cell or for markup.
func cell(text string) string { return strings.NewReplacer("|", `\|`, "*", `\*`).Replace(text) }

// unlisted returns the groups that commands have and the document lacks.
func (c *comparison) unlisted() (names []string) {
	for _, e := range c.entries {
		if !slices.ContainsFunc(groups, func(g struct{ name, heading string }) bool { return g.name == e.group }) {
			names = append(names, e.group)
		}
	}
	return names
}
