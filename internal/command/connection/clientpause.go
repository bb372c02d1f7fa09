package connection

import (
	"time"

	"kevy/internal/command"
	"kevy/resp"
)

// PauseMode says which commands CLIENT PAUSE keeps waiting.
type PauseMode int

// The modes of a pause, the stricter one last.
const (
	PauseWrites PauseMode = iota // those that may change something, or tell others
	PauseAll
)

func clientPause(srv Server) *command.Spec {
	return &command.Spec{
		Name: "pause", Arity: -3, Flags: subFlags | command.Admin, Category: command.CatConnection, Since: "2.9.50", Complexity: "O(1)",
		Syntax:      "timeout [WRITE | ALL]",
		Summary:     "Keeps commands of all connections waiting for so many milliseconds.",
		Differences: "Fields of hashes whose time is over still go when somebody asks for them.",
		Run:         func(c *command.Ctx) { runPause(c, srv) },
	}
}

func runPause(c *command.Ctx, srv Server) {
	mode := PauseAll
	switch {
	case len(c.Args) > 4:
		c.W.Error(command.SubcommandError(c))
		return
	case len(c.Args) < 4 || command.EqualFold(c.Args[3], "ALL"):
	case command.EqualFold(c.Args[3], "WRITE"):
		mode = PauseWrites
	default:
		c.W.Error(resp.Errorf("ERR", "CLIENT PAUSE mode must be WRITE or ALL"))
		return
	}
	a := c.Scan(2)
	ms := a.TimeoutMs()
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	srv.Pause(mode, time.Duration(min(ms, maxPauseMs))*time.Millisecond)
	c.W.OK()
}

// maxPauseMs is more than any server runs.
const maxPauseMs = 100 * 365 * 24 * 3600 * 1000

func clientUnpause(srv Server) *command.Spec {
	return &command.Spec{
		Name: "unpause", Arity: 2, Flags: subFlags | command.Admin, Category: command.CatConnection, Since: "6.2.0",
		Complexity: "O(N) for N commands that wait",
		Summary:    "Ends what CLIENT PAUSE began. What waited runs in the order in which it came.",
		Run: func(c *command.Ctx) {
			srv.Unpause()
			c.W.OK()
		},
	}
}
