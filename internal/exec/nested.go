package exec

import (
	"kevy/internal/command"
	"kevy/resp"
)

// nested runs the commands that a script calls. The script's own command holds
// every shard, alone or within EXEC, and its commit has all that they change.
type nested struct {
	x       *Executor
	s       *Session
	options command.NestedOptions
	run     *runningScript
	w       *resp.Writer // of the replies to the script
	readAt  int          // changes when its keys were last told of as read, -1: not yet

	// What the session is to be again afterwards.
	ctx   command.Ctx
	outer *resp.Writer
	db    int
}

// Nested begins to run commands on behalf of the one that c is the run of, which
// is AllShards. They and the replies to them are the caller's business until End;
// c must not be used before that.
func Nested(c *command.Ctx, o command.NestedOptions) command.Nested {
	s := sessionOf(c)
	n := s.nested
	if n == nil {
		n = &nested{x: s.x, s: s, w: resp.NewWriter(2)}
		s.nested = n
	}
	n.options, n.ctx, n.outer, n.db, n.readAt = o, s.ctx, s.W, s.db, -1
	s.Show(c.Args)
	s.scripting = true
	n.run = s.x.beginScript(o)
	return n
}

// ScriptOptions returns what the script that runs may do, and whether it has
// called a command that writes. ok is false if none runs.
func (s *Session) ScriptOptions() (o command.NestedOptions, wrote, ok bool) {
	if !s.scripting {
		return o, false, false
	}
	return s.nested.options, s.nested.run.wrote(), true
}

// End implements command.Nested.
func (n *nested) End() {
	s := n.s
	n.run.end(n)
	n.run = nil
	s.W, s.ctx = n.outer, n.ctx
	s.scripting = false
	if s.db != n.db {
		// A script selects for itself.
		s.db = n.db
		s.tx.Select(n.db)
	}
	n.ctx = command.Ctx{}
	n.w.Reset()
}

// Call implements command.Nested.
func (n *nested) Call(args [][]byte, proto int) []byte {
	n.w.Reset()
	n.w.SetProto(proto)
	n.s.W = n.w
	spec := n.x.table.Lookup(args)
	if err := n.refused(spec, args); err != nil {
		if spec != nil && spec.Run != nil {
			n.x.stats.commands[spec.Number()].rejected.Add(1)
		}
		n.s.replyError(err)
	} else {
		tx := n.s.tx
		if spec.Flags&command.Unlocked != 0 {
			tx = nil
		}
		n.x.invoke(n.s, spec, args, tx)
	}
	n.s.W = n.outer
	return n.w.Bytes()
}

var (
	errScriptUnknown  = &resp.Error{Code: "ERR", Text: "Unknown Redis command called from script"}
	errScriptArity    = &resp.Error{Code: "ERR", Text: "Wrong number of args calling Redis command from script"}
	errScriptNot      = &resp.Error{Code: "ERR", Text: "This Redis command is not allowed from script"}
	errScriptReadOnly = &resp.Error{Code: "ERR", Text: "Write commands are not allowed from read-only scripts."}
)

// refused asks why a script may not run a command, in Redis's order.
func (n *nested) refused(spec *command.Spec, args [][]byte) *resp.Error {
	switch {
	case spec == nil || spec.Run == nil:
		return errScriptUnknown
	case !spec.ArityFits(len(args)):
		return errScriptArity
	case spec.Flags&command.NoScript != 0 && !(spec.Name == "debug" && n.x.scripts.debug.Load()):
		return errScriptNot
	}
	if err := n.x.refusedNested(n.s, spec, args); err != nil {
		return err
	}
	// As in Redis what may write or be published counts as writing here.
	if n.options.ReadOnly && spec.Flags&(command.Write|command.MayReplicate) != 0 {
		return errScriptReadOnly
	}
	if spec.Flags&command.Write != 0 {
		// Waiting until the log has room is over with the admission of the script.
		if err := n.x.store.LogErr(); err != nil {
			return misconf(err)
		}
		if !n.run.writes() {
			return errScriptKilled
		}
	}
	return nil
}

// Permitted implements command.Nested.
func (n *nested) Permitted(args [][]byte) (allowed, known bool) {
	return n.s.Permitted(args)
}

// Counted implements command.Nested.
func (n *nested) Counted(is bool) { n.ctx.ErrorCounted = is }

// Tick implements command.Nested.
func (n *nested) Tick() error { return n.run.tick(n) }
