package generic

import (
	"kevy/internal/command"
	"kevy/resp"
)

func wait() *command.Spec {
	return &command.Spec{
		Name: "wait", Arity: 3, Flags: command.Blocking, Category: command.CatConnection,
		Tips:  []string{"request_policy:all_shards", "response_policy:agg_min"},
		Group: "generic", Since: "3.0.0", Complexity: "O(1)", Syntax: "numreplicas timeout",
		Summary:     "Waits until so many replicas have what the connection has written, and answers how many do.",
		Differences: "There are no replicas yet: it answers 0, at once if none is asked for, else when its time is over.",
		Run:         runWait,
	}
}

func runWait(c *command.Ctx) {
	a := c.Scan(1)
	replicas, timeoutMs := a.Int(), a.TimeoutMs()
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	if replicas <= 0 {
		c.W.Int(0)
		return
	}
	c.Block(command.Wait{TimeoutMs: timeoutMs, Vain: func(w *resp.Writer) { w.Int(0) }})
}
