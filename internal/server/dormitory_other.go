//go:build !linux

package server

// dormitory is not there: clients that rest wait for themselves.
type dormitory struct{}

func (*dormitory) open(*Server) error { return nil }
func (*dormitory) close()             {}
func (*dormitory) add(*client) bool   { return false }
func (*dormitory) remove(*client)     {}
