package dynwatch

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/podserver"
	"github.com/informd/informd/pkg/event"
)

// errorCounter counts the errors that are logged.
type errorCounter struct {
	slog.Handler

	errors *int
}

func (errorCounter) Enabled(context.Context, slog.Level) bool { return true }

func (c errorCounter) Handle(_ context.Context, r slog.Record) error {
	if r.Level >= slog.LevelError {
		*c.errors++
	}
	return nil
}

// TestManyAbsentObjectsOfAConvictedServer: etcd must confirm each deletion that a list of a
// convicted API server shows. Meanwhile the target counts as alive, and the log stays short.
func TestManyAbsentObjectsOfAConvictedServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pods, absent = 1_000, 600
		var of *target
		longest, errors := time.Duration(0), 0
		log := counting{events: make(map[event.Op]int)}
		server := &failingServer{pods: pods, before: func(w http.ResponseWriter, r *http.Request) bool {
			name, byName := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
			if !byName {
				return false
			}
			<-time.After(time.Second)
			longest = max(longest, time.Since(time.Unix(0, of.status.beat.Load())))
			fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":[{"metadata":{"name":%q,"namespace":"a","uid":"u%s","resourceVersion":"9"}}]}`, podserver.Revision, name, name[1:])
			return true
		}}
		of = server.target(t, log, 0)
		of.logger = slog.New(errorCounter{slog.DiscardHandler, &errors})
		of.trust.Convict(time.Now())
		s := of.newSweep(sweep{newcomer: event.Added, replay: true})
		n := 0
		for e := range of.index.All() {
			if n++; n > absent {
				e.Sweep = s.number
			}
		}
		if err := of.endMissing(t.Context(), s, podserver.Revision); err != nil {
			t.Fatal(err)
		}
		if of.index.Len() != pods || len(log.events) != 0 {
			t.Errorf("%d objects are left, events %v", of.index.Len(), log.events)
		}
		if longest > time.Minute {
			t.Errorf("no sign of life for %v", longest)
		}
		if errors > convictLines+1 {
			t.Errorf("%d errors are logged", errors)
		}
	})
}
