package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kevy/changes"
)

// The topic of the cursors holds, compacted, a record for each stream of each
// pipe and one that says whose turn it is:
//
//	<id>/cursor/<stream>   {"generation":…,"offset":…,"lsn":…}
//	<id>/owner             {"owner":"…","n":…,…}
//
// Both are written in the transaction of the records that they stand for. n
// rises with every transaction, so that a pipe which does not know whether one
// was committed can look.

// fetchWait is how long a broker keeps a question that it has no records for.
const fetchWait = 200 * time.Millisecond

// readPatience is after how long without records the log says that they are
// waited for.
const readPatience = 10 * time.Second

type mark struct {
	Generation uint64 `json:"generation"`
	Offset     uint64 `json:"offset"`
	LSN        uint64 `json:"lsn,omitempty"` // of the last frame before it
}

func (m mark) cursor() changes.Cursor {
	return changes.Cursor{Generation: m.Generation, Offset: m.Offset}
}

type owner struct {
	Owner      string    `json:"owner"` // random, of one run of a pipe
	N          uint64    `json:"n"`
	TopicID    string    `json:"topic-id,omitempty"`
	Mode       Mode      `json:"mode"`
	Partition  Partition `json:"partition"`
	Partitions int       `json:"partitions"`
	DBInKey    bool      `json:"db-in-key,omitempty"`
}

// marks are the records of one pipe in the topic of the cursors.
type marks struct {
	owner   owner // zero if this pipe never wrote
	cursors map[string]mark
}

func (o *Options) ownerKey() string               { return o.ID + "/owner" }
func (o *Options) cursorKey(stream string) string { return o.ID + "/cursor/" + stream }

// readMarks reads what is committed; see readCommitted.
func (o *Options) readMarks(ctx context.Context, settled bool) (marks, error) {
	m := marks{cursors: map[string]mark{}}
	err := o.readCommitted(ctx, o.Cursors, []int32{0}, settled, func(r *kgo.Record) error {
		rest, ok := strings.CutPrefix(string(r.Key), o.ID+"/")
		if !ok {
			return nil
		}
		if rest == "owner" {
			m.owner = owner{}
			return json.Unmarshal(r.Value, &m.owner)
		}
		if stream, ok := strings.CutPrefix(rest, "cursor/"); ok {
			var at mark
			if err := json.Unmarshal(r.Value, &at); err != nil {
				return err
			}
			m.cursors[stream] = at
		}
		return nil
	})
	if err != nil {
		return marks{}, fmt.Errorf("reading the topic %s: %w", o.Cursors, err)
	}
	return m, nil
}

// readCommitted calls fn for every record that is committed in these partitions
// of a topic: with settled, as far as they reach when it begins, for which it waits until
// every transaction that is open then has ended; else up to the first of those.
func (o *Options) readCommitted(ctx context.Context, topic string, partitions []int32, settled bool, fn func(*kgo.Record) error) error {
	cl, err := kgo.NewClient(append(o.connection(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		// The last record of a log may be that of an aborted transaction; only
		// the control record behind it then shows that the end is reached.
		kgo.KeepControlRecords(),
		kgo.FetchMaxWait(fetchWait),
	)...)
	if err != nil {
		return err
	}
	defer cl.Close()
	first, err := listOffsets(ctx, cl, topic, partitions, -2, false)
	if err != nil {
		return err
	}
	end, err := listOffsets(ctx, cl, topic, partitions, -1, !settled)
	if err != nil {
		return err
	}
	from := map[int32]kgo.Offset{}
	for _, p := range partitions {
		if first[p] < end[p] {
			from[p] = kgo.NewOffset().At(first[p])
		}
	}
	if len(from) == 0 {
		return nil
	}
	cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: from})
	for len(from) > 0 {
		pctx, cancel := context.WithTimeout(ctx, readPatience)
		fetches := cl.PollFetches(pctx)
		late := ctx.Err() == nil && pctx.Err() != nil
		cancel()
		if late {
			o.Logger.Warn("kafka: waiting until brokers answer, or transactions that are open end", "topic", topic, "partitions", len(from))
			continue
		}
		for _, e := range fetches.Errors() {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if permanent(e.Err) {
				return e.Err
			}
			o.Logger.Info("kafka: waiting to read", "topic", topic, "partition", e.Partition, "err", e.Err)
		}
		for it := fetches.RecordIter(); !it.Done(); {
			r := it.Next()
			if r.Offset+1 >= end[r.Partition] {
				delete(from, r.Partition)
			}
			if r.Attrs.IsControl() || r.Offset >= end[r.Partition] {
				continue
			}
			if err := fn(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// listOffsets asks for the first (at -2) or the end (-1) offset of partitions,
// the end with stable being where the first open transaction begins.
func listOffsets(ctx context.Context, cl *kgo.Client, topic string, partitions []int32, at int64, stable bool) (map[int32]int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	if stable {
		req.IsolationLevel = 1
	}
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	for _, n := range partitions {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = n, at
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	offsets := map[int32]int64{}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return nil, err
			}
			offsets[p.Partition] = p.Offset
		}
	}
	if len(offsets) != len(partitions) {
		return nil, errors.New("a broker did not say how long every partition is")
	}
	return offsets, nil
}
