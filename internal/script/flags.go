package script

import (
	"bytes"
	"strings"

	"kevy/internal/op"
	"kevy/resp"
)

// Flags are those of a script's first line and of functions.
type Flags uint8

// The flags that Redis has.
const (
	NoWrites Flags = 1 << iota
	AllowOOM
	AllowStale
	NoCluster
	AllowCrossSlotKeys

	// compat is set for a script without flags, which may do what scripts could
	// before there were any.
	compat
)

var flagNames = []struct {
	flag Flags
	name string
}{
	{NoWrites, "no-writes"}, {AllowOOM, "allow-oom"}, {AllowStale, "allow-stale"}, {NoCluster, "no-cluster"},
	{AllowCrossSlotKeys, "allow-cross-slot-keys"},
}

// flagNamed returns the flag with that name, 0 if there is none.
func flagNamed(name string) Flags {
	for _, f := range flagNames {
		if f.name == name {
			return f.flag
		}
	}
	return 0
}

// Names returns the flags' names in Redis's order.
func (f Flags) Names() []string {
	var out []string
	for _, n := range flagNames {
		if f&n.flag != 0 {
			out = append(out, n.name)
		}
	}
	return out
}

// shebang reads the first line of a script, which may say with which flags it is
// to run. body is the rest, its line end included, so that the lines keep their
// numbers.
func shebang(script []byte) (flags Flags, body []byte, _ *resp.Error) {
	if !bytes.HasPrefix(script, []byte("#!")) {
		return compat, script, nil
	}
	end := bytes.IndexByte(script, '\n')
	if end < 0 || bytes.IndexByte(script[:end], 0) >= 0 {
		return 0, nil, resp.Errorf("ERR", "Invalid script shebang")
	}
	parts, ok := op.Words(string(script[:end]))
	if !ok {
		return 0, nil, resp.Errorf("ERR", "Invalid engine in script shebang")
	}
	if parts[0] != "#!lua" {
		return 0, nil, resp.Errorf("ERR", "Unexpected engine in script shebang: %s", parts[0])
	}
	for _, part := range parts[1:] {
		list, is := strings.CutPrefix(part, "flags=")
		if !is {
			return 0, nil, resp.Errorf("ERR", "Unknown lua shebang option: %s", part)
		}
		if list == "" {
			continue
		}
		for _, name := range strings.Split(list, ",") {
			f := flagNamed(name)
			if f == 0 {
				return 0, nil, resp.Errorf("ERR", "Unexpected flag in script shebang: %s", name)
			}
			flags |= f
		}
	}
	return flags, script[end:], nil
}
