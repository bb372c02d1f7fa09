//go:build !race

package aof

// thin divides what the exhaustive tests try.
const thin = 1
