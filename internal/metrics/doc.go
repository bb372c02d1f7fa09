// Package metrics keeps what is measured of single commands and of the server's
// work behind them: how their durations are spread, which ones were slow, and which
// events took long. All of it is bounded, and safe for use by many goroutines.
package metrics
