package kafka

import (
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kevy/changes"
)

// The headers of a record. Their values are text.
const (
	HeaderStream   = "kevy-stream"   // the stream that the frame was read from
	HeaderCursor   = "kevy-cursor"   // generation:offset of the frame itself
	HeaderLast     = "kevy-last"     // offset of the last frame of its commit
	HeaderLSN      = "kevy-lsn"      // number of the op in the server's log
	HeaderTime     = "kevy-time"     // of the commit, in Unix milliseconds; the record's timestamp too
	HeaderDB       = "kevy-db"       // number of the database
	HeaderCause    = "kevy-cause"    // user, expired or evicted
	HeaderSnapshot = "kevy-snapshot" // of what a snapshot made rather than a commit: start, state or end
	HeaderToken    = "kevy-token"    // the snapshot's name
)

// arenaBytes is how much memory for the bytes of records is taken at a time.
const arenaBytes = 256 << 10

// batch is what goes out in one transaction.
type batch struct {
	records []*kgo.Record
	bytes   int // about, of the records
	cursors map[string]mark

	arena []byte
}

func newBatch() *batch { return &batch{cursors: map[string]mark{}} }

// bytesOf lets append add to the arena and returns what it added.
func (b *batch) bytesOf(add func([]byte) []byte) []byte {
	if len(b.arena)+arenaBytes/8 > cap(b.arena) {
		b.arena = make([]byte, 0, arenaBytes)
	}
	start := len(b.arena)
	b.arena = add(b.arena)
	return b.arena[start:len(b.arena):len(b.arena)]
}

func (b *batch) text(s string) []byte {
	return b.bytesOf(func(d []byte) []byte { return append(d, s...) })
}

func (b *batch) copy(p []byte) []byte {
	return b.bytesOf(func(d []byte) []byte { return append(d, p...) })
}

func (b *batch) uint(n uint64) []byte {
	return b.bytesOf(func(d []byte) []byte { return strconv.AppendUint(d, n, 10) })
}

func (b *batch) add(r *kgo.Record) {
	b.records = append(b.records, r)
	b.bytes += len(r.Key) + len(r.Value) + 64
	for _, h := range r.Headers {
		b.bytes += len(h.Key) + len(h.Value)
	}
}

// headers returns those of a frame of c.
func (b *batch) headers(c *changes.Commit, f *changes.Frame) []kgo.RecordHeader {
	cause := f.Cause
	if cause == "" {
		cause = "user"
	}
	return []kgo.RecordHeader{
		{Key: HeaderStream, Value: b.text(c.Stream)},
		{Key: HeaderCursor, Value: b.bytesOf(func(d []byte) []byte {
			d = strconv.AppendUint(d, c.Generation, 10)
			return strconv.AppendUint(append(d, ':'), f.Offset, 10)
		})},
		{Key: HeaderLast, Value: b.uint(c.Last)},
		{Key: HeaderLSN, Value: b.uint(f.LSN)},
		{Key: HeaderTime, Value: b.bytesOf(func(d []byte) []byte { return strconv.AppendInt(d, f.Time.UnixMilli(), 10) })},
		{Key: HeaderDB, Value: b.uint(uint64(f.DB))},
		{Key: HeaderCause, Value: b.text(string(cause))},
	}
}

// snapshotHeaders returns those of a record that a snapshot made.
func (b *batch) snapshotHeaders(what, stream, token string, db int) []kgo.RecordHeader {
	return []kgo.RecordHeader{
		{Key: HeaderStream, Value: b.text(stream)},
		{Key: HeaderDB, Value: b.uint(uint64(db))},
		{Key: HeaderSnapshot, Value: b.text(what)},
		{Key: HeaderToken, Value: b.text(token)},
	}
}

// router chooses partitions.
type router struct {
	o          *Options
	partitions int
	hash       kgo.TopicPartitioner
	only       string // the stream that the topic is of, once there is one, where keys decide
}

func newRouter(o *Options, partitions int) *router {
	return &router{o: o, partitions: partitions, hash: kgo.StickyKeyPartitioner(nil).ForTopic(o.Topic)}
}

// admit refuses a stream whose frames would not keep their order beside those
// that are there.
func (r *router) admit(stream string) error {
	if r.o.Partition == ByKey {
		if r.only == "" {
			r.only = stream
		}
		if r.only != stream {
			return permanentf("partition=key takes one stream a topic, and %s is of %s: a FLUSHALL of stream %s would overtake keys of others; follow ALL, or say partition=stream", r.o.Topic, r.only, stream)
		}
		return nil
	}
	if stream == "ALL" {
		return nil
	}
	n, err := strconv.Atoi(stream)
	if err != nil || n < 0 {
		return permanentf("partition=stream: %q is not a stream", stream)
	}
	if n >= r.partitions {
		return permanentf("the topic %s has %d partitions, and there is a stream %d: give it one for every shard (CHANGES SHARDS)", r.o.Topic, r.partitions, n)
	}
	return nil
}

// of returns the partition of a record of an admitted stream.
func (r *router) of(stream string, key []byte) int32 {
	if r.o.Partition == ByStream {
		n, _ := strconv.Atoi(stream) // 0 for ALL
		return int32(n)
	}
	return int32(r.hash.Partition(&kgo.Record{Key: key}, r.partitions))
}

// all returns the partitions that a record without a key goes to.
func (r *router) all(stream string) []int32 {
	if r.o.Partition == ByStream {
		return []int32{r.of(stream, nil)}
	}
	all := make([]int32, r.partitions)
	for i := range all {
		all[i] = int32(i)
	}
	return all
}

// record adds a record to a batch. One without a key, that of FLUSHALL for
// instance, goes to every partition, so that it is in order with whatever stands
// beside it.
func (b *batch) record(r *router, stream string, key, value []byte, at time.Time, headers []kgo.RecordHeader) {
	add := func(partition int32, key []byte) {
		b.add(&kgo.Record{Topic: r.o.Topic, Partition: partition, Key: key, Value: value, Headers: headers, Timestamp: at})
	}
	if key == nil {
		for _, p := range r.all(stream) {
			add(p, nil)
		}
		return
	}
	key = b.copy(key)
	add(r.of(stream, key), key)
}
