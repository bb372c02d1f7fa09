package geo_test

import (
	"testing"

	"kevy/internal/command/commandtest"
	"kevy/internal/command/generic"
	"kevy/internal/command/geo"
	"kevy/internal/command/strings"
	"kevy/internal/command/zset"
)

func TestSpecs(t *testing.T) { commandtest.Specs(t, geo.Commands()) }

func TestScripts(t *testing.T) {
	commandtest.Scripts(t, geo.Commands(), zset.Commands(), strings.Commands(), generic.Commands())
}
