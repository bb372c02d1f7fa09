package command

import "slices"

// redacted stands for an argument that nobody else must see.
var redacted = []byte("(redacted)")

// Redacted returns arguments as others may see them: in MONITOR, and in SLOWLOG.
func (s *Spec) Redacted(args [][]byte) [][]byte {
	if s.Secrets == nil {
		return args
	}
	shown := args
	s.Secrets(args, func(i int) {
		if i >= len(args) {
			return
		}
		if &shown[0] == &args[0] {
			shown = slices.Clone(args)
		}
		shown[i] = redacted
	})
	return shown
}

// HideFrom is a Spec.Secrets that hides all arguments from number first on.
func HideFrom(first int) func(args [][]byte, hide func(i int)) {
	return func(args [][]byte, hide func(i int)) {
		for i := first; i < len(args); i++ {
			hide(i)
		}
	}
}
