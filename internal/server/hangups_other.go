//go:build !linux

package server

import "kevy/internal/command"

// hangUps is not there: each client that waits watches by itself.
type hangUps struct{}

func (*hangUps) open(*Server) error     { return nil }
func (*hangUps) close()                 {}
func (*hangUps) Follow(command.Session) {}
func (*hangUps) Notice()                {}
