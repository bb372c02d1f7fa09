// Package all assembles the families of data commands: those that need nothing
// but a Tx, and so run in a server and in an embedding program alike.
package all

import (
	"kevy/internal/command"
	"kevy/internal/command/bitmap"
	"kevy/internal/command/generic"
	"kevy/internal/command/geo"
	"kevy/internal/command/hash"
	"kevy/internal/command/hyperloglog"
	"kevy/internal/command/list"
	"kevy/internal/command/set"
	"kevy/internal/command/stream"
	"kevy/internal/command/strings"
	"kevy/internal/command/zset"
)

// Data returns the data commands, new Specs each time.
func Data() []*command.Spec {
	var out []*command.Spec
	for _, family := range [][]*command.Spec{
		strings.Commands(), bitmap.Commands(), generic.Commands(), hash.Commands(), list.Commands(), set.Commands(), zset.Commands(),
		geo.Commands(), hyperloglog.Commands(), stream.Commands(),
	} {
		out = append(out, family...)
	}
	return out
}

// Table returns a table of the data commands.
func Table() *command.Table { return command.NewTable(Data()) }
