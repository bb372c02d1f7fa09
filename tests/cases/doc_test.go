// Package cases replays command sequences that broke Redis-compatible servers in public, and the restarts and
// feed readers that did, on the server as a process.
//
// testdata/cases.txt holds the sequences, each with the public report it comes from; testdata/expected.json
// the replies that are right, by case and step: "alt" has another accepted one, "skip" the steps whose reply
// is an id, a version or a random pick. testdata/waiting.txt lists the cases that need commands which the
// server does not have, so that none is passed over in silence. A step is one line:
//
//	C1> SET "k\x00" v        sends a command on connection C1 and reads one reply
//	C1> =id GET k            keeps the reply's text; ${id} stands for it in later steps
//	C1>> BLPOP k 0           sends and reads nothing
//	C1< 2                    reads that many replies (1 without a number); <none> is one that does not come
//	C1! *1\r\n$4\r\n…        sends raw bytes and reads until silence; <closed> is a closed connection
//	sleep 60                 waits, in milliseconds
//
// Replies are in the notation of package wire. @REP:x:45 is one argument of 45 times x, {{x*70000}} the same
// inside quotes and raw bytes.
package cases
