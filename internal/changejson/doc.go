// Package changejson words frames of the change feed as JSON, one object a
// line, for whatever leaves the server as text: pipes, files and HTTP.
//
// A frame is
//
//	{"stream":"ALL","generation":7318349394477056,"offset":5,"first":5,"last":6,"lsn":42,"ms":1700000000000,"db":0,"cause":"user","args":["SET","k","v"]}
//
// with the fields always in this order. first and last are the offsets of the
// frame's commit in its stream and generation; the cursor behind the commit is
// (generation, last+1). ms is Unix time in milliseconds.
//
// An argument that is valid UTF-8 is a JSON string of the same text. Any other
// is its standard base64 with padding (RFC 4648, section 4), and its index in
// args stands in a further field, "base64":[…], ascending, which is left out if
// there is none. A reader that finds no such field may take every argument as
// it is. Of the text only '"', '\' and U+0000 to U+001F are escaped.
//
// Lines that are no frame have a field event, which frames lack:
//
//	{"stream":"ALL","event":"position","generation":7318349394477056,"offset":8,"complete":43}
//	{"stream":"ALL","event":"snapshot-start","token":"x"}
//	{"stream":"ALL","event":"snapshot","token":"x","n":1,"db":0,"args":["SET","k","v"]}
//	{"stream":"ALL","event":"snapshot-end","token":"x","generation":7318349394477056,"offset":8}
//	{"stream":"ALL","event":"heartbeat"}
//
// A position is the cursor to go on from, after everything before it; complete
// is the LSN up to which the stream is complete, 0 if that was not asked for.
// A snapshot line is one op of those that rebuild the keys, base64 flagged as
// in a frame; n counts the messages that ops came in.
// Heartbeats come over HTTP only, as does an event "end", which has the fields of
// an error (docs/http.md).
package changejson
