package exec

import (
	"fmt"

	"kevy/internal/command"
	"kevy/internal/rdb"
	"kevy/resp"
	"kevy/shard"
)

// loader is the session of commands that are read from a file.
type loader struct{ db int }

func (loader) ID() uint64 { return 0 }
func (l loader) DB() int  { return l.db }

// mayBeLogged are the flags of the commands that Redis logs: those that write,
// and PFCOUNT, which reads and may change what it read.
const mayBeLogged = command.Write | command.MayReplicate

// RunForeign returns a function that runs one command of a log that another
// server wrote. What Redis never logs is not run, and a command that answers
// with an error did not fit the data before it.
func RunForeign(table *command.Table) func(tx *shard.Tx, args [][]byte) error {
	w := resp.NewWriter(2)
	return func(tx *shard.Tx, args [][]byte) (err error) {
		if command.EqualFold(args[0], "FUNCTION") && len(args) > 1 {
			return foreignFunction(tx, args)
		}
		spec := table.Lookup(args)
		if spec == nil || spec.Run == nil {
			return fmt.Errorf("it holds command '%.128s' of another server, which kevy does not have", args[0])
		}
		if spec.Flags&mayBeLogged == 0 || spec.Flags&command.Unlocked != 0 {
			return fmt.Errorf("it holds command '%.128s', which changes nothing and so is in no log", args[0])
		}
		if !spec.ArityFits(len(args)) {
			return spec.ArityError()
		}
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("command '%.128s' panicked: %v", args[0], p)
			}
		}()
		w.Reset()
		spec.Run(&command.Ctx{Spec: spec, Args: args, Tx: tx, W: w, Session: loader{tx.DB()}})
		if b := w.Bytes(); len(b) > 0 && b[0] == '-' {
			return fmt.Errorf("command '%.128s' answered %.256q", args[0], b)
		}
		return nil
	}
}

// foreignFunction keeps what another server has logged of libraries of functions.
// It was run there, and is not looked into here.
func foreignFunction(tx *shard.Tx, args [][]byte) error {
	switch {
	case command.EqualFold(args[1], "LOAD") && len(args) > 2:
		return tx.LoadLibrary(args[len(args)-1])
	case command.EqualFold(args[1], "DELETE") && len(args) == 3:
		tx.DeleteLibrary(string(args[2]))
	case command.EqualFold(args[1], "FLUSH"):
		tx.FlushLibraries()
	case command.EqualFold(args[1], "RESTORE") && len(args) > 2:
		codes, err := rdb.ParseFunctions(args[2])
		if err != nil {
			return fmt.Errorf("FUNCTION RESTORE: %w", err)
		}
		if len(args) == 4 && command.EqualFold(args[3], "FLUSH") {
			tx.FlushLibraries()
		}
		for _, code := range codes {
			if err := tx.LoadLibrary(code); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("FUNCTION %.64q changes nothing and so is in no log", args[1])
	}
	return nil
}
