package config

import (
	"time"

	"github.com/informd/informd/pkg/sink"
)

// The values of [Journal.Type].
const (
	JournalLog    = "log"
	JournalMemory = "memory"
)

// Journal keeps every event between the watches and the sinks, and all checkpoints and
// cursors.
type Journal struct {
	// Type is [JournalLog], a log in Dir, or [JournalMemory], the same log in a temporary directory,
	// which ends with the process.
	Type string `yaml:"type" enum:"log,memory"`
	// Dir is the directory of the log and of the redaction key. Default: $STATE_DIRECTORY, which
	// systemd sets, else /var/lib/informd. A memory journal makes its directory there if Dir is
	// set, else in the system's directory of temporary files.
	Dir string `yaml:"dir"`
	// MaxBytes limits the size of the journal. Default: 10GiB; with a memory journal, 64MiB.
	MaxBytes sink.ByteSize `yaml:"maxBytes"`

	// Sync says when the log is synced to the disk: rows, before a sink reads an event that makes a
	// row there (a new object, a replayed event), and each second for others; always, before a sink
	// reads any event; never, when the operating system does. Default: rows.
	Sync string `yaml:"sync" enum:"rows,always,never"`

	// HistoryPerObject is the number of events that the journal keeps of each object. The
	// last event always stays, of deleted objects for DeletedRetention.
	HistoryPerObject int `yaml:"historyPerObject"`
	// DeletedRetention is the time for which the journal keeps the deletion event of an
	// object.
	DeletedRetention time.Duration `yaml:"deletedRetention"`

	// DirSet reports whether Dir is of the user, and not the default.
	DirSet bool `yaml:"-"`
}

// Defaults of the journal.
const (
	DefaultMemoryBytes      = 64 * sink.MiB
	DefaultBytes            = 10 * 1024 * sink.MiB
	defaultHistory          = 16
	defaultDeletedRetention = 168 * time.Hour
)

// ForgetJournal makes the config one with a memory journal of the default size and place, and without
// replicas, for a run that has no past and no future.
func ForgetJournal(c *Config) {
	c.Replicas = Replicas{}
	c.Journal.Type, c.Journal.MaxBytes, c.Journal.DirSet = JournalMemory, DefaultMemoryBytes, false
}
