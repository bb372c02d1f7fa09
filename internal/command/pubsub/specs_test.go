package pubsub_test

import (
	"testing"

	"kevy/internal/command/commandtest"
	"kevy/internal/command/pubsub"
)

func TestSpecs(t *testing.T) { commandtest.Specs(t, pubsub.Commands(nil)) }
