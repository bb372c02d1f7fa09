package command

import "math/rand/v2"

// Rand makes the random choices of commands. Any goroutine may use it.
var Rand = rand.New(processSource{})

// processSource draws from the process-wide generator, which takes no lock.
type processSource struct{}

func (processSource) Uint64() uint64 { return rand.Uint64() }
