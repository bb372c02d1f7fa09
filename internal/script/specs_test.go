package script_test

import (
	"testing"

	"kevy/internal/command/commandtest"
	"kevy/internal/script"
)

func TestSpecs(t *testing.T) { commandtest.Specs(t, script.New(nil).Commands()) }
