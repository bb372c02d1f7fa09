// Package resp speaks RESP, the protocol of Redis, from both ends.
//
// A [Reader] turns the bytes of one client into commands: in place, within
// [Limits], and with work linear in the number of bytes however they were cut
// into packets. A [Writer] encodes replies by shape (map, set, double, null …)
// for a connection that speaks RESP2 or RESP3. [AppendCommand] and
// [ReadReply] are the client's side: a command, and its reply as a [Reply].
//
// The protocol is described at https://redis.io/docs/latest/develop/reference/protocol-spec/.
// Texts of errors and every decision on malformed input are those of
// redis-server 7.0.
package resp
