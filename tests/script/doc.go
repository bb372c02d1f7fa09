// Package script runs the scripts of the commands: text files of steps and the replies they must give.
//
// A script lies beside its command as internal/command/<family>/testdata/<command>.txt:
//
//	// a comment
//	## title of a case
//	C1> SET k "a\r\n\x00"
//	+OK
//	C1> HGETALL h
//	2: ["f", "v"]
//	3: map{"f": "v"}
//
// A file is a list of cases. Each starts on an empty server, with new connections that select database 0,
// and runs twice: over RESP2 connections and over RESP3 ones (which have sent HELLO 3). A step is one line:
//
//	C1> GET k           sends a command on connection C1 and reads one reply
//	C1>> BLPOP k 0      sends and reads nothing
//	C1< 2               reads two replies (one without a number)
//	C1! *1\r\n$4\r\n…   sends raw bytes and reads what comes until the server falls silent
//	close C1            closes the connection; its name can be used again
//	sleep 20            waits, in milliseconds
//	blocked 2           waits until the server says that so many clients are blocked
//	C1> =id GET k       keeps the reply's text; ${id} stands for it in later steps and replies, ${id.0} for
//	                    that of an aggregate's first element
//
// Arguments are separated by blanks; quoted ones know \r \n \t \" \\ \xNN. @REP:x:45 is one argument of
// 45 times x, and {{x*70000}} the same inside raw bytes.
//
// The line under a step is its reply in the notation of the package wire: +OK, -ERR text, :1, "bulk",
// ="txt:verbatim", $nil, *nil, [a, b], push[a, b], set{a, b}, map{k: v}, _nil, ,1.5, #t, (123. Several
// replies stand in one line, separated by a blank; <none> is silence and <closed> a closed connection.
// Where RESP2 and RESP3 differ there are two lines, marked 2: and 3:.
//
// A line that starts with "# " is a directive for the next step, or with "# case" for the whole case:
//
//	# unordered            aggregates are compared without regard to order (maps by pair)
//	# unordered 2          the same, elements in groups of two (a map as RESP2 shows it)
//	# double               texts that are numbers are compared as numbers
//	# approx 100           integers may differ by up to 100
//	# any                  any reply of the same type
//	# resp2-only, # resp3-only
//	# skip-oracle REASON   the reply of redis-server 7.0.15 differs, and why that is right
//
// go test with -rewrite writes the replies that came into the files, except where the directives say
// that the written ones match.
package script
