// Package kafka is where a pipe of changes goes to Apache Kafka, exactly once:
// records and the cursor behind them are written in one transaction, which no
// commit of the store is split over.
package kafka

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kevy/changes"
	"kevy/internal/backoff"
)

const (
	// maxTransactionBytes ends a transaction at the next commit's border. A commit
	// that is larger goes out whole.
	maxTransactionBytes = 8 << 20

	// idleEvery is how often a cursor moves for which there are no records.
	idleEvery = 5 * time.Second

	// abortPatience is how long a sink that is closed, or goes on with another
	// client, tries to say so to the brokers; they find out by themselves too.
	abortPatience = time.Second

	// maxBackoff is the longest wait between two attempts.
	maxBackoff = 5 * time.Second
)

// Sink writes to one topic. It is used by one goroutine.
type Sink struct {
	o     Options
	owner owner           // of this run; N is that of the last transaction that is known to be committed
	at    map[string]mark // what is committed
	idle  map[string]mark // cursors that moved since, without records
	moved time.Time       // when cursors were written last

	cl     *kgo.Client // nil until the next attempt
	topic  topic
	router *router

	state     *state // of a Changelog
	failed    error  // no more after it: what was given may be in the state and not in the topic
	idleEvery time.Duration
	snapshots map[string]*snapshot // of streams whose snapshot has begun
}

// New checks the options. It does not connect.
func New(o Options) (*Sink, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	if o.Mode == History && o.Form == nil {
		return nil, errors.New("kafka: no form for the records")
	}
	if o.Mode == Changelog && !o.Snapshot {
		return nil, errors.New("kafka: mode=changelog begins with the state, since what follows are changes of it: add --snapshot")
	}
	return &Sink{o: o, at: map[string]mark{}, idle: map[string]mark{}, idleEvery: idleEvery, snapshots: map[string]*snapshot{}}, nil
}

// Resume connects, creates the topics if they are missing, and takes the place
// of whatever pipe wrote to them under the same name: that one can write no more. It
// waits for brokers that are away until ctx ends. It returns the cursors that
// are committed.
func (s *Sink) Resume(ctx context.Context) (map[string]changes.Cursor, bool, error) {
	var random [8]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, false, err
	}
	s.owner = owner{Owner: hex.EncodeToString(random[:]), Mode: s.o.Mode, Partition: s.o.Partition, DBInKey: s.o.DBInKey}
	err := s.insist(ctx, func() error {
		if err := s.connect(ctx, false); err != nil {
			return err
		}
		// The claim: from here on an earlier pipe that comes back finds
		// another's name, and stops.
		return s.transact(ctx, newBatch())
	})
	if err != nil {
		return nil, false, s.fail(err)
	}
	at := make(map[string]changes.Cursor, len(s.at))
	for stream, m := range s.at {
		if m == underWay {
			if !s.o.Snapshot {
				s.drop()
				return nil, false, s.fail(permanentf("a snapshot into topic %s was begun and not ended: start with --snapshot, or take another topic", s.o.Topic))
			}
			continue
		}
		at[stream] = m.cursor()
	}
	return at, true, nil
}

// insist calls try until it succeeds, fails for good, or ctx ends.
func (s *Sink) insist(ctx context.Context, try func() error) error {
	b := backoff.Backoff{Most: maxBackoff}
	for {
		err := try()
		if err == nil {
			return nil
		}
		s.drop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if permanent(err) {
			return s.o.advise(err)
		}
		wait := b.Next()
		s.o.Logger.Warn("kafka: trying again", "topic", s.o.Topic, "in", wait, "err", err)
		if err := backoff.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// drop closes the client, whatever state it is in, and aborts its transaction.
func (s *Sink) drop() {
	if s.cl == nil {
		return
	}
	cl := s.cl
	s.cl = nil
	if !s.o.AtLeastOnce {
		ctx, cancel := context.WithTimeout(context.Background(), abortPatience)
		defer cancel()
		// Either may fail: the next client of this name aborts it, or time does.
		if cl.AbortBufferedRecords(ctx) == nil {
			_ = cl.EndTransaction(ctx, kgo.TryAbort)
		}
	}
	cl.Close()
}

// connect makes a client, which ends every transaction of an earlier one of its name,
// and then reads what is committed. reopened says that this sink has been
// connected before.
func (s *Sink) connect(ctx context.Context, reopened bool) error {
	if reopened && !s.o.AtLeastOnce {
		// Before the client that took our place is fenced in its turn.
		m, err := s.o.readMarks(ctx, false)
		if err != nil {
			return err
		}
		if err := s.mine(m.owner); err != nil {
			return err
		}
	}
	codec, err := s.o.codec()
	if err != nil {
		return err
	}
	// The topic's limit is known only once there is a client to ask with.
	var limit int32 = defaultMessageBytes
	if s.topic.maxMessageBytes != 0 {
		limit = s.topic.maxMessageBytes
	}
	for {
		opts := append(s.o.connection(),
			kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.ProducerBatchCompression(codec, kgo.NoCompression()),
			kgo.ProducerBatchMaxBytesFn(func(topic string) int32 {
				if topic == s.o.Topic {
					return limit
				}
				return defaultMessageBytes
			}),
			kgo.BrokerMaxWriteBytes(max(100<<20, limit+1<<20)),
			kgo.MaxBufferedRecords(maxBufferedRecords),
			kgo.MaxBufferedBytes(max(maxBufferedBytes, int(limit))),
		)
		if !s.o.AtLeastOnce {
			opts = append(opts, kgo.TransactionalID(s.o.transactionalID()), kgo.TransactionTimeout(transactionTimeout))
		}
		cl, err := kgo.NewClient(opts...)
		if err != nil {
			return permanentError{fmt.Errorf("kafka: %w", err)}
		}
		s.cl = cl
		t, err := s.o.prepare(ctx, cl, reopened)
		if err != nil {
			return err
		}
		s.topic = t
		if t.maxMessageBytes == limit {
			break
		}
		limit = t.maxMessageBytes
		cl.Close()
		s.cl = nil
	}
	if s.router == nil {
		s.router = newRouter(&s.o, s.topic.partitions)
		s.owner.TopicID, s.owner.Partitions = s.topic.id, s.topic.partitions
	}
	if !s.o.AtLeastOnce {
		if _, _, err := s.cl.ProducerID(ctx); err != nil {
			return err
		}
	}
	m, err := s.o.readMarks(ctx, true)
	if err != nil {
		return err
	}
	if reopened && !s.o.AtLeastOnce {
		if err := s.mine(m.owner); err != nil {
			return err
		}
	}
	if err := s.fits(m.owner); err != nil {
		return err
	}
	s.at = m.cursors
	s.owner.N = m.owner.N
	if s.o.Mode == Changelog && s.state == nil {
		return s.load(ctx)
	}
	return nil
}

// mine refuses to go on where another pipe has begun.
func (s *Sink) mine(now owner) error {
	if now.Owner != s.owner.Owner {
		return permanentf("another pipe of the name %s has taken over topic %s; if it should not have, give one of them another id", s.o.ID, s.o.Topic)
	}
	return nil
}

// fits refuses a topic that does not go with its cursors.
func (s *Sink) fits(last owner) error {
	switch {
	case last.Owner == "":
		return nil
	case last.TopicID != "" && s.topic.id != "" && last.TopicID != s.topic.id:
		return permanentf("the cursors in %s are of an earlier topic %s, whose records are gone: take another id to begin anew", s.o.Cursors, s.o.Topic)
	case last.Mode != s.o.Mode || last.Partition != s.o.Partition || last.DBInKey != s.o.DBInKey:
		return permanentf("topic %s was written with mode=%s, partition=%s, databases in keys: %t; take another topic for another form", s.o.Topic, last.Mode, last.Partition, last.DBInKey)
	case last.Partitions != s.topic.partitions && s.o.Partition == ByKey:
		return permanentf("topic %s had %d partitions and has %d: keys would change their partition and lose their order; take a new topic", s.o.Topic, last.Partitions, s.topic.partitions)
	}
	return nil
}

// Write writes commits in transactions of some MiB. A commit without frames
// moves the cursor, if only every few seconds.
func (s *Sink) Write(ctx context.Context, commits []*changes.Commit) error {
	if s.failed != nil {
		return s.failed
	}
	b := newBatch()
	for _, c := range commits {
		if err := s.router.admit(c.Stream); err != nil {
			return err
		}
		at := mark{Generation: c.Next.Generation, Offset: c.Next.Offset, LSN: s.lsn(b, c.Stream)}
		if n := len(c.Frames); n > 0 {
			at.LSN = c.Frames[n-1].LSN
		}
		for i := range c.Frames {
			f := &c.Frames[i]
			if s.o.Mode == Changelog {
				if err := s.state.frame(c, f); err != nil {
					return s.fail(err)
				}
				continue
			}
			value := b.bytesOf(func(d []byte) []byte { return s.o.Form.AppendFrame(d, c, i) })
			b.record(s.router, c.Stream, f.Key(), value, f.Time, b.headers(c, f))
		}
		b.cursors[c.Stream] = at
		if b.bytes >= maxTransactionBytes || s.o.Mode == Changelog && s.state.full() {
			if err := s.flush(ctx, b); err != nil {
				return err
			}
			b = newBatch()
		}
	}
	if s.o.Mode == Changelog {
		if err := s.state.emit(b, s.router); err != nil {
			return s.fail(err)
		}
	}
	if len(b.records) == 0 {
		for stream, at := range b.cursors {
			s.idle[stream] = at
		}
		if len(s.idle) == 0 || time.Since(s.moved) < s.idleEvery {
			return nil
		}
	}
	return s.commit(ctx, b)
}

// flush is commit of a batch whose values are still to be added.
func (s *Sink) flush(ctx context.Context, b *batch) error {
	if s.o.Mode == Changelog {
		if err := s.state.emit(b, s.router); err != nil {
			return s.fail(err)
		}
	}
	return s.commit(ctx, b)
}

// fail ends the use of the sink.
func (s *Sink) fail(err error) error {
	s.failed = err
	return err
}

// lsn is the number of the last frame before the end of b.
func (s *Sink) lsn(b *batch, stream string) uint64 {
	for _, m := range []map[string]mark{b.cursors, s.idle, s.at} {
		if at, ok := m[stream]; ok {
			return at.LSN
		}
	}
	return 0
}

// commit writes a batch, exactly once: after a failure that leaves open whether
// the brokers committed it, it looks.
func (s *Sink) commit(ctx context.Context, b *batch) error {
	for stream, at := range s.idle {
		if _, ok := b.cursors[stream]; !ok {
			b.cursors[stream] = at
		}
	}
	before := s.owner.N
	err := s.insist(ctx, func() error {
		if s.cl == nil {
			if err := s.connect(ctx, true); err != nil {
				return err
			}
		}
		if !s.o.AtLeastOnce {
			switch s.owner.N {
			case before + 1:
				s.o.Logger.Info("kafka: the transaction had been committed", "topic", s.o.Topic, "n", s.owner.N)
				return nil
			case before:
			default:
				return permanentf("the cursors in %s are those of transaction %d, after %d: somebody else writes them", s.o.Cursors, s.owner.N, before)
			}
		}
		return s.transact(ctx, b)
	})
	if err != nil {
		return s.fail(err)
	}
	clear(s.idle)
	return nil
}

// transact writes a batch and its cursors in one transaction; at least once, the
// cursors after the records.
func (s *Sink) transact(ctx context.Context, b *batch) error {
	next := s.owner
	next.N++
	last := make([]*kgo.Record, 0, 1+len(b.cursors))
	for stream, at := range b.cursors {
		last = append(last, s.markRecord(s.o.cursorKey(stream), at))
	}
	last = append(last, s.markRecord(s.o.ownerKey(), next))
	if s.o.AtLeastOnce {
		if err := s.produce(ctx, b.records); err != nil {
			return err
		}
		if err := s.produce(ctx, last); err != nil {
			return err
		}
	} else {
		if err := s.cl.BeginTransaction(); err != nil {
			return err
		}
		if err := s.produce(ctx, b.records, last); err != nil {
			return err
		}
		if err := s.cl.EndTransaction(ctx, kgo.TryCommit); err != nil {
			return err
		}
	}
	s.owner = next
	for stream, at := range b.cursors {
		s.at[stream] = at
	}
	s.moved = time.Now()
	return nil
}

func (s *Sink) markRecord(key string, v any) *kgo.Record {
	value, err := json.Marshal(v)
	if err != nil {
		panic(err) // numbers and strings
	}
	return &kgo.Record{Topic: s.o.Cursors, Key: []byte(key), Value: value}
}

// produce hands records to the client and waits until the brokers have them all.
// The client gets copies, since it writes into what it is given and the records may
// have to go out again.
func (s *Sink) produce(ctx context.Context, lists ...[]*kgo.Record) error {
	var mu sync.Mutex
	var first error
	done := func(r *kgo.Record, err error) {
		if err == nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if first == nil {
			first = fmt.Errorf("writing to topic %s, partition %d%s: %w", r.Topic, r.Partition, s.describe(r), err)
		}
	}
	for _, list := range lists {
		for _, r := range list {
			c := *r
			s.cl.Produce(ctx, &c, done)
		}
	}
	err := s.cl.Flush(ctx)
	mu.Lock()
	defer mu.Unlock()
	if first != nil {
		return first
	}
	return err
}

// describe says which record it was.
func (s *Sink) describe(r *kgo.Record) string {
	if r.Topic != s.o.Topic {
		return ""
	}
	at := ""
	for _, h := range r.Headers {
		if h.Key == HeaderCursor {
			at = ", cursor " + string(h.Value)
		}
	}
	key := r.Key
	if len(key) > maxShownKey {
		key = key[:maxShownKey]
	}
	return fmt.Sprintf(", key %q%s, %d bytes", key, at, len(r.Value))
}

const maxShownKey = 128

// Close writes cursors that are still to be written and ends the connection.
func (s *Sink) Close(ctx context.Context) error {
	var err error
	if len(s.idle) > 0 && s.cl != nil && s.failed == nil {
		err = s.commit(ctx, newBatch())
	}
	s.drop()
	return err
}
