package exec

import (
	"slices"
	"sync/atomic"
	"time"

	"kevy/internal/command"
	"kevy/resp"
)

// defaultBusyAfter is that of busy-reply-threshold.
const defaultBusyAfter = 5 * time.Second

// ticksPerLook is after how many ticks of a script the clock is read.
const ticksPerLook = 16

// scripts is what an executor knows of the script that runs; there is never more
// than one, as it holds every shard.
type scripts struct {
	running   atomic.Pointer[runningScript]
	busyAfter atomic.Int64 // nanoseconds, 0: never
	halted    atomic.Bool
	debug     atomic.Bool // see LetScriptsDebug
}

// runningScript is a script while it runs. Other goroutines read and set what is
// atomic, and read what is set before they can find it.
type runningScript struct {
	name     string
	function bool
	began    time.Duration // as by sinceStart

	state atomic.Int32 // scriptReads, then one of the others
	busy  atomic.Bool  // it has taken longer than allowed, and all others are told
	args  [][]byte     // of its command, once busy is set; a copy

	ticks int
}

// The states of a script: one that has called a command that writes is not
// killed, and one that is killed writes nothing any more.
const (
	scriptReads int32 = iota
	scriptWrote
	scriptKilled
)

// SetBusyAfter sets for how long a script may run before others are answered
// with BUSY; 0 or less is for ever.
func (x *Executor) SetBusyAfter(d time.Duration) { x.scripts.busyAfter.Store(int64(max(d, 0))) }

// LetScriptsDebug says whether scripts may call DEBUG, which as a rule they may not.
func (x *Executor) LetScriptsDebug(let bool) { x.scripts.debug.Store(let) }

func (x *Executor) beginScript(o command.NestedOptions) *runningScript {
	r := &runningScript{name: o.Name, function: o.Function, began: sinceStart()}
	x.scripts.running.Store(r)
	return r
}

// end ends the script of n. Every shard is locked by its session again.
func (r *runningScript) end(n *nested) {
	if r.busy.Load() {
		n.x.store.Set().Retake()
	}
	n.x.scripts.running.Store(nil)
	if n.x.scripts.halted.Load() && r.wrote() {
		// The server ends without the half of what the script was to do, as Redis
		// does. What is in memory serves nobody any more: see hold.
		n.x.store.Set().PauseExpiry(true)
		n.s.tx.Withhold()
	}
}

// wrote reports whether the script has called a command that writes.
func (r *runningScript) wrote() bool { return r.state.Load() == scriptWrote }

// writes notes that the script calls a command that writes. It reports false if
// it has been killed.
func (r *runningScript) writes() bool {
	return r.state.CompareAndSwap(scriptReads, scriptWrote) || r.wrote()
}

var (
	errScriptKilled = &resp.Error{Code: "ERR", Text: "Script killed by user with SCRIPT KILL."}
	errScriptHalted = &resp.Error{Code: "ERR", Text: "The server ends."}
)

// tick says why the script has to end.
func (r *runningScript) tick(n *nested) error {
	if n.x.scripts.halted.Load() {
		return errScriptHalted
	}
	if r.state.Load() == scriptKilled {
		return errScriptKilled
	}
	if r.ticks++; r.ticks%ticksPerLook != 0 {
		return nil
	}
	if r.busy.Load() {
		n.x.store.Set().RunLater()
		return nil
	}
	if after := time.Duration(n.x.scripts.busyAfter.Load()); after > 0 && sinceStart()-r.began >= after {
		r.tellOthers(n)
	}
	return nil
}

// tellOthers makes everybody who waits for a shard be answered with BUSY.
func (r *runningScript) tellOthers(n *nested) {
	kill := "SCRIPT KILL"
	if r.function {
		kill = "FUNCTION KILL"
	}
	n.x.log.Warn("a slow script is still running; "+kill+" ends it unless it has written", "script", r.name, "milliseconds", (sinceStart() - r.began).Milliseconds())
	for _, a := range n.ctx.Args {
		r.args = append(r.args, slices.Clone(a))
	}
	r.busy.Store(true)
	n.x.store.Set().Yield()
}

// busy is what those are told who cannot run a command while a script does.
func (x *Executor) busy() *resp.Error {
	if r := x.scripts.running.Load(); r != nil && r.function {
		return errBusyFunction
	}
	return errBusyScript
}

var (
	errBusyScript   = &resp.Error{Code: "BUSY", Text: "Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."}
	errBusyFunction = &resp.Error{Code: "BUSY", Text: "Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."}
	errNotBusy      = &resp.Error{Code: "NOTBUSY", Text: "No scripts in execution right now."}
	errUnkillable   = &resp.Error{Code: "UNKILLABLE", Text: "Sorry the script already executed write commands against the dataset. You can either wait the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command."}
)

// RefuseBusy answers while a script has run for too long: only commands that are
// AllowBusy go on.
func RefuseBusy(s *Session, spec *command.Spec, _ [][]byte) *resp.Error {
	if spec.Flags&command.AllowBusy == 0 {
		return s.x.Busy()
	}
	return nil
}

// Busy returns what is answered while a script has run for too long, nil if none has.
func (x *Executor) Busy() *resp.Error {
	if x.store.Set().Yielded() {
		return x.busy()
	}
	return nil
}

// KillScript ends the script that runs, or, if function is set, the function. A
// script that has written is not ended: half of what it does would stay.
func (x *Executor) KillScript(function bool) *resp.Error {
	r := x.scripts.running.Load()
	switch {
	case r == nil:
		return errNotBusy
	case r.wrote():
		return errUnkillable
	case r.function != function:
		return x.busy()
	case !r.state.CompareAndSwap(scriptReads, scriptKilled) && r.wrote():
		return errUnkillable
	}
	x.log.Warn("a script is killed on request", "script", r.name)
	return nil
}

// Halt ends the script that runs, whatever it has done: the server ends. What it
// has written reaches neither the log nor anybody. No command that needs a shard
// runs any more.
func (x *Executor) Halt() {
	x.scripts.halted.Store(true)
}

// RunningScript describes the script that has run for so long that others are told;
// ok is false if none has.
func (x *Executor) RunningScript() (st command.RunningScript, ok bool) {
	r := x.scripts.running.Load()
	if r == nil || !r.busy.Load() {
		return st, false
	}
	return command.RunningScript{Name: r.name, Function: r.function, Args: r.args, For: sinceStart() - r.began}, true
}
