package kafka

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"

	"kevy/changes"
)

// Mode is what a topic holds.
type Mode string

// The modes.
const (
	History   Mode = "history"   // every op is a record; nothing may be compacted away
	Changelog Mode = "changelog" // the last record of a key is its value, a tombstone if it is gone; for compaction
)

// Partition is what decides the partition of a record.
type Partition string

// The ways to choose a partition.
const (
	ByKey    Partition = "key"    // the record's key, hashed as Kafka's own producers do: one stream a topic
	ByStream Partition = "stream" // the number of the shard stream; ALL goes to partition 0
)

// Form words the values of a history's records. A value keeps none of the bytes of
// what it is made of.
type Form interface {
	// AppendFrame appends the value of frame i of a commit.
	AppendFrame(dst []byte, c *changes.Commit, i int) []byte
	// AppendSnapshotOp appends the value of op i of a part of a snapshot.
	AppendSnapshotOp(dst []byte, p *changes.SnapshotPart, i int) []byte
	// AppendSnapshotStart and AppendSnapshotEnd append the values of the records
	// that enclose a snapshot; they may be empty.
	AppendSnapshotStart(dst []byte, stream, token string) []byte
	AppendSnapshotEnd(dst []byte, stream, token string, at changes.Cursor) []byte
}

// Options say where the records go, and which.
type Options struct {
	Brokers []string // host:port of some brokers, from which the others are learned
	Topic   string
	Cursors string // the topic that holds the cursors; Topic + ".cursors" if empty
	ID      string // the pipe's name: cursors and fencing go by it; "kevy" if empty

	Mode      Mode      // History if empty
	Partition Partition // if empty ByKey for one stream, else ByStream
	Streams   []string  // those that come; needed to create a topic ByStream
	Snapshot  bool      // that a stream without a cursor begins with one
	DBInKey   bool      // in a Changelog, records are keyed "db/key" rather than "key": for a pipe of all databases

	Partitions  int // of a topic that does not exist yet; 0 leaves it to the brokers
	Replication int // of topics that do not exist yet; 0 leaves it to the brokers

	// AtLeastOnce does without transactions: cursors follow the records, so that
	// some of these come again after a failure.
	AtLeastOnce bool

	Compression string // none, gzip, snappy, lz4 or zstd; lz4 if empty

	User, Password string
	SASL           string      // plain, scram-sha-256 or scram-sha-512; scram-sha-512 if there is a user
	TLS            *tls.Config // nil: none. Without a ServerName the brokers' own names count

	// MaxStateBytes bounds the memory that a Changelog keeps its values in; 1 GiB
	// if 0.
	MaxStateBytes int64

	Form   Form         // of a History's values
	Logger *slog.Logger // slog.Default() if nil
}

const (
	defaultID            = "kevy"
	defaultMaxStateBytes = 1 << 30
	defaultPort          = "9092"
	maxTopicName         = 249 // Kafka's own limit
	maxPartitions        = 100_000
)

// Set sets an option by its name in a target's URL: cursors, mode, partition,
// partitions, replication, transactions (yes, no), compression, sasl, state-max-bytes.
func (o *Options) Set(name, v string) error {
	var err error
	yes := false
	switch name {
	case "cursors":
		o.Cursors = v
	case "mode":
		o.Mode = Mode(v)
	case "partition":
		o.Partition = Partition(v)
	case "partitions":
		o.Partitions, err = strconv.Atoi(v)
	case "replication":
		o.Replication, err = strconv.Atoi(v)
	case "transactions":
		yes, err = yesNo(v)
		o.AtLeastOnce = !yes
	case "compression":
		o.Compression = v
	case "sasl":
		o.SASL = strings.ToLower(v)
	case "state-max-bytes":
		o.MaxStateBytes, err = strconv.ParseInt(v, 10, 64)
	default:
		return fmt.Errorf("kafka: no option %q", name)
	}
	if err != nil {
		return fmt.Errorf("kafka: %s=%s: %w", name, v, err)
	}
	return nil
}

// Names are those that Set takes.
var Names = []string{"cursors", "mode", "partition", "partitions", "replication", "transactions", "compression", "sasl", "state-max-bytes"}

func yesNo(v string) (bool, error) {
	switch v {
	case "yes":
		return true, nil
	case "no":
		return false, nil
	}
	return false, errors.New("yes or no")
}

// Brokers reads a list of host[:port], as the authority of a URL has it.
func Brokers(list string) ([]string, error) {
	var brokers []string
	for b := range strings.SplitSeq(list, ",") {
		if b == "" {
			return nil, errors.New("kafka: no broker: kafka://broker[,broker…]/topic")
		}
		if _, _, err := net.SplitHostPort(b); err != nil {
			b = net.JoinHostPort(strings.Trim(b, "[]"), defaultPort)
		}
		brokers = append(brokers, b)
	}
	return brokers, nil
}

// complete fills in what was left out and refuses what cannot be.
func (o *Options) complete() error {
	if o.ID == "" {
		o.ID = defaultID
	}
	if o.Mode == "" {
		o.Mode = History
	}
	if o.Partition == "" {
		if o.Partition = ByKey; len(o.Streams) > 1 {
			o.Partition = ByStream
		}
	}
	if o.Cursors == "" {
		o.Cursors = o.Topic + ".cursors"
	}
	if o.MaxStateBytes == 0 {
		o.MaxStateBytes = defaultMaxStateBytes
	}
	if o.SASL == "" && o.User != "" {
		o.SASL = "scram-sha-512"
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	switch {
	case len(o.Brokers) == 0:
		return errors.New("kafka: no broker: kafka://broker[,broker…]/topic")
	case o.Topic == "":
		return errors.New("kafka: no topic: kafka://broker[,broker…]/topic")
	case !topicName(o.Topic):
		return fmt.Errorf("kafka: %q cannot be a topic: letters, digits, '.', '_' and '-', at most %d", o.Topic, maxTopicName)
	case !topicName(o.Cursors):
		return fmt.Errorf("kafka: %q cannot be a topic for the cursors: say cursors=name", o.Cursors)
	case o.Cursors == o.Topic:
		return errors.New("kafka: the cursors need a topic of their own")
	case o.Mode != History && o.Mode != Changelog:
		return fmt.Errorf("kafka: mode=%s: there are history and changelog", o.Mode)
	case o.Partition != ByKey && o.Partition != ByStream:
		return fmt.Errorf("kafka: partition=%s: there are key and stream", o.Partition)
	case o.Partitions < 0 || o.Partitions > maxPartitions:
		return fmt.Errorf("kafka: partitions=%d: 1 to %d", o.Partitions, maxPartitions)
	case o.Replication < 0 || o.Replication > 1<<15-1:
		return fmt.Errorf("kafka: replication=%d: at least 1", o.Replication)
	case o.MaxStateBytes < 0:
		return fmt.Errorf("kafka: state-max-bytes=%d: at least 1", o.MaxStateBytes)
	case o.Mode == Changelog && o.AtLeastOnce:
		return errors.New("kafka: mode=changelog needs transactions: its values are what the topic held at the cursor")
	}
	if _, err := o.codec(); err != nil {
		return err
	}
	_, err := o.mechanism()
	return err
}

func topicName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-') {
			return false
		}
	}
	return s != "" && s != "." && s != ".." && len(s) <= maxTopicName
}
