package strings_test

import (
	"strconv"
	"testing"

	"kevy/internal/command/commandtest"
	"kevy/internal/command/strings"
)

// What is called most must not allocate once a key is there.
func TestHotCommandsDoNotAllocate(t *testing.T) {
	r := commandtest.NewRunner(strings.Commands())
	for _, args := range [][]string{
		{"SET", "k", "a value of some length, as values are"},
		{"SET", "k", "another value", "EX", "100", "XX"},
		{"SET", "k", "another value", "KEEPTTL", "GET"},
		{"GET", "k"}, {"GET", "missing"}, {"GETSET", "k", "v"}, {"SETEX", "k", "100", "v"}, {"SETNX", "k", "v"},
		{"GETEX", "k"}, {"GETEX", "k", "PERSIST"}, {"MGET", "k", "missing"}, {"MSET", "k", "v", "l", "w"},
		{"INCR", "n"}, {"DECR", "n"}, {"INCRBY", "n", "5"}, {"DECRBY", "n", "7"},
		{"STRLEN", "k"}, {"GETRANGE", "k", "0", "-1"}, {"SETRANGE", "k", "1", "x"},
	} {
		r.Do(args...)
		if n := r.Allocs(args...); n != 0 {
			t.Errorf("%q allocates %v times", args, n)
		}
	}
}

// Appending copies what is there only as often as the room doubles.
func TestAppendIsAmortized(t *testing.T) {
	r := commandtest.NewRunner(strings.Commands())
	r.Do("SET", "k", "x")
	n := 0.0
	for range 200 {
		n += r.Allocs("APPEND", "k", strconv.Itoa(1<<20))
	}
	if n > 40 {
		t.Errorf("40,000 APPENDs of 7 bytes allocated in %v of 200 rounds", n)
	}
}
