package command

import "time"

// RunningScript describes a script that has run for so long that others are told.
type RunningScript struct {
	Name     string
	Function bool
	Args     [][]byte // of its command; nobody changes them
	For      time.Duration
}
