package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/natsconn"
)

// errNoHistory says that nothing is left to read.
var errNoHistory = errors.New("a memory journal ends with its informd: it needs another journal.type, or a running informd")

// Read returns what reads the journal of a config without an informd, and closes it. A log is locked
// meanwhile: while an informd uses it, Read fails.
func Read(_ context.Context, c *config.Config, logger *slog.Logger) (_ journal.History, closing func() error, _ error) {
	switch c.Journal.Type {
	case config.JournalMemory:
		return nil, nil, errNoHistory
	case config.JournalLog:
		return journal.ReadDir(diskConfig(c, logger))
	default:
		options, err := c.Journal.Options("informd/" + c.Cluster + "/history")
		if err != nil {
			return nil, nil, fmt.Errorf("journal: %w", err)
		}
		options.RetryOnFailedConnect = false // a person waits
		conn, err := options.Connect()
		if err != nil {
			return nil, nil, fmt.Errorf("journal: connect: %w", natsconn.Explain(err, "journal."))
		}
		return historyOf(c, conn, logger), func() error { conn.Close(); return nil }, nil
	}
}
