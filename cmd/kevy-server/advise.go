package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"strings"
	"syscall"
)

// advise adds to an error which setting changes what it is about.
func advise(err error, dir string) error {
	var path *fs.PathError
	var name *net.DNSError
	switch {
	case errors.As(err, &name):
		return fmt.Errorf("%w: set bind to addresses of this machine", err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%w: this machine does not have the address; set bind to those it has", err)
	case errors.As(err, &path) && (dir == path.Path || within(dir, path.Path)):
		return fmt.Errorf("%w: choose another directory with --dir", err)
	case errors.As(err, &path) && within(path.Path, dir) && errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: let the server's user read and write what is in %s, or choose another directory with --dir", err, dir)
	}
	return err
}

func within(path, dir string) bool {
	return strings.HasPrefix(path, strings.TrimSuffix(dir, string(filepath.Separator))+string(filepath.Separator))
}
