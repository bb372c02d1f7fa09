// Package server puts a store on the network: listeners, connections and the
// commands that concern them.
package server

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"kevy/internal/acl"
	"kevy/internal/command"
	"kevy/internal/command/changes"
	"kevy/internal/config"
	"kevy/internal/engine"
	"kevy/internal/exec"
	"kevy/internal/pubsub"
	"kevy/internal/script"
	"kevy/resp"
)

// Server serves one store.
type Server struct {
	cfg   *config.Config
	log   *slog.Logger
	store *engine.Engine
	exec  *exec.Executor

	started     time.Time
	startBytes  int64 // see startBytes
	runID       string
	replID      atomic.Pointer[string]
	nextID      atomic.Uint64
	stats       stats
	shutdown    chan struct{} // closed by SHUTDOWN
	portsClosed chan struct{} // closed once nobody can connect any more
	stopOnce    sync.Once
	ports       ports
	tls         atomic.Pointer[tls.Config] // nil: nothing is served over TLS
	handshakes  handshakes
	web         web
	// subscribers are the readers that follow a stream, by whatever way.
	subscribers changes.Subscribers
	hub         *pubsub.Hub
	observed    observed
	scripts     *script.Family
	cronPaused  atomic.Bool
	pauses      pauses
	// ends is over when the server ends, which end says.
	ends     context.Context
	end      context.CancelFunc
	saves    saves
	events   events
	tracking *tracking
	users    *acl.Users
	userFile sync.Mutex // held while aclfile is read or written
	// subscribeSpec and sinceSpec are those of CHANGES, by which readers of the feed
	// are judged that come another way.
	subscribeSpec, sinceSpec *command.Spec

	limits    atomic.Pointer[resp.Limits] // of what clients send
	pacer     pacer
	dormitory dormitory
	hangUps   hangUps

	writeTimeout time.Duration

	mu sync.Mutex
	// clientBytes is what clients occupy; at clientsLimit, unless 0, the largest go.
	clientBytes, clientsLimit atomic.Int64
	queuedBytes               int64 // of clientBytes: messages; guarded by mu

	clients map[uint64]*client // guarded by mu
	// receivers are those of clients that have taken messages; guarded by mu.
	receivers map[*client]*receiver
	admitted  int            // connections that were let in and have not ended; guarded by mu
	closed    bool           // guarded by mu
	active    sync.WaitGroup // one for each client
}

// Run opens the store and serves it until ctx ends or a client sends SHUTDOWN,
// then closes both cleanly. ready is called with each address once connections
// are accepted. The error says what to do where something can be done.
func Run(ctx context.Context, cfg *config.Config, log *slog.Logger, ready func(addr string)) (err error) {
	// The ports first: a second server on them must not touch the directory.
	if err := fitMaxClients(cfg, log); err != nil {
		return err
	}
	if _, err := tlsConfig(cfg); err != nil {
		return fmt.Errorf("TLS cannot be served: %w", err)
	}
	listeners, err := listenAll(cfg)
	if err != nil {
		return err
	}
	web, err := listenHTTP(cfg, log)
	if err != nil {
		listeners.close()
		return err
	}
	startBytes()
	store, err := engine.Open(engineOptions(cfg, log))
	if err != nil {
		listeners.close()
		web.close()
		return advise(err)
	}
	defer func() {
		if cerr := store.Close(); err == nil {
			err = cerr
		}
	}()
	s, err := newServer(cfg, log, store)
	if err == nil {
		err = s.watchConfig()
	}
	if err != nil {
		listeners.close()
		web.close()
		return err
	}
	s.openHTTP(web)
	return s.serve(ctx, listeners, ready)
}

func newServer(cfg *config.Config, log *slog.Logger, store *engine.Engine) (*Server, error) {
	s := &Server{
		cfg: cfg, log: log, store: store, started: time.Now(), startBytes: startBytes(), runID: newRunID(),
		shutdown: make(chan struct{}), portsClosed: make(chan struct{}), clients: make(map[uint64]*client), receivers: make(map[*client]*receiver), ports: ports{failed: make(chan error, 1)}, handshakes: newHandshakes(maxHandshakes),
		writeTimeout: writeTimeout, hub: pubsub.NewHub(),
	}
	s.ends, s.end = context.WithCancel(context.Background())
	s.replID.Store(&s.runID)
	store.Outside().Store(s.startBytes)
	s.pauses.srv = s
	s.setLimits()
	s.scripts = script.New(scriptRunner{s})
	table := s.commandTable()
	if err := renameCommands(cfg, table); err != nil {
		return nil, err
	}
	if err := s.openUsers(table); err != nil {
		return nil, err
	}
	s.subscribeSpec, s.sinceSpec = table.Original("changes|subscribe"), table.Original("changes|since")
	s.tracking = newTracking(s)
	s.exec = exec.New(table, store, log, s.refusals())
	s.exec.NoticeWith(&s.hangUps)
	s.openScripts()
	store.TellWith(s.tell)
	store.TellWork(s.sawEvent)
	return s, nil
}

func newRunID() string {
	var b [20]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(b[:])
}

// serve accepts connections until it is told to stop, then ends them.
func (s *Server) serve(ctx context.Context, listeners entrances, ready func(addr string)) error {
	if err := s.dormitory.open(s); err != nil {
		s.log.Warn("idle connections will need more memory", "error", err)
	}
	if err := s.hangUps.open(s); err != nil {
		s.log.Warn("clients that hang up while they wait will be noticed later", "error", err)
	}
	if open := listeners[byTCP]; s.cfg.Port.Load() == 0 && len(open) > 0 {
		if addr, ok := open[0].Addr().(*net.TCPAddr); ok {
			s.ports.free = int64(addr.Port)
		}
	}
	for w := range ways {
		s.openPorts(w, listeners[w], s.cfg.Bind.Load())
	}
	for _, group := range listeners {
		for _, ln := range group {
			ready(ln.Addr().String())
		}
	}
	stopCron := s.startCron()
	var err error
	select {
	case <-ctx.Done():
	case <-s.shutdown:
	case err = <-s.ports.failed:
	}
	s.stop()
	stopCron()
	return err
}

// Shutdown makes serve return; Run closes the store then. Nobody can connect any more
// once it returns.
func (s *Server) Shutdown() {
	s.stopOnce.Do(func() { close(s.shutdown) })
	<-s.portsClosed
}

// stop closes the listeners and every connection and waits for their ends.
func (s *Server) stop() {
	s.end()
	s.exec.Halt()
	for w := range ways {
		s.closePorts(w)
	}
	close(s.portsClosed)
	s.closeHTTP()
	s.mu.Lock()
	s.closed = true
	for _, c := range s.clients {
		c.kill()
	}
	s.mu.Unlock()
	s.handshakes.end()
	s.active.Wait()
	s.dormitory.close()
	s.hangUps.close()
	s.scripts.Close()
	s.pacer.stop()
	s.pauses.stop()
	s.saves.end()
}

// uptime is the clock of connections: monotonic, and cheap to read.
func (s *Server) uptime() time.Duration { return time.Since(s.started) }
