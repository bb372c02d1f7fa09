package strings_test

import (
	"testing"

	"kevy/internal/command/bitmap"
	"kevy/internal/command/commandtest"
	"kevy/internal/command/generic"
	"kevy/internal/command/list"
	"kevy/internal/command/strings"
)

func TestSpecs(t *testing.T) {
	commandtest.Specs(t, strings.Commands(), "delex", "delifeq", "digest", "msetex")
}

func TestScripts(t *testing.T) {
	commandtest.Scripts(t, strings.Commands(), generic.Commands(), bitmap.Commands(), list.Commands())
}
