package pipe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"kevy/changes"
	"kevy/internal/vfs"
)

// What Options stand for where they are zero.
const (
	DefaultBatchCommits = 1000
	DefaultBatchBytes   = 1 << 20
	DefaultReportEvery  = 10 * time.Second
	// closeTimeout is how long a pipe that is to stop may take to deliver what it
	// has read.
	closeTimeout = 30 * time.Second
	// progressEvery is how often a cursor is stored that moves over frames which
	// the filters leave out.
	progressEvery = 5 * time.Second
)

// Options say what a pipe carries where, and how.
type Options struct {
	// Consumer says what is read: the server, the streams, the filter. Store,
	// Start of streams with a cursor, and OnResync are the pipe's.
	Consumer changes.Options
	Sink     Sink
	Rewrite  Rewrite
	// Snapshot begins with a snapshot where there is no cursor; Anew does so in any
	// case. SnapshotOnResync takes one when the server cannot serve the cursor any
	// more, where the pipe otherwise stops.
	Snapshot, Anew, SnapshotOnResync bool
	// Hold, if set, is the name of a hold on the server, which follows what is
	// delivered.
	Hold string
	// CursorFile is the file for cursors, used if the sink keeps none.
	CursorFile string
	FS         vfs.FS
	// BatchCommits, BatchBytes and BatchWait bound a batch. Without a wait a batch
	// is what was read while the one before it was written.
	BatchCommits, BatchBytes int
	BatchWait                time.Duration
	// ReportEvery is how often the log says how far the pipe is; negative: never.
	ReportEvery time.Duration
	Log         *slog.Logger
}

// ErrNoSnapshot says that a snapshot was asked of a sink that takes none.
var ErrNoSnapshot = errors.New("this target takes no snapshot: leave out --snapshot, --anew and --on-resync=snapshot")

// Run carries the feed into the sink until ctx ends or nothing can be done any
// more; then what was read is delivered, and the sink is closed. It returns nil
// when ctx has ended and everything that was read is delivered.
func Run(ctx context.Context, o Options) error {
	p := &running{Options: o, queue: newQueue(), pending: map[string]*changes.Commit{}, placed: map[string]bool{}}
	if p.BatchCommits <= 0 {
		p.BatchCommits = DefaultBatchCommits
	}
	if p.BatchBytes <= 0 {
		p.BatchBytes = DefaultBatchBytes
	}
	if p.ReportEvery == 0 {
		p.ReportEvery = DefaultReportEvery
	}
	p.snapshots, _ = o.Sink.(SnapshotSink)
	if p.snapshots == nil && (o.Snapshot || o.Anew || o.SnapshotOnResync) {
		return ErrNoSnapshot
	}
	err := p.run(ctx)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if closeErr := o.Sink.Close(closing); err == nil {
		err = closeErr
	}
	if p.file != nil {
		err = errors.Join(err, p.file.close())
	}
	return err
}

// running is a pipe at work.
type running struct {
	Options
	snapshots SnapshotSink // the Sink, if it is one
	file      *cursorFile  // nil if the sink keeps the cursors
	holder    *holder      // nil without a hold
	queue     *queue

	// Of the writer.
	pending      map[string]*changes.Commit // by stream: progress that is not stored
	pendingSince time.Time
	placed       map[string]bool // streams of which a cursor is stored

	commits, frames, ops, batches atomic.Uint64 // delivered
	writtenMs                     atomic.Int64  // time of the last commit delivered
}

func (p *running) run(ctx context.Context) error {
	cursors, err := p.resume(ctx)
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return nil // it was stopped before it had begun
		}
		return err
	}
	options := p.Consumer
	options.Store = startStore(cursors)
	options.Logger = p.Log
	if p.Snapshot || p.Anew {
		options.Start = changes.Snapshot
	}
	if p.SnapshotOnResync {
		options.OnResync = changes.ResyncSnapshot
	}
	var handler changes.Handler = intake{p}
	if p.snapshots != nil {
		handler = snapshotIntake{intake{p}}
	}
	consumer, err := changes.New(options, handler)
	if err != nil {
		return err
	}
	if p.Hold != "" {
		if p.holder, err = newHolder(p.Hold, &options); err != nil {
			return err
		}
	}
	for stream, at := range cursors {
		p.stored(stream, at)
		p.Log.Info("going on", "stream", stream, "cursor", at.String())
	}

	// The consumer is stopped by ctx or by a writer that cannot go on; the writer
	// by the end of the queue, once it has delivered what the consumer had read.
	reading, stopReading := context.WithCancel(ctx)
	defer stopReading()
	writing, stopWriting := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWriting()
	written := make(chan error, 1)
	go func() {
		err := p.write(writing)
		stopReading()
		written <- err
	}()
	var beside sync.WaitGroup
	beside.Go(func() { p.report(reading, consumer) })
	holding, stopHolding := context.WithCancel(writing)
	defer stopHolding()
	if p.holder != nil {
		beside.Go(func() { p.holder.run(holding, p) })
	}
	readErr := consumer.Run(reading)
	p.queue.close()
	late := time.AfterFunc(closeTimeout, stopWriting)
	defer late.Stop()
	writeErr := <-written
	stopReading()
	stopHolding()
	beside.Wait()
	switch {
	case writeErr != nil && errors.Is(writeErr, context.Canceled) && writing.Err() != nil:
		return fmt.Errorf("stopped before what was read could be delivered, since the target did not take it within %v; it comes again at the next start", closeTimeout)
	case writeErr != nil:
		return writeErr
	case readErr == nil:
		p.say("stopped", consumer)
		return nil
	}
	var resync *changes.ResyncError
	if errors.As(readErr, &resync) {
		return fmt.Errorf("%w\nWhat lies between is lost to this pipe. Start it with --on-resync=snapshot to take the state anew and go on from there, or once with --anew", readErr)
	}
	return readErr
}

// resume finds out where the streams go on.
func (p *running) resume(ctx context.Context) (map[string]changes.Cursor, error) {
	cursors, ok, err := p.Sink.Resume(ctx)
	if err != nil || ok {
		if p.Anew {
			cursors = nil
		}
		return cursors, err
	}
	if p.CursorFile == "" {
		return nil, errors.New("this target keeps no cursor: name a file for it with --cursor-file")
	}
	p.file, err = openCursorFile(p.FS, p.CursorFile, selectionOf(&p.Consumer.Filter, p.Rewrite), p.Anew)
	if err != nil {
		return nil, err
	}
	if stream := p.file.unfinished(); stream != "" && !p.Snapshot && !p.Anew {
		return nil, fmt.Errorf("the snapshot of stream %s did not come to its end, so the target has a part of the state only: start with --snapshot", stream)
	}
	return p.file.cursors(), nil
}

// startStore gives the consumer its cursors. It keeps none: the consumer goes
// on in its own steps, and what is stored is what the sink has.
type startStore map[string]changes.Cursor

func (s startStore) Load(_ context.Context, stream string) (changes.Cursor, bool, error) {
	at, ok := s[stream]
	return at, ok, nil
}

func (startStore) Save(context.Context, string, changes.Cursor) error { return nil }

// intake takes what the consumer reads into the queue.
type intake struct{ p *running }

func (in intake) Commit(ctx context.Context, c *changes.Commit) error {
	for i := range c.Frames {
		in.p.Rewrite.args(c.Frames[i].Args)
	}
	return in.p.queue.push(ctx, commitItem(c))
}

func (in intake) Progress(ctx context.Context, stream string, at changes.Cursor) error {
	return in.p.queue.push(ctx, commitItem(&changes.Commit{Stream: stream, Generation: at.Generation, Next: at}))
}

type snapshotIntake struct{ intake }

func (in snapshotIntake) SnapshotStart(ctx context.Context, stream, token string) error {
	return in.p.queue.push(ctx, item{start: &snapshotStart{stream, token}, bytes: slotBytes})
}

func (in snapshotIntake) SnapshotPart(ctx context.Context, part *changes.SnapshotPart) error {
	for _, op := range part.Ops {
		in.p.Rewrite.args(op)
	}
	return in.p.queue.push(ctx, partItem(part))
}

func (in snapshotIntake) SnapshotEnd(ctx context.Context, stream string, at changes.Cursor) error {
	return in.p.queue.push(ctx, item{end: &snapshotEnd{stream, at}, bytes: slotBytes})
}

// write delivers batches until the queue ends.
func (p *running) write(ctx context.Context) error {
	limits := batchLimits{commits: p.BatchCommits, bytes: p.BatchBytes, wait: p.BatchWait}
	for {
		var until time.Time
		if len(p.pending) > 0 {
			until = p.pendingSince.Add(progressEvery)
		}
		batch, ended := p.queue.take(limits, until)
		var err error
		switch {
		case len(batch) > 0 && batch[0].commit == nil:
			if err = p.deliver(ctx, nil); err == nil {
				err = p.deliverSnapshot(ctx, &batch[0])
			}
		case len(batch) > 0:
			err = p.collect(ctx, batch)
		case ended || len(p.pending) > 0 && !time.Now().Before(until):
			err = p.deliver(ctx, nil)
		}
		if err != nil || ended {
			return err
		}
	}
}

// collect delivers the commits of a batch and keeps its progress for later.
func (p *running) collect(ctx context.Context, batch []item) error {
	commits := make([]*changes.Commit, 0, len(batch))
	first := false // where a stream begins is stored at once, lest it begin later after a crash
	for i := range batch {
		if c := batch[i].commit; len(c.Frames) > 0 {
			commits = append(commits, c)
			delete(p.pending, c.Stream)
			continue
		}
		if len(p.pending) == 0 {
			p.pendingSince = time.Now()
		}
		p.pending[batch[i].commit.Stream] = batch[i].commit
		first = first || !p.placed[batch[i].commit.Stream]
	}
	if len(commits) == 0 && !first {
		return nil
	}
	return p.deliver(ctx, commits)
}

// deliver writes commits, and the progress behind them, to the sink, then
// stores the cursors.
func (p *running) deliver(ctx context.Context, commits []*changes.Commit) error {
	frames := 0
	at := map[string]changes.Cursor{}
	for _, c := range commits {
		frames += len(c.Frames)
		at[c.Stream] = c.Next
	}
	delivered := len(commits)
	for stream, c := range p.pending {
		commits = append(commits, c)
		at[stream] = c.Next
	}
	if len(commits) == 0 {
		return nil
	}
	// A sink that keeps no cursor has nothing to do with progress.
	if p.file != nil {
		commits = commits[:delivered]
	}
	if len(commits) > 0 {
		if err := p.Sink.Write(ctx, commits); err != nil {
			return err
		}
	}
	if p.file != nil {
		if err := p.file.save(at); err != nil {
			return err
		}
	}
	clear(p.pending)
	for stream, at := range at {
		p.stored(stream, at)
	}
	if delivered > 0 {
		p.batches.Add(1)
		p.commits.Add(uint64(delivered))
		p.frames.Add(uint64(frames))
		last := commits[delivered-1].Frames
		p.writtenMs.Store(last[len(last)-1].Time.UnixMilli())
	}
	return nil
}

// stored notes that the cursor of a stream is stored.
func (p *running) stored(stream string, at changes.Cursor) {
	p.placed[stream] = true
	if p.holder != nil {
		p.holder.moved(stream, at)
	}
}

func (p *running) deliverSnapshot(ctx context.Context, it *item) error {
	switch {
	case it.start != nil:
		p.Log.Info("snapshot begins", "stream", it.start.stream, "token", it.start.token)
		if p.file != nil {
			if err := p.file.beginSnapshot(it.start.stream); err != nil {
				return err
			}
		}
		return p.snapshots.SnapshotStart(ctx, it.start.stream, it.start.token)
	case it.part != nil:
		p.ops.Add(uint64(len(it.part.Ops)))
		return p.snapshots.SnapshotPart(ctx, it.part)
	}
	if err := p.snapshots.SnapshotEnd(ctx, it.end.stream, it.end.at); err != nil {
		return err
	}
	if p.file != nil {
		if err := p.file.endSnapshot(it.end.stream, it.end.at); err != nil {
			return err
		}
	}
	p.stored(it.end.stream, it.end.at)
	p.Log.Info("snapshot ends, live frames follow", "stream", it.end.stream, "cursor", it.end.at.String(), "ops", p.ops.Load())
	return nil
}

// report says from time to time how far the pipe is.
func (p *running) report(ctx context.Context, consumer *changes.Consumer) {
	if p.ReportEvery < 0 {
		return
	}
	ticker := time.NewTicker(p.ReportEvery)
	defer ticker.Stop()
	var before uint64
	for {
		select {
		case <-ticker.C:
			if now := p.frames.Load() + p.ops.Load(); now != before {
				before = now
				p.say("delivered", consumer)
			}
		case <-ctx.Done():
			return
		}
	}
}

func (p *running) say(what string, consumer *changes.Consumer) {
	facts := []any{"commits", p.commits.Load(), "frames", p.frames.Load(), "batches", p.batches.Load()}
	if n := p.ops.Load(); n > 0 {
		facts = append(facts, "snapshot-ops", n)
	}
	p.Log.Info(what, append(facts, lagFacts(consumer.Status(), p.writtenMs.Load())...)...)
}

// lagFacts are what the log says of where the pipe is.
func lagFacts(status changes.Status, writtenMs int64) []any {
	var behind int64
	var cursors []string
	for _, s := range status.Streams {
		if s.LagFrames < 0 || behind < 0 {
			behind = -1
		} else {
			behind += s.LagFrames
		}
		if len(status.Streams) == 1 {
			cursors = append(cursors, s.Cursor.String())
		}
	}
	var facts []any
	if len(cursors) > 0 {
		facts = append(facts, "cursor", cursors[0])
	}
	if behind >= 0 {
		facts = append(facts, "unread", behind)
	}
	if writtenMs > 0 && behind != 0 {
		facts = append(facts, "lag", time.Since(time.UnixMilli(writtenMs)).Round(time.Millisecond).String())
	}
	return facts
}
