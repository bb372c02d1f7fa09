package exec_test

import (
	"testing"

	"kevy/internal/command/commandtest"
	"kevy/internal/exec"
)

func TestSpecs(t *testing.T) {
	t.Chdir("../command/admin") // where commandtest looks for its table from
	commandtest.Specs(t, exec.Commands())
}
