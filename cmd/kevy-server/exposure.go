package main

import (
	"log/slog"
	"net"
	"strings"

	"kevy/internal/config"
)

// warnOfExposure says, now and after each CONFIG SET that changes it, who may
// use the server, if not only this host.
func warnOfExposure(cfg *config.Config, log *slog.Logger) {
	say := func() error {
		addresses := beyondLoopback(cfg.Bind.Load())
		switch {
		case len(addresses) == 0:
		case cfg.ProtectedMode.Load():
			log.Info("clients of other hosts are refused, as protected-mode is yes and there is no password", "bind", strings.Join(addresses, " "))
		default:
			log.Warn("there is no password: everyone who reaches these addresses has full access; set protected-mode yes, or bind to addresses that only clients reach",
				"bind", strings.Join(addresses, " "))
		}
		return nil
	}
	_ = say()
	cfg.OnChange(say, &cfg.Bind, &cfg.ProtectedMode)
}

// beyondLoopback returns the addresses of the setting bind that other hosts may
// reach. A name may stand for any address.
func beyondLoopback(bind []string) []string {
	var beyond []string
	for _, word := range bind {
		host := strings.TrimPrefix(word, "-")
		if ip := net.ParseIP(host); !strings.EqualFold(host, "localhost") && (ip == nil || !ip.IsLoopback()) {
			beyond = append(beyond, host)
		}
	}
	return beyond
}
