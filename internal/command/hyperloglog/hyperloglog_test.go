package hyperloglog

import (
	"testing"

	"kevy/internal/command/bitmap"
	"kevy/internal/command/commandtest"
	"kevy/internal/command/generic"
	"kevy/internal/command/list"
	"kevy/internal/command/strings"
)

func TestSpecs(t *testing.T) { commandtest.Specs(t, Commands()) }

func TestScripts(t *testing.T) {
	commandtest.Scripts(t, Commands(), strings.Commands(), bitmap.Commands(), generic.Commands(), list.Commands())
}
