package store

import (
	"errors"
	"log/slog"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/pkg/journal"
)

// errNoHistory says that nothing is left to read.
var errNoHistory = errors.New("a memory journal ends with its informd: it needs another journal.type, or a running informd")

// Read returns what reads the journal of a config without an informd, and closes it. The log is locked
// meanwhile: while an informd uses it, Read fails.
func Read(c *config.Config, logger *slog.Logger) (_ journal.History, closing func() error, _ error) {
	if c.Journal.Type == config.JournalMemory {
		return journal.History{}, nil, errNoHistory
	}
	return journal.ReadDir(logConfig(c, logger))
}
