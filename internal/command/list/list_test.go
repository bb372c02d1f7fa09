package list_test

import (
	"testing"

	"kevy/internal/command/commandtest"
	"kevy/internal/command/generic"
	"kevy/internal/command/hash"
	"kevy/internal/command/list"
	"kevy/internal/command/strings"
)

func TestSpecs(t *testing.T) { commandtest.Specs(t, list.Commands()) }

func TestScripts(t *testing.T) {
	commandtest.Scripts(t, list.Commands(), hash.Commands(), strings.Commands(), generic.Commands())
}
