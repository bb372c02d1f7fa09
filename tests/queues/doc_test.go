// Package queues runs job queues, unmodified and on their own packages, on
// kevy-server: what each offers, and all of them while the server is ended with
// SIGKILL and comes back. docs/queues.md says what was run.
//
// A queue's program gets `flow`, `short` or `kills` and a port. With flow it goes through
// steps, prints "ok" and the name of each, and fails at the first that is not as
// it should be; short leaves out what is slow, if there is such. With kills it adds and handles jobs, prints "done" and how many are
// handled, until it is sent a line; then it waits for all jobs and prints a report.
package queues
