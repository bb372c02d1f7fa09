package commandtest

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"kevy/internal/command"
	"kevy/internal/engine"
	"kevy/internal/exec"
	"kevy/internal/vfs"
	"kevy/resp"
	"kevy/tests/script"
)

// Scripts runs every testdata/*.txt of the calling package with the commands of
// the families.
func Scripts(t *testing.T, families ...[]*command.Spec) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts under testdata: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			srv := startServer(t, families...)
			script.Run(t, file, script.Target{
				Dial:      srv.dial,
				AfterCase: func(t testing.TB, c *script.Case) { srv.checkRecovery(t) },
			})
		})
	}
}

// server is a store on a file system in memory whose connections are socket pairs.
type server struct {
	fs     *vfs.Mem
	store  *engine.Engine
	x      *exec.Executor
	ids    atomic.Uint64
	active sync.WaitGroup // one for each connection's goroutine
}

// startServer starts a server that ends with the test.
func startServer(t *testing.T, families ...[]*command.Spec) *server {
	t.Helper()
	srv := &server{fs: vfs.NewMem()}
	store, err := engine.Open(srv.options(srv.fs))
	if err != nil {
		t.Fatal(err)
	}
	srv.store = store
	families = append(families[:len(families):len(families)], exec.Commands())
	families = append(families, srv.missing(families))
	srv.x = exec.New(command.NewTable(families...), store, slog.New(slog.DiscardHandler), exec.Refusals{})
	t.Cleanup(func() {
		srv.active.Wait()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return srv
}

func (srv *server) options(fs *vfs.Mem) engine.Options {
	return engine.Options{FS: fs, Dir: "/data", Shards: shards, DBs: dbs, FeedMemoryBytes: 1 << 20, FeedDiskBytes: 1 << 20}
}

// checkRecovery fails the test unless the log rebuilds the keyspace.
func (srv *server) checkRecovery(t testing.TB) {
	t.Helper()
	set := srv.store.Set()
	all := make([]int, set.Shards())
	for i := range all {
		all[i] = i
	}
	set.Lock(all)
	live, last := set.Digest(), set.LastLSN(all)
	err := srv.store.Wait(last)
	var again *engine.Engine
	if err == nil {
		again, err = engine.Open(srv.options(srv.fs.Clone()))
	}
	set.Unlock(all)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	again.PauseExpiry(true)
	if again.Set().Digest() != live {
		t.Error("the keyspace differs from what its log makes of it")
	}
}

// missing returns those commands that the runner itself needs and the families
// lack.
func (srv *server) missing(families [][]*command.Spec) (out []*command.Spec) {
	known := make(map[string]bool)
	for _, family := range families {
		for _, s := range family {
			known[s.Name] = true
		}
	}
	for _, s := range []*command.Spec{
		{Name: "hello", Arity: 2, Flags: command.Unlocked, Run: func(c *command.Ctx) {
			c.W.SetProto(int(c.Args[1][0] - '0'))
			c.W.Map(0)
		}},
		{Name: "select", Arity: 2, Flags: command.Unlocked, Run: func(c *command.Ctx) {
			if n, ok := command.ParseInt(c.Args[1]); ok && n >= 0 && n < dbs {
				c.Session.(*connection).es.Select(int(n))
			}
			c.W.OK()
		}},
		{Name: "ping", Arity: 1, Flags: command.Unlocked, Run: func(c *command.Ctx) { c.W.Simple("PONG") }},
		{Name: "info", Arity: -1, Flags: command.Unlocked, Run: func(c *command.Ctx) {
			blocked, _ := srv.x.Stats().Blocked()
			c.W.BulkString("blocked_clients:" + strconv.FormatInt(blocked, 10) + "\r\n")
		}},
		{Name: "flushall", Arity: 1, Flags: command.Write | command.AllShards, Run: func(c *command.Ctx) {
			c.Tx.FlushAll()
			c.W.OK()
		}},
	} {
		if !known[s.Name] {
			out = append(out, s)
		}
	}
	return out
}

// connection is one end of a socket pair and the session behind it.
type connection struct {
	net.Conn
	srv  *server
	id   uint64
	es   *exec.Session
	w    *resp.Writer
	gone context.Context // ends when the peer closes
}

func (c *connection) ID() uint64          { return c.id }
func (c *connection) DB() int             { return c.es.DB() }
func (c *connection) Exec() *exec.Session { return c.es }

// Park lets a command wait until the peer closes.
func (c *connection) Park() (ctx context.Context, done func(), ok bool) {
	return c.gone, func() {}, c.flush()
}

// peer is the client's end. Closing it tells the other end even while
// that reads nothing.
type peer struct {
	net.Conn
	cancel context.CancelFunc
}

func (p *peer) Close() error {
	p.cancel()
	return p.Conn.Close()
}

// socketPair returns two connected sockets. Unlike net.Pipe they take what nobody
// reads yet.
func socketPair() (a, b net.Conn, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, err
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socket pair")
		c, ferr := net.FileConn(f) // on a descriptor of its own
		err = errors.Join(err, ferr, f.Close())
		ends[i] = c
	}
	return ends[0], ends[1], err
}

func (srv *server) dial() (net.Conn, error) {
	client, end, err := socketPair()
	if err != nil {
		return nil, err
	}
	gone, cancel := context.WithCancel(context.Background())
	c := &connection{Conn: end, srv: srv, id: srv.ids.Add(1), w: resp.NewWriter(2), gone: gone}
	c.es = srv.x.NewSession(c, c.w)
	srv.active.Go(c.serve)
	return &peer{client, cancel}, nil
}

func (c *connection) serve() {
	defer c.es.Close()
	defer c.Close()
	r := resp.NewReader(c.Conn, resp.DefaultLimits())
	for {
		args, ok, err := r.Next()
		switch {
		case err != nil:
			c.w.Err(err)
			c.flush()
			return
		case ok:
			c.srv.x.Do(c.es, args)
			continue
		}
		if !c.flush() || r.Fill() != nil {
			return
		}
	}
}

func (c *connection) flush() bool {
	if c.w.Len() == 0 {
		return true
	}
	c.es.Settle()
	_, err := c.Write(c.w.Bytes())
	c.w.Reset()
	return err == nil
}
