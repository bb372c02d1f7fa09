package changes

import (
	"strings"

	"kevy/resp"
)

// replyError reads the text of an error as it stands on the wire, with or
// without its type byte.
func replyError(text string) *resp.Error {
	code, rest, _ := strings.Cut(strings.TrimPrefix(text, "-"), " ")
	return &resp.Error{Code: code, Text: rest}
}

// resyncError reads a FEEDRESYNC; nil if e is something else.
func resyncError(stream string, e *resp.Error) *ResyncError {
	parts := strings.Fields(e.Text)
	if e.Code != "FEEDRESYNC" || len(parts) < 4 {
		return nil
	}
	var numbers [4]uint64
	for i := range numbers {
		n, ok := parseDecimal(parts[i])
		if !ok {
			return nil
		}
		numbers[i] = n
	}
	return &ResyncError{
		Stream: stream, Tail: Cursor{numbers[0], numbers[1]}, Oldest: Cursor{numbers[2], numbers[3]},
		Reason: strings.Join(parts[4:], " "),
	}
}
