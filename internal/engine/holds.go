package engine

import (
	"errors"
	"fmt"
	"syscall"

	"kevy/aof"
	"kevy/feed"
	"kevy/persist"
)

// readHolds reads the positions that consumers told the store to keep. Where the
// file is damaged nobody can tell how far they have read: it is set aside if the
// start is to go on over damage.
func (e *Engine) readHolds() (persist.Holds, error) {
	holds, err := persist.ReadHolds(e.opt.FS, e.opt.Dir, e.set.Shards())
	var bad *persist.FileError
	if errors.As(err, &bad) && (e.opt.Recover == aof.RecoverTruncate || e.opt.Recover == aof.RecoverSkip) {
		e.opt.Logger.Warn("the file of the feed's holds is damaged: no consumer's position is kept any more", "error", bad, "kept_in", persist.HoldsFile("")+".damaged")
		return persist.Holds{}, persist.SetHoldsAside(e.opt.FS, e.opt.Dir)
	}
	if bad != nil {
		err = fmt.Errorf("%w (start with --recover truncate or skip to give up the positions that consumers hold)", err)
	}
	return holds, err
}

// openHolds makes the holds keep the log again, before anything of it is let go.
func (e *Engine) openHolds(holds persist.Holds) error {
	return e.source.OpenHolds(feed.HoldOptions{
		MaxBytes: e.opt.FeedHoldBytes, NowMs: e.opt.NowMs, Logger: e.opt.Logger,
		DiskFull: e.diskFull,
		Save:     func(h persist.Holds) error { return persist.WriteHolds(e.opt.FS, e.opt.Dir, e.set.Shards(), h) },
	}, holds)
}

// diskFull reports whether the log cannot be written for want of room.
func (e *Engine) diskFull() bool { return e.log != nil && errors.Is(e.log.Err(), syscall.ENOSPC) }

// saveHolds writes the moves of holds that are not on disk yet.
func (e *Engine) saveHolds() error {
	if h := e.source.Holds(); h != nil {
		return h.Save()
	}
	return nil
}
