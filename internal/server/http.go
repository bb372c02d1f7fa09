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
	bind    []string         // the settings that it listens at; guarded by mu
	port    int64            // 0: nowhere; guarded by mu
	stopped bool             // guarded by mu
}

// listenHTTP opens the addresses on which the feed is served over HTTP; none if
// that is off, or the feed is.
func listenHTTP(cfg *config.Config, log *slog.Logger) ([]net.Listener, error) {
	port := cfg.HTTPPort.Load()
	switch {
	case port == 0:
		return nil, nil
	case !cfg.Feed.Load():
		log.Warn("http-port has no effect, as the feed is off: set feed yes", "http_port", port)
		return nil, nil
	}
	return listenOnHTTP(cfg.Bind.Load(), port)
}

func listenOnHTTP(bind []string, port int64) ([]net.Listener, error) {
	if port == 0 {
		return nil, nil
	}
	return listenAs(bind, port, "--http-port (0 is no HTTP)")
}

// openHTTP begins to serve the feed on listeners, which come from the settings.
func (s *Server) openHTTP(listeners []net.Listener) {
	w := &s.web
	w.mu.Lock()
	defer w.mu.Unlock()
	w.port = s.cfg.HTTPPort.Load()
	if len(listeners) > 0 {
		s.serveHTTP(listeners, s.cfg.Bind.Load(), w.port)
	}
}

// serveHTTP is openHTTP, or, without listeners, the end of listening. The caller
// holds web.mu.
func (s *Server) serveHTTP(listeners []net.Listener, bind []string, port int64) {
	w := &s.web
	w.bind, w.port = bind, port
	if w.server == nil {
		w.server = feedhttp.New(feedhttp.Options{
			Source: s.store.Feed(), DBs: s.store.Set().DBs(), Logger: s.log,
			MaxClients: func() int { return int(s.cfg.HTTPMaxClients.Load()) }, LocalOnly: s.cfg.ProtectedMode.Load,
			Subscribers: &s.subscribers, NextID: func() uint64 { return s.nextID.Add(1) }, Pause: s.pacer.next,
		})
	}
	for _, ln := range listeners {
		s.log.Info("the feed is served over HTTP", "address", ln.Addr().String())
		w.server.Serve(ln)
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
	bind, port := s.cfg.Bind.Load(), s.cfg.HTTPPort.Load()
	switch {
	case w.stopped, port == w.port && (w.server == nil || port == 0 || slices.Equal(bind, w.bind)):
		return nil
	case port == 0 && w.server == nil:
		w.port = 0
		return nil
	case !s.cfg.Feed.Load():
		return errNoFeed
	}
	if w.server != nil {
		w.server.Unlisten()
	}
	listeners, err := listenOnHTTP(bind, port)
	if err == nil {
		s.serveHTTP(listeners, bind, port)
		return nil
	}
	s.log.Warn("cannot serve HTTP where it was asked to", "error", err)
	old, oldErr := listenOnHTTP(w.bind, w.port)
	if oldErr != nil {
		s.log.Error("cannot serve HTTP where it did before: no connections are accepted", "error", oldErr)
	}
	s.serveHTTP(old, w.bind, w.port)
	if port != w.port {
		return errListenPort
	}
	return errListenBind
}
