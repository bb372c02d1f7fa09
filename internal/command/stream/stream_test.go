package stream_test

import (
	"testing"

	"kevy/internal/command/commandtest"
	"kevy/internal/command/generic"
	"kevy/internal/command/list"
	"kevy/internal/command/stream"
	stringfamily "kevy/internal/command/strings"
)

func TestSpecs(t *testing.T) { commandtest.Specs(t, stream.Commands(), "xdelex", "xackdel") }

func TestScripts(t *testing.T) {
	commandtest.Scripts(t, stream.Commands(), list.Commands(), stringfamily.Commands(), generic.Commands())
}
