package server

import (
	"context"
	"log/slog"

	"kevy/internal/command"
	"kevy/internal/exec"
	"kevy/internal/script/lualib"
	"kevy/resp"
)

// scriptRunner is what the commands of scripts need of the server.
type scriptRunner struct{ s *Server }

func (r scriptRunner) Nested(c *command.Ctx, o command.NestedOptions) command.Nested {
	return exec.Nested(c, o)
}

func (r scriptRunner) KillScript(function bool) *resp.Error { return r.s.exec.KillScript(function) }

func (r scriptRunner) RunningScript() (command.RunningScript, bool) { return r.s.exec.RunningScript() }

func (r scriptRunner) LogErr() error { return r.s.store.LogErr() }

func (r scriptRunner) LacksReplicas() *resp.Error {
	if r.s.lacksReplicas() {
		return errNoReplicas
	}
	return nil
}

func (r scriptRunner) OutOfMemory(c *command.Ctx) bool { return exec.OutOfMemory(c) }

// LogScript writes what redis.log says. Verbose is between the levels that there
// are, and is shown with those of debugging.
func (r scriptRunner) LogScript(level int, text string) {
	to := slog.LevelDebug
	switch level {
	case lualib.LogNotice:
		to = slog.LevelInfo
	case lualib.LogWarning:
		to = slog.LevelWarn
	}
	r.s.log.Log(context.Background(), to, text, "by", "script")
}

// LetScriptsDebug implements admin.Server.
func (s *Server) LetScriptsDebug(let bool) { s.exec.LetScriptsDebug(let) }

// Busy implements admin.Server.
func (s *Server) Busy() *resp.Error { return s.exec.Busy() }

// openScripts loads the libraries of functions that the store holds.
func (s *Server) openScripts() {
	set := s.store.Set()
	all := make([]int, set.Shards())
	for i := range all {
		all[i] = i
	}
	tx := s.store.NewTx()
	set.Lock(all)
	tx.Begin(all, 0, s.store.NowMs())
	s.scripts.Open(tx)
	tx.End()
	set.Unlock(all)
}
