package streams

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/jetstream/internal/server"
	"github.com/informd/informd/pkg/natsconn/refusal"
)

// Codes of JetStream errors that the client library has no names for.
const (
	codeStorageExceeded js.ErrorCode = 10047
	codeSubjectsOverlap js.ErrorCode = 10065
)

// Find returns a stream, or creates it. It refuses an existing one that would lose, trim or hide
// messages, with a [RefusedError], and changes nothing.
func Find(ctx context.Context, client js.JetStream, wanted js.StreamConfig) (js.Stream, error) {
	stream, err := client.Stream(ctx, wanted.Name)
	made := errors.Is(err, js.ErrStreamNotFound)
	if made {
		stream, err = client.CreateStream(ctx, wanted)
	}
	if err != nil && made && wanted.MaxBytes > 0 && refusal.Of(err) == refusal.Full {
		return nil, server.TooLarge(ctx, client, wanted, err)
	}
	if refusal, ok := errors.AsType[*js.APIError](err); ok && refusal.ErrorCode == codeSubjectsOverlap {
		return nil, overlapping(ctx, client, wanted, err)
	}
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", wanted.Name, err)
	}
	if found := differences(stream.CachedInfo().Config, wanted); len(found) > 0 {
		return nil, server.Final(&RefusedError{Stream: wanted.Name, Differences: found})
	}
	return stream, nil
}

// overlapping makes the error of a stream whose subjects another stream has.
func overlapping(ctx context.Context, client js.JetStream, wanted js.StreamConfig, err error) error {
	owner := "another stream"
	if name, err := client.StreamNameBySubject(ctx, wanted.Subjects[0]); err == nil {
		owner = "stream " + name
	}
	return fmt.Errorf("stream %s: %s already has some of the subjects %s: %w; set another journal.subjectPrefix, or another subjectPrefix of the sink that writes to that stream",
		wanted.Name, owner, wanted.Subjects[0], err)
}

// SetLimits sets the limits of a stream in informd's own server to those of the config. It
// returns the config that the stream then has. A missing stream needs no limits.
func SetLimits(ctx context.Context, client js.JetStream, wanted js.StreamConfig, logger *slog.Logger) (js.StreamConfig, error) {
	stream, err := client.Stream(ctx, wanted.Name)
	if errors.Is(err, js.ErrStreamNotFound) {
		return wanted, nil
	}
	if err != nil {
		return wanted, fmt.Errorf("stream %s: %w", wanted.Name, err)
	}
	have := stream.CachedInfo().Config
	if err := writtenFor(have, wanted); err != nil {
		return wanted, err
	}
	if have.MaxMsgsPerSubject == wanted.MaxMsgsPerSubject && have.MaxBytes == wanted.MaxBytes {
		return wanted, nil
	}
	changed := have
	changed.MaxMsgsPerSubject, changed.MaxBytes = wanted.MaxMsgsPerSubject, wanted.MaxBytes
	_, err = client.UpdateStream(ctx, changed)
	var refusal *js.APIError
	if errors.As(err, &refusal) && refusal.ErrorCode == codeStorageExceeded {
		// The stream has reserved more than the server may store now. That refuses
		// every change, even to less; but the server's own limit holds.
		logger.Warn("journal stream limits not raised; server limits apply", slog.String("stream", have.Name),
			slog.Int64("max_bytes", have.MaxBytes), slog.Int64("max_msgs_per_subject", have.MaxMsgsPerSubject), slog.Any("err", err))
		wanted.MaxMsgsPerSubject, wanted.MaxBytes = have.MaxMsgsPerSubject, have.MaxBytes
		return wanted, nil
	}
	if err != nil {
		return wanted, fmt.Errorf("stream %s: set its limits: %w", wanted.Name, err)
	}
	return wanted, nil
}

// writtenFor is an error if a stream in informd's own server has the subjects of
// another cluster or prefix. Nobody can edit it there, nor would that rename what is
// in it.
func writtenFor(have, wanted js.StreamConfig) error {
	if len(have.Subjects) != 1 || slices.Equal(have.Subjects, wanted.Subjects) {
		return nil
	}
	prefix, cluster := named(have.Subjects[0])
	newPrefix, newCluster := named(wanted.Subjects[0])
	var was, is []string
	if cluster != newCluster {
		was, is = append(was, fmt.Sprintf("cluster %q", cluster)), append(is, fmt.Sprintf("%q", newCluster))
	}
	if prefix != newPrefix {
		was, is = append(was, fmt.Sprintf("journal.subjectPrefix %q", prefix)), append(is, fmt.Sprintf("%q", newPrefix))
	}
	return server.Final(fmt.Errorf("journal.dir was written for %s, the config says %s: it is in every subject and cannot change; "+
		"set it back, or use an empty journal.dir, which begins with a new snapshot", strings.Join(was, " and "), strings.Join(is, " and ")))
}

// named takes the subjects of a journal, "<prefix>.<cluster>.>", apart.
func named(subjects string) (prefix, cluster string) {
	root := strings.TrimSuffix(subjects, ".>")
	dot := strings.LastIndexByte(root, '.')
	prefix, cluster = root[:max(dot, 0)], root[dot+1:]
	if name, err := event.UnescapeToken(cluster); err == nil {
		cluster = name
	}
	return prefix, cluster
}

// MinMessage is the least size of messages that informd can work with: the
// headers of an event must fit in any case.
const MinMessage = 16 << 10

// RefusedError says why a stream that is there cannot be the journal. informd does
// not change it.
type RefusedError struct {
	Stream string
	// Differences has one sentence for each setting: what is, what must be and
	// how to get there.
	Differences []string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("stream %s cannot be the journal; change it, or set journal.stream to another name:\n  - %s",
		e.Stream, strings.Join(e.Differences, "\n  - "))
}

// differences names the settings with which the stream would lose, trim or hide
// events, or keep more or less than the config says.
func differences(have, want js.StreamConfig) []string {
	var found []string
	refuse := func(wrong bool, setting string, is, must any, remedy string) {
		if wrong {
			found = append(found, fmt.Sprintf("%s is %v, must be %v: %s", setting, is, must, remedy))
		}
	}
	edit := func(flag string) string { return "nats stream edit " + want.Name + " " + flag }
	anew := "it cannot be changed; delete the stream, and informd creates it again"

	refuse(!slices.Equal(have.Subjects, want.Subjects), "subjects", fmt.Sprintf("%q", have.Subjects), fmt.Sprintf("%q", want.Subjects),
		edit("--subjects='"+strings.Join(want.Subjects, ",")+"'"))
	refuse(have.Storage != want.Storage, "storage", have.Storage, want.Storage, anew)
	refuse(have.Retention != want.Retention, "retention", have.Retention, want.Retention, anew)
	refuse(have.Discard != want.Discard, "discard", have.Discard, want.Discard, edit("--discard=new"))
	refuse(have.DiscardNewPerSubject, "discard_new_per_subject", true, false, edit("--no-discard-per-subject"))
	refuse(have.MaxAge != 0, "max_age", have.MaxAge, "0 (no limit)", edit("--max-age=0"))
	refuse(have.MaxMsgs > 0, "max_msgs", have.MaxMsgs, "-1 (no limit)", edit("--max-msgs=-1"))
	refuse(have.MaxMsgsPerSubject != want.MaxMsgsPerSubject, "max_msgs_per_subject", have.MaxMsgsPerSubject, want.MaxMsgsPerSubject,
		edit(fmt.Sprintf("--max-msgs-per-subject=%d", want.MaxMsgsPerSubject))+", or set journal.historyPerObject")
	refuse(max(have.MaxBytes, -1) != want.MaxBytes, "max_bytes", have.MaxBytes, want.MaxBytes,
		edit(fmt.Sprintf("--max-bytes=%d", want.MaxBytes))+", or set journal.maxBytes")
	refuse(have.MaxMsgSize > 0 && have.MaxMsgSize < MinMessage, "max_msg_size", have.MaxMsgSize, fmt.Sprintf("-1 or at least %d", MinMessage),
		edit("--max-msg-size=-1"))
	refuse(have.MaxConsumers > 0, "max_consumers", have.MaxConsumers, "-1 (no limit)", anew)
	refuse(have.Replicas < want.Replicas, "num_replicas", have.Replicas, fmt.Sprintf("at least %d", want.Replicas),
		edit(fmt.Sprintf("--replicas=%d", want.Replicas)))
	refuse(have.PersistMode != js.DefaultPersistMode, "persist_mode", have.PersistMode, js.DefaultPersistMode, anew)
	refuse(have.NoAck, "no_ack", true, false, edit("--ack"))
	refuse(have.Sealed, "sealed", true, false, anew)
	refuse(have.DenyPurge, "deny_purge", true, false, anew+" (informd purges the records of deleted objects)")
	refuse(have.SubjectTransform != nil, "subject_transform", "set", "unset", edit("with subject_transform removed"))
	refuse(have.Mirror != nil, "mirror", "set", "unset", anew)
	refuse(len(have.Sources) > 0, "sources", "set", "unset", edit("with sources removed"))
	refuse(have.SubjectDeleteMarkerTTL != 0, "subject_delete_marker_ttl", have.SubjectDeleteMarkerTTL, 0, edit("with subject_delete_marker_ttl removed"))
	return found
}
