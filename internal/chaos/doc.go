// Package chaos is a proxy in front of a server that makes life hard for
// consumers of the change feed, and stays within the contract of docs/feed.md:
// whatever it does, a real server, or the network before it, may do too.
//
//   - It drops connections, also in the middle of a message.
//   - It lets a subscription, or a SINCE, begin at an older cursor than was asked
//     for, one that it has given out before: as if the consumer had crashed before
//     it could store the later one.
//   - It stalls: nothing comes for a while, in either direction.
//   - It answers FEEDRESYNC, with the true tail and oldest cursor, where the cursor
//     would have been good: as if the history had been let go.
//
// A consumer that comes to the right result through it is one that can be
// trusted with crashes. What a connection does beside the feed passes as it is.
package chaos
