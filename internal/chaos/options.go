package chaos

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Options say what the proxy does, and how often. Rates are probabilities
// between 0 and 1: of a message from the server, or of a request to begin.
type Options struct {
	// To is host:port of the server, and TLS how it is reached, if not plainly.
	To  string
	TLS *tls.Config
	// Seed makes two runs with the same traffic alike.
	Seed uint64
	// Drop is how often a connection is cut at a message, before it, within it or
	// behind it.
	Drop float64
	// Redeliver is how often SINCE and SUBSCRIBE begin at an older cursor.
	Redeliver float64
	// Stall is how often a message is held back, for up to StallMax.
	Stall    float64
	StallMax time.Duration
	// Resync is how often SINCE and SUBSCRIBE are answered with FEEDRESYNC.
	Resync float64
	Log    *slog.Logger
}

func (o *Options) check() error {
	for _, rate := range []struct {
		name  string
		value float64
	}{{"drop", o.Drop}, {"redeliver", o.Redeliver}, {"stall", o.Stall}, {"resync", o.Resync}} {
		if !(rate.value >= 0 && rate.value <= 1) {
			return fmt.Errorf("the rate of %s is %v; it goes from 0 to 1", rate.name, rate.value)
		}
	}
	if o.Drop == 1 {
		return errors.New("with a rate of drop of 1 nothing ever comes through")
	}
	if o.Stall > 0 && o.StallMax <= 0 {
		return errors.New("stalls need a longest time above 0")
	}
	return nil
}

// Counts are what the proxy has done.
type Counts struct {
	Connections, Messages                uint64
	Drops, Redeliveries, Stalls, Resyncs uint64
}
