package journal_test

import (
	"log/slog"
	"testing"

	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/journaltest"
)

func diskConfig(t *testing.T) journal.DiskConfig {
	return journal.DiskConfig{Dir: t.TempDir(), Cluster: "test", Logger: slog.New(slog.DiscardHandler)}
}

func openDisk(t *testing.T, c journal.DiskConfig) *journal.Disk {
	t.Helper()
	j, err := journal.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func TestDisk(t *testing.T) {
	journaltest.Run(t, func(t *testing.T) journal.Journal { return openDisk(t, diskConfig(t)) })
}
