package server

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"kevy/internal/config"
	"kevy/internal/vfs"
)

// unixListener is a Unix socket whose file goes with it.
type unixListener struct {
	net.Listener
	path string
	once sync.Once
}

// Addr names the socket as the clients do.
func (l *unixListener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }

func (l *unixListener) Close() error {
	l.once.Do(func() { _ = os.Remove(l.path) })
	return l.Listener.Close()
}

// socketProbe bounds the wait for the server that may listen on a socket.
const socketProbe = time.Second

// listenUnix opens the socket of the setting unixsocket. The file has its
// permissions before anybody can connect.
func listenUnix(cfg *config.Config) (net.Listener, error) {
	path := cfg.Path(cfg.UnixSocket.Load())
	perm, err := strconv.ParseUint(cfg.UnixSocketPerm.Load(), 8, 32)
	if err != nil {
		return nil, fmt.Errorf("unixsocketperm: %w", err)
	}
	if !filepath.IsAbs(cfg.UnixSocket.Load()) {
		if err := vfs.OS().MkdirAll(cfg.Dir.Load()); err != nil {
			return nil, err
		}
	}
	if err := clearSocket(path); err != nil {
		return nil, err
	}
	ln, err := bindUnix(path, os.FileMode(perm), int(cfg.TCPBacklog.Load()))
	if err != nil {
		return nil, fmt.Errorf("cannot listen on the unixsocket %s: %w", path, err)
	}
	return &unixListener{Listener: ln, path: path}, nil
}

// clearSocket removes the socket that a server has left behind which is no more.
func clearSocket(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("unixsocket %s is there already and no socket: name another, or remove it", path)
	}
	if conn, err := net.DialTimeout("unix", path, socketProbe); err == nil {
		_ = conn.Close()
		return fmt.Errorf("unixsocket %s is taken by another program: stop that one, or name another", path)
	} else if !errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("unixsocket %s is there already, and who listens cannot be told: %w", path, err)
	}
	return os.Remove(path)
}

// bindUnix is net.Listen, with permissions that are set before it listens.
func bindUnix(path string, perm os.FileMode, backlog int) (net.Listener, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close() // the listener has a descriptor of its own
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return nil, err
	}
	if perm != 0 {
		err = os.Chmod(path, perm)
	}
	if err == nil {
		err = unix.Listen(fd, backlog)
	}
	var ln net.Listener
	if err == nil {
		ln, err = net.FileListener(file)
	}
	if err != nil {
		_ = os.Remove(path)
	}
	return ln, err
}
