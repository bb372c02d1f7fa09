package exec

import (
	"testing"

	"kevy/internal/command/commandtest"
)

func TestSpecs(t *testing.T) {
	t.Chdir("../command/admin") // where commandtest looks for its table from
	commandtest.Specs(t, Commands())
}
