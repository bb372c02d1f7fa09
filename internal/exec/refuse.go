package exec

import (
	"strings"

	"kevy/internal/command"
	"kevy/resp"
)

// Refusal is one reason not to run a command: nil if it may go on.
type Refusal func(s *Session, spec *command.Spec, args [][]byte) *resp.Error

// Refusals are the reasons not to run a command, in the order in which they are
// asked.
type Refusals struct {
	// Admit is asked of what a client sends, before it is queued or run. Those of
	// this package have a place in that order, which is the caller's to give:
	// RefuseInMulti, RefuseOOM and RefuseUnlogged.
	Admit []Refusal
	// Nested is asked again of each command within EXEC, when it is about to run,
	// and of each that a script calls. Session.Context says which it is.
	Nested []Refusal
}

// Context says on whose behalf a command is about to run.
type Context int

const (
	TopLevel Context = iota // a client has sent it
	Queueing                // a client has sent it for the transaction that is open
	InExec                  // EXEC runs it
	InScript                // a script calls it
)

// Context returns what the session's next command is part of.
func (s *Session) Context() Context {
	switch {
	case s.scripting:
		return InScript
	case s.multi.running:
		return InExec
	case s.multi.open:
		return Queueing
	}
	return TopLevel
}

// refused asks every reason not to run the command that a client sent, in order.
func (x *Executor) refused(s *Session, spec *command.Spec, args [][]byte) *resp.Error {
	return ask(x.refusals.Admit, s, spec, args)
}

// refusedNested asks every reason not to run a command within EXEC or a script.
func (x *Executor) refusedNested(s *Session, spec *command.Spec, args [][]byte) *resp.Error {
	return ask(x.refusals.Nested, s, spec, args)
}

func ask(refusals []Refusal, s *Session, spec *command.Spec, args [][]byte) *resp.Error {
	for _, r := range refusals {
		if err := r(s, spec, args); err != nil {
			return err
		}
	}
	return nil
}

// reject answers a command that does not run; spec is nil if there is no such
// command. An open transaction will fail, and ends at once if the command was
// EXEC.
func (x *Executor) reject(s *Session, spec *command.Spec, args [][]byte, err *resp.Error) {
	if spec == nil && isHTTP(args[0]) && s.hangUp() {
		// A browser was made to send a request here, which may hold commands.
		x.log.Warn("possible attack: a client sent a line of HTTP, which a web page may have made it do; the connection was closed")
		return
	}
	if spec != nil {
		x.stats.commands[spec.Number()].rejected.Add(1)
	}
	if spec != nil && spec.Name == "exec" {
		s.discard()
		err = resp.Errorf("EXECABORT", "Transaction discarded because of: %s", strings.TrimPrefix(err.Error(), "ERR "))
	} else if s.multi.open {
		s.multi.aborted = true
	}
	s.replyError(err)
}

// replyError replies with an error that no handler gave.
func (s *Session) replyError(err *resp.Error) {
	start := s.W.Len()
	s.W.Error(err)
	s.x.stats.CountError(errorCode(s.W.Bytes()[start:]))
}

// isHTTP reports whether a command is what a line of an HTTP request begins
// with.
func isHTTP(name []byte) bool {
	return command.EqualFold(name, "POST") || command.EqualFold(name, "HOST:")
}

// maxEchoedBytes bounds what an error repeats of each name and of the arguments
// together.
const maxEchoedBytes = 128

// echo returns what an error repeats of an argument.
func echo(arg []byte, most int) []byte {
	text := command.CText(arg)
	return text[:min(len(text), most)]
}

func unknownCommand(args [][]byte) *resp.Error {
	var shown []byte
	for _, a := range args[1:] {
		if len(shown) >= maxEchoedBytes {
			break
		}
		text := echo(a, maxEchoedBytes-len(shown))
		shown = append(shown, '\'')
		shown = append(shown, text...)
		shown = append(shown, "' "...)
	}
	return resp.Errorf("ERR", "unknown command '%s', with args beginning with: %s", echo(args[0], maxEchoedBytes), shown)
}

func unknownSubcommand(parent *command.Spec, name []byte) *resp.Error {
	return resp.Errorf("ERR", "unknown subcommand '%s'. Try %s HELP.", echo(name, maxEchoedBytes), strings.ToUpper(parent.Name))
}

// RefuseInMulti keeps commands out of transactions that could not run in one.
func RefuseInMulti(s *Session, spec *command.Spec, _ [][]byte) *resp.Error {
	if s.multi.open && spec.Flags&command.NoMulti != 0 {
		return resp.Errorf("ERR", "Command not allowed inside a transaction")
	}
	return nil
}

// RefuseUnlogged makes writers wait while the log's buffer is over its bound
// and refuses them while the log cannot advance. PING is refused then, too: it
// is how others ask whether all is well.
func RefuseUnlogged(s *Session, spec *command.Spec, _ [][]byte) *resp.Error {
	switch {
	case spec.Flags&(command.MayReplicate|command.AllShards) == command.MayReplicate|command.AllShards:
		// A script's writes are refused one by one, and wait for nothing: it waits here.
		_ = s.x.store.Admit()
	case s.Writes(spec):
		if err := s.x.store.Admit(); err != nil {
			return misconf(err)
		}
	case spec.Name == "ping":
		if err := s.x.store.LogErr(); err != nil {
			return misconf(err)
		}
	}
	return nil
}

func misconf(err error) *resp.Error {
	return resp.Errorf("MISCONF", "Errors writing to the AOF file: %v", err)
}
