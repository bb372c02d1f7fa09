package generic_test

import (
	"testing"

	"kevy/internal/command/bitmap"
	"kevy/internal/command/commandtest"
	"kevy/internal/command/generic"
	"kevy/internal/command/hash"
	"kevy/internal/command/list"
	"kevy/internal/command/set"
	"kevy/internal/command/stream"
	"kevy/internal/command/strings"
	"kevy/internal/command/zset"
)

func TestSpecs(t *testing.T) { commandtest.Specs(t, generic.Commands()) }

func TestScripts(t *testing.T) {
	commandtest.Scripts(t, strings.Commands(), generic.Commands(), bitmap.Commands(), hash.Commands(), list.Commands(),
		set.Commands(), zset.Commands(), stream.Commands())
}
