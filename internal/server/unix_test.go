package server

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kevy/internal/config"
	"kevy/tests/wire"
)

func (in *instance) unixConn(path string) *conn {
	in.t.Helper()
	nc, err := net.DialTimeout("unix", path, patience)
	if err != nil {
		in.t.Fatal(err)
	}
	in.t.Cleanup(func() { nc.Close() })
	return &conn{wire.NewConn(nc), in.t}
}

// TestUnixSocket: a server that is reached by it alone.
func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kevy.sock")
	// What a server that was killed has left.
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	left.Close()
	t.Run("serving", func(t *testing.T) {
		in := start(t, "--unixsocket", path, "--unixsocketperm", "750")
		if in.addr != "" {
			t.Errorf("it listens on %s too", in.addr)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode() != fs.ModeSocket|0o750 {
			t.Errorf("%v, %v", info, err)
		}
		c := in.unixConn(path)
		c.expect("PING", "+PONG")
		if line := string(c.do("CLIENT LIST").Text); !strings.Contains(line, " addr="+path+":0 laddr="+path+":0 fd=") || !strings.Contains(line, " flags=U ") || strings.Contains(line, " fd=-1 ") {
			t.Errorf("%s", line)
		}
		waiting := in.unixConn(path)
		_ = waiting.Send("BLPOP", "list", "0")
		eventually(t, "it waits", func() bool { return c.infoInt("clients", "blocked_clients") == 1 })
		waiting.Close()
		eventually(t, "it is gone", func() bool { return c.infoInt("clients", "blocked_clients") == 0 })
		c.expect("CONFIG SET unixsocket /other", "-ERR CONFIG SET failed (possibly related to argument 'unixsocket') - can't set immutable config")
	})
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket stays: %v", err)
	}
}

// TestUnixSocketIsTaken: neither another server's socket nor another file goes.
func TestUnixSocketIsTaken(t *testing.T) {
	dir := t.TempDir()
	file, live := filepath.Join(dir, "file"), filepath.Join(dir, "live")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	other, err := net.Listen("unix", live)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for path, want := range map[string]string{
		file: "no socket: name another", live: "taken by another program", filepath.Join(dir, "no", "where"): "no such file",
		filepath.Join(dir, strings.Repeat("long", 40)): "cannot listen on the unixsocket",
	} {
		cfg, err := config.Load([]string{"--dir", dir, "--port", "0", "--unixsocket", path}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if all, err := listenAll(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", path, all, err)
		}
	}
	for _, path := range []string{file, live} {
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
	// A name alone is one in the data directory, which need not be there yet.
	cfg, err := config.Load([]string{"--dir", filepath.Join(dir, "data"), "--unixsocket", "kevy.sock"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := listenUnix(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if _, err := os.Lstat(filepath.Join(dir, "data", "kevy.sock")); err != nil {
		t.Error(err)
	}
}

func TestMaxClientsFitsOpenFiles(t *testing.T) {
	in := start(t)
	c := in.conn()
	r := c.do("CONFIG SET maxclients 4294967295 timeout 7")
	if !r.IsError("ERR") || !strings.Contains(string(r.Text), "(possibly related to argument 'maxclients') - The operating system is not able to handle the specified number of clients, try with ") {
		t.Errorf("%s", r)
	}
	c.expect("CONFIG GET maxclients timeout", `["timeout", "0", "maxclients", "10000"]`)
	c.expect("CONFIG SET maxclients 20", "+OK")
	cfg, err := config.Load([]string{"--maxclients", "4294967295"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := fitMaxClients(cfg, in.Server.log); err != nil || cfg.MaxClients.Load() != openFiles(0)-reservedFiles || !strings.Contains(in.log.String(), "maxclients is lowered") {
		t.Errorf("maxclients is %d with %d open files, %v", cfg.MaxClients.Load(), openFiles(0), err)
	}
}
