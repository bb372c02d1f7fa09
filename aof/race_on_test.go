//go:build race

package aof

// thin divides what the exhaustive tests try: the race detector makes each try
// ten times as long, and none of them is about concurrency.
const thin = 11
