package op

import (
	"bytes"
	"fmt"
)

// LibraryName returns the name of a library of functions, which stands in the
// first line of its code: #!lua name=mylib. It points into code.
func LibraryName(code []byte) ([]byte, error) {
	line, _, ok := bytes.Cut(code, []byte("\n"))
	if !ok || !bytes.HasPrefix(line, []byte("#!")) {
		return nil, fmt.Errorf("a library of functions without a first line #!lua name=<name>")
	}
	for _, word := range bytes.Fields(line) {
		if len(word) > 5 && bytes.EqualFold(word[:5], []byte("name=")) {
			return word[5:], nil
		}
	}
	return nil, fmt.Errorf("a library of functions without a name in %.200q", line)
}
