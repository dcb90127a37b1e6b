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

	"github.com/informd/informd/pkg/dynwatch/internal/missing"
	"github.com/informd/informd/pkg/dynwatch/internal/podserver"
	"github.com/informd/informd/pkg/dynwatch/internal/sweep"
	"github.com/informd/informd/pkg/dynwatch/internal/target"
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
		var of *target.Target
		longest, errors := time.Duration(0), 0
		log := counting{events: make(map[event.Op]int)}
		server := &failingServer{pods: pods, before: func(w http.ResponseWriter, r *http.Request) bool {
			name, byName := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
			if !byName {
				return false
			}
			<-time.After(time.Second)
			longest = max(longest, time.Since(of.Status.Beat()))
			fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":[{"metadata":{"name":%q,"namespace":"a","uid":"u%s","resourceVersion":"9"}}]}`, podserver.Revision, name, name[1:])
			return true
		}}
		of = server.target(t, log, 0)
		of.Logger = slog.New(errorCounter{slog.DiscardHandler, &errors})
		of.Trust.Convict(time.Now())
		s := of.NewPass(sweep.Pass{Newcomer: event.Added, Replay: true})
		n := 0
		for e := range of.Index.All() {
			if n++; n > absent {
				e.Sweep = s.Number
			}
		}
		if err := of.EndMissing(t.Context(), s, podserver.Revision); err != nil {
			t.Fatal(err)
		}
		if of.Index.Len() != pods || len(log.events) != 0 {
			t.Errorf("%d objects are left, events %v", of.Index.Len(), log.events)
		}
		if longest > time.Minute {
			t.Errorf("no sign of life for %v", longest)
		}
		if errors > missing.ConvictLines+1 {
			t.Errorf("%d errors are logged", errors)
		}
	})
}
