package engine

import (
	"errors"
	"fmt"

	"kevy/persist"
)

// ImportError answers Open of a directory that an import was filling when it
// ended.
type ImportError struct{ Dir, From string }

func (e *ImportError) Error() string {
	return fmt.Sprintf("an import of %s into %s did not finish, so that this is not all of the data: run the import again, "+
		"or remove the file %s/IMPORTING to serve what is there", e.From, e.Dir, e.Dir)
}

// checkImporting refuses a directory that is half filled, unless it is opened to
// fill it.
func (e *Engine) checkImporting() (err error) {
	e.importing, err = persist.ReadImporting(e.opt.FS, e.opt.Dir)
	if err != nil || e.importing == nil || e.opt.Import {
		return err
	}
	return &ImportError{Dir: e.opt.Dir, From: e.importing.From}
}

// Importable reports whether ImportBase may be used: the store is new, or was
// made by an import that ended before its time.
func (e *Engine) Importable() bool {
	if e.importing != nil {
		return e.importing.New
	}
	return e.report.New && e.report.Log.LastLSN == 0 && e.report.Keys == 0 && !e.report.Log.Foreign
}

// BeginImport notes on disk that the store is being filled from a file, until
// EndImport: after a crash before that it is not served.
func (e *Engine) BeginImport(from string) error {
	return persist.WriteImporting(e.opt.FS, e.opt.Dir, persist.Importing{From: from, New: e.Importable()})
}

// EndImport notes that the store holds all of the file, once that is durable.
func (e *Engine) EndImport() error {
	if err := e.log.Sync(); err != nil {
		return fmt.Errorf("write the imported data: %w", err)
	}
	return persist.RemoveImporting(e.opt.FS, e.opt.Dir)
}

// ImportBase makes the store what write writes: it calls add with the ops, whole
// ones and as many as it says, that rebuild every key. All of it is there after
// that, or, if write or the disk fails, nothing. The store must be Importable and
// open for import; it knows nothing of the keys until it is opened again.
func (e *Engine) ImportBase(write func(add func(payload []byte, ops int) error) error) error {
	if !e.opt.Import || !e.Importable() {
		return errors.New("engine: the store cannot be replaced by an import")
	}
	if err := e.beginRewrite(); err != nil {
		return err
	}
	err := e.importBase(write)
	e.endRewrite(err)
	return err
}

func (e *Engine) importBase(write func(add func(payload []byte, ops int) error) error) error {
	cut, snap, err := e.cut()
	if err != nil {
		return err
	}
	snap.Release()
	base, err := e.log.BeginBase(cut)
	if err != nil {
		return err
	}
	if err := write(base.Write); err != nil {
		base.Abort()
		return err
	}
	if err := e.settleGenerations(); err != nil {
		base.Abort()
		return err
	}
	return base.Commit()
}
