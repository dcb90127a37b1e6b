package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/embedded"
	"github.com/informd/informd/pkg/natsconn"
)

// ErrNoHistory says that the journal of the config keeps no events.
var ErrNoHistory = errors.New("a memory journal keeps no history: it needs another journal.type")

// Read returns what reads the journal of a config without an informd, and closes it. An embedded
// journal is locked meanwhile: while an informd uses it, Read fails.
func Read(ctx context.Context, c *config.Config, logger *slog.Logger) (_ journal.History, closing func() error, _ error) {
	switch c.Journal.Type {
	case config.JournalMemory:
		return nil, nil, ErrNoHistory
	case config.JournalLog:
		return journal.ReadDir(diskConfig(c, logger))
	case config.JournalNATS:
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
	// A start would create it.
	if _, err := os.Stat(filepath.Join(c.Journal.Dir, "jetstream")); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("journal.dir %s has no journal", c.Journal.Dir)
	}
	server, err := embedded.Start(ctx, embedded.Config{
		Dir: c.Journal.Dir, MaxBytes: int64(c.Journal.MaxBytes), SyncAlways: c.Journal.SyncAlways, Stream: c.Journal.Stream, Logger: logger,
	})
	if err != nil {
		return nil, nil, err
	}
	return historyOf(c, server.Conn(), logger), server.Close, nil
}
