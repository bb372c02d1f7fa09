package op

import (
	"bytes"
	"fmt"
	"strings"
)

// LibraryName returns the name of a library of functions, which stands in the
// first line of its code: #!lua name=mylib.
func LibraryName(code []byte) ([]byte, error) {
	line, _, ok := bytes.Cut(code, []byte("\n"))
	if !ok || !bytes.HasPrefix(line, []byte("#!")) {
		return nil, fmt.Errorf("a library of functions without a first line #!lua name=<name>")
	}
	words, _ := Words(string(line))
	for _, word := range words {
		if len(word) > 5 && strings.EqualFold(word[:5], "name=") {
			return []byte(word[5:]), nil
		}
	}
	return nil, fmt.Errorf("a library of functions without a name in %.200q", line)
}
