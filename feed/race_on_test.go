//go:build race

package feed

const raceDetector = true
