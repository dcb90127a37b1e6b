package streams

import (
	"time"

	js "github.com/nats-io/nats.go/jetstream"
)

// Define returns the settings that the streams of the journal share: a stream of all subjects
// below root, without a limit.
func Define(name, description, root string, replicas int) js.StreamConfig {
	return js.StreamConfig{
		Name:              name,
		Description:       description,
		Subjects:          []string{root + ".>"},
		Storage:           js.FileStorage,
		Retention:         js.LimitsPolicy,
		Discard:           js.DiscardNew, // old would remove whole objects without a word
		MaxMsgsPerSubject: -1,
		MaxBytes:          -1,
		// No message has a Nats-Msg-Id; the ids of a window cost memory.
		Duplicates:  2 * time.Second,
		Replicas:    max(replicas, 1),
		AllowDirect: true,
	}
}
