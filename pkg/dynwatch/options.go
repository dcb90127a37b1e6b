package dynwatch

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/client-go/rest"

	"github.com/informd/informd/pkg/journal"
)

// Rejected is an object that the API server sent and that cannot be passed on:
// its bytes are not what they should be. As much of its identity is filled in
// as could be read.
type Rejected struct {
	Target               string
	Namespace, Name, UID string
	ResourceVersion      uint64
	Reason               string
	// Size is the length of what was received, in bytes.
	Size int
	// Raw is the beginning of it, nil where it may hold secret values, and where not all
	// of an object goes into its events.
	Raw []byte
}

// Options are what a Manager needs. All fields but PlainAnnotations, MaxWatches, AuditEvery,
// MaxDelay and Logger are required; [Run], [Plan] and [Preview] require less.
type Options struct {
	// Cluster is the name that every event carries.
	Cluster string
	// Kubernetes says how to reach the API server. It is copied; its rate limits
	// and compression are set as watching needs them. A config with a Transport uses it: any
	// source that answers list, watch and discovery. An *http.Transport is copied. Another type
	// limits its buffers itself, and each list through it costs a check of the identity of the
	// cluster.
	Kubernetes *rest.Config
	// Log stores events and checkpoints, and a target resumes from its checkpoint there. Package
	// journal has the contract and implementations, and [journal.Stateless] for a log without state.
	Log journal.Log
	// Reject stores an object that cannot be emitted. Like Append it blocks until the object is
	// stored, or until ctx ends. An error stops the target.
	Reject func(ctx context.Context, r Rejected) error
	// RedactionKey is the key of the hashes that replace the values of Secrets and of
	// [Resource.Redact], and of the hashes of change filters: at least 16 random bytes; informd's
	// config takes 32. With a guessable key, an attacker can find guessable values by trying.
	RedactionKey []byte
	// PlainAnnotations are annotations of Secrets that keep their values, in addition to
	// harmless ones of well-known tools: names, and prefixes with a star at the end.
	PlainAnnotations []string
	// MaxWatches is the limit of watches, [DefaultMaxWatches] if it is 0. Explicit
	// resources are always watched. Resources that wildcards match are watched up to the
	// limit; [Manager.Targets] and the log name the others.
	MaxWatches int
	// AuditEvery is the period in which each target is compared with the cluster, plus or minus
	// a quarter. 0 is an hour, less is never.
	AuditEvery time.Duration
	// MaxDelay is how long events wait for others, so that the process wakes up once for all of
	// them, at most [LongestDelay]. An event after a pause does not wait. 0 is not at all.
	MaxDelay time.Duration
	// Logger is slog.Default() if nil.
	Logger *slog.Logger
}

// LongestDelay is the limit of [Options.MaxDelay]. It is far below the time after which a silent watch
// is replaced.
const LongestDelay = time.Second

// minKey is the least length of a redaction key.
const minKey = 16
