package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/daemon/internal/store"
	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/journaltest"
)

// slowJournal does not answer the first calls of Open in time.
type slowJournal struct {
	journal.Journal
	left int
	err  error
}

func (j *slowJournal) Open(name string, start journal.Start) (journal.Cursor, error) {
	if j.left--; j.left >= 0 {
		return nil, fmt.Errorf("open cursor %q: %w", name, j.err)
	}
	return j.Journal.Open(name, start)
}

// TestStartOutlastsASlowJournal: a journal that does not answer when informd starts is waited
// for; any other error ends the start.
func TestStartOutlastsASlowJournal(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want error
	}{
		"no answer": {context.DeadlineExceeded, nil},
		"lost":      {journal.ErrClosed, journal.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			logger := slog.New(slog.NewTextHandler(t.Output(), nil))
			log := journaltest.Open(t)
			j := &slowJournal{Journal: log, left: 3, err: tt.err}
			p := &pipeline{logger: logger, config: &config.Config{}, store: &store.Store{
				Journal: j, Logger: logger,
				Box: func(name string) deliver.Box { return log.DeadLetters(name) },
			}}
			d := &Daemon{registry: prometheus.NewRegistry()}
			one, err := p.firstDelivery(t.Context(), d, config.Sink{Name: "out"}, deliver.Setup{})
			if !errors.Is(err, tt.want) {
				t.Fatalf("error %v, want %v", err, tt.want)
			}
			if err == nil {
				if err := one.abandon(); err != nil {
					t.Error(err)
				}
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			j.left = 1
			if _, err := p.firstDelivery(ended, d, config.Sink{Name: "other"}, deliver.Setup{}); err == nil {
				t.Error("it tries again although informd is to end")
			}
		})
	}
}
