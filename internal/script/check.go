package script

import (
	"fmt"

	"kevy/internal/command"
	"kevy/internal/op"
	"kevy/resp"
)

// CheckLibraries returns why a store with the libraries kept cannot take those of
// codes, nil if it can. With replace they take the place of those of their names.
// They are loaded as FUNCTION LOAD loads them, and nothing is kept of them.
func CheckLibraries(kept, codes [][]byte, replace bool) error {
	f := New(checker{})
	defer f.Close()
	for _, code := range kept {
		lib, err := f.build(&f.libraries, code)
		if err != nil {
			// It stays as it is, and has no functions: see sync.
			lib = &library{name: nameOf(code), code: code}
		}
		f.libraries.put(lib)
	}
	if _, at, err := f.join(&f.libraries, codes, replace); err != nil {
		return fmt.Errorf("the function library %.100q: %s", nameOf(codes[at]), err.Text)
	}
	return nil
}

func nameOf(code []byte) string {
	name, err := op.LibraryName(code)
	if err != nil {
		return "without a name"
	}
	return string(name)
}

// checker is the Runner of a family that runs no command.
type checker struct{}

func (checker) Nested(*command.Ctx, command.NestedOptions) command.Nested {
	panic("script: a command runs where libraries are only checked")
}
func (checker) KillScript(bool) *resp.Error                  { return nil }
func (checker) RunningScript() (command.RunningScript, bool) { return command.RunningScript{}, false }
func (checker) LogScript(int, string)                        {} // what a library logs while it is loaded
func (checker) LogErr() error                                { return nil }
func (checker) LacksReplicas() *resp.Error                   { return nil }
func (checker) OutOfMemory(*command.Ctx) bool                { return false }

var _ Runner = checker{}
