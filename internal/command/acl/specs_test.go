package acl_test

import (
	"testing"

	"kevy/internal/command"
	"kevy/internal/command/acl"
	"kevy/internal/command/commandtest"
	"kevy/internal/server"
)

func TestSpecs(t *testing.T) {
	commandtest.Specs(t, acl.Commands(&server.Server{}, func() *command.Table { return nil }))
}
