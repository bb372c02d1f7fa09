package server

import (
	"log/slog"
	"net"
	"slices"
	"sync"

	"kevy/internal/config"
	"kevy/internal/feedhttp"
	"kevy/resp"
)

// web is the feed over HTTP.
type web struct {
	mu      sync.Mutex
	server  *feedhttp.Server // nil: it has never been switched on; guarded by mu
	at      webPlace         // where it listens; guarded by mu
	stopped bool             // guarded by mu
}

// webPlace are the settings that say where HTTP is served.
type webPlace struct {
	bind          []string
	port, tlsPort int64 // 0: not
}

func (p webPlace) none() bool { return p.port == 0 && p.tlsPort == 0 }

func webPlaceOf(cfg *config.Config) webPlace {
	return webPlace{bind: cfg.Bind.Load(), port: cfg.HTTPPort.Load(), tlsPort: cfg.HTTPTLSPort.Load()}
}

// webListeners are those of HTTP.
type webListeners struct{ plain, secure []net.Listener }

func (l webListeners) close() {
	closeAll(l.plain)
	closeAll(l.secure)
}

// listenHTTP opens the addresses on which the feed is served over HTTP; none if
// that is off, or the feed is.
func listenHTTP(cfg *config.Config, log *slog.Logger) (webListeners, error) {
	place := webPlaceOf(cfg)
	switch {
	case place.none():
		return webListeners{}, nil
	case !cfg.Feed.Load():
		log.Warn("http-port has no effect, as the feed is off: set feed yes", "http_port", place.port, "http_tls_port", place.tlsPort)
		return webListeners{}, nil
	}
	return place.listen()
}

func (p webPlace) listen() (l webListeners, err error) {
	if p.port != 0 {
		l.plain, err = listenAs(p.bind, p.port, 0, "--http-port (0 is no HTTP)")
	}
	if err == nil && p.tlsPort != 0 {
		l.secure, err = listenAs(p.bind, p.tlsPort, 0, "--http-tls-port (0 is no HTTPS)")
	}
	if err != nil {
		l.close()
		return webListeners{}, err
	}
	return l, nil
}

// openHTTP begins to serve the feed on listeners, which come from the settings.
func (s *Server) openHTTP(listeners webListeners) {
	w := &s.web
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = webPlaceOf(s.cfg)
	if len(listeners.plain)+len(listeners.secure) > 0 {
		s.serveHTTP(listeners, w.at)
	}
}

// serveHTTP is openHTTP, or, without listeners, the end of listening. The caller
// holds web.mu.
func (s *Server) serveHTTP(listeners webListeners, at webPlace) {
	w := &s.web
	w.at = at
	if w.server == nil {
		w.server = feedhttp.New(feedhttp.Options{
			Source: s.store.Feed(), DBs: s.store.Set().DBs(), Logger: s.log,
			MaxClients: func() int { return int(s.cfg.HTTPMaxClients.Load()) }, LocalOnly: s.localOnly, Login: s.loginHTTP,
			Subscribers: &s.subscribers, NextID: func() uint64 { return s.nextID.Add(1) }, Pause: s.pacer.next, TLS: s.webTLS(),
		})
	}
	for _, ln := range listeners.plain {
		s.log.Info("the feed is served over HTTP", "address", ln.Addr().String())
		w.server.Serve(ln)
	}
	for _, ln := range listeners.secure {
		s.log.Info("the feed is served over HTTPS", "address", ln.Addr().String())
		w.server.ServeTLS(ln)
	}
}

// closeHTTP ends it for ever.
func (s *Server) closeHTTP() {
	w := &s.web
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	if w.server != nil {
		w.server.Close()
	}
}

// errNoFeed is what CONFIG SET answers where there is nothing to serve.
var errNoFeed = &resp.Error{Text: "The feed is off."}

// rebindHTTP serves the feed where the settings say now. If it cannot, it goes on
// where it did. Connections stay.
func (s *Server) rebindHTTP() error {
	w := &s.web
	w.mu.Lock()
	defer w.mu.Unlock()
	old, now := w.at, webPlaceOf(s.cfg)
	same := now.port == old.port && now.tlsPort == old.tlsPort
	switch {
	case w.stopped, same && (w.server == nil || now.none() || slices.Equal(now.bind, old.bind)):
		return nil
	case now.none() && w.server == nil:
		w.at = now
		return nil
	case !s.cfg.Feed.Load():
		return errNoFeed
	}
	if w.server != nil {
		w.server.Unlisten()
	}
	listeners, err := now.listen()
	if err == nil {
		s.serveHTTP(listeners, now)
		return nil
	}
	s.log.Warn("cannot serve HTTP where it was asked to", "error", err)
	former, oldErr := old.listen()
	if oldErr != nil {
		s.log.Error("cannot serve HTTP where it did before: no connections are accepted", "error", oldErr)
	}
	s.serveHTTP(former, old)
	if !same {
		return errListenPort
	}
	return errListenBind
}
