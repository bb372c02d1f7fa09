package main

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"kevy/internal/command"
)

// peersText names every command and subcommand of Redis up to 8.12 and of Valkey
// up to 9.1, one a line: its name, its group, and the version of either server
// that brought it, - where it lacks it. It is put together from what COMMAND DOCS
// of Redis 7.0.15, 8-dev and Valkey 8-dev answered and, for later ones, from the
// documentation. What Redis 8 ships as modules is counted from 8.0.0 on.
//
//go:embed peers.tsv
var peersText string

// own is the group of the commands that no peer has.
const own = "feed"

// peer is a command of Redis or Valkey.
type peer struct {
	name, group   string
	redis, valkey string // since which version, "" if never
}

// since says which version of which server brought the command.
func (p peer) since() string {
	if p.redis != "" {
		return p.redis
	}
	return "Valkey " + p.valkey
}

// entry is a command with its state: supported if it has a spec.
type entry struct {
	peer
	spec *command.Spec
	why  string // it is not supported
}

// differs reports whether the command is supported with a difference from the
// peers.
func (e entry) differs() bool { return e.spec != nil && e.group != own && e.spec.Differences != "" }

// comparison is every command, ours included, by name.
type comparison struct {
	entries []entry
}

func parsePeers(text string) (peers []peer, err error) {
	seen := make(map[string]bool)
	known := func(version string) string {
		if version == "-" {
			return ""
		}
		return version
	}
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		f := strings.Split(line, "\t")
		if len(f) != 4 || seen[f[0]] {
			return nil, fmt.Errorf("peers.tsv:%d: %q", i+1, line)
		}
		seen[f[0]] = true
		if i > 0 {
			peers = append(peers, peer{name: f[0], group: f[1], redis: known(f[2]), valkey: known(f[3])})
		}
	}
	return peers, nil
}

// compare gives each command of the peers and of the table its state. It fails
// if one has none or two, or is described differently from how the peers do.
func compare(table *command.Table, peersText string, reasons []reason) (*comparison, error) {
	peers, err := parsePeers(peersText)
	if err != nil {
		return nil, err
	}
	var faults []error
	fault := func(format string, a ...any) { faults = append(faults, fmt.Errorf(format, a...)) }
	why, unused := make(map[string]string), make(map[string]bool)
	for _, r := range reasons {
		for _, name := range strings.Fields(r.commands) {
			if why[name] != "" {
				fault("%s has two reasons for not being supported", name)
			}
			why[name] = r.why
			unused[name] = true
		}
	}
	specs := make(map[string]*command.Spec)
	for _, s := range table.All() {
		for _, one := range append([]*command.Spec{s}, s.Sub...) {
			specs[one.FullName()] = one
		}
	}
	c := &comparison{}
	for _, p := range peers {
		e := entry{peer: p, spec: specs[p.name]}
		delete(specs, p.name)
		for _, key := range []string{"@" + p.group, p.name} {
			if reason := why[key]; reason != "" {
				delete(unused, key)
				if e.why != "" {
					fault("%s has two reasons for not being supported", p.name)
				}
				e.why = reason
			}
		}
		switch {
		case e.spec == nil && e.why == "":
			fault("%s is neither supported nor among the reasons of notsupported.go", p.name)
		case e.spec != nil && e.why != "":
			fault("%s is supported: notsupported.go still says why not", p.name)
		case e.spec != nil && (e.spec.Group != p.group || e.spec.Since != p.redis && e.spec.Since != p.valkey):
			fault("%s: the spec says %s since %s, the peers %s since %q or %q", p.name, e.spec.Group, e.spec.Since, p.group, p.redis, p.valkey)
		}
		c.entries = append(c.entries, e)
	}
	for name, s := range specs {
		if s.Group != own {
			fault("%s is no command of Redis or Valkey and not of the group %s", name, own)
		}
		c.entries = append(c.entries, entry{peer: peer{name: name, group: own, redis: s.Since}, spec: s})
	}
	for name := range unused {
		fault("notsupported.go: %s is nothing that Redis or Valkey has", name)
	}
	slices.SortFunc(c.entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return c, errors.Join(faults...)
}

// counts says how many commands of the peers are in each state, and how many are
// ours alone.
func (c *comparison) counts() (same, differing, missing, ours int) {
	for _, e := range c.entries {
		switch {
		case e.spec == nil:
			missing++
		case e.group == own:
			ours++
		case e.differs():
			differing++
		default:
			same++
		}
	}
	return same, differing, missing, ours
}
