// Package feed is the change feed: streams of frames, read by cursor, over the
// one log.
//
// A store of N shards has N+1 streams: one for each shard, and ALL. A frame is an
// op of the log as a stream shows it; its offset counts the frames of that
// stream since the generation began (package persist says what a generation is).
// Frames are not stored a second time. A Source keeps counters, and marks that
// say which offset a stream has at some LSN; a reader decodes the log forward
// from there and counts. Memory, disk, live and replay are one path.
//
// # Writing
//
// Publish is called in the log's critical section for each commit and counts its
// ops. Bump ends a generation. Neither waits for a reader, and a waiting reader
// costs a commit at most one wake-up.
//
// # Reading
//
// Since reads on from a cursor and returns whole commits. Its result has the
// cursor to go on with, which moves over what a filter leaves out, so that a
// reader with a rare filter does not fall behind the log's floor. Where a
// generation has ended, a reader is served up to its end and then moved to
// offset 0 of the next one; where that would hide something, it gets a
// *ResyncError. A reader sees a frame once it is committed, or, if it asks for
// that, once it is fsynced.
//
// # Finding an offset
//
// In ALL the offset is the distance from the generation's first LSN. In a shard's
// stream the search begins at the closest known place before it: where a cached
// reader stands, a mark, the beginning of a segment (the log's files say there
// where each stream stands), or the beginning of the generation. If the log no
// longer reaches back to that place, the offset at the log's beginning is found
// by counting back from the next mark.
package feed
