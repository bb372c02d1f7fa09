package server

import (
	"kevy/internal/command"
	"kevy/internal/exec"
	"kevy/resp"
)

var errNoReplicas = &resp.Error{Code: "NOREPLICAS", Text: "Not enough good replicas to write."}

// lacksReplicas reports whether min-replicas-to-write asks for replicas: there are none.
// A min-replicas-max-lag of 0 asks for none either.
func (s *Server) lacksReplicas() bool {
	return s.cfg.MinReplicasToWrite.Load() > 0 && s.cfg.MinReplicasMaxLag.Load() > 0
}

// refuseUnreplicated refuses writes while they want more replicas than there are. What a
// script calls is not refused any more once the script has written.
func (s *Server) refuseUnreplicated(es *exec.Session, spec *command.Spec, _ [][]byte) *resp.Error {
	if !s.lacksReplicas() || !es.Writes(spec) {
		return nil
	}
	switch es.Context() {
	case exec.InExec:
		return nil // EXEC was admitted
	case exec.InScript:
		if _, wrote, ok := es.ScriptOptions(); !ok || wrote {
			return nil
		}
	}
	return errNoReplicas
}
