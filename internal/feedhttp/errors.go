package feedhttp

import (
	"errors"
	"net/http"
	"strconv"

	"kevy/feed"
	"kevy/internal/changejson"
)

// statusOf returns the status of an answer that an error takes the place of.
func statusOf(err error) int {
	var wrong *badRequest
	var resync *feed.ResyncError
	var noStream *feed.NoStreamError
	switch {
	case errors.As(err, &wrong), errors.Is(err, feed.ErrAhead), errors.Is(err, feed.ErrNeedsLog):
		return http.StatusBadRequest
	case errors.As(err, &noStream):
		return http.StatusNotFound
	case errors.As(err, &resync), errors.Is(err, feed.ErrNoSnapshot):
		return http.StatusGone
	case errors.Is(err, feed.ErrClosed), errors.Is(err, feed.ErrDisabled):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// appendError appends the fields that tell an error: its text as a Redis client
// gets it, and where a reader that must resync can go.
func appendError(dst []byte, err error) []byte {
	text := err.Error()
	var wrong *badRequest
	if !errors.As(err, &wrong) {
		text = textOf(feed.ReplyError(err))
	}
	dst = changejson.AppendString(append(dst, `"error":`...), text)
	var resync *feed.ResyncError
	if errors.As(err, &resync) {
		dst = changejson.AppendString(append(dst, `,"reason":`...), resync.Reason)
		dst = appendNumber(dst, "generation", resync.Tail.Generation)
		dst = appendNumber(dst, "tail", resync.Tail.Offset)
		dst = appendNumber(dst, "oldest_generation", resync.Oldest.Generation)
		dst = appendNumber(dst, "oldest", resync.Oldest.Offset)
	}
	return dst
}

func appendNumber(dst []byte, name string, n uint64) []byte {
	dst = append(append(append(dst, `,"`...), name...), `":`...)
	return strconv.AppendUint(dst, n, 10)
}

// errorText is the body of an answer that refuses.
func errorText(why string) string {
	return string(changejson.AppendString([]byte(`{"error":`), why)) + "}\n"
}

// answerError answers with an error.
func answerError(w http.ResponseWriter, status int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	body := appendError([]byte{'{'}, err)
	_, _ = w.Write(append(body, '}', '\n'))
}
