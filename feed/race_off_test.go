//go:build !race

package feed

const raceDetector = false
