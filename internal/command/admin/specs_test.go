package admin_test

import (
	"testing"

	"kevy/internal/command/admin"
	"kevy/internal/command/commandtest"
)

func TestSpecs(t *testing.T) { commandtest.Specs(t, admin.Commands(nil, nil)) }
