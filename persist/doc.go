// Package persist keeps what a data directory knows beside the log: LOCK, the
// MANIFEST, and the feed's sidecars, which decide whether cursors of the last
// run are still good. It deals in numbers: it knows neither ops nor frames.
//
// # The promise
//
// No stream, generation and offset name two different frames, to any reader,
// over any crash. Offsets count up within a generation, so it is enough that a
// generation never goes on after frames of it were lost. A lost frame is one
// that a reader may have seen and that the recovered log does not hold.
//
// # At a clean close
//
// The log is fsynced and closed; then Contract.Close writes feed-N.meta for
// every stream: the generation, the next offset and the end of the log. Nothing
// is committed after that.
//
// # At open
//
// OpenContract goes on in the same generation only if every marker is there,
// they agree with each other and with the .gen files, and the log ends exactly
// where they say, in the same file. Before it returns, every marker is removed
// and the directory fsynced. So, at each point where the power may fail:
//
//   - Before the removal is durable, nothing was served and nothing written:
//     whichever markers come back describe the log as it is.
//   - After it, no marker can come back. Whatever happens to frames that are
//     committed from now on, the next open finds none and draws a new number.
//   - While the new .gen files are written, some name the old generation and some
//     the new one. Nothing was served under the new one yet, there are no
//     markers, and the next open draws a number above both.
//   - While the markers are written, some are missing, and the next open draws.
//     A marker of an earlier close cannot complete the set: it was durably removed
//     before this run committed anything.
//
// A FLUSHALL begins a generation without waiting for the disk: its number is in
// the log, on a line after the op, and the .gen files follow once that op is
// durable. If a crash loses both, frames of the new generation are lost with its
// name, and the next number differs by its random part (see Draw). If it loses
// the line only, the .gen files have it; recovery takes the newer of the two.
//
// # Lineage
//
// A crash loses frames at the end, not those before. Each .gen file therefore
// remembers up to 64 past generations and where they ended, so that a reader at
// or below such an end is served up to it and then moved to offset 0 of the next
// one. That is right only if nothing lies in between: an end that is not known,
// or that the recovered log contradicts, forgets everything before it too. An
// end is written once its LSN is durable, so that an honest disk never makes it
// wrong; where a disk lied, the end is taken back to what was recovered.
//
// # Snapshots
//
// Spool is no part of all this: a file that lives while readers of the feed take
// the state from it, with no promise over a crash but that it goes.
//
// docs/formats-sidecars.md has the grammar of the files.
package persist
