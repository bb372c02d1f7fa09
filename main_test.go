package kevy_test

import (
	"testing"

	"go.uber.org/goleak"
)

// A store that is closed, or could not be opened, leaves nothing running.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
