package kafka

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/informd/informd/pkg/sink"
)

// explain adds what to do to errors that only the user can correct. None of them is
// permanent: each ends when an operator acts. explain(nil, topic) is nil.
func explain(err error, topic string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return fmt.Errorf("the brokers refuse the credentials: %w; check auth", err)
	case errors.Is(err, kerr.UnsupportedSaslMechanism), errors.Is(err, kerr.IllegalSaslState):
		return fmt.Errorf("the brokers refuse this way to log in: %w; check auth.mechanism", err)
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return fmt.Errorf("the brokers deny topic %s: %w; grant Write and Describe on it, and Create unless create is false", topic, err)
	case errors.Is(err, kerr.ClusterAuthorizationFailed):
		return fmt.Errorf("the brokers deny a permission: %w; grant IdempotentWrite on the cluster, and Create unless create is false", err)
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		return fmt.Errorf("topic %s does not exist, or informd has no permission to describe it: %w; create it, or remove create: false", topic, err)
	case errors.Is(err, kgo.ErrRecordRetries): // connections failed, else the broker's reason would be there
		return fmt.Errorf("no lasting connection to the leaders of topic %s: %w; check the brokers", topic, err)
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Errorf("the broker's certificate is not trusted: %w; check tls.caFile and tls.serverName", err)
	}
	// crypto/tls has no exported type for alerts of the other side.
	if said, ok := errors.AsType[*net.OpError](err); ok && said.Op == "remote error" {
		return fmt.Errorf("TLS fails: %w; if the broker requires a client certificate, set tls.certFile and tls.keyFile", err)
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return fmt.Errorf("the broker has no TLS at this address: %w; use another port, or remove tls", err)
	}
	if _, ok := errors.AsType[*kgo.ErrFirstReadEOF](err); ok {
		return fmt.Errorf("%w Check tls and auth", err)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		return fmt.Errorf("the broker closed the connection: %w; if that continues, check auth and tls", err)
	}
	return err
}

// explainRecord is explain for the answer to a record. What may lie in the record is unknown.
func explainRecord(err error, topic string) error {
	if why := explain(err, topic); !refuses(err) {
		return why
	}
	return sink.Unknown(fmt.Errorf("the brokers refuse the record for topic %s: %w", topic, err))
}

// refuses reports whether a broker has given a reason that may lie in the record: one that
// another try need not change, and that is neither the producer's own state, which begins
// afresh with the next connection, nor what all brokers and clients of that kind have, nor
// what explain knows.
func refuses(err error) bool {
	said, ok := errors.AsType[*kerr.Error](err)
	if !ok || said.Retriable {
		return false
	}
	switch said {
	case kerr.SaslAuthenticationFailed, kerr.UnsupportedSaslMechanism, kerr.IllegalSaslState, kerr.TopicAuthorizationFailed,
		kerr.ClusterAuthorizationFailed, kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.UnknownServerError:
		return false
	case kerr.OutOfOrderSequenceNumber, kerr.DuplicateSequenceNumber, kerr.UnknownProducerID,
		kerr.InvalidProducerEpoch, kerr.InvalidProducerIDMapping, kerr.ProducerFenced,
		kerr.UnsupportedVersion, kerr.SecurityDisabled, kerr.RebootstrapRequired:
		return false
	}
	return true
}

// tooLarge reports whether a broker, or the client, has refused a record, or the
// batch that it was in, for its size.
func tooLarge(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge)
}

// refusal is the permanent error about a record that is too large by itself.
func refusal(err error, size int, topic string) error {
	return sink.Permanent(fmt.Errorf("the record has %d bytes before compression, too large for topic %s: %w; "+
		"raise max.message.bytes of the topic, set compression, or make events smaller with omit", size, topic, err))
}
