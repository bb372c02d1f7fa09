package connection_test

import (
	"testing"

	"kevy/internal/command/commandtest"
	"kevy/internal/command/connection"
)

func TestSpecs(t *testing.T) { commandtest.Specs(t, connection.Commands(nil), "client|setinfo") }
