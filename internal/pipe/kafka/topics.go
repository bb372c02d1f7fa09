package kafka

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kevy/internal/backoff"
)

const (
	createTimeoutMs = 30_000
	// topicPatience is how long a topic that was just created, or that was there
	// before, may be missing from what the brokers say.
	topicPatience = 30 * time.Second

	minMessageBytes     = 1 << 10
	defaultMessageBytes = 1_000_012 // what Kafka's brokers take unless told otherwise
)

// topic is what the brokers say of the topic of the records.
type topic struct {
	id              string // in hex; empty from brokers before 2.8
	partitions      int
	maxMessageBytes int32
}

// prepare creates the two topics if they are missing, unless reopened says that
// they were there before, and checks that they can hold what is meant for them.
func (o *Options) prepare(ctx context.Context, cl *kgo.Client, reopened bool) (topic, error) {
	deadline := time.Now().Add(topicPatience)
	for created := false; ; {
		found, err := o.lookUp(ctx, cl)
		if err != nil {
			return topic{}, err
		}
		data, dataThere := found[o.Topic]
		_, cursorsThere := found[o.Cursors]
		switch {
		case dataThere && cursorsThere:
			return o.check(ctx, cl, data)
		case reopened && time.Now().After(deadline):
			return topic{}, permanentf("a topic is gone: of %s and %s, %d are there; start again to begin anew", o.Topic, o.Cursors, len(found))
		case !reopened && !created:
			if err := o.create(ctx, cl, !dataThere, !cursorsThere); err != nil {
				return topic{}, err
			}
			created = true
		case time.Now().After(deadline):
			return topic{}, fmt.Errorf("the topics %s and %s were created and are still missing", o.Topic, o.Cursors)
		}
		if err := backoff.Sleep(ctx, 100*time.Millisecond); err != nil {
			return topic{}, err
		}
	}
}

// lookUp returns those of the two topics that exist.
func (o *Options) lookUp(ctx context.Context, cl *kgo.Client) (map[string]topic, error) {
	req := kmsg.NewPtrMetadataRequest()
	for _, name := range []string{o.Topic, o.Cursors} {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	found := map[string]topic{}
	for _, t := range resp.Topics {
		err := kerr.ErrorForCode(t.ErrorCode)
		switch {
		case errors.Is(err, kerr.UnknownTopicOrPartition), t.Topic == nil:
			continue
		case err != nil:
			return nil, fmt.Errorf("topic %s: %w", *t.Topic, err)
		}
		info := topic{partitions: len(t.Partitions)}
		if t.TopicID != [16]byte{} {
			info.id = hex.EncodeToString(t.TopicID[:])
		}
		found[*t.Topic] = info
	}
	return found, nil
}

func (o *Options) create(ctx context.Context, cl *kgo.Client, data, cursors bool) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = createTimeoutMs
	add := func(name string, partitions int, policy string) {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic = name
		t.NumPartitions, t.ReplicationFactor = -1, -1
		if partitions > 0 {
			t.NumPartitions = int32(partitions)
		}
		if o.Replication > 0 {
			t.ReplicationFactor = int16(o.Replication)
		}
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = "cleanup.policy", &policy
		t.Configs = append(t.Configs, c)
		req.Topics = append(req.Topics, t)
	}
	if data {
		policy := "delete"
		if o.Mode == Changelog {
			policy = "compact"
		}
		partitions := o.Partitions
		if o.Partition == ByStream && partitions == 0 {
			partitions = 1
			for _, stream := range o.Streams {
				if n, err := strconv.Atoi(stream); err == nil {
					partitions = max(partitions, n+1)
				}
			}
		}
		add(o.Topic, partitions, policy)
	}
	if cursors {
		add(o.Cursors, 1, "compact")
	}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			said := ""
			if t.ErrorMessage != nil {
				said = ": " + *t.ErrorMessage
			}
			return fmt.Errorf("creating topic %s: %w%s", t.Topic, err, said)
		}
		o.Logger.Info("kafka: created a topic", "topic", t.Topic)
	}
	return nil
}

// check asks whether the topics keep what they are given.
func (o *Options) check(ctx context.Context, cl *kgo.Client, data topic) (topic, error) {
	data.maxMessageBytes = defaultMessageBytes
	if o.Partitions != 0 && o.Partitions != data.partitions {
		return data, permanentf("the topic %s has %d partitions, not %d", o.Topic, data.partitions, o.Partitions)
	}
	req := kmsg.NewPtrDescribeConfigsRequest()
	for _, name := range []string{o.Topic, o.Cursors} {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, name
		r.ConfigNames = []string{"cleanup.policy", "max.message.bytes"}
		req.Resources = append(req.Resources, r)
	}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return data, err
	}
	for _, r := range resp.Resources {
		err := kerr.ErrorForCode(r.ErrorCode)
		if errors.Is(err, kerr.TopicAuthorizationFailed) || errors.Is(err, kerr.ClusterAuthorizationFailed) {
			o.Logger.Warn("kafka: the settings of a topic cannot be seen (DESCRIBE_CONFIGS): whether it keeps its records is for you to know", "topic", r.ResourceName)
			continue
		}
		if err != nil {
			return data, fmt.Errorf("settings of topic %s: %w", r.ResourceName, err)
		}
		for _, c := range r.Configs {
			if c.Value == nil {
				continue
			}
			switch {
			case c.Name == "max.message.bytes" && r.ResourceName == o.Topic:
				n, err := strconv.ParseInt(*c.Value, 10, 32)
				if err != nil || n < minMessageBytes {
					return data, permanentf("max.message.bytes of the topic %s is %s: make it at least %d", o.Topic, *c.Value, minMessageBytes)
				}
				data.maxMessageBytes = int32(n)
			case c.Name == "cleanup.policy":
				if err := o.checkPolicy(r.ResourceName, *c.Value); err != nil {
					return data, err
				}
			}
		}
	}
	return data, nil
}

func (o *Options) checkPolicy(name, policy string) error {
	switch {
	case name == o.Cursors && policy != "compact":
		return permanentf("the topic %s has cleanup.policy=%s, which drops cursors by and by: make it compact", name, policy)
	case name == o.Topic && o.Mode == History && policy != "delete" && policy != "":
		return permanentf("the topic %s has cleanup.policy=%s: it would keep the last op of a key and drop those before it, of which the value is made; make it delete, or say mode=changelog", name, policy)
	case name == o.Topic && o.Mode == Changelog && policy != "compact":
		return permanentf("the topic %s has cleanup.policy=%s: keys that nobody changes would go; make it compact, or say mode=history", name, policy)
	}
	return nil
}
