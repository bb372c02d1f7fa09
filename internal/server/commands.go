package server

import (
	"kevy/feed"
	"kevy/internal/command"
	"kevy/internal/command/acl"
	"kevy/internal/command/admin"
	"kevy/internal/command/all"
	"kevy/internal/command/changes"
	"kevy/internal/command/connection"
	"kevy/internal/command/pubsub"
	"kevy/internal/config"
	"kevy/internal/exec"
	"kevy/internal/script"
	"kevy/resp"
)

//go:generate go run ./gendoc ../../docs

// redisVersion is the version that clients are told, beside kevy's own: they
// choose by it which commands to use, Sidekiq by comparing text.
const redisVersion = "7.2.4"

// Version implements connection.Server.
func (s *Server) Version() string { return redisVersion }

// commandTable assembles what this server offers: the data commands, those of
// transactions and connections, the feed's and the operator's.
func (s *Server) commandTable() *command.Table {
	return newTable(s, s.store.Feed(), s.store)
}

func newTable(s *Server, source *feed.Source, store changes.Store) *command.Table {
	var table *command.Table
	table = command.NewTable(
		all.Data(), exec.Commands(), connection.Commands(s), acl.Commands(s, func() *command.Table { return table }),
		changes.Commands(source, store, &s.subscribers), pubsub.Commands(s.hub), s.scripts.Commands(),
		admin.Commands(s, func() *command.Table { return table }),
	)
	return table
}

// Commands returns the commands that a server offers, for what describes them:
// none can run.
func Commands() *command.Table { return newTable(&Server{scripts: script.New(nil)}, nil, nil) }

// refusals are the reasons not to run a command, in the order of Redis.
func (s *Server) refusals() exec.Refusals {
	return exec.Refusals{
		Admit: []exec.Refusal{
			s.refuseDebug, exec.RefuseUnauthenticated, exec.RefuseInMulti, exec.RefuseForbidden, exec.RefuseBusy, exec.RefuseOOM,
			exec.RefuseUnlogged, s.refuseUnreplicated, refuseSubscribed, s.refusePaused,
		},
		Nested: []exec.Refusal{s.refuseDebug, exec.RefuseForbidden, exec.RefuseOOMInScript, s.refuseUnreplicated},
	}
}

// refuseDebug holds DEBUG to enable-debug-command.
func (s *Server) refuseDebug(es *exec.Session, spec *command.Spec, _ [][]byte) *resp.Error {
	if spec.Name != "debug" {
		return nil
	}
	switch s.cfg.EnableDebugCommand.Load() {
	case config.LocalityYes:
		return nil
	case config.LocalityLocal:
		if c, ok := es.Self().(*client); ok && c.local {
			return nil
		}
	}
	return resp.Errorf("ERR", "DEBUG command not allowed. If the enable-debug-command option is set to \"local\", "+
		"you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.")
}
