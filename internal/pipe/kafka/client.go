package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const (
	// transactionTimeout is how long brokers keep a transaction open whose pipe
	// is gone without a successor; until then its consumers wait.
	transactionTimeout = time.Minute

	retryTimeout = 3 * time.Second

	maxBufferedRecords = 1 << 15 // more, and Write waits for the brokers
	maxBufferedBytes   = 64 << 20
)

// codec returns the compression of batches.
func (o *Options) codec() (kgo.CompressionCodec, error) {
	switch o.Compression {
	case "none":
		return kgo.NoCompression(), nil
	case "gzip":
		return kgo.GzipCompression(), nil
	case "snappy":
		return kgo.SnappyCompression(), nil
	case "", "lz4":
		return kgo.Lz4Compression(), nil
	case "zstd":
		return kgo.ZstdCompression(), nil
	}
	return kgo.NoCompression(), fmt.Errorf("kafka: compression=%s: there are none, gzip, snappy, lz4 and zstd", o.Compression)
}

// mechanism returns how the user is proven; nil without a user.
func (o *Options) mechanism() (sasl.Mechanism, error) {
	if o.SASL != "" && o.User == "" {
		return nil, errors.New("kafka: sasl without a user: kafka://user:password@broker/topic")
	}
	switch o.SASL {
	case "":
		return nil, nil
	case "plain":
		return plain.Auth{User: o.User, Pass: o.Password}.AsMechanism(), nil
	case "scram-sha-256":
		return scram.Auth{User: o.User, Pass: o.Password}.AsSha256Mechanism(), nil
	case "scram-sha-512":
		return scram.Auth{User: o.User, Pass: o.Password}.AsSha512Mechanism(), nil
	}
	return nil, fmt.Errorf("kafka: sasl=%s: there are plain, scram-sha-256 and scram-sha-512", o.SASL)
}

// connection returns what every client of the brokers has in common.
func (o *Options) connection() []kgo.Opt {
	opts := []kgo.Opt{
		kgo.SeedBrokers(o.Brokers...),
		kgo.ClientID("kevy-pipe-" + o.ID),
		kgo.WithLogger(logger{o.Logger}),
		kgo.DisableClientMetrics(),
		// The library's own attempts end early: those of the sink go on, and say
		// why, or find that no attempt will help.
		kgo.RetryTimeout(retryTimeout),
	}
	if m, err := o.mechanism(); err == nil && m != nil {
		opts = append(opts, kgo.SASL(m))
	}
	if o.TLS != nil {
		opts = append(opts, kgo.DialTLSConfig(o.TLS.Clone()))
	}
	return opts
}

// transactionalID is what the brokers fence by: one writer to a topic under
// one name.
func (o *Options) transactionalID() string { return "kevy-pipe." + o.Topic + "." + o.ID }

// logger hands the library's own messages on. They are of use to who looks for
// a fault only: what matters is said by the sink.
type logger struct{ to *slog.Logger }

func (l logger) Level() kgo.LogLevel {
	if l.to.Enabled(context.Background(), slog.LevelDebug) {
		return kgo.LogLevelInfo
	}
	return kgo.LogLevelNone
}

func (l logger) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	l.to.Debug("kafka: "+msg, append(keyvals, "of", level.String())...)
}

// permanent reports whether nothing but a change by people helps against err.
// Everything else, a broker that is away above all, is waited for.
func permanent(err error) bool {
	var ke *kerr.Error
	if errors.As(err, &ke) {
		switch ke {
		// These end a transaction or the client that made it; a new one goes on.
		case kerr.InvalidProducerEpoch, kerr.ProducerFenced, kerr.InvalidProducerIDMapping, kerr.UnknownProducerID,
			kerr.InvalidTxnState, kerr.TransactionAbortable, kerr.OperationNotAttempted, kerr.OutOfOrderSequenceNumber,
			kerr.TransactionCoordinatorFenced, kerr.DuplicateSequenceNumber, kerr.UnknownServerError, kerr.StaleControllerEpoch:
			return false
		}
		return !ke.Retriable
	}
	var said permanentError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var verification *tls.CertificateVerificationError
	var header tls.RecordHeaderError
	return errors.As(err, &said) || errors.As(err, &authority) || errors.As(err, &host) || errors.As(err, &verification) || errors.As(err, &header)
}

// permanentError is an error of our own that waiting does not cure.
type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

func permanentf(format string, args ...any) error {
	return permanentError{fmt.Errorf("kafka: "+format, args...)}
}

// advise adds to a permanent error what can be done about it.
func (o *Options) advise(err error) error {
	var said permanentError
	if errors.As(err, &said) {
		return err
	}
	do := ""
	switch {
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		do = fmt.Sprintf("let this user READ, WRITE and DESCRIBE the topics %s and %s, and CREATE them if they are not there", o.Topic, o.Cursors)
	case errors.Is(err, kerr.TransactionalIDAuthorizationFailed):
		do = fmt.Sprintf("let this user WRITE and DESCRIBE the transactional id %s, or say transactions=no and get at-least-once", o.transactionalID())
	case errors.Is(err, kerr.ClusterAuthorizationFailed):
		do = "let this user IDEMPOTENT_WRITE on the cluster"
	case errors.Is(err, kerr.SaslAuthenticationFailed), errors.Is(err, kerr.UnsupportedSaslMechanism), errors.Is(err, kerr.IllegalSaslState):
		do = "check user, password and sasl of the target"
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge):
		do = fmt.Sprintf("raise max.message.bytes of the topic %s and start again, or leave the key out by a filter", o.Topic)
	case errors.Is(err, kerr.InvalidTransactionTimeout):
		do = fmt.Sprintf("let the brokers' transaction.max.timeout.ms be at least %d", transactionTimeout.Milliseconds())
	case errors.Is(err, kerr.UnsupportedVersion):
		do = "transactions need Kafka 2.5 or later; transactions=no does without"
	case errors.Is(err, kerr.InvalidReplicationFactor):
		do = "say replication=n with n no more than there are brokers"
	case errors.Is(err, kerr.PolicyViolation):
		do = "create the topics by hand as the brokers' policy wants them"
	case errors.Is(err, kerr.InvalidTimestamp):
		do = fmt.Sprintf("let message.timestamp.before.max.ms and after.max.ms of the topic %s take the times of the commits", o.Topic)
	}
	if do == "" {
		return permanentError{fmt.Errorf("kafka: %w", err)}
	}
	return permanentError{fmt.Errorf("kafka: %w (%s)", err, do)}
}
