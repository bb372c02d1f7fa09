package aof

import "fmt"

// Reread hands the whole log to sink as Recover does at a start, from the files
// and without changing them. It first writes and fsyncs all that was appended;
// until it returns nothing else is written. No base may be committed meanwhile.
func (l *Log) Reread(sink Sink) error {
	if err := l.Sync(); err != nil {
		return err
	}
	l.writer.take()
	defer l.writer.giveBack()
	if err := l.obstacle(); err != nil {
		return err
	}
	if err := l.writePending(); err != nil {
		return err
	}
	r := &recovery{log: newLog(l.opt), opt: &l.opt, mode: RecoverWhole, sink: sink, report: &Report{}, numbered: true}
	var err error
	if r.manifest, r.found, err = readManifest(l.dir.fs, l.dir.logDir()); err != nil {
		return err
	}
	if err := r.loadBase(); err != nil {
		return err
	}
	if err := r.readListed(); err != nil {
		return err
	}
	if want := l.written.Load(); r.last != want {
		return fmt.Errorf("the files end with LSN %d, and the log is at %d", r.last, want)
	}
	return nil
}
